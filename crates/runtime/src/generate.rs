//! From a request to a place in the mailbox. Everything that can be refused is refused here.

use crate::admission::Admission;
use crate::config::LaneConfig;
use crate::events::{Choice, Events, Reading};
use crate::experiment::{Entered, Judged, Policy};
use crate::lane::{Lane, Phase};
use crate::lent::Lent;
use crate::link::{Link, Needs};
use crate::pools::Pools;
use crate::request::{Request, Scores};
use crate::sequence::{Sequence, Sequences};
use crate::stagers::{Stagers, off_thread};
use crate::terms;
use crate::text::{self, Text};
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{GenerateRequest, Generation, ModelCard};
use plimsoll_kv::{Chain, HashKey};
use plimsoll_model::sampling::{Params, seed_of};
use plimsoll_sched::{Ask, Asked, Deadlines, Gate, Refusal, SeqId, Terms, Ticket};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A model that is being served.
pub(crate) struct Served {
    pub(crate) card: ModelCard,
    pub(crate) text: Arc<Text>,
    pub(crate) lane: Lane,
    pub(crate) pools: Arc<Pools>,
    pub(crate) config: LaneConfig,
    /// What the blocks of its KV cache are named with.
    pub(crate) key: HashKey,
    /// Who may work on prompts off the async threads.
    pub(crate) stagers: Stagers,
    /// Who may do so for a caller that only wants the tokens: apart, since cutting 8 MB would keep prompts waiting for ten
    /// seconds.
    pub(crate) cutters: Stagers,
}

/// Tokens more than guessed, besides an eighth, from which on a prompt is predicted for anew: it was let in for less than it is.
/// Templates add some; what that does to predictions is learned with their errors.
const TEMPLATE: usize = 64;

/// How places are taken at the gate.
type Take = fn(&Gate, Duration, &Ask) -> Result<Ticket, Refusal>;

/// How a request is to be served, and judged.
struct Visit {
    asked: Asked,
    /// What it asks for without experiments.
    judged: Asked,
    arrived: Instant,
    policy: Policy,
}

impl Served {
    /// Lets a request in, or refuses it.
    pub(crate) async fn generate(&self, request: GenerateRequest) -> Result<Generation, Error> {
        let arrived = request.urgency.arrived.unwrap_or_else(Instant::now);
        let shared = &self.lane.shared;
        let mut entered = shared.trials.enter(shared.now(), &request.request_id);
        let result = self.admit(request, arrived, &mut entered).await;
        match &result {
            Ok(_) => shared.metrics.admitted(),
            Err(error) => {
                shared.metrics.refused(error.reason);
                entered.refused(error.reason);
            }
        }
        result
    }

    async fn admit(
        &self,
        mut request: GenerateRequest,
        arrived: Instant,
        entered: &mut Entered,
    ) -> Result<Generation, Error> {
        self.check(&request)?;
        let policy = entered.policy(&self.config);
        let limits = self.config.limits_of(request.tenant);
        let judged = terms::asked(&request.urgency, &self.config.promise, &limits)?;
        request.urgency.priority = request.urgency.priority.or(policy.priority);
        // An experiment does not lift anybody above what its key may ask for.
        let asked = terms::asked(&request.urgency, &self.config.promise, &limits).unwrap_or(judged);
        let visit = Visit { asked, judged, arrived, policy };
        let guess = (text::bytes(&request.prompt) / 4 + 1).min(self.lane.longest());
        let (mut admission, mut is_let_in) = match self.reserve(&request, &visit, guess) {
            // It is refused for good only by what it is, not by a guess. Until that is known it takes a place: there are no more
            // prompts being cut than may be in flight.
            Err(error) if error.reason == Reason::NeverInTime => {
                (self.take(&request, &self.ask(&request, &visit, guess), Gate::try_hold)?, false)
            }
            decided => (decided?, true),
        };
        let request = Arc::new(request);
        let prompt = self.tokenize(&request).await?;
        is_let_in &= prompt.len() <= guess + guess / 8 + TEMPLATE;
        if !is_let_in {
            // Of what does not fit it is not said that it would be late: no time would be enough.
            self.max_len(&request, prompt.len())?;
            let (shared, ask) = (&self.lane.shared, self.ask(&request, &visit, prompt.len()));
            let decided = admission.decide_again(&shared.gate, shared.now(), &ask);
            decided.map_err(|refusal| self.refused(refusal, &request))?;
        }
        self.submit(&request, prompt, admission, (&visit, entered))
    }

    /// The card, as a tenant has it.
    pub(crate) fn card_of(&self, tenant: u32) -> ModelCard {
        ModelCard { choices: self.choices_of(tenant), ..self.card.clone() }
    }

    /// Most continuations that a tenant may have at once.
    fn choices_of(&self, tenant: u32) -> u32 {
        self.card.choices.min(self.config.in_flight_of(tenant))
    }

    fn check(&self, request: &GenerateRequest) -> Result<(), Error> {
        let most = self.choices_of(request.tenant);
        if request.n == 0 || request.n > most {
            return Err(Error::invalid("n", format!("n is {}; it must be 1 to {most}", request.n)));
        }
        let vocab = self.card.vocab;
        match request.sampling.logit_bias.iter().find(|(token, _)| *token as usize >= vocab) {
            None => Ok(()),
            Some((token, _)) => {
                let message = format!("token {token} is outside the vocabulary; ids are 0 to {}", vocab - 1);
                Err(Error::invalid("logit_bias", message))
            }
        }
    }

    /// Reserves places, and tokens for a prompt of so many, guessed at about four bytes each until it is tokenized. Never
    /// more than could be let in at all: whether the request is too large is known only then.
    fn reserve(&self, request: &GenerateRequest, visit: &Visit, prompt: usize) -> Result<Admission, Error> {
        self.take(request, &self.ask(request, visit, prompt), Gate::try_admit)
    }

    fn ask(&self, request: &GenerateRequest, visit: &Visit, prompt: usize) -> Ask {
        let most = self.lane.shared.gate.bounds().tokens;
        Ask {
            sequences: request.n,
            tokens: visit.policy.tokens_of(request, prompt).min(most),
            prompt: prompt as u64,
            max_tokens: request.max_tokens,
            terms: Terms::new(&self.config.promise, &visit.asked, prompt),
            arrived: self.lane_time(visit.arrived),
            tenant: request.tenant,
        }
    }

    fn take(&self, request: &GenerateRequest, ask: &Ask, how: Take) -> Result<Admission, Error> {
        let shared = &self.lane.shared;
        let ticket = how(&shared.gate, shared.now(), ask).map_err(|refusal| {
            // It held a place for a moment: a lane that waits for the last one to go may have seen it.
            if shared.is_at(Phase::Draining) {
                shared.bell.ring();
            }
            self.refused(refusal, request)
        })?;
        Ok(Admission::new(ticket, shared.bell.clone()))
    }

    /// On the lane's clock, which may have begun later: a request that came before the lane waits for it.
    fn lane_time(&self, at: Instant) -> Duration {
        at.saturating_duration_since(self.lane.shared.begun)
    }

    /// In words, for `request`.
    fn refused(&self, refusal: Refusal, request: &GenerateRequest) -> Error {
        let bounds = self.lane.shared.gate.bounds();
        match refusal {
            Refusal::Sequences { retry_after } => {
                let (in_flight, _) = self.lane.shared.gate.in_flight();
                let message = format!(
                    "the queue is full: {in_flight} sequences are running or waiting, and this request has {}",
                    request.n
                );
                Error::new(Reason::QueueFull, message).retry_after(retry_after)
            }
            Refusal::Tokens { retry_after } => {
                let message = format!(
                    "the KV cache is spoken for: requests let in hold up to {} tokens",
                    bounds.tokens
                );
                Error::new(Reason::KvFull, message).retry_after(retry_after)
            }
            Refusal::Tenant { retry_after } => {
                let most = self.config.in_flight_of(request.tenant);
                let message = format!("this API key has as many sequences in flight as one may, {most}");
                Error::new(Reason::TenantFull, message).retry_after(retry_after)
            }
            Refusal::Late { retry_after } => {
                let message =
                    "it would come later than promised, or make another request late; none of it was done";
                Error::new(Reason::Deadline, message).retry_after(retry_after)
            }
            Refusal::Never => {
                let message = "it would come later than promised even if nobody else were served; \
                               shorten the prompt or allow more time (x-slo-ttft-ms, x-slo-itl-ms, x-request-timeout-ms)";
                Error::new(Reason::NeverInTime, message)
            }
            Refusal::Memory { retry_after } => {
                let message = "the machine is short of memory; requests already let in go on";
                Error::new(Reason::Memory, message).retry_after(retry_after)
            }
            Refusal::TooLarge => {
                let message = format!("all continuations together may take {} tokens", bounds.tokens);
                Error::invalid("n", message)
            }
            Refusal::Closed => draining(),
        }
    }

    /// The prompt's tokens; long prompts are cut on a blocking thread, so that other requests are answered meanwhile.
    async fn tokenize(&self, request: &Arc<GenerateRequest>) -> Result<Vec<u32>, Error> {
        let most = self.lane.longest();
        let bytes = text::bytes(&request.prompt);
        if bytes <= self.config.inline_bytes {
            return self.text.prompt(&request.prompt, most);
        }
        let (text, request) = (self.text.clone(), request.clone());
        off_thread(self.stagers.of(bytes), move || text.prompt(&request.prompt, most)).await
    }

    fn submit(
        &self,
        request: &GenerateRequest,
        prompt: Vec<u32>,
        mut admission: Admission,
        (visit, entered): (&Visit, &mut Entered),
    ) -> Result<Generation, Error> {
        let [terms, judged] =
            [&visit.asked, &visit.judged].map(|asked| Terms::new(&self.config.promise, asked, prompt.len()));
        let max_len = self.max_len(request, prompt.len())?;
        let tokens = visit.policy.tokens_of(request, prompt.len());
        admission.correct(tokens, prompt.len() as u64).map_err(|refusal| self.refused(refusal, request))?;
        let echo = if request.echo { self.text.echo(request, &prompt)? } else { String::new() };

        let logprobs = request.logprobs.map(|k| k as usize);
        let scores = Scores { logprobs, of_prompt: request.echo && logprobs.is_some() };
        let sequences = request.n as usize;
        let items_per_step = scores.items_per_step(sequences, self.lane.limits.max_logits);
        let needs = Needs { sequences, items_per_step };
        let bell = &self.lane.shared.bell;
        let (out, items) = Link::open(&self.pools.links, self.config.token_ring, needs, bell);
        let prompt_tokens = u32::try_from(prompt.len()).unwrap_or(u32::MAX);
        let reading = self.reading(request);
        let events = Events::new(items, self.text.clone(), reading).beginning(echo, prompt_tokens);
        let deadlines =
            Deadlines { expected: admission.expected(), ..terms.from(self.lane_time(visit.arrived)) };
        self.lane.submit(Request {
            first: SeqId(0),
            sequences: self.sequences(request, &prompt, max_len, visit.policy),
            out,
            ignore_end: request.ignore_eos,
            scores,
            items_per_step,
            arrived: visit.arrived,
            deadlines,
            handed_over: Instant::now(),
            has_started: false,
            has_news: false,
            is_paused: false,
            judged: Judged { entered: std::mem::take(entered), terms: judged },
            admission,
        });
        Ok(Generation { prompt_tokens, events: Box::pin(events) })
    }

    /// What the reader of a request holds.
    fn reading(&self, request: &GenerateRequest) -> Lent<Reading> {
        let mut reading = Lent::of(&self.pools.readings, Reading::default);
        for _ in 0..request.n {
            let mut choice = Lent::of(&self.pools.choices, || Choice::new(&self.text));
            choice.begin(&request.stop);
            reading.choices.push(choice);
        }
        reading
    }

    fn sequences(
        &self,
        request: &GenerateRequest,
        prompt: &[u32],
        max_len: usize,
        policy: Policy,
    ) -> Lent<Sequences> {
        let seed = request.sampling.seed.unwrap_or_else(|| RandomState::new().hash_one(0));
        let mut chain =
            policy.prefix_cache.then(|| Chain::new(self.key, request.tenant, &request.cache_salt));
        let mut sequences = Lent::of(&self.pools.lists, Sequences::default);
        for choice in 0..request.n {
            let mut sequence = Lent::of(&self.pools.sequences, Sequence::default);
            sequence.tokens.reserve(max_len);
            sequence.tokens.extend_from_slice(prompt);
            match sequences.first() {
                None => chain.iter_mut().for_each(|chain| chain.extend(prompt, &mut sequence.names)),
                Some(first) => sequence.names.extend_from_slice(&first.names),
            }
            sequence.sampler.restart(params(request, seed, choice));
            sequence.sampler.observe_prompt(prompt);
            sequence.sampler.reserve(self.card.vocab, max_len - prompt.len());
            (sequence.prompt, sequence.max_len) = (prompt.len(), max_len);
            sequence.chain.clone_from(&chain);
            sequences.push(sequence);
        }
        sequences
    }

    /// Most tokens a sequence may grow to.
    fn max_len(&self, request: &GenerateRequest, prompt: usize) -> Result<usize, Error> {
        let longest = self.lane.longest();
        let output = request.max_tokens.map(|max| max as usize);
        let total = prompt + output.unwrap_or(1);
        if total > longest {
            let asked = output.map_or("at least 1".to_owned(), |max| max.to_string());
            let message = format!(
                "at most {longest} tokens fit the context, and this is {total}: {prompt} in the prompt and {asked} to \
                 generate; shorten the prompt or max_tokens"
            );
            return Err(Error {
                param: Some("max_tokens".into()),
                ..Error::new(Reason::ContextLength, message)
            });
        }
        Ok(if output.is_some() { total } else { longest })
    }
}

pub(crate) fn draining() -> Error {
    Error::new(Reason::Draining, "the server is going down and takes no new work")
}

impl Policy {
    /// What the gate counts for a request: its prompts and the outputs one should expect.
    fn tokens_of(&self, request: &GenerateRequest, prompt: usize) -> u64 {
        let expected = self.expected_output;
        let output = request.max_tokens.map_or(expected, |max| max.min(expected));
        u64::from(request.n) * (prompt as u64 + u64::from(output))
    }
}

fn params(request: &GenerateRequest, seed: u64, choice: u32) -> Params {
    let s = &request.sampling;
    Params {
        temperature: s.temperature,
        top_k: s.top_k,
        top_p: s.top_p,
        min_p: s.min_p,
        repetition_penalty: s.repetition_penalty,
        presence_penalty: s.presence_penalty,
        frequency_penalty: s.frequency_penalty,
        logit_bias: s.logit_bias.clone(),
        seed: seed_of(seed, choice),
    }
}

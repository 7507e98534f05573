//! A scripted [`Service`]: it answers what the test wrote down, and counts what became of each request.

mod script;

pub use script::{Act, Gate, Script};

use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{
    Boxed, Event, GenerateRequest, Generation, ModelCard, Readiness, Service, TokenizeRequest,
};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;

type Author = Box<dyn Fn(&GenerateRequest) -> Result<Script, Error> + Send + Sync>;

/// What became of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Calls of `generate`.
    pub asked: usize,
    /// Of these, refused.
    pub refused: usize,
    /// Of these, played to the end.
    pub finished: usize,
    /// Of these, dropped before the end: while waiting for admission or while running.
    pub dropped: usize,
}

impl Counts {
    /// Requests neither refused nor finished nor dropped.
    #[must_use]
    pub const fn live(&self) -> usize {
        self.asked - self.refused - self.finished - self.dropped
    }
}

/// The scripted service. Its tokens are bytes.
pub struct ScriptedService {
    cards: Vec<ModelCard>,
    readiness: Mutex<Readiness>,
    author: Author,
    requests: Mutex<Vec<GenerateRequest>>,
    counts: Arc<watch::Sender<Counts>>,
}

impl ScriptedService {
    /// A ready service with one model, `tiny`, that answers each request with the script that `author` writes for it.
    pub fn new(author: impl Fn(&GenerateRequest) -> Result<Script, Error> + Send + Sync + 'static) -> Self {
        Self {
            cards: vec![card("tiny")],
            readiness: Mutex::new(Readiness::Ready),
            author: Box::new(author),
            requests: Mutex::default(),
            counts: Arc::new(watch::Sender::new(Counts::default())),
        }
    }

    /// A service that always says these pieces of text.
    #[must_use]
    pub fn saying(pieces: &'static [&'static str]) -> Self {
        Self::new(move |request| Ok(Script::saying(request, pieces)))
    }

    /// The same service with these models.
    #[must_use]
    pub fn with_models(mut self, cards: Vec<ModelCard>) -> Self {
        self.cards = cards;
        self
    }

    /// Changes what [`Service::readiness`] says; unless ready, `generate` refuses.
    pub fn set_readiness(&self, readiness: Readiness) {
        *self.readiness.lock().unwrap_or_else(PoisonError::into_inner) = readiness;
    }

    /// The requests so far, in the order they came.
    #[must_use]
    pub fn requests(&self) -> Vec<GenerateRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What became of the requests so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until `condition` holds for the counts, and gives those.
    pub async fn until(&self, mut condition: impl FnMut(&Counts) -> bool) -> Counts {
        let mut seen = self.counts.subscribe();
        let counts = seen.wait_for(|counts| condition(counts)).await;
        *counts.expect("the sender lives as long as the service")
    }

    fn admit(&self, request: &GenerateRequest) -> Result<Script, Error> {
        match self.readiness() {
            Readiness::Ready => (self.author)(request),
            Readiness::Loading => Err(Error::new(Reason::Loading, "the model is loading")),
            Readiness::Draining => Err(Error::new(Reason::Draining, "the server is going down")),
        }
    }
}

impl Service for ScriptedService {
    fn models(&self, _tenant: u32) -> Vec<ModelCard> {
        self.cards.clone()
    }

    fn readiness(&self) -> Readiness {
        *self.readiness.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tokenize(&self, request: TokenizeRequest) -> Boxed<'_, Result<Vec<u32>, Error>> {
        let special = request.add_special_tokens.then_some(1);
        Box::pin(async move { Ok(special.into_iter().chain(request.text.bytes().map(u32::from)).collect()) })
    }

    fn detokenize(&self, _model: String, tokens: Vec<u32>) -> Boxed<'_, Result<String, Error>> {
        Box::pin(async move {
            let bytes: Result<Vec<u8>, _> = tokens.into_iter().map(u8::try_from).collect();
            let bytes = bytes.map_err(|_| Error::invalid("tokens", "token ids here are bytes"))?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        })
    }

    fn generate(&self, request: GenerateRequest) -> Boxed<'_, Result<Generation, Error>> {
        self.counts.send_modify(|counts| counts.asked += 1);
        let mut ticket = Ticket { counts: Arc::clone(&self.counts), ended: false };
        Box::pin(async move {
            let script = self.admit(&request);
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            let script = script.inspect_err(|_| ticket.end(|counts| counts.refused += 1))?;
            if let Some(gate) = &script.admission {
                gate.pass().await;
            }
            Ok(Generation { prompt_tokens: script.prompt_tokens, events: script.play(ticket) })
        })
    }
}

/// A model called `id`, as the scripted service has it.
#[must_use]
pub fn card(id: &str) -> ModelCard {
    ModelCard {
        id: id.to_owned(),
        context: 2048,
        vocab: 256,
        choices: 1024,
        created: 1_700_000_000,
        chat: true,
    }
}

/// Notes how a request ended, also when it is dropped.
struct Ticket {
    counts: Arc<watch::Sender<Counts>>,
    ended: bool,
}

impl Ticket {
    fn end(&mut self, note: impl FnOnce(&mut Counts)) {
        if !std::mem::replace(&mut self.ended, true) {
            self.counts.send_modify(note);
        }
    }

    fn saw(&mut self, event: &Event) {
        if matches!(event, Event::Done(_) | Event::Failed(_)) {
            self.end(|counts| counts.finished += 1);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.end(|counts| counts.dropped += 1);
    }
}

//! The models of a process, behind the service trait.

use crate::config::LaneConfig;
use crate::experiment::Trials;
use crate::generate::{Served, draining};
use crate::lane::{Lane, LaneParts, Phase, Shared};
use crate::pools::{MOST, Pools, Sizes};
use crate::stagers::Stagers;
use crate::text::Text;
use crate::turnstile::Turnstile;
use plimsoll_api::error::{Error, Reason};
use plimsoll_api::service::{
    Boxed, GenerateRequest, Generation, ModelCard, Readiness, Service, TokenizeRequest,
};
use plimsoll_kv::HashKey;
use plimsoll_model::engine::Engine;
use plimsoll_model::template::ChatTemplate;
use plimsoll_model::tokenizer::{Encode, Tokenizer};
use plimsoll_telemetry::Metrics;
use plimsoll_trial::Report;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant, SystemTime};

/// What a served model is made of.
pub struct ModelParts {
    /// The name requests use.
    pub name: String,
    /// Computes its steps.
    pub engine: Box<dyn Engine>,
    /// Cuts its text.
    pub tokenizer: Arc<Tokenizer>,
    /// Its chat template, if it has one.
    pub template: Option<ChatTemplate>,
    /// The limits of its lane.
    pub config: LaneConfig,
}

/// A model that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("model {name} could not be started: {why}")]
pub struct StartError {
    /// Which model.
    pub name: String,
    /// Why.
    pub why: String,
}

/// How a drain ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drained {
    /// Sequences that were still running or waiting when time was up, and were dropped.
    pub dropped: u32,
}

/// The models of a process. Starts without models, and loading.
pub struct Runtime {
    metrics: Arc<Metrics>,
    models: RwLock<Vec<Arc<Served>>>,
    turnstile: Arc<Turnstile>,
    readiness: AtomicU8,
    /// Held by whoever makes experiments' figures, so that those who ask often take no more than one core.
    figures: Mutex<()>,
    /// Names blocks of KV; drawn when the process starts, so that nobody can foretell a name.
    key: HashKey,
}

/// The nice value of threads that make an experiment's figures, which takes seconds where many blocks are kept: below lanes.
const FIGURES_NICE: i32 = 10;

const LOADING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

impl Runtime {
    /// No models, and [`Readiness::Loading`].
    pub fn new(metrics: Arc<Metrics>) -> Arc<Self> {
        let (models, turnstile, figures) = Default::default();
        let random = RandomState::new();
        let key = HashKey([random.hash_one(0), random.hash_one(1)]);
        Arc::new(Self { metrics, models, turnstile, readiness: AtomicU8::new(LOADING), figures, key })
    }

    /// Starts a lane for a model. Takes as long as its warm-up, a second or so.
    ///
    /// # Errors
    /// When the name is taken, the sizes of engine and tokenizer differ, or the engine fails in the warm-up.
    pub fn add(&self, parts: ModelParts) -> Result<(), StartError> {
        let name = parts.name.clone();
        let failed = |why: String| StartError { name: name.clone(), why };
        if self.find(&name).is_some() {
            return Err(failed("another model has that name".into()));
        }
        let served = self.serve(parts).map_err(failed)?;
        self.models.write().unwrap_or_else(PoisonError::into_inner).push(Arc::new(served));
        Ok(())
    }

    fn serve(&self, parts: ModelParts) -> Result<Served, String> {
        let shape = parts.engine.shape();
        if parts.tokenizer.vocab() > shape.vocab {
            let (tokens, vocab) = (parts.tokenizer.vocab(), shape.vocab);
            return Err(format!("its tokenizer has {tokens} tokens, its engine {vocab}"));
        }
        let lane = Lane::start(LaneParts {
            name: parts.name.clone(),
            ends: parts.tokenizer.eos().to_vec(),
            turnstile: self.turnstile.clone(),
            metrics: self.metrics.model(&parts.name),
            trials: Trials::new(&parts.name, &parts.config.experiments, &self.metrics),
            config: parts.config.clone(),
            engine: parts.engine,
        })?;
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let card = ModelCard {
            id: parts.name,
            context: lane.longest(),
            vocab: parts.tokenizer.vocab(),
            choices: lane.shared.gate.bounds().sequences,
            created: since_epoch.as_secs(),
            chat: parts.template.is_some(),
        };
        let text = Arc::new(Text { tokenizer: parts.tokenizer, template: parts.template });
        let (stagers, cutters) = (Stagers::default(), Stagers::default());
        let pools = Arc::new(Pools::new(pool_sizes(&lane, &parts.config)?, &text, &lane.shared.bell));
        let (theirs, metrics) = (Arc::downgrade(&pools), lane.shared.metrics.clone());
        self.metrics.before_render(move || {
            if let Some(pools) = theirs.upgrade() {
                pools.report(&metrics);
            }
        });
        Ok(Served { card, text, lane, pools, config: parts.config, key: self.key, stagers, cutters })
    }

    /// All models are there: new work is taken.
    pub fn ready(&self) {
        self.readiness.compare_exchange(LOADING, READY, SeqCst, SeqCst).ok();
    }

    /// Refuses new work, waits at most `limit` for what is running and waiting, then ends the lanes. Blocks the calling
    /// thread.
    pub fn drain(&self, limit: Duration) -> Drained {
        self.readiness.store(DRAINING, SeqCst);
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner).clone();
        models.iter().for_each(|model| model.lane.go(Phase::Draining));
        let until = Instant::now() + limit;
        let dropped = models.iter().map(|model| model.lane.end_by(until)).sum();
        Drained { dropped }
    }

    /// The metrics of the process.
    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Whether memory is so short that nobody may be let in.
    pub(crate) fn set_short_of_memory(&self, is_short: bool) {
        self.each_lane(|shared| shared.gate.set_short_of_memory(is_short));
    }

    /// Whether the idle objects of pools give back what they hold, or may have it again.
    pub(crate) fn set_pools_small(&self, are_small: bool) {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        let set = |pools: &Pools| if are_small { pools.shrink() } else { pools.prewarm() };
        models.iter().for_each(|model| set(&model.pools));
    }

    /// Whether nobody is being served.
    pub(crate) fn is_idle(&self) -> bool {
        let mut is_idle = true;
        self.each_lane(|shared| is_idle &= shared.gate.in_flight().0 == 0);
        is_idle
    }

    /// Bytes that all lanes together could give back.
    pub(crate) fn spare_memory(&self) -> u64 {
        let mut bytes = 0_u64;
        self.each_lane(|shared| bytes = bytes.saturating_add(shared.spare.bytes()));
        bytes
    }

    /// Asks the lanes to give bytes back, each in proportion to what it has to give.
    pub(crate) fn want_memory(&self, bytes: u64) {
        let all = self.spare_memory();
        self.each_lane(|shared| {
            let share = u128::from(bytes) * u128::from(shared.spare.bytes()) / u128::from(all.max(1));
            if share > 0 {
                shared.spare.want(u64::try_from(share).unwrap_or(u64::MAX));
                shared.bell.ring();
            }
        });
    }

    fn each_lane(&self, mut visit: impl FnMut(&Shared)) {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        models.iter().for_each(|model| visit(&model.lane.shared));
    }

    /// Whether there are models, and the lane of every one has failed for good.
    fn is_dead(&self) -> bool {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        !models.is_empty() && models.iter().all(|model| model.lane.is_gone())
    }

    fn find(&self, name: &str) -> Option<Arc<Served>> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        models.iter().find(|model| model.card.id == name).cloned()
    }

    fn model(&self, name: &str) -> Result<Arc<Served>, Error> {
        match (self.find(name), self.readiness()) {
            (Some(model), _) if model.lane.is_gone() && self.readiness.load(SeqCst) == READY => {
                let message =
                    format!("the engine of `{name}` has failed for good; the server has to be restarted");
                Err(Error::new(Reason::Engine, message))
            }
            (_, Readiness::Draining) => Err(draining()),
            (Some(model), Readiness::Ready) => Ok(model),
            (_, Readiness::Loading) => {
                let error = Error::new(Reason::Loading, "the models are still loading");
                Err(error.retry_after(Duration::from_secs(1)))
            }
            (None, Readiness::Ready) => Err(self.unknown(name)),
        }
    }

    fn unknown(&self, name: &str) -> Error {
        let names: Vec<_> = self.models(0).into_iter().map(|card| card.id).collect();
        let message = format!("there is no model `{name}`; being served: {}", names.join(", "));
        Error { param: Some("model".into()), ..Error::new(Reason::ModelNotFound, message) }
    }
}

/// As many as the gate lets in; the ring's items as the ring rounds them.
///
/// # Errors
/// When they are more than a pool can hold.
fn pool_sizes(lane: &Lane, config: &LaneConfig) -> Result<Sizes, String> {
    let running = lane.limits.max_seqs;
    let waiting = lane.shared.gate.bounds().sequences as usize - running;
    let (unread, sum) = (config.unread, running + waiting + config.unread);
    if sum > MOST {
        return Err(format!(
            "{running} running, {waiting} waiting and {unread} unread requests are {sum}, and at most {MOST} can be kept \
             room for: lower `queue` or `max_seqs`"
        ));
    }
    Ok(Sizes { running, waiting, unread, ring: config.token_ring })
}

impl Service for Runtime {
    fn models(&self, tenant: u32) -> Vec<ModelCard> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner);
        models.iter().map(|model| model.card_of(tenant)).collect()
    }

    fn readiness(&self) -> Readiness {
        match self.readiness.load(SeqCst) {
            LOADING => Readiness::Loading,
            READY if !self.is_dead() => Readiness::Ready,
            _ => Readiness::Draining,
        }
    }

    fn experiments(&self) -> Vec<Report> {
        let models = self.models.read().unwrap_or_else(PoisonError::into_inner).clone();
        let make = || {
            plimsoll_host::thread::set_nice(FIGURES_NICE).ok();
            let reports = models.iter().map(|model| {
                let shared = &model.lane.shared;
                shared.trials.reports(&model.card.id, shared.now())
            });
            reports.flatten().collect()
        };
        let _one = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        // A thread of its own: a nice value cannot be taken back.
        let made = std::thread::scope(|scope| scope.spawn(make).join());
        made.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    fn tokenize(&self, request: TokenizeRequest) -> Boxed<'_, Result<Vec<u32>, Error>> {
        Box::pin(async move {
            let model = self.model(&request.model)?;
            let text = model.text.clone();
            let how =
                Encode { add_special: request.add_special_tokens, parse_special: request.parse_special };
            if request.text.len() <= model.config.inline_bytes {
                return text.encode(&request.text, how);
            }
            model.cutters.cut(request.text.len(), move || text.encode(&request.text, how)).await
        })
    }

    fn detokenize(&self, model: String, tokens: Vec<u32>) -> Boxed<'_, Result<String, Error>> {
        Box::pin(async move {
            let model = self.model(&model)?;
            let text = model.text.clone();
            let bytes = size_of_val(&*tokens);
            if bytes <= model.config.inline_bytes {
                return text.decode(&tokens);
            }
            model.cutters.cut(bytes, move || text.decode(&tokens)).await
        })
    }

    fn generate(&self, request: GenerateRequest) -> Boxed<'_, Result<Generation, Error>> {
        Box::pin(async move { self.model(&request.model)?.generate(request).await })
    }
}

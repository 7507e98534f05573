//! From a configured model to a lane that serves it: pull, open, pack, start.

mod near;
mod sizes;

use crate::compute::Compute;
use crate::config;
use crate::file_size::bytes_of;
use crate::profile::{self, Subject};
use crate::progress::TerminalProgress;
use crate::pull;
use anyhow::{Context, anyhow};
use plimsoll_host::Host;
use plimsoll_hub::Progress;
use plimsoll_model::checkpoint::{self, Checkpoint};
use plimsoll_model::decoder::{Decoder, Options};
use plimsoll_model::engine::BLOCK_TOKENS;
use plimsoll_model::template::ChatTemplate;
use plimsoll_model::tokenizer::Tokenizer;
use plimsoll_runtime::{LaneConfig, ModelParts, Runtime};
use plimsoll_telemetry::Metrics;
pub use sizes::MAX_ROWS;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A model that is being served, as the banner shows it.
#[derive(Debug, Clone)]
pub struct Loaded {
    pub name: String,
    pub title: String,
    pub weight_bytes: usize,
    pub context: usize,
    pub max_seqs: usize,
    pub queue: usize,
    pub kv_bytes: usize,
    pub kv_tokens: usize,
    pub chat: bool,
}

/// A service with this one model, ready.
pub fn single(model: config::Model, compute: config::Compute) -> anyhow::Result<Arc<Runtime>> {
    let service = Runtime::new(Metrics::new());
    all(&[model], &Compute::new(compute)?, &service)?;
    service.ready();
    Ok(service)
}

/// Pulls and loads all models, in order, and starts their lanes.
pub fn all(models: &[config::Model], compute: &Compute, service: &Runtime) -> anyhow::Result<Vec<Loaded>> {
    models.iter().map(|model| guarded(&model.name, || one(model, compute, service))).collect()
}

/// Names the model in what went wrong; a panic is one of the things that can.
fn guarded<T>(name: &str, load: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let loaded = catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(anyhow!("a fault of Plimsoll's, or a damaged file that it did not recognise: {text}"))
    });
    loaded.with_context(|| format!("cannot load the model `{name}`"))
}

fn one(model: &config::Model, compute: &Compute, service: &Runtime) -> anyhow::Result<Loaded> {
    let path = pull::pull(&model.source)?;
    let Opened { checkpoint, tokenizer, template } = Opened::new(&path)?;
    let options = sizes::options(model, checkpoint.spec())?;
    // Before the weights are read: a profile of something else is known at once.
    let measured = profile::known(model, &Subject { path: &path, compute, kv_type: model.kv_type })?;
    let engine = decoder(checkpoint.as_ref(), bytes_of(&path), compute, &options)?;
    let kv_tokens = options.blocks * BLOCK_TOKENS;
    let loaded = Loaded {
        name: model.name.clone(),
        title: checkpoint.title().to_owned(),
        weight_bytes: engine.weight_bytes(),
        context: options.context.min(kv_tokens),
        max_seqs: model.max_seqs,
        queue: model.queue,
        kv_bytes: engine.kv_bytes(),
        kv_tokens,
        chat: template.is_some(),
    };
    let config = LaneConfig {
        max_seqs: model.max_seqs,
        queue: u32::try_from(model.queue)?,
        prefix_cache: model.prefix_cache,
        parking: model.parking.clone(),
        queue_policy: model.queue_policy,
        max_queue_tokens: model.max_queue_tokens,
        per_tenant: model.max_per_key,
        promise: model.promise,
        tenants: model.tenants,
        experiments: model.experiments.clone(),
        tenant_limits: model.tenant_limits.clone(),
        measured,
        ..LaneConfig::default()
    };
    let engine = Box::new(engine);
    service.add(ModelParts { name: model.name.clone(), engine, tokenizer, template, config })?;
    Ok(loaded)
}

/// A model's engine by itself.
pub struct Engines {
    /// The model's file or folder.
    pub path: PathBuf,
    pub engine: Decoder,
    /// The sizes it was made with.
    pub options: Options,
}

/// The engine of a model as it would be served, but for batches of up to `times` as many sequences.
pub fn wider(model: &config::Model, compute: &Compute, times: usize) -> anyhow::Result<Engines> {
    let path = pull::pull(&model.source)?;
    let checkpoint = checkpoint::open(&path)?;
    let options = sizes::options(model, checkpoint.spec())?;
    let options = Options { max_seqs: (options.max_seqs * times).min(options.max_rows), ..options };
    let engine = decoder(checkpoint.as_ref(), bytes_of(&path), compute, &options)?;
    Ok(Engines { path, engine, options })
}

/// Reads and packs a model's weights, which are in files of so many `bytes`, with a progress bar on a terminal.
pub fn decoder(
    checkpoint: &dyn Checkpoint,
    bytes: u64,
    compute: &Compute,
    options: &Options,
) -> anyhow::Result<Decoder> {
    let bar = TerminalProgress::default();
    let mut begun = false;
    let mut progress = |done, total| {
        if !begun {
            bar.begin(&format!("load {}", checkpoint.title()), 0, Some(total));
            begun = true;
        }
        bar.at(done);
    };
    let load = || Decoder::load(checkpoint, compute.shared(), options, &mut progress);
    let loaded = near::place(&Host::this(), bytes, load);
    bar.end();
    Ok(loaded?)
}

/// A model file with its text side.
struct Opened {
    checkpoint: Box<dyn Checkpoint>,
    tokenizer: Arc<Tokenizer>,
    template: Option<ChatTemplate>,
}

impl Opened {
    fn new(path: &Path) -> anyhow::Result<Self> {
        let checkpoint = checkpoint::open(path)?;
        let tokenizer = Arc::new(Tokenizer::new(checkpoint.tokenizer())?);
        let text = |id: Option<u32>| {
            let bytes = id.and_then(|id| tokenizer.token_bytes(id)).unwrap_or_default();
            String::from_utf8_lossy(bytes).into_owned()
        };
        let (bos, eos) = (text(tokenizer.bos()), text(tokenizer.eos().first().copied()));
        let template =
            checkpoint.chat_template().map(|source| ChatTemplate::new(source, &bos, &eos)).transpose();
        let template = template.with_context(|| format!("{}: its chat template", path.display()))?;
        Ok(Self { checkpoint, tokenizer, template })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_wrong_names_the_model() {
        let text = |result: anyhow::Result<()>| format!("{:#}", result.unwrap_err());
        assert_eq!(
            text(guarded("a", || Err(anyhow!("no such file")))),
            "cannot load the model `a`: no such file"
        );
        let at = std::hint::black_box(7);
        let panicked = text(guarded("b", || panic!("index {at} is out of range")));
        assert!(panicked.starts_with("cannot load the model `b`: a fault"), "{panicked}");
        assert!(panicked.ends_with("index 7 is out of range"), "{panicked}");
        assert!(guarded("c", || Ok(())).is_ok());
    }
}

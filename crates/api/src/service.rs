//! The service trait: what every gateway calls and the runtime implements. One validation, one gate, one error table.

use crate::error::Error;
use futures_core::Stream;
use plimsoll_trial::Report;
use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant};

/// A boxed future; the trait is used as `dyn Service`.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a gateway may ask for.
pub trait Service: Send + Sync + 'static {
    /// The models being served, in the order they were named, as a tenant (the index of its API key) has them.
    fn models(&self, tenant: u32) -> Vec<ModelCard>;

    /// Whether new work is taken.
    fn readiness(&self) -> Readiness;

    /// What the experiments on its models have shown so far. May take a second: never on a thread that others wait for.
    fn experiments(&self) -> Vec<Report> {
        Vec::new()
    }

    /// Token ids of `input`.
    fn tokenize(&self, request: TokenizeRequest) -> Boxed<'_, Result<Vec<u32>, Error>>;

    /// Text of token ids. Ids outside the vocabulary are an error.
    fn detokenize(&self, model: String, tokens: Vec<u32>) -> Boxed<'_, Result<String, Error>>;

    /// Admits a request and starts it, or refuses it. Everything that can be refused is refused here, before the
    /// first event, so a gateway that has an `Ok` may send its 200.
    fn generate(&self, request: GenerateRequest) -> Boxed<'_, Result<Generation, Error>>;
}

/// A model as clients see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelCard {
    /// The name requests use.
    pub id: String,
    /// Longest prompt plus output, in tokens.
    pub context: usize,
    /// Vocabulary size: the range of token ids and of `logit_bias` keys.
    pub vocab: usize,
    /// Most continuations of the tenant it lets in at once, of all requests together: one request with more can never run.
    pub choices: u32,
    /// When it was loaded, in seconds of the Unix epoch.
    pub created: u64,
    /// Whether it has a chat template, and so answers `/v1/chat/completions`.
    pub chat: bool,
}

/// Whether new work is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// Models are still loading.
    Loading,
    /// Yes.
    Ready,
    /// Running work finishes, new work is refused.
    Draining,
}

/// `/tokenize`.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenizeRequest {
    /// Model name.
    pub model: String,
    /// The text.
    pub text: String,
    /// Add what the model puts around a prompt (BOS, EOS).
    pub add_special_tokens: bool,
    /// Take special tokens written in the text as those tokens, not as plain text.
    pub parse_special: bool,
}

/// One request for text: `n` continuations of one prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateRequest {
    /// Model name.
    pub model: String,
    /// For logs and traces.
    pub request_id: String,
    /// Who asks: the index of the API key, 0 without keys.
    pub tenant: u32,
    /// How urgent it is, and until when it is wanted.
    pub urgency: Urgency,
    /// Requests with different salts never share what was computed for their prompts, also of one tenant.
    pub cache_salt: String,
    /// What to continue.
    pub prompt: Prompt,
    /// How many continuations, at least 1.
    pub n: u32,
    /// Most tokens to generate for each; `None`: as many as fit the context.
    pub max_tokens: Option<u32>,
    /// Strings that end the output and are not part of it.
    pub stop: Vec<String>,
    /// Go on after the end-of-text token.
    pub ignore_eos: bool,
    /// Begin the output with the prompt.
    pub echo: bool,
    /// Report the log-probability of each token, and of this many most likely ones.
    pub logprobs: Option<u32>,
    /// How the next token is chosen.
    pub sampling: Sampling,
}

/// How urgent a request is, and until when it is wanted. What is left open the model's promise decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Urgency {
    /// Who goes first.
    pub priority: Option<Priority>,
    /// When its headers were parsed, from which all times count; `None`: when the service is asked.
    pub arrived: Option<Instant>,
    /// Longest time to the first token.
    pub ttft: Option<Duration>,
    /// Longest mean gap between tokens.
    pub itl: Option<Duration>,
    /// Longest time to the last token.
    pub timeout: Option<Duration>,
}

/// Who goes first. `Interactive` before `Standard` before `Batch`, which has no part in the model's promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Priority {
    /// Somebody waits in front of a screen.
    Interactive,
    /// The usual.
    #[default]
    Standard,
    /// Nobody waits.
    Batch,
}

/// A prompt in one of its forms.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// Messages for the chat template, and the other fields it may read (`tools`, `chat_template_kwargs`, …), as JSON
    /// objects: the template decides what they mean.
    Chat {
        /// The messages, each at least `role` and `content`.
        messages: Vec<serde_json::Value>,
        /// Further variables for the template.
        extra: serde_json::Map<String, serde_json::Value>,
        /// End with the header of the assistant's turn.
        add_generation_prompt: bool,
    },
    /// Plain text; special tokens in it are parsed, as llama.cpp and vLLM do.
    Text(String),
    /// Token ids.
    Tokens(Vec<u32>),
}

/// How the next token is chosen. Ranges are checked where the wire is read.
#[derive(Debug, Clone, PartialEq)]
pub struct Sampling {
    /// 0 is greedy.
    pub temperature: f32,
    /// 0 is off.
    pub top_k: u32,
    /// 1 is off.
    pub top_p: f32,
    /// 0 is off.
    pub min_p: f32,
    /// 1 is off; divides positive and multiplies negative logits of seen tokens.
    pub repetition_penalty: f32,
    /// 0 is off; subtracted once from generated tokens' logits.
    pub presence_penalty: f32,
    /// 0 is off; subtracted per occurrence in the output.
    pub frequency_penalty: f32,
    /// Token id and what is added to its logit.
    pub logit_bias: Vec<(u32, f32)>,
    /// Same seed, same output; `None`: one is drawn.
    pub seed: Option<u64>,
}

impl Default for Sampling {
    fn default() -> Self {
        Self {
            temperature: 1.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: None,
        }
    }
}

/// A request that was admitted. Dropping it cancels whatever has not finished.
pub struct Generation {
    /// Prompt length in tokens, special ones included.
    pub prompt_tokens: u32,
    /// What happens next, of all continuations mixed; ends after [`Event::Done`] or [`Event::Failed`].
    pub events: Pin<Box<dyn EventStream>>,
}

/// The events of a generation.
pub trait EventStream: Stream<Item = Event> + Send {
    /// Takes a delta back that was read, to use its memory for a later one: whoever gives back all it reads gets them
    /// without any being allocated for a token. Nobody must. By default it is dropped.
    fn give_back(self: Pin<&mut Self>, delta: Delta) {
        drop(delta);
    }

    /// When the engine had the request. By default it never had it.
    fn engine_times(&self) -> EngineTimes {
        EngineTimes::default()
    }
}

/// When an engine had a request, whether it waited for its turn or was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EngineTimes {
    /// From handing the request over to what its first event is made of being there to be read. Tokens without text make none.
    pub to_first: Duration,
    /// From handing the request over to its last event so far being there to be read.
    pub to_last: Duration,
}

/// One thing that happened to a running request.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// More text of one continuation (possibly none, when only `tokens` or `finish` is news).
    Delta(Delta),
    /// All continuations have finished.
    Done(Usage),
    /// The request failed after it began; nothing follows.
    Failed(Error),
}

/// More of one continuation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delta {
    /// Which continuation, below `n`.
    pub choice: u32,
    /// Text that is now certain: whole UTF-8 characters, never part of a stop string.
    pub text: String,
    /// The tokens behind it, when `logprobs` was asked for.
    pub tokens: Vec<TokenInfo>,
    /// Set on the last delta of this continuation.
    pub finish: Option<Finish>,
}

/// A token and how likely it was.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TokenInfo {
    /// Its id.
    pub id: u32,
    /// Its text alone; bytes that are not UTF-8 by themselves are replaced here, and exact in `bytes`.
    pub text: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Natural log of its probability; `None` for the first token of an echoed prompt.
    pub logprob: Option<f32>,
    /// The most likely tokens at this place, best first: `(id, text, bytes, logprob)`.
    pub top: Vec<(u32, String, Vec<u8>, f32)>,
}

/// Why a continuation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    /// End-of-text token or a stop string.
    Stop,
    /// `max_tokens` or the context is used up.
    Length,
}

/// What a request took, in tokens, over all its continuations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Prompt tokens, counted once.
    pub prompt_tokens: u32,
    /// Those of them that were not computed, because an earlier request with the same beginning had been.
    pub cached_tokens: u32,
    /// Generated tokens.
    pub completion_tokens: u32,
}

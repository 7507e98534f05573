//! What a lane says.

use plimsoll_api::error::Error;
use plimsoll_api::service::Finish;

/// What a lane says about a request. Small and without memory of its own, so that saying it allocates nothing.
#[derive(Debug)]
pub(crate) enum Item {
    /// One of the most likely tokens at the place that the next [`Item::Scored`] is about; the best one comes first.
    Likely { token: u32, logprob: f32 },
    /// The next token, of the prompt or generated, and how likely it was; `None` for the first token of a prompt.
    Scored { token: u32, logprob: Option<f32> },
    /// Those scored since the last [`Item::Token`] or [`Item::Prompt`] were the next tokens of the prompt.
    Prompt { choice: u32 },
    /// A token was generated. If log-probabilities are wanted, it is the one scored last.
    Token { choice: u32, token: u32 },
    /// A continuation is complete. `by_end_token`: one more token was generated, which is not part of it.
    Finished { choice: u32, finish: Finish, by_end_token: bool },
    /// The request is lost.
    Failed(Box<Error>),
}

//! Answers in one piece.

use super::Reply;
use super::dialect::Dialect;
use super::happenings::{Happening, Happenings};
use crate::exchange::Exchange;
use axum::response::Response;
use plimsoll_api::error::Error;
use plimsoll_api::service::Delta;
use std::future::poll_fn;

/// Waits for the end and answers with everything.
///
/// # Errors
/// The failure, if the request fails on its way.
pub async fn response<D: Dialect>(
    mut happenings: Happenings,
    reply: Reply<D>,
    exchange: &Exchange,
) -> Result<Response, Error> {
    let Reply { head, dialect, choices, .. } = reply;
    let mut choices: Vec<Delta> =
        (0..).take(choices).map(|choice| Delta { choice, ..Delta::default() }).collect();
    loop {
        match poll_fn(|context| happenings.poll_next(context)).await {
            Happening::Delta(delta) => {
                if let Some(choice) = choices.get_mut(delta.choice as usize) {
                    append(choice, delta);
                }
            }
            Happening::Done(usage) => {
                exchange.took(usage);
                let answer = dialect.whole(&choices, usage.into(), &head);
                exchange.handled(happenings.engine_times().to_last);
                return Ok(answer);
            }
            Happening::Failed(error) => return Err(error),
        }
    }
}

fn append(choice: &mut Delta, more: Delta) {
    if choice.text.is_empty() {
        choice.text = more.text;
    } else {
        choice.text.push_str(&more.text);
    }
    choice.tokens.extend(more.tokens);
    choice.finish = more.finish.or(choice.finish);
}

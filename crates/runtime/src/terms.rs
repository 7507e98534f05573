//! What a request asks for instead of what its model promises.

use plimsoll_api::error::Error;
use plimsoll_api::service::{Priority, Urgency};
use plimsoll_sched::{Asked, Class, Promise};
use std::time::Duration;

/// How many times more than promised may be asked for. Who can wait longer is `batch`.
const LOOSEST: u32 = 100;

/// What `urgency` asks for, within the limits of `promise`.
///
/// # Errors
/// [`plimsoll_api::error::Reason::InvalidRequest`] for a time far beyond the promised one.
pub(crate) fn asked(urgency: &Urgency, promise: &Promise) -> Result<Asked, Error> {
    let class = match urgency.priority.unwrap_or_default() {
        Priority::Interactive => Class::Interactive,
        Priority::Standard => Class::Standard,
        Priority::Batch => Class::Batch,
    };
    // The model promises nothing to `batch`.
    if class != Class::Batch {
        check("x-slo-ttft-ms", urgency.ttft, promise.ttft)?;
        check("x-slo-itl-ms", urgency.itl, promise.itl)?;
    }
    Ok(Asked { class, ttft: urgency.ttft, itl: urgency.itl, timeout: urgency.timeout })
}

fn check(name: &str, asked: Option<Duration>, promised: Option<Duration>) -> Result<(), Error> {
    match (asked, promised.map(|promised| promised * LOOSEST)) {
        (Some(asked), Some(most)) if asked > most => {
            let (asked, most) = (asked.as_millis(), most.as_millis());
            let message = format!(
                "`{name}` is {asked}; at most {most} for this model, or leave it out and use x-priority: batch"
            );
            Err(Error::invalid(name, message))
        }
        _ => Ok(()),
    }
}

//! What a request asks for instead of what its model promises.

use crate::config::TenantLimits;
use plimsoll_api::error::Error;
use plimsoll_api::service::{Priority, Urgency};
use plimsoll_sched::{Asked, Class, Promise};
use std::time::Duration;

/// How many times more than promised may be asked for. Who can wait longer is `batch`.
const LOOSEST: u32 = 100;

/// What `urgency` asks for, within the limits of `promise` and of who asks.
///
/// # Errors
/// [`plimsoll_api::error::Reason::InvalidRequest`] for a time far beyond the promised one, and for a class or a time that is more
/// urgent than the caller may ask for.
pub(crate) fn asked(urgency: &Urgency, promise: &Promise, limits: &TenantLimits) -> Result<Asked, Error> {
    let class = class(urgency.priority, limits.class)?;
    check_least("x-slo-ttft-ms", urgency.ttft, limits.least_ttft)?;
    check_least("x-slo-itl-ms", urgency.itl, limits.least_itl)?;
    check_least("x-request-timeout-ms", urgency.timeout, limits.least_timeout)?;
    // The model promises nothing to `batch`.
    if class != Class::Batch {
        check("x-slo-ttft-ms", urgency.ttft, promise.ttft)?;
        check("x-slo-itl-ms", urgency.itl, promise.itl)?;
    }
    Ok(Asked { class, ttft: urgency.ttft, itl: urgency.itl, timeout: urgency.timeout })
}

/// Who does not say how urgent it is has the usual class, or the most urgent it may have.
fn class(asked: Option<Priority>, most_urgent: Class) -> Result<Class, Error> {
    let class = match asked {
        None => Class::Standard.max(most_urgent),
        Some(Priority::Interactive) => Class::Interactive,
        Some(Priority::Standard) => Class::Standard,
        Some(Priority::Batch) => Class::Batch,
    };
    if class >= most_urgent {
        return Ok(class);
    }
    let (class, most) = (class.name(), most_urgent.name());
    let message =
        format!("the priority is {class}; this API key may ask for {most} or less urgent, or leave it out");
    Err(Error::invalid("x-priority", message))
}

fn check_least(name: &str, asked: Option<Duration>, least: Duration) -> Result<(), Error> {
    match asked.filter(|&asked| asked < least) {
        None => Ok(()),
        Some(asked) => {
            let (asked, least) = (asked.as_millis(), least.as_millis());
            Err(Error::invalid(
                name,
                format!("`{name}` is {asked}; this API key may ask for {least} or more"),
            ))
        }
    }
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

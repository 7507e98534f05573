//! Deadlines and promises through the service.

mod common;

use common::{Bench, config, read, request, script};
use plimsoll_api::error::Reason;
use plimsoll_api::service::{GenerateRequest, Priority, Urgency};
use plimsoll_runtime::{LaneConfig, Promise, QueuePolicy};
use std::time::Duration;

fn within(ttft: u64, timeout: u64) -> Urgency {
    let [ttft, timeout] = [ttft, timeout].map(|ms| Some(Duration::from_millis(ms)));
    Urgency { ttft, timeout, ..Urgency::default() }
}

/// Its reader takes nothing, so it pauses, and nothing happens in the lane until its time is up.
#[tokio::test]
async fn whose_time_is_up_is_told_and_leaves_nothing_behind() {
    let bench = Bench::new(script(), LaneConfig { token_ring: 16, ..config() });
    let asked = GenerateRequest { urgency: within(10_000, 60), ..request("slow reader", 500) };
    let generation = bench.start(asked).await.unwrap();
    bench.assert_nothing_left();
    let outcome = read(generation).await;
    assert_eq!(outcome.failed.map(|error| error.reason), Some(Reason::Expired));
    assert!(!outcome.texts.is_empty(), "what was said before stays");
    assert_eq!(bench.gauge("plimsoll_expired_total"), 1.0);
    assert_eq!(bench.gauge("plimsoll_slo_attainment{class=\"standard\""), 0.0);
}

#[tokio::test]
async fn what_can_never_be_in_time_is_refused_for_good() {
    let bench = Bench::new(script(), config());
    let prompt = "long ".repeat(60);
    let asked = GenerateRequest { urgency: within(2, 10_000), ..request(&prompt, 5) };
    let error = bench.run(asked.clone()).await.unwrap_err();
    assert_eq!((error.reason, error.retry_after), (Reason::NeverInTime, None));
    let asked = GenerateRequest { urgency: Urgency::default(), ..asked };
    assert!(bench.run(asked).await.unwrap().failed.is_none());
}

/// By its bytes it would be late; it is too long for the context, which more time does not mend.
#[tokio::test]
async fn what_cannot_fit_is_not_called_late() {
    let bench = Bench::new(script(), config());
    let asked = GenerateRequest { urgency: within(2, 10_000), ..request(&"x".repeat(700), 5) };
    assert_eq!(bench.run(asked).await.unwrap_err().reason, Reason::ContextLength);
    bench.assert_nothing_left();
}

/// By its bytes it would be 181 tokens, which can never be in time; it is 60, which can.
#[tokio::test]
async fn nobody_is_refused_for_good_by_a_guess() {
    let bench = Bench::new(script(), config());
    let asked = GenerateRequest { urgency: within(120, 10_000), ..request(&"<|im_start|>".repeat(60), 2) };
    let outcome = bench.run(asked.clone()).await.unwrap();
    assert!(outcome.failed.is_none(), "{:?}", outcome.failed);
    // By their bytes they would be some forty, and in time. Each asks a lane that has learned nothing yet of how fast it is.
    for tokens in [181, 130] {
        let bench = Bench::new(script(), config());
        let as_many = GenerateRequest { prompt: request(&"x".repeat(tokens), 2).prompt, ..asked.clone() };
        assert_eq!(bench.run(as_many).await.unwrap_err().reason, Reason::NeverInTime, "{tokens} tokens");
        bench.assert_nothing_left();
    }
}

#[tokio::test]
async fn more_than_there_is_time_for_is_told_when_to_come_back() {
    let promise = Promise { ttft: Some(Duration::from_millis(400)), ..Promise::default() };
    // Nothing but time is short, however fast the lane learns to be.
    let (queue_policy, kv_overcommit) = (QueuePolicy::Fixed, 1000);
    let bench = Bench::new(script(), LaneConfig { promise, queue_policy, kv_overcommit, ..config() });
    let prompt = "word ".repeat(50);
    // None is read, none is answered, all arrive at once: by the untaught model of costs each takes a quarter second.
    let mut refused = Vec::new();
    let mut admitted = Vec::new();
    for _ in 0..40 {
        match bench.start(request(&prompt, 100)).await {
            Ok(generation) => admitted.push(generation),
            Err(error) => refused.push(error),
        }
    }
    for error in &refused {
        assert_eq!(error.reason, Reason::Deadline);
        assert!(error.retry_after.is_some_and(|wait| wait < Duration::from_secs(31)), "{error:?}");
    }
    let batch = Urgency { priority: Some(Priority::Batch), ..Urgency::default() };
    let batch = GenerateRequest { urgency: batch, ..request(&prompt, 10) };
    assert!(bench.start(batch).await.is_ok(), "batch has no part in the promise");
    assert!(!admitted.is_empty());
    drop(admitted);
    // They count until they are truly gone; then the gate opens by itself.
    let again = loop {
        match bench.start(request(&prompt, 3)).await {
            Ok(generation) => break generation,
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert!(read(again).await.failed.is_none());
}

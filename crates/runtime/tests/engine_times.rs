//! What of a request's time is the engine's.

mod common;

use common::{Bench, config, next, request};
use futures_core::Stream;
use plimsoll_api::service::Event;
use plimsoll_testkit::engine::{Script, StepGate};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// The first byte of a character of four: it is no text before it is clear what follows.
const INCOMPLETE: u32 = 0xf0;

#[tokio::test]
async fn a_token_without_text_does_not_end_the_engines_part() {
    let gate = StepGate::default();
    let tokens = common::script().shape.vocab;
    let script = Script { gate: Some(gate.clone()), ..Script::new(tokens, 40, INCOMPLETE..INCOMPLETE + 1) };
    let bench = Bench::new(script, config());
    let begun = Instant::now();
    let mut generation = bench.start(request("a", 3)).await.unwrap();
    // It was handed over between the two.
    let uncertain = begun.elapsed();
    gate.allow(1);
    while gate.passed() < 1 {
        std::thread::yield_now();
    }
    gate.wait_until_blocked();
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(Pin::new(&mut generation.events).as_mut().poll_next(&mut context), Poll::Pending);
    let silent = Instant::now();
    while silent.elapsed() <= uncertain {
        std::thread::yield_now();
    }
    let before = begun.elapsed() - uncertain;
    gate.open();
    let Some(Event::Delta(delta)) = next(&mut generation).await else { panic!("no text") };
    assert!(!delta.text.is_empty());
    let first = generation.events.engine_times().to_first;
    assert!(first >= before, "{first:?} of the engine, where its first text came after {before:?}");
}

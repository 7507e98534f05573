//! Every interleaving of arrivals, corrections and departures at the gate.
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-sched --release --test loom_gate`
#![cfg(loom)]

use loom::thread;
use plimsoll_sched::Rates;
use plimsoll_sched::Terms;
use plimsoll_sched::view::View;
use plimsoll_sched::{Ask, Bounds, Door, Gate, Refusal, Snapshot, Ticket};
use std::sync::Arc;
use std::time::Duration;

fn door(sequences: u32, tokens: u64, snapshot: Arc<Snapshot>) -> Gate {
    let bounds = Bounds { sequences, tokens, per_tenant: u32::MAX };
    Gate::new(Door { bounds, places: 1, tenants: 1 }, snapshot)
}

fn admit(gate: &Gate, sequences: u32, tokens: u64) -> Result<Ticket, Refusal> {
    let (terms, arrived) = Default::default();
    let ask = Ask { sequences, tokens, prompt: 0, max_tokens: None, terms, arrived, tenant: 0 };
    gate.try_admit(Duration::ZERO, &ask)
}

fn gate(sequences: u32, tokens: u64) -> Gate {
    door(sequences, tokens, Arc::default())
}

#[test]
fn of_two_who_want_the_last_place_one_gets_it() {
    loom::model(|| {
        let gate = gate(1, 10);
        let other = gate.clone();
        let thread = thread::spawn(move || admit(&other, 1, 5).ok());
        let here = admit(&gate, 1, 5).ok();
        let there = thread.join().unwrap();
        assert!(here.is_some() ^ there.is_some());
        drop((here, there));
        assert_eq!(gate.in_flight(), (0, 0));
    });
}

#[test]
fn one_who_is_refused_for_tokens_takes_no_place_from_another() {
    loom::model(|| {
        let gate = gate(2, 10);
        let held = admit(&gate, 1, 8).unwrap();
        let other = gate.clone();
        let thread = thread::spawn(move || admit(&other, 1, 5).is_err());
        assert!(admit(&gate, 1, 2).is_ok());
        assert!(thread.join().unwrap());
        drop(held);
        assert_eq!(gate.in_flight(), (0, 0));
    });
}

#[test]
fn corrections_and_departures_balance() {
    loom::model(|| {
        let gate = gate(2, 10);
        let mut ticket = admit(&gate, 1, 4).unwrap();
        let other = gate.clone();
        let thread = thread::spawn(move || drop(admit(&other, 1, 4)));
        let _ = ticket.correct(7, 0);
        assert!(gate.in_flight().1 <= 10);
        drop(ticket);
        thread.join().unwrap();
        assert_eq!(gate.in_flight(), (0, 0));
    });
}

#[test]
fn nobody_comes_in_after_it_closed() {
    loom::model(|| {
        let gate = gate(2, 10);
        let other = gate.clone();
        let thread = thread::spawn(move || admit(&other, 1, 4).ok());
        gate.close();
        assert_eq!(admit(&gate, 1, 1).unwrap_err(), Refusal::Closed);
        drop(thread.join().unwrap());
        assert_eq!(gate.in_flight(), (0, 0));
    });
}

/// A lane that prefills a token per millisecond, for requests of 100 tokens that must begin within 150 ms.
fn timed() -> Gate {
    let snapshot = Arc::new(Snapshot::default());
    let rates = Rates { base: 1e-3, prefill: 1e-3, decode: 1e-3, kv: 0.0 };
    snapshot.set_view(&View { rates, best: rates, ..View::default() });
    let bounds = Bounds { sequences: 10, tokens: 10_000, per_tenant: u32::MAX };
    Gate::new(Door { bounds, places: 4, tenants: 1 }, snapshot)
}

fn ask(prompt: u64) -> Ask {
    let terms = Terms { ttft: Some(Duration::from_millis(150)), ..Terms::default() };
    Ask { sequences: 1, tokens: prompt, prompt, max_tokens: None, terms, arrived: Duration::ZERO, tenant: 0 }
}

fn knock(gate: &Gate) -> Result<Ticket, Refusal> {
    gate.try_admit(Duration::ZERO, &ask(100))
}

#[test]
fn two_at_once_do_not_both_take_the_time_that_one_has() {
    loom::model(|| {
        let gate = timed();
        let other = gate.clone();
        let thread = thread::spawn(move || knock(&other).ok());
        let here = knock(&gate).ok();
        let there = thread.join().unwrap();
        assert!(here.is_none() || there.is_none(), "both were let in");
        drop((here, there));
        assert_eq!((gate.in_flight(), gate.coming()), ((0, 0), (0, 0)));
        assert!(knock(&gate).is_ok(), "it opens again");
    });
}

/// As [`two_at_once_do_not_both_take_the_time_that_one_has`], when both were let in for little.
#[test]
fn two_who_turn_out_to_be_more_do_not_both_stay() {
    let decide = |gate: &Gate, mut ticket: Ticket| {
        gate.decide_again(Duration::ZERO, &ask(100), &mut ticket).is_ok().then_some(ticket)
    };
    loom::model(move || {
        let gate = timed();
        let [here, there] = [(); 2].map(|()| gate.try_admit(Duration::ZERO, &ask(1)).unwrap());
        let other = gate.clone();
        let thread = thread::spawn(move || decide(&other, there));
        let here = decide(&gate, here);
        let there = thread.join().unwrap();
        assert!(here.is_none() || there.is_none(), "both stayed");
        drop((here, there));
        assert_eq!((gate.in_flight(), gate.coming()), ((0, 0), (0, 0)));
    });
}

#[test]
fn who_is_coming_is_counted_once_until_the_planner_has_it() {
    loom::model(|| {
        let gate = timed();
        let mut ticket = knock(&gate).unwrap();
        let other = gate.clone();
        let thread = thread::spawn(move || drop(knock(&other)));
        ticket.correct(120, 90).unwrap();
        ticket.arrived();
        thread.join().unwrap();
        assert_eq!((gate.coming(), gate.in_flight()), ((0, 0), (1, 120)));
        drop(ticket);
        assert_eq!((gate.coming(), gate.in_flight()), ((0, 0), (0, 0)));
    });
}

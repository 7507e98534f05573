//! Every interleaving of arrivals, corrections and departures at the gate.
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p plimsoll-sched --release --test loom_gate`
#![cfg(loom)]

use loom::thread;
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

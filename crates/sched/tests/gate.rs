//! The gate: its bounds hold, and what is taken comes back.
#![cfg(not(loom))]

use plimsoll_sched::view::View;
use plimsoll_sched::{Ask, Bounds, Door, Gate, Rates, Refusal, Snapshot, Terms, Ticket};
use proptest::prelude::*;
use std::sync::{Arc, Barrier};
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
fn exactly_as_many_as_fit_of_a_thousand_at_once() {
    for (sequences, tokens, fit) in [(64, 1 << 30, 64), (1000, 700, 70), (5000, 10_000, 1000)] {
        let gate = gate(sequences, tokens);
        let barrier = Barrier::new(8);
        let arrive = || {
            barrier.wait();
            (0..125).filter_map(|_| admit(&gate, 1, 10).ok()).collect::<Vec<Ticket>>()
        };
        let tickets: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(arrive)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(tickets.len(), fit);
        assert_eq!(gate.in_flight(), (fit as u32, 10 * fit as u64));
        drop(tickets);
        assert_eq!(gate.in_flight(), (0, 0));
    }
}

#[test]
fn refusals_say_why_and_when() {
    let snapshot = Arc::new(Snapshot::default());
    let gate = door(4, 100, snapshot.clone());
    let _held = admit(&gate, 3, 60).unwrap();
    let second = Duration::from_secs(1);
    assert_eq!(admit(&gate, 2, 1).unwrap_err(), Refusal::Sequences { retry_after: second });
    assert_eq!(admit(&gate, 1, 50).unwrap_err(), Refusal::Tokens { retry_after: second });
    assert_eq!(admit(&gate, 5, 1).unwrap_err(), Refusal::TooLarge);
    assert_eq!(admit(&gate, 1, 101).unwrap_err(), Refusal::TooLarge);
    snapshot.set_rates(4.0, 20.0);
    let (quarter, half) = (Duration::from_millis(250), Duration::from_millis(500));
    assert_eq!(admit(&gate, 2, 1).unwrap_err(), Refusal::Sequences { retry_after: quarter });
    assert_eq!(admit(&gate, 1, 50).unwrap_err(), Refusal::Tokens { retry_after: half });
    gate.close();
    assert_eq!(admit(&gate, 1, 1).unwrap_err(), Refusal::Closed);
    assert_eq!(gate.in_flight(), (3, 60));
}

/// Who is alone can never be fewer: whatever may wait now, it is let in, or it would be told to come back for ever.
#[test]
fn what_may_wait_now_does_not_hold_up_who_is_alone() {
    let snapshot = Arc::new(Snapshot::default());
    snapshot.set_queue_limit(2);
    let gate = door(16, 100, snapshot);
    let held = admit(&gate, 8, 8).unwrap();
    assert!(matches!(admit(&gate, 1, 1).unwrap_err(), Refusal::Sequences { .. }));
    drop(held);
    assert!(admit(&gate, 16, 1).is_ok());
}

#[test]
fn an_estimate_is_corrected() {
    let gate = gate(4, 100);
    let mut one = admit(&gate, 1, 40).unwrap();
    let mut two = admit(&gate, 1, 40).unwrap();
    assert!(matches!(two.correct(70, 0), Err(Refusal::Tokens { .. })));
    assert_eq!((two.tokens(), gate.in_flight()), (40, (2, 80)));
    one.correct(10, 0).unwrap();
    two.correct(70, 0).unwrap();
    assert_eq!(gate.in_flight(), (2, 80));
    drop((one, two));
    assert_eq!(gate.in_flight(), (0, 0));
}

proptest! {
    #[test]
    fn the_ledger_agrees_with_the_tickets(
        ops in proptest::collection::vec((0..4u8, 0..6u32, 0..60u64, any::<usize>()), 0..200),
    ) {
        let gate = gate(10, 200);
        let mut tickets: Vec<(u32, Ticket)> = Vec::new();
        for (op, sequences, tokens, which) in ops {
            match op {
                0 | 1 => {
                    let (taken, reserved) = gate.in_flight();
                    let result = admit(&gate, sequences, tokens);
                    prop_assert_eq!(result.is_ok(), taken + sequences <= 10 && reserved + tokens <= 200);
                    tickets.extend(result.ok().map(|ticket| (sequences, ticket)));
                }
                2 if !tickets.is_empty() => drop(tickets.swap_remove(which % tickets.len())),
                3 if !tickets.is_empty() => {
                    let i = which % tickets.len();
                    let _ = tickets[i].1.correct(tokens, 0);
                }
                _ => {}
            }
            let held = tickets.iter().fold((0, 0), |(s, t), (n, ticket)| (s + n, t + ticket.tokens()));
            prop_assert_eq!(gate.in_flight(), held);
        }
    }
}

#[test]
fn a_tenant_may_have_a_limit_of_its_own() {
    let bounds = Bounds { sequences: 100, tokens: 10_000, per_tenant: 3 };
    let gate = Gate::new(Door { bounds, places: 100, tenants: 2 }, Arc::default());
    gate.limit_tenant(1, 1);
    let knock = |tenant, sequences| {
        let (prompt, max_tokens, terms, arrived) = (1, None, Default::default(), Duration::ZERO);
        let ask = Ask { sequences, tokens: 1, prompt, max_tokens, terms, arrived, tenant };
        gate.try_admit(Duration::ZERO, &ask)
    };
    let theirs = knock(1, 1).unwrap();
    assert!(matches!(knock(1, 1), Err(Refusal::Tenant { .. })));
    assert_eq!(knock(1, 2).unwrap_err(), Refusal::TooLarge);
    let _others = knock(0, 3).unwrap();
    assert!(matches!(knock(0, 1), Err(Refusal::Tenant { .. })));
    drop(theirs);
    assert!(knock(1, 1).is_ok());
}

/// One who waits has 10 ms to spare, and must begin within half a second: whoever would go before it is told to come back,
/// whether its time is for the first token or for the last.
#[test]
fn nobody_with_an_earlier_deadline_makes_another_one_late() {
    let snapshot = Arc::new(Snapshot::default());
    let rates = Rates { base: 2e-3, prefill: 1e-3, decode: 1e-3, kv: 0.0 };
    let of_standard = |value: f64, others: f64| [others, value, others];
    let (slack, latest) = (of_standard(10e-3, f64::INFINITY), of_standard(0.5, 0.0));
    snapshot.set_view(&View { rates, best: rates, slack, latest, output: [1.0; 2], ..View::default() });
    let bounds = Bounds { sequences: 100, tokens: 10_000, per_tenant: u32::MAX };
    let gate = Gate::new(Door { bounds, places: 16, tenants: 1 }, snapshot);
    let _waits = admit(&gate, 1, 100).unwrap();
    let ms = |ms| Some(Duration::from_millis(ms));
    for (ttft, e2e, is_late) in [
        (ms(300), None, true),
        (None, ms(300), true),
        (ms(600), None, false),
        (None, ms(600), false),
        (None, None, false),
    ] {
        let terms = Terms { ttft, e2e, ..Terms::default() };
        let (tokens, prompt, arrived) = (60, 50, Duration::ZERO);
        let ask = Ask { sequences: 1, tokens, prompt, max_tokens: Some(1), terms, arrived, tenant: 0 };
        let refused = gate.try_admit(Duration::ZERO, &ask).err();
        assert_eq!(matches!(refused, Some(Refusal::Late { .. })), is_late, "{ttft:?} {e2e:?}: {refused:?}");
    }
}

/// That steps are short for the sake of those who run says nothing of an idle server.
#[test]
fn who_would_be_in_time_alone_is_not_refused_for_good() {
    let snapshot = Arc::new(Snapshot::default());
    let rates = Rates { base: 2e-3, prefill: 1e-3, decode: 1e-3, kv: 0.0 };
    let (decodes, active) = (4.0, 4.0);
    snapshot.set_view(&View {
        rates,
        best: rates,
        budget: 5e-3,
        idle_budget: 50e-3,
        decodes,
        active,
        ..View::default()
    });
    let bounds = Bounds { sequences: 100, tokens: 10_000, per_tenant: u32::MAX };
    let gate = Gate::new(Door { bounds, places: 16, tenants: 1 }, snapshot);
    let _running = admit(&gate, 4, 400).unwrap();
    // Alone it takes 106 ms in three steps; in steps of 5 ms, 168.
    for (ttft, is_never) in [(100, true), (110, false), (165, false)] {
        let terms = Terms { ttft: Some(Duration::from_millis(ttft)), ..Terms::default() };
        let ask = Ask {
            sequences: 1,
            tokens: 100,
            prompt: 100,
            max_tokens: None,
            terms,
            arrived: Duration::ZERO,
            tenant: 0,
        };
        let refused = gate.try_admit(Duration::ZERO, &ask).unwrap_err();
        assert_eq!(refused == Refusal::Never, is_never, "{ttft} ms: {refused:?}");
        assert!(is_never || matches!(refused, Refusal::Late { .. }), "{ttft} ms: {refused:?}");
    }
}

/// A lane that prefills a token per millisecond, for requests that must begin within 150 ms and were let in as ten tokens.
#[test]
fn who_turns_out_to_be_more_is_decided_about_again() {
    let rates = Rates { base: 2e-3, prefill: 1e-3, decode: 1e-3, kv: 0.0 };
    let ask = |prompt: u64| Ask {
        sequences: 1,
        tokens: prompt + 10,
        prompt,
        max_tokens: Some(10),
        terms: Terms { ttft: Some(Duration::from_millis(150)), ..Terms::default() },
        arrived: Duration::ZERO,
        tenant: 0,
    };
    for (beside, counted, refused) in [
        (None, 90, None),
        (None, 200, Some("never")),
        (Some(60), 40, None),
        (Some(60), 90, Some("late")),
        (Some(60), 200, Some("never")),
        (Some(60), 2000, Some("tokens")),
    ] {
        for held in [false, true] {
            let snapshot = Arc::new(Snapshot::default());
            snapshot.set_view(&View { rates, best: rates, output: [1.0; 2], ..View::default() });
            let bounds = Bounds { sequences: 100, tokens: 1000, per_tenant: u32::MAX };
            let gate = Gate::new(Door { bounds, places: 16, tenants: 1 }, snapshot);
            let other = beside.map(|prompt| gate.try_admit(Duration::ZERO, &ask(prompt)).unwrap());
            let take = if held { Gate::try_hold } else { Gate::try_admit };
            let mut ticket = take(&gate, Duration::ZERO, &ask(10)).unwrap();
            let decided = gate.decide_again(Duration::ZERO, &ask(counted), &mut ticket);
            let seen = match decided {
                Ok(()) => None,
                Err(Refusal::Never) => Some("never"),
                Err(Refusal::Late { .. }) => Some("late"),
                Err(Refusal::TooLarge) => Some("tokens"),
                Err(other) => panic!("{other:?}"),
            };
            assert_eq!(seen, refused, "{counted} tokens beside {beside:?}, held: {held}");
            let others = (u32::from(other.is_some()), beside.unwrap_or_default());
            if refused.is_none() {
                assert_eq!(gate.coming(), (others.0 + 1, others.1 + counted));
                assert!(ticket.expected().is_some());
            }
            assert_eq!(gate.in_flight().0, others.0 + 1, "the place is kept until it is given back");
            drop(ticket);
            assert_eq!(gate.coming(), others);
            drop(other);
            assert_eq!((gate.in_flight(), gate.coming()), ((0, 0), (0, 0)));
        }
    }
}

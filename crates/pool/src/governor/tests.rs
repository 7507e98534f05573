//! The governor on readings that were written down, and on any.

use super::*;
use proptest::prelude::*;

const LIMIT: u64 = 1000;

fn reading(used: u64) -> Reading {
    Reading { limit: LIMIT, used, ..Reading::default() }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// One reading each second: the level after each, as `N`, `S` or `R`.
fn levels(readings: impl IntoIterator<Item = Reading>) -> String {
    let mut governor = Governor::new(Policy::default());
    let level = |(second, reading): (u64, Reading)| match governor.observe(seconds(second), &reading).level {
        Level::Normal => 'N',
        Level::Shed => 'S',
        Level::Refuse => 'R',
    };
    (0..).zip(readings).map(level).collect()
}

fn check(used: &[u64], expected: &str) {
    assert_eq!(levels(used.iter().map(|used| reading(*used))), expected, "{used:?}");
}

#[test]
fn eighty_and_thirty_per_cent() {
    check(&[0, 800, 801, 800], "NNSS");
    // Down only under 30 %, and only after five seconds.
    check(&[801, 300, 299, 299, 299, 299, 299], "SSSSSNN");
    check(&[801, 300, 300, 300, 300, 300, 300, 299], "SSSSSSSN");
    // Up again at once: memory does not wait.
    check(&[801, 0, 0, 0, 0, 0, 801], "SSSSSNS");
}

#[test]
fn caches_first_then_admissions() {
    // From 0 to nearly everything in one second: still two seconds of shedding first.
    check(&[0, 990, 990, 990, 990], "NSSRR");
    check(&[990, 990, 950, 951], "SSSR");
    // Let in again under 80 %, when it has lasted.
    check(&[990, 990, 990, 790, 790, 790, 790, 790, 790], "SSRRRRRSS");
    check(&[990, 990, 990, 800, 800, 800, 800, 800, 800], "SSRRRRRRR");
    check(&[990, 990, 990, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], "SSRRRRRSSSSSN");
}

#[test]
fn waiting_for_memory_and_failing_to_reclaim_count_too() {
    let stalled = |used, stalled| Reading { stalled, ..reading(used) };
    assert_eq!(levels([stalled(100, 0.2), stalled(100, 0.21), stalled(100, 0.0)]), "NSS");
    let long = std::iter::repeat_n(stalled(100, 0.3), 9).chain([stalled(100, 0.0)]);
    assert_eq!(levels(long), "SSSSSSSSSN");
    let failed = |failures| Reading { failures, ..reading(100) };
    // Failures from before the first reading are not ours to act on.
    assert_eq!(levels([7, 7, 8, 8, 9, 9, 9, 9, 9, 9].map(failed)), "NNSSRRRRRS");
}

#[test]
fn what_is_fixed_moves_the_marks() {
    let marks = |fixed, limit| {
        let Marks { normal, shed, refuse } =
            Marks::of(&Policy::default(), &Reading { limit, fixed, ..Reading::default() });
        (normal, shed, refuse)
    };
    assert_eq!(marks(0, 1000), (300, 800, 950));
    assert_eq!(marks(400, 1000), (550, 800, 950));
    assert_eq!(marks(600, 1000), (675, 800, 950));
    assert_eq!(marks(800, 1000), (828, 875, 950));
    assert_eq!(marks(920, 1000), (927, 940, 960));
    assert_eq!(marks(1000, 1000), (980, 980, 980));
    assert_eq!(marks(2000, 1000), (980, 980, 980));
    assert_eq!(marks(0, 0), (0, 0, 0));
}

#[test]
fn as_much_is_wanted_back_as_leads_to_normal() {
    let mut governor = Governor::new(Policy::default());
    let mut wanted = |second, used, fixed| {
        let decision = governor.observe(seconds(second), &Reading { fixed, ..reading(used) });
        (decision.give_back, decision.purge)
    };
    assert_eq!(wanted(0, 800, 0), (0, false));
    assert_eq!(wanted(1, 900, 0), (600, true));
    assert_eq!(wanted(2, 700, 0), (400, false));
    // Half of the marks' distance to what is fixed; never more than there is above it.
    assert_eq!(wanted(3, 700, 400), (150, false));
    assert_eq!(wanted(4, 250, 0), (0, false));
    // Again after ten seconds, if memory still is short.
    assert_eq!(wanted(11, 700, 0), (400, true));
    assert_eq!(wanted(12, 700, 0), (400, false));
    assert_eq!(wanted(13, 250, 0), (0, false));
}

#[test]
#[should_panic(expected = "shares must be ordered")]
fn shares_out_of_order_are_refused() {
    Governor::new(Policy { normal: 0.9, ..Policy::default() });
}

fn any_reading() -> impl Strategy<Value = Reading> {
    let share = || 0..=LIMIT;
    (share(), share(), 0.0..0.4, 0..20_u64).prop_map(|(used, fixed, stalled, failure)| Reading {
        limit: LIMIT,
        used,
        fixed: fixed.min(used),
        stalled,
        failures: u64::from(failure == 0),
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 512 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever the readings: one step at a time, shedding before refusing and for long enough, and no level that is left
    /// downwards sooner than it may be.
    #[test]
    fn steps_are_taken_in_order_and_levels_last(readings in prop::collection::vec((any_reading(), 0..3_000_u64), 1..200)) {
        let policy = Policy::default();
        let mut governor = Governor::new(policy);
        let (mut now, mut level, mut since) = (Duration::ZERO, Level::Normal, None);
        let (mut changes, mut failures) = (0, 0);
        for (mut reading, milliseconds) in readings {
            now += Duration::from_millis(milliseconds);
            let has_failed = reading.failures > 0 && changes > 0;
            failures += reading.failures;
            reading.failures = failures;
            let decision = governor.observe(now, &reading);
            prop_assert_eq!(decision.is_change, decision.level != level);
            prop_assert!((decision.level as i8 - level as i8).abs() <= 1);
            prop_assert!(decision.give_back <= reading.used - reading.fixed);
            let lasted = since.map_or(Duration::MAX, |since| now - since);
            if decision.level < level {
                prop_assert!(lasted >= policy.hold);
            }
            if decision.level == Level::Refuse && decision.is_change {
                prop_assert!(lasted >= policy.grace || has_failed);
            }
            if decision.is_change {
                (level, since) = (decision.level, Some(now));
                changes += 1;
            }
        }
        // Every way down lasts, and there are at most two more ways up than down.
        prop_assert!(changes as u128 <= 2 * (now.as_millis() / policy.hold.as_millis()) + 2, "{changes} changes");
    }

    /// Used memory that wanders between the marks, however wildly, changes nothing, from whichever side it came.
    #[test]
    fn between_the_marks_nothing_changes(wanders in prop::collection::vec(0.0..1.0_f64, 1..100), fixed in 0..LIMIT, starts_short: bool) {
        let mut governor = Governor::new(Policy::default());
        let marks = Marks::of(&Policy::default(), &Reading { fixed, ..reading(0) });
        if starts_short {
            governor.observe(Duration::ZERO, &Reading { fixed, ..reading(marks.shed + 1) });
        }
        let level = governor.level();
        for (second, share) in (1..).zip(wanders) {
            let used = marks.normal + ((marks.shed - marks.normal) as f64 * share) as u64;
            let decision = governor.observe(seconds(second), &Reading { fixed, ..reading(used) });
            prop_assert_eq!(decision.level, level);
        }
    }

    /// A reading that stays as it is leads to one level, and that stays as it is.
    #[test]
    fn a_steady_reading_leads_to_a_steady_level(first in prop::collection::vec(any_reading(), 0..20), last in any_reading()) {
        let mut governor = Governor::new(Policy::default());
        let steady = std::iter::repeat_n(Reading { failures: 1, ..last }, 60);
        let observed: Vec<_> =
            (0..).zip(first.iter().copied().chain(steady)).map(|(s, reading)| governor.observe(seconds(s), &reading)).collect();
        prop_assert!(observed[first.len() + 20..].iter().all(|decision| !decision.is_change));
    }
}

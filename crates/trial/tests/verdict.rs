//! Whole experiments on made-up services: what is told of them is true, as often as it should be.

use plimsoll_trial::log::Rounds;
use plimsoll_trial::report::About;
use plimsoll_trial::{Answered, Arm, Design, Log, Measure, Outcome, Report, Unit, Verdict};
use std::time::Duration;

/// A number from 0 up to 1: a multiplicative congruence is random enough for a made-up load.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1_u32 << 31)
    }
}

fn design(unit: Unit, measure: Measure, seed: u64) -> Design {
    let arm = |name: &str| Arm { name: name.into(), weight: 1 };
    Design {
        name: "made-up".into(),
        arms: vec![arm("old"), arm("new")],
        unit,
        measure,
        seed,
        block: Duration::from_secs(20),
        wash_out: Duration::from_secs(4),
        keep: 512,
    }
}

/// Two requests a second for so long. An arm answers in so many milliseconds in the mean, and keeps what it answers
/// within 300. After a switch its predecessor's backlog makes everything slow for three seconds.
fn run(design: Design, mean_ms: [f64; 2], minutes: u64) -> Report {
    let (mut log, mut chance) = (Log::new(design.clone()), Chance(design.seed ^ 0x5eed));
    let (mut now, end, mut id) = (Duration::ZERO, Duration::from_secs(60 * minutes), 0_u64);
    // A rush hour that comes and goes.
    let weather = |now: Duration| 1.0 + 0.3 * (now.as_secs_f64() / 97.0).sin();
    while now < end {
        now += Duration::from_secs_f64(-chance.next().max(1e-9).ln() / 2.0);
        id += 1;
        let span = log.at(now);
        let place = log.arrive(now, &id.to_string());
        let is_backlog = span.arm.is_some() && now < span.begins + Duration::from_secs(3);
        let mean = if is_backlog { 5000.0 } else { mean_ms[place.arm] * weather(now) };
        let ms = mean * (0.5 + chance.next());
        let e2e = Duration::from_secs_f64(ms / 1e3);
        let outcome = Answered { is_kept: ms < 300.0, ttft: Some(e2e / 2), gap: Some(e2e / 50), e2e };
        place.seat.into_iter().for_each(|seat| seat.settle(&Outcome::Answered(outcome)));
    }
    let about = About { model: "m".into(), vary: "speed".into(), in_force: log.at(now).arm };
    Report::new(&design, about, &Rounds::of(&log.blocks(), 2, now))
}

fn verdict(report: &Report) -> Option<Verdict> {
    report.arms[1].against_first.as_ref().map(|compared| compared.verdict)
}

#[test]
fn what_differs_is_found_and_which_way() {
    let measures = [Measure::Goodput, Measure::InPromise, Measure::Ttft, Measure::Itl, Measure::E2e];
    for unit in [Unit::Lane, Unit::Request] {
        for measure in measures.into_iter().filter(|m| unit == Unit::Lane || *m != Measure::Goodput) {
            for (means, expected) in [([300.0, 200.0], Verdict::Better), ([200.0, 300.0], Verdict::Worse)] {
                let report = run(design(unit, measure, 5), means, 60);
                assert_eq!(verdict(&report), Some(expected), "{unit:?} {measure:?} {report:#?}");
                let difference = report.arms[1].against_first.as_ref().unwrap().difference.unwrap();
                assert!(
                    difference.low <= Some(difference.value) && Some(difference.value) <= difference.high
                );
            }
        }
    }
}

#[test]
fn the_same_twice_shows_no_difference_about_as_often_as_said() {
    for (unit, measure) in [(Unit::Lane, Measure::E2e), (Unit::Request, Measure::InPromise)] {
        let shows_none = |seed: &u64| {
            let report = run(design(unit, measure, *seed), [250.0, 250.0], 10);
            verdict(&report) == Some(Verdict::NoDifferenceShown)
        };
        // Of 100, 95 are expected, and 90 to 100 likely.
        let none = (1..=100).filter(shows_none).count();
        assert!((89..=100).contains(&none), "{none} of 100 for {unit:?} by {measure:?}");
    }
}

#[test]
fn the_backlog_of_a_switch_is_washed_out() {
    let report = run(design(Unit::Lane, Measure::InPromise, 3), [100.0, 100.0], 30);
    for arm in &report.arms {
        assert_eq!((arm.in_promise, arm.late), (arm.offered, 0), "{arm:#?}");
    }
    let unwashed = Design { wash_out: Duration::ZERO, ..design(Unit::Lane, Measure::InPromise, 3) };
    assert!(run(unwashed, [100.0, 100.0], 30).arms[0].late > 0);
}

#[test]
fn too_little_is_said_to_be() {
    let report = run(design(Unit::Lane, Measure::Goodput, 1), [300.0, 200.0], 2);
    assert_eq!(verdict(&report), Some(Verdict::TooLittleData));
    let nothing = run(design(Unit::Request, Measure::InPromise, 1), [300.0, 200.0], 0);
    assert_eq!((verdict(&nothing), nothing.blocks), (Some(Verdict::TooLittleData), 0));
}

#[test]
fn it_adds_up() {
    let report = run(design(Unit::Lane, Measure::Goodput, 9), [250.0, 220.0], 30);
    assert_eq!(report.blocks as u64, report.arms.iter().map(|arm| arm.blocks).sum::<u64>());
    for arm in &report.arms {
        assert_eq!(arm.offered, arm.accepted + arm.refused);
        assert_eq!(arm.accepted, arm.in_promise + arm.late + arm.lost);
        let goodput = arm.figures.goodput.unwrap();
        assert!((goodput.value - arm.in_promise as f64 / arm.seconds).abs() < 1e-9);
        assert!(goodput.low.unwrap() <= goodput.value && goodput.value <= goodput.high.unwrap());
    }
    assert!(report.in_force.is_some());
}

/// The names are documented, and others read them.
#[test]
fn the_wire_form_is_as_documented() {
    let report = run(design(Unit::Lane, Measure::Goodput, 9), [250.0, 220.0], 30);
    let json = serde_json::to_value(&report).unwrap();
    let keys =
        |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    let document = include_str!("../../../docs/experiments.md");
    let second = &json["arms"][1];
    for keys in [keys(&json), keys(second), keys(&second["against_first"])] {
        for key in keys.split(' ') {
            assert!(document.contains(&format!("`{key}`")), "docs/experiments.md lacks `{key}`");
        }
    }
    assert!(second["ttft_seconds"]["p95"]["low"].is_number(), "{second}");
    assert!(json["arms"][0]["against_first"].is_null());
    assert_eq!(json["unit"], "lane");
}

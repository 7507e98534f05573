//! What an API key may ask for.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{Bench, config, request, script};
use plimsoll_api::error::Reason;
use plimsoll_api::service::{GenerateRequest, Priority, Service, Urgency};
use plimsoll_runtime::{Class, LaneConfig, TenantLimits};
use std::time::Duration;

/// The first key may do all, the second no more than the usual, the third is for batch alone.
fn three() -> LaneConfig {
    let ms = Duration::from_millis;
    let limits = TenantLimits::default();
    let tenant_limits = vec![
        limits,
        TenantLimits {
            class: Class::Standard,
            least_ttft: ms(300),
            least_itl: ms(30),
            least_timeout: ms(20_000),
            in_flight: Some(1),
        },
        TenantLimits { class: Class::Batch, ..limits },
    ];
    LaneConfig { tenants: 3, tenant_limits, ..config() }
}

fn of(tenant: u32, urgency: Urgency) -> GenerateRequest {
    GenerateRequest { tenant, urgency, ..request("a", 2) }
}

#[tokio::test]
async fn nobody_claims_to_be_more_urgent_than_its_key_may() {
    let mut config = three();
    // A place is given back a moment after its reader has seen the end: the next one would now and then be one too many.
    config.tenant_limits[1].in_flight = None;
    let bench = Bench::new(script(), config);
    let class = |priority| Urgency { priority: Some(priority), ..Urgency::default() };
    let ttft = |ms| Urgency { ttft: Some(Duration::from_millis(ms)), ..Urgency::default() };
    let itl = |ms| Urgency { itl: Some(Duration::from_millis(ms)), ..Urgency::default() };
    let timeout = |ms| Urgency { timeout: Some(Duration::from_millis(ms)), ..Urgency::default() };
    let cases = [
        (0, class(Priority::Interactive), None),
        (0, ttft(60_000), None),
        (1, class(Priority::Interactive), Some(("x-priority", "standard or less"))),
        (1, class(Priority::Standard), None),
        (1, class(Priority::Batch), None),
        (1, Urgency::default(), None),
        (1, ttft(299), Some(("x-slo-ttft-ms", "300 or more"))),
        (1, ttft(60_000), None),
        (1, itl(29), Some(("x-slo-itl-ms", "30 or more"))),
        (1, timeout(19_999), Some(("x-request-timeout-ms", "20000 or more"))),
        (1, timeout(20_000), None),
        (0, timeout(19_999), None),
        (2, class(Priority::Standard), Some(("x-priority", "batch or less"))),
        (2, Urgency::default(), None),
        // Beyond the list there are no limits.
        (9, class(Priority::Interactive), None),
    ];
    for (tenant, urgency, wanted) in cases {
        match (bench.run(of(tenant, urgency)).await, wanted) {
            (Ok(outcome), None) => assert!(outcome.failed.is_none(), "{tenant} {urgency:?}: {outcome:?}"),
            (Err(error), Some((param, says))) => {
                assert_eq!((error.reason, error.param.as_deref()), (Reason::InvalidRequest, Some(param)));
                assert!(error.message.contains(says), "{error}");
            }
            (got, wanted) => panic!("{tenant} {urgency:?}: {got:?}, not {wanted:?}"),
        }
    }
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_key_has_as_much_in_flight_as_it_may() {
    // More than fits its ring: it cannot be over before it is read.
    let bench = Bench::new(script(), LaneConfig { token_ring: 16, ..three() });
    let long = GenerateRequest { max_tokens: Some(200), ..of(1, Urgency::default()) };
    let running = bench.start(long).await.unwrap();
    let Err(refused) = bench.start(of(1, Urgency::default())).await else { panic!("two at once") };
    assert_eq!(refused.reason, Reason::TenantFull);
    assert!(refused.message.contains("may, 1") && refused.retry_after.is_some(), "{refused:?}");
    assert!(bench.run(of(0, Urgency::default())).await.is_ok());
    assert!(common::read(running).await.failed.is_none());
    while let Err(error) = bench.run(of(1, Urgency::default())).await {
        // The lane returns a place a moment after its reader has seen the end.
        assert_eq!(error.reason, Reason::TenantFull);
    }
    bench.assert_nothing_left();
}

/// It is told how many it may have, not that they would be too many tokens, nor to come back.
#[tokio::test]
async fn a_key_asks_for_no_more_continuations_than_it_may_have() {
    let bench = Bench::new(script(), LaneConfig { per_tenant: 3, ..three() });
    for (tenant, most) in [(0, 3), (1, 1)] {
        let asked = |n| GenerateRequest { n, ..of(tenant, Urgency::default()) };
        let error = bench.run(asked(most + 1)).await.unwrap_err();
        assert_eq!((error.reason, error.param.as_deref()), (Reason::InvalidRequest, Some("n")));
        assert!(error.message.contains(&format!("1 to {most}")), "{error:?}");
        assert!(bench.run(asked(most)).await.is_ok());
    }
}

#[tokio::test]
async fn a_card_says_how_many_continuations_its_reader_may_have() {
    let bench = Bench::new(script(), three());
    let [all, limited, batch, unknown] = [0, 1, 2, 9].map(|tenant| bench.runtime.models(tenant)[0].choices);
    assert_eq!(limited, 1);
    assert!(all > 1 && [batch, unknown] == [all; 2], "{all} {batch} {unknown}");
    let too_many = GenerateRequest { n: 2, ..of(1, Urgency::default()) };
    let error = bench.run(too_many).await.unwrap_err();
    assert_eq!((error.reason, error.param.as_deref()), (Reason::InvalidRequest, Some("n")));
}

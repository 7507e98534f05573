//! The text that an operator's Prometheus reads.

use plimsoll_api::error::Reason;
use plimsoll_telemetry::{KvBlocks, Metrics, PoolGauge, Step};
use std::sync::Arc;
use std::time::Duration;

fn filled() -> Arc<Metrics> {
    let metrics = Metrics::new();
    metrics.build("0.1.0");
    metrics.request("tiny", "/v1/completions", "ok");
    let model = metrics.model("tiny");
    model.admitted();
    model.refused(Reason::QueueFull);
    model.started(Duration::from_millis(3));
    model.first_token(Duration::from_millis(40));
    model.token_gap(Duration::from_millis(9));
    model.finished(Duration::from_millis(400));
    model.step(Step {
        took: Duration::from_millis(8),
        sequences: 4,
        prompt_tokens: 30,
        shared_tokens: 20,
        generated_tokens: 3,
    });
    model.step_panicked();
    model.set_queue(2, 64);
    model.set_queue_cursor(7);
    model.set_running(4);
    model.set_kv_blocks(KvBlocks { used: 10, shared: 2, cached: 5, free: 1 });
    let pool = PoolGauge { pool: "requests", outstanding: 6, high_water: 9, misses: 1 };
    model.pool(pool);
    metrics.watch_pool(move || PoolGauge { pool: "frames", ..pool });
    metrics.model("other").set_running(1);
    metrics
}

fn check(text: &str, line: &str) {
    assert!(text.lines().any(|l| l == line), "no line `{line}` in\n{text}");
}

#[test]
fn every_name_is_there_with_its_labels() {
    let text = filled().render();
    for line in [
        r#"plimsoll_requests_total{model="tiny",outcome="ok",route="/v1/completions"} 1"#,
        r#"plimsoll_admission_total{decision="admitted",model="tiny"} 1"#,
        r#"plimsoll_admission_total{decision="queue_full",model="tiny"} 1"#,
        r#"plimsoll_queue_seconds_count{model="tiny"} 1"#,
        r#"plimsoll_ttft_seconds_bucket{model="tiny",le="0.05"} 1"#,
        r#"plimsoll_ttft_seconds_bucket{model="tiny",le="0.02"} 0"#,
        r#"plimsoll_itl_seconds_bucket{model="tiny",le="0.01"} 1"#,
        r#"plimsoll_e2e_seconds_sum{model="tiny"} 0.4"#,
        r#"plimsoll_step_seconds_count{model="tiny"} 1"#,
        r#"plimsoll_batch_size_sum{model="tiny"} 4"#,
        r#"plimsoll_prompt_tokens_total{model="tiny"} 30"#,
        r#"plimsoll_prefix_tokens_total{model="tiny",result="computed"} 30"#,
        r#"plimsoll_prefix_tokens_total{model="tiny",result="hit"} 20"#,
        r#"plimsoll_generated_tokens_total{model="tiny"} 3"#,
        r#"plimsoll_step_panics_total{model="tiny"} 1"#,
        r#"plimsoll_queue_depth{model="tiny"} 2"#,
        r#"plimsoll_queue_limit{model="tiny"} 64"#,
        r#"plimsoll_queue_cursor{model="tiny"} 7"#,
        r#"plimsoll_running{model="tiny"} 4"#,
        r#"plimsoll_running{model="other"} 1"#,
        r#"plimsoll_kv_blocks{model="tiny",state="used"} 10"#,
        r#"plimsoll_kv_blocks{model="tiny",state="shared"} 2"#,
        r#"plimsoll_kv_blocks{model="tiny",state="cached"} 5"#,
        r#"plimsoll_kv_blocks{model="tiny",state="free"} 1"#,
        r#"plimsoll_pool_outstanding{model="tiny",pool="requests"} 6"#,
        r#"plimsoll_pool_outstanding{model="",pool="frames"} 6"#,
        r#"plimsoll_pool_high_water{model="tiny",pool="requests"} 9"#,
        r#"plimsoll_pool_misses{model="tiny",pool="requests"} 1"#,
        r#"plimsoll_build_info{version="0.1.0"} 1"#,
    ] {
        check(&text, line);
    }
}

#[test]
fn each_family_has_one_head() {
    let text = filled().render();
    let mut heads: Vec<&str> = text.lines().filter(|l| l.starts_with("# TYPE")).collect();
    let all = heads.len();
    heads.sort_unstable();
    heads.dedup();
    assert_eq!(heads.len(), all, "{text}");
}

#[test]
fn the_same_name_is_the_same_model() {
    let metrics = Metrics::new();
    assert!(Arc::ptr_eq(&metrics.model("a"), &metrics.model("a")));
    assert!(!Arc::ptr_eq(&metrics.model("a"), &metrics.model("b")));
}

#[test]
fn polls_run_before_each_rendering() {
    let metrics = Metrics::new();
    let model = metrics.model("tiny");
    let turns = std::sync::atomic::AtomicUsize::new(0);
    metrics.before_render(move || {
        model.set_running(turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1);
    });
    check(&metrics.render(), r#"plimsoll_running{model="tiny"} 1"#);
    check(&metrics.render(), r#"plimsoll_running{model="tiny"} 2"#);
}

#[test]
fn any_model_name_is_escaped() {
    let metrics = Metrics::new();
    metrics.model("a\"b\\c\nd").set_running(1);
    check(&metrics.render(), r#"plimsoll_running{model="a\"b\\c\nd"} 1"#);
}

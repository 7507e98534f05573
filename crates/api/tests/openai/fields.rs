//! Fields that chat and completions have in common.

use super::{CALLER, LIMITS, cards, chat_with, completion_with, only, refused, with};
use plimsoll_api::openai::{Caller, completion};
use plimsoll_api::service::{Priority, Prompt, Urgency};
use serde_json::{Value, json};

#[test]
fn a_lower_priority_goes_first_and_the_header_wins() {
    let cases = [
        (json!({}), None),
        (json!({"priority": null}), None),
        (json!({"priority": -5}), Some(Priority::Interactive)),
        (json!({"priority": 0}), None),
        (json!({"priority": 7}), Some(Priority::Batch)),
    ];
    for (body, expected) in cases {
        assert_eq!(only(chat_with(&body)).urgency.priority, expected, "{body}");
        assert_eq!(only(completion_with(&body)).urgency.priority, expected, "{body}");
    }
    let urgency = Urgency { priority: Some(Priority::Batch), ..CALLER.urgency };
    let body = with(json!({"prompt": "Hi"}), &json!({"priority": -1}));
    let job = completion::read(&body, &cards(), Caller { urgency, ..CALLER }, LIMITS);
    assert_eq!(only(job).urgency, urgency);
    refused(completion_with(&json!({"priority": "high"})), "priority", "");
}

#[test]
fn the_least_body_gets_the_defaults() {
    let chat = only(chat_with(&json!({})));
    assert_eq!((chat.n, chat.max_tokens, chat.tenant, chat.request_id.as_str()), (1, None, 3, "r1"));
    assert!((chat.sampling.temperature - 1.0).abs() < f32::EPSILON);
    let text = only(completion_with(&json!({})));
    assert_eq!((text.max_tokens, text.prompt), (Some(16), Prompt::Text("Hi".to_owned())));
}

#[test]
fn null_is_absent_and_unknown_is_ignored() {
    let names = [
        "model",
        "stream",
        "stream_options",
        "n",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "ignore_eos",
        "temperature",
        "top_p",
        "top_k",
        "min_p",
        "repetition_penalty",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "seed",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "functions",
        "response_format",
        "modalities",
        "chat_template_kwargs",
        "add_generation_prompt",
        "echo",
        "best_of",
        "suffix",
    ];
    for name in names {
        assert_eq!(chat_with(&json!({name: null})), chat_with(&json!({})), "{name}");
        assert_eq!(completion_with(&json!({name: null})), completion_with(&json!({})), "{name}");
    }
    assert_eq!(chat_with(&json!({"frobnicate": [1, {"a": 2}]})), chat_with(&json!({})));
}

#[test]
fn every_field_arrives() {
    let request = only(chat_with(&json!({
        "model": "tiny", "n": 2, "max_completion_tokens": 9, "stop": ["a", "b"], "ignore_eos": true,
        "temperature": 0, "top_p": 0.5, "top_k": 40, "min_p": 0.1, "repetition_penalty": 1.5, "presence_penalty": -2,
        "frequency_penalty": 2, "logit_bias": {"7": -100, "0": 3.5}, "seed": 18_446_744_073_709_551_615_u64,
        "logprobs": true, "top_logprobs": 20, "tools": [{"type": "function"}], "chat_template_kwargs": {"x": 1},
    })));
    assert_eq!((request.n, request.max_tokens, request.ignore_eos), (2, Some(9), true));
    assert_eq!(request.stop, ["a", "b"]);
    assert_eq!(request.logprobs, Some(20));
    assert_eq!(request.sampling.top_k, 40);
    assert_eq!(request.sampling.seed, Some(u64::MAX));
    assert_eq!(request.sampling.logit_bias, [(0, 3.5), (7, -100.0)]);
    let Prompt::Chat { extra, .. } = request.prompt else { panic!("chat") };
    assert_eq!(Value::Object(extra), json!({"x": 1, "tools": [{"type": "function"}]}));
}

#[test]
fn a_seed_is_any_64_bit_integer() {
    for (seed, bits) in [(json!(-1), u64::MAX), (json!(7), 7), (json!(i64::MIN), 1 << 63)] {
        assert_eq!(only(chat_with(&json!({"seed": seed}))).sampling.seed, Some(bits));
    }
}

#[test]
fn out_of_range_is_refused() {
    for (field, value, words) in [
        ("temperature", json!(2.1), "from 0 to 2, not 2.1"),
        ("temperature", json!(-0.1), "from 0 to 2"),
        ("top_p", json!(0), "above 0 and at most 1"),
        ("top_p", json!(1.01), "above 0 and at most 1"),
        ("min_p", json!(1.5), "from 0 to 1"),
        ("top_k", json!(-2), "off, not -2"),
        ("top_k", json!(5_000_000_000_u64), "off, not"),
        ("repetition_penalty", json!(0), "above 0"),
        ("presence_penalty", json!(2.5), "from -2 to 2"),
        ("frequency_penalty", json!(-3), "from -2 to 2"),
        ("n", json!(0), "from 1 to 8"),
        ("n", json!(9), "from 1 to 8"),
        ("stop", json!(vec!["x"; 17]), "at most 16"),
        ("stop[1]", json!(["x", ""]), "from 1 to 1024"),
        ("stop[0]", json!("x".repeat(1025)), "from 1 to 1024"),
        ("logit_bias.100", json!({"100": 1}), "from 0 to 99"),
        ("logit_bias.+1", json!({"+1": 1}), "from 0 to 99"),
        ("logit_bias.5", json!({"5": 101}), "from -100 to 100"),
    ] {
        let name = field.split(['[', '.']).next().unwrap();
        refused(chat_with(&json!({name: value})), field, words);
        refused(completion_with(&json!({name: value})), field, words);
    }
}

#[test]
fn a_wrong_type_is_refused_with_its_path() {
    for (more, path, words) in [
        (json!({"temperature": "hot"}), "temperature", "expected a number"),
        (json!({"stream": "yes"}), "stream", "expected true or false"),
        (json!({"n": 1.5}), "n", "expected a whole number"),
        (json!({"max_tokens": -1}), "max_tokens", "expected a whole number from 0"),
        (json!({"seed": 1.5}), "seed", "at most 64 bits"),
        (json!({"stop": 5}), "stop", "a string or an array of strings"),
        (json!({"stop": ["a", 5]}), "stop[1]", "expected a string"),
        (json!({"logit_bias": {"5": "x"}}), "logit_bias.5", "expected a number"),
        (json!({"stream_options": 1}), "stream_options", "expected an object"),
        (
            json!({"stream": true, "stream_options": {"include_usage": 1}}),
            "stream_options.include_usage",
            "true or false",
        ),
        (json!({"stream_options": {}}), "stream_options", "only allowed with"),
        (json!({"model": 1}), "model", "expected a string"),
    ] {
        refused(chat_with(&more), path, words);
        refused(completion_with(&more), path, words);
    }
}

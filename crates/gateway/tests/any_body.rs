//! Whatever is sent, the answer is an answer.

mod common;

use common::Server;
use plimsoll_testkit::service::ScriptedService;
use proptest::prelude::*;
use serde_json::Value;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..300).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let key = prop_oneof!["role", "content", "type", "text", "include_usage", "[0-9]{1,3}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_body() -> impl Strategy<Value = Value> {
    let name = prop::sample::select(vec![
        "messages",
        "prompt",
        "content",
        "tokens",
        "stream",
        "stream_options",
        "n",
        "max_tokens",
        "stop",
        "temperature",
        "top_k",
        "logit_bias",
        "seed",
        "logprobs",
        "top_logprobs",
        "tools",
        "tool_choice",
        "echo",
    ]);
    let sound = prop::sample::select(vec![
        serde_json::json!({"prompt": "a"}),
        serde_json::json!({"messages": [{"role": "user", "content": "a"}]}),
        serde_json::json!({}),
    ]);
    (sound, prop::collection::vec((name, any_json()), 0..4)).prop_map(|(mut body, fields)| {
        for (name, value) in fields {
            body[name] = value;
        }
        body
    })
}

#[test]
fn no_body_is_the_servers_fault() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let server = runtime.block_on(Server::plain(ScriptedService::saying(&["a", "b"])));
    let paths =
        prop::sample::select(vec!["/v1/chat/completions", "/v1/completions", "/tokenize", "/detokenize"]);
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) };
    proptest!(config, |(path in paths, body in any_body())| {
        let answer = runtime.block_on(server.post_json(path, &body));
        prop_assert!(answer.status.as_u16() < 500, "{}", answer.text);
        prop_assert!(answer.status.is_success() || !answer.error().1.is_empty());
    });
    assert_eq!(server.service.counts().live(), 0);
}

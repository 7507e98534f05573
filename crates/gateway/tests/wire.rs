//! The formats on the wire.

mod common;

use common::Server;
use plimsoll_api::error::{Error, Reason};
use plimsoll_gateway::GatewayConfig;
use plimsoll_testkit::service::{Script, ScriptedService, card};
use serde_json::{Value, json};
use std::time::Duration;

fn chat(more: Value) -> Value {
    with(json!({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]}), more)
}

fn text(more: Value) -> Value {
    with(json!({"model": "tiny", "prompt": "Hi"}), more)
}

fn with(mut body: Value, more: Value) -> Value {
    if let (Some(body), Value::Object(more)) = (body.as_object_mut(), more) {
        body.extend(more);
    }
    body
}

async fn check(name: &str, path: &str, body: Value) {
    let server = Server::plain(ScriptedService::saying(&["Hel", "lo", " wörld"])).await;
    let answer = server.post_json(path, &body).await;
    insta::assert_snapshot!(name, answer.snapshot());
    assert_eq!(server.service.counts().live(), 0);
}

#[tokio::test]
async fn chat_completions() {
    let path = "/v1/chat/completions";
    check("chat", path, chat(json!({}))).await;
    check("chat_n", path, chat(json!({"n": 2}))).await;
    check("chat_logprobs", path, chat(json!({"logprobs": true, "top_logprobs": 2}))).await;
    check("chat_stream", path, chat(json!({"stream": true}))).await;
    check("chat_stream_n", path, chat(json!({"stream": true, "n": 2}))).await;
    let usage = json!({"stream": true, "stream_options": {"include_usage": true}});
    check("chat_stream_usage", path, chat(usage)).await;
    check("chat_stream_logprobs", path, chat(json!({"stream": true, "logprobs": true, "top_logprobs": 1})))
        .await;
}

#[tokio::test]
async fn completions() {
    let path = "/v1/completions";
    check("text", path, text(json!({}))).await;
    check("text_logprobs", path, text(json!({"logprobs": 2}))).await;
    check("text_stream", path, text(json!({"stream": true}))).await;
    let usage = json!({"stream": true, "stream_options": {"include_usage": true}});
    check("text_stream_usage", path, text(usage)).await;
    check("text_stream_logprobs", path, text(json!({"stream": true, "logprobs": 0}))).await;
    check("text_prompts", path, text(json!({"prompt": ["a", "b"], "n": 2}))).await;
    check("text_tokens", path, text(json!({"prompt": [[1, 2], [3]]}))).await;
}

#[tokio::test]
async fn several_prompts_stream_by_prompt_and_choice() {
    let server = Server::plain(ScriptedService::saying(&["x", "y"])).await;
    let body = text(json!({"prompt": ["a", "b", "c"], "n": 2, "stream": true}));
    let answer = server.post_json("/v1/completions", &body).await;
    let mut said = vec![String::new(); 6];
    for line in answer.text.lines().filter_map(|line| line.strip_prefix("data: {")) {
        let chunk: Value = serde_json::from_str(&format!("{{{line}")).unwrap();
        let choice = &chunk["choices"][0];
        let index = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
        said[index].push_str(choice["text"].as_str().unwrap());
    }
    assert_eq!(said, vec!["xy"; 6]);
    assert!(answer.text.ends_with("data: [DONE]\n\n"));
    assert_eq!(server.service.requests().len(), 3);
}

#[tokio::test]
async fn several_prompts_are_admitted_together_or_not_at_all() {
    let service = ScriptedService::new(|request| match &request.prompt {
        plimsoll_api::service::Prompt::Text(text) if text == "c" => {
            Err(Error::new(Reason::QueueFull, "the queue is full").retry_after(Duration::from_millis(1200)))
        }
        _ => Ok(Script::saying(request, &["x"])),
    });
    let server = Server::plain(service).await;
    for stream in [false, true] {
        let body = text(json!({"prompt": ["a", "b", "c"], "stream": stream}));
        insta::assert_snapshot!("queue_full", server.post_json("/v1/completions", &body).await.snapshot());
    }
    let counts = server.service.counts();
    assert_eq!((counts.refused, counts.dropped, counts.live()), (2, 4, 0));
}

#[tokio::test]
async fn a_failure_after_the_beginning() {
    let fail =
        |request: &_| Ok(Script::failing(request, &["a"], Error::new(Reason::Engine, "a step panicked")));
    let server = Server::plain(ScriptedService::new(fail)).await;
    for (name, stream) in [("fail_whole", false), ("fail_stream", true)] {
        let answer = server.post_json("/v1/chat/completions", &chat(json!({"stream": stream}))).await;
        insta::assert_snapshot!(name, answer.snapshot());
    }
    let series =
        r#"plimsoll_requests_total{model="tiny",outcome="engine_failed",route="/v1/chat/completions"}"#;
    assert_eq!(server.metric(series), 2);
}

#[tokio::test]
async fn an_answer_without_an_end_is_a_failure() {
    let server = Server::plain(ScriptedService::new(|_| Ok(Script::new(vec![])))).await;
    let answer = server.post_json("/v1/completions", &text(json!({}))).await;
    assert_eq!(answer.error(), (500, "internal".to_owned(), None));
}

#[tokio::test]
async fn models_and_the_rest() {
    let service = ScriptedService::saying(&["x"]).with_models(vec![card("tiny"), card("org/other")]);
    let server = Server::plain(service).await;
    for (name, path) in [
        ("models", "/v1/models"),
        ("model", "/v1/models/org/other"),
        ("model_unknown", "/v1/models/huge"),
        ("health", "/health"),
        ("ping", "/ping"),
        ("nothing_there", "/v3/x"),
        ("not_get", "/v1/completions"),
    ] {
        insta::assert_snapshot!(name, server.get(path).await.snapshot());
    }
    assert_eq!(server.get("/version").await.json()["name"], "plimsoll");
    let missing = server.post_json("/v1/completions", &json!({"prompt": "a"})).await;
    insta::assert_snapshot!("model_missing", missing.snapshot());
}

#[tokio::test]
async fn tokens() {
    let server = Server::plain(ScriptedService::saying(&["x"])).await;
    for (name, path, body) in [
        ("tokenize", "/tokenize", json!({"prompt": "ab"})),
        ("tokenize_content", "/tokenize", json!({"content": "ab"})),
        ("detokenize", "/detokenize", json!({"tokens": [97, 98]})),
        ("detokenize_unknown", "/detokenize", json!({"tokens": [97, 256]})),
    ] {
        insta::assert_snapshot!(name, server.post_json(path, &body).await.snapshot());
    }
}

#[tokio::test]
async fn a_quiet_stream_gets_comments() {
    let gate = plimsoll_testkit::service::Gate::closed();
    let behind = gate.clone();
    let service = ScriptedService::new(move |request| {
        let mut script = Script::saying(request, &["x"]);
        script.acts.insert(0, plimsoll_testkit::service::Act::Wait(behind.clone()));
        Ok(script)
    });
    let config = GatewayConfig { keep_alive: Some(Duration::from_millis(5)), ..GatewayConfig::default() };
    let server = Server::start(service, config).await;
    let mut client = server.client().await;
    let body = text(json!({"stream": true})).to_string();
    let mut body = client.begin(common::post("/v1/completions", body)).await.unwrap().into_body();
    assert_eq!(common::piece(&mut body).await, ": waiting\n\n");
    gate.open(1);
    while !common::piece(&mut body).await.contains("[DONE]") {}
}

//! Bodies as a whole: their shape, their size, the model they name.

use super::{CALLER, LIMITS, cards, chat_with, only, read_chat, read_completion, refused, with};
use plimsoll_api::error::Reason;
use plimsoll_api::openai::{chat, completion};
use plimsoll_api::service::{GenerateRequest, ModelCard};
use serde_json::json;

#[test]
fn a_body_that_is_no_json_object_is_refused() {
    for (body, words) in [
        (&b""[..], "must be a JSON object"),
        (b"[]", "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b"{", "EOF"),
        (b"{\"prompt\": \"a\"} x", "trailing"),
        (b"{\"prompt\": \"\xff\"}", "not UTF-8: wrong byte at offset 12"),
        (b"{\"prompt\": \"\\ud800\"}", "hex escape"),
    ] {
        let error = read_completion(body).unwrap_err();
        assert_eq!(error.reason, Reason::InvalidRequest);
        assert!(error.message.contains(words), "{error:?}");
    }
    let deep =
        |field| format!("{{\"{field}\": {}1{}, \"prompt\": \"a\"}}", "[".repeat(50_000), "]".repeat(50_000));
    only(read_completion(deep("ignored").as_bytes()));
    assert!(read_chat(deep("tool_choice").as_bytes()).unwrap_err().message.contains("recursion limit"));
}

/// Two bytes of a body must not become eighty of memory, four million times.
#[test]
fn a_body_of_too_many_values_is_refused_unread() {
    let list = |n: usize| vec!["0"; n].join(",");
    let chat = |inside: &str| {
        format!(
            r#"{{"messages": [{{"role": "user", "content": "Hi"}}], "chat_template_kwargs": {{"x": [{inside}]}}}}"#
        )
    };
    assert!(read_chat(chat(&list(chat::MAX_VALUES - 100)).as_bytes()).is_ok());
    // A text is one value, whatever it says.
    assert!(read_chat(chat(&format!("\"\\\"{}\"", list(2 * chat::MAX_VALUES))).as_bytes()).is_ok());
    for inside in [list(chat::MAX_VALUES), vec!["[]"; chat::MAX_VALUES].join(",")] {
        let error = read_chat(chat(&inside).as_bytes()).unwrap_err();
        assert_eq!(error.reason, Reason::BodyTooLarge, "{error}");
    }
    let prompt = |n| format!(r#"{{"prompt": [{}]}}"#, list(n));
    assert!(read_completion(prompt(completion::MAX_VALUES - 1).as_bytes()).is_ok());
    let error = read_completion(prompt(completion::MAX_VALUES + 1).as_bytes()).unwrap_err();
    assert_eq!(error.reason, Reason::BodyTooLarge, "{error}");
}

#[test]
fn a_job_knows_what_it_takes() {
    let chat = |content: &str| {
        read_chat(&with(json!({"messages": [{"role": "user", "content": content}]}), &json!({})))
    };
    let (short, long) = (chat("a").unwrap().bytes(), chat(&"a".repeat(1001)).unwrap().bytes());
    assert_eq!(long - short, 1000);
    let tokens =
        |n: usize| read_completion(&with(json!({"prompt": vec![1; n]}), &json!({}))).unwrap().bytes();
    assert_eq!(tokens(50) - tokens(10), 160);
    let lists = read_completion(&with(json!({"prompt": ["a", "b"]}), &json!({}))).unwrap().bytes();
    assert!(lists > 2 * size_of::<GenerateRequest>());
}

#[test]
fn errors_quote_little() {
    let error = chat_with(&json!({"messages": "x".repeat(100_000)})).unwrap_err();
    assert!(error.message.chars().count() < 500, "{}", error.message.len());
}

#[test]
fn the_model_is_found_or_named() {
    let body = |name: &str| json!({"model": name, "prompt": "a"}).to_string().into_bytes();
    let error = read_completion(&body("huge")).unwrap_err();
    assert_eq!(
        (error.reason, error.message.as_str()),
        (Reason::ModelNotFound, "there is no model `huge`; served here: `tiny`")
    );
    let two =
        [cards(), vec![ModelCard { id: "other".to_owned(), chat: false, ..cards().remove(0) }]].concat();
    refused(
        completion::read(b"{\"prompt\": \"a\"}", &two, CALLER, LIMITS),
        "model",
        "served here: `tiny`, `other`",
    );
    refused(
        chat::read(b"{\"model\": \"other\", \"messages\": []}", &two, CALLER, LIMITS),
        "model",
        "use /v1/completions",
    );
    assert_eq!(
        completion::read(b"{\"prompt\": \"a\"}", &[], CALLER, LIMITS).unwrap_err().reason,
        Reason::Loading
    );
}

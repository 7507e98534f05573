//! What only chat has.

use super::{chat_with, completion_with, only, refused};
use plimsoll_api::service::Prompt;
use serde_json::json;

#[test]
fn chat_refuses_what_it_cannot_do() {
    for (more, path, words) in [
        (json!({"messages": null}), "messages", "missing"),
        (json!({"messages": []}), "messages", "at least one"),
        (json!({"messages": "x"}), "messages", "expected an array"),
        (json!({"messages": [1]}), "messages[0]", "expected an object"),
        (json!({"messages": [{"content": "x"}]}), "messages[0].role", "must be a string"),
        (json!({"messages": [{"role": "user"}]}), "messages[0].content", "must be a string or"),
        (json!({"messages": [{"role": "user", "content": 5}]}), "messages[0].content", "must be a string or"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}),
            "messages[0].content[0].type",
            "`image_url` is not supported",
        ),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "text"}]}]}),
            "messages[0].content[0]",
            "must be",
        ),
        (json!({"top_logprobs": 3}), "top_logprobs", "only allowed with"),
        (json!({"logprobs": true, "top_logprobs": 21}), "top_logprobs", "from 0 to 20"),
        (json!({"logprobs": 3}), "logprobs", "expected true or false"),
        (json!({"max_tokens": 3, "max_completion_tokens": 4}), "max_completion_tokens", "give one of them"),
        (json!({"response_format": {"type": "json_object"}}), "response_format.type", "only `type` is"),
        (json!({"tool_choice": "required"}), "tool_choice", "cannot be forced"),
        (json!({"tool_choice": {"type": "function"}}), "tool_choice", "cannot be forced"),
        (json!({"functions": [{}]}), "functions", "use `tools`"),
        (json!({"modalities": ["text", "audio"]}), "modalities", "only modality"),
    ] {
        refused(chat_with(&more), path, words);
    }
}

#[test]
fn parts_of_text_are_joined() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let request = only(chat_with(&json!({"messages": [{"role": "user", "content": parts, "name": "me"}]})));
    let Prompt::Chat { messages, .. } = request.prompt else { panic!("chat") };
    assert_eq!(messages, [json!({"role": "user", "content": "a\nb", "name": "me"})]);
    only(chat_with(&json!({"messages": [{"role": "assistant", "content": null, "tool_calls": []}]})));
}

#[test]
fn tools_can_be_declined() {
    let request = only(chat_with(&json!({"tools": [{"type": "function"}], "tool_choice": "none"})));
    let Prompt::Chat { extra, .. } = request.prompt else { panic!("chat") };
    assert!(extra.is_empty());
}

#[test]
fn no_tokens_at_all_is_a_request_to_score_a_text_and_never_a_chat() {
    let nothing = json!({"max_tokens": 0});
    assert_eq!(completion_with(&nothing).unwrap().requests[0].max_tokens, Some(0));
    refused(chat_with(&nothing), "max_tokens", "at least 1");
    refused(chat_with(&json!({"max_completion_tokens": 0})), "max_completion_tokens", "at least 1");
}

//! `/tokenize` and `/detokenize`.

use super::{cards, refused};
use plimsoll_api::openai::tokenize;
use serde_json::json;

#[test]
fn tokenize_speaks_two_dialects() {
    for (body, add, parse) in [
        (json!({"prompt": "a"}), true, true),
        (json!({"content": "a"}), false, true),
        (json!({"prompt": "a", "add_special_tokens": false, "parse_special": false}), false, false),
        (json!({"content": "a", "add_special": true}), true, true),
    ] {
        let request = tokenize::read_tokenize(body.to_string().as_bytes(), &cards()).unwrap();
        assert_eq!((request.add_special_tokens, request.parse_special), (add, parse), "{body}");
    }
    for (body, path, words) in [
        (json!({}), "prompt", "missing"),
        (json!({"prompt": "a", "content": "b"}), "content", "not both"),
        (json!({"messages": []}), "messages", "not supported"),
    ] {
        refused(tokenize::read_tokenize(body.to_string().as_bytes(), &cards()), path, words);
    }
    refused(tokenize::read_detokenize(b"{\"tokens\": [1, 100]}", &cards()), "tokens[1]", "from 0 to 99");
    refused(tokenize::read_detokenize(b"{\"tokens\": [-1]}", &cards()), "tokens[0]", "whole number");
}

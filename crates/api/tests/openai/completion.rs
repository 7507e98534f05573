//! What only completions have.

use super::{CALLER, LIMITS, cards, completion_with, only, refused};
use plimsoll_api::error::Reason;
use plimsoll_api::openai::completion;
use plimsoll_api::service::{ModelCard, Prompt};
use serde_json::json;

#[test]
fn prompts_come_in_four_forms() {
    for (prompt, expected) in [
        (json!("a"), vec![Prompt::Text("a".to_owned())]),
        (json!(["a", "b"]), vec![Prompt::Text("a".to_owned()), Prompt::Text("b".to_owned())]),
        (json!([1, 2]), vec![Prompt::Tokens(vec![1, 2])]),
        (json!([[1, 2], [3]]), vec![Prompt::Tokens(vec![1, 2]), Prompt::Tokens(vec![3])]),
    ] {
        let job = completion_with(&json!({"prompt": prompt, "n": 2})).unwrap();
        assert_eq!(job.n, 2);
        assert_eq!(job.requests.into_iter().map(|r| r.prompt).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn completions_refuse_what_they_cannot_do() {
    for (more, path, words) in [
        (json!({"prompt": null}), "prompt", "missing"),
        (json!({"prompt": []}), "prompt", "at least one"),
        (json!({"prompt": [[1], []]}), "prompt[1]", "no tokens"),
        (json!({"prompt": [1, "a"]}), "prompt", "a mix of forms"),
        (json!({"prompt": [1, -2]}), "prompt[1]", "a token id"),
        (json!({"prompt": [1, 100]}), "prompt[1]", "from 0 to 99"),
        (json!({"prompt": [[1], [2, 100]]}), "prompt[1][1]", "from 0 to 99"),
        (json!({"prompt": {"a": 1}}), "prompt", "a string, an array of strings"),
        (json!({"prompt": ["a", "b", "c"], "n": 3}), "prompt", "more than 8"),
        (json!({"logprobs": 21}), "logprobs", "from 0 to 20"),
        (json!({"logprobs": true}), "logprobs", "expected a whole number"),
        (json!({"best_of": 2}), "best_of", "equal to `n`"),
        (json!({"suffix": "x"}), "suffix", "not supported"),
    ] {
        refused(completion_with(&more), path, words);
    }
    only(completion_with(&json!({"best_of": 1, "suffix": "", "echo": true, "logprobs": 0})));
}

/// It could never be let in, and a client told to come back would do so for ever.
#[test]
fn a_request_larger_than_the_model_lets_in_is_refused_for_good() {
    let small = [ModelCard { choices: 3, ..cards().remove(0) }];
    let read = |body: &str| completion::read(body.as_bytes(), &small, CALLER, LIMITS);
    assert!(read(r#"{"prompt": ["a", "b", "c"]}"#).is_ok());
    for (body, param) in [
        (r#"{"prompt": ["a", "b", "c", "d"]}"#, "prompt"),
        (r#"{"prompt": ["a", "b"], "n": 2}"#, "prompt"),
        (r#"{"prompt": "a", "n": 4}"#, "n"),
    ] {
        let error = read(body).unwrap_err();
        assert_eq!((error.reason, error.param.as_deref()), (Reason::InvalidRequest, Some(param)), "{error}");
        assert!(error.message.contains('3'), "{error}");
    }
}

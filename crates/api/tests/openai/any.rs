//! Whatever comes is taken or refused, and never a panic.

use super::{cards, read_chat, read_completion};
use plimsoll_api::openai::tokenize;
use proptest::prelude::*;
use serde_json::Value;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (-3i64..30).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
        prop_oneof!["user", "text", "tiny", "none"].prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 5, |inner| {
        let key = prop_oneof!["role", "content", "type", "text", "include_usage", "[0-9]{1,3}", ".{0,4}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..5).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn any_body() -> impl Strategy<Value = Value> {
    let name = prop_oneof![
        Just("model"),
        Just("messages"),
        Just("prompt"),
        Just("stream"),
        Just("stream_options"),
        Just("n"),
        Just("max_tokens"),
        Just("max_completion_tokens"),
        Just("stop"),
        Just("temperature"),
        Just("top_p"),
        Just("top_k"),
        Just("min_p"),
        Just("repetition_penalty"),
        Just("presence_penalty"),
        Just("logit_bias"),
        Just("seed"),
        Just("logprobs"),
        Just("top_logprobs"),
        Just("tools"),
        Just("tool_choice"),
        Just("response_format"),
        Just("echo"),
        Just("best_of"),
        Just("suffix"),
        Just("tokens"),
        Just("content"),
    ];
    prop::collection::vec((name, any_json()), 0..6)
        .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

proptest! {
    #[test]
    fn any_json_is_taken_or_refused(body in any_body()) {
        let body = body.to_string().into_bytes();
        for result in [read_chat(&body), read_completion(&body)] {
            match result {
                Ok(job) => {
                    let sampling = &job.requests[0].sampling;
                    prop_assert!((0.0..=2.0).contains(&sampling.temperature));
                    prop_assert!(sampling.top_p > 0.0 && sampling.top_p <= 1.0);
                    prop_assert!(job.requests.len() * job.n as usize <= 8);
                }
                Err(error) => prop_assert!((400..500).contains(&error.reason.row().0), "{error:?}"),
            }
        }
        let _ = tokenize::read_tokenize(&body, &cards());
        let _ = tokenize::read_detokenize(&body, &cards());
    }

    #[test]
    fn any_bytes_are_taken_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(read_chat(&body).is_err());
        prop_assert!(read_completion(&body).is_err());
    }
}

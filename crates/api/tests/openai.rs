//! What a body becomes, and what it is refused with.

use plimsoll_api::error::{Error, Reason};
use plimsoll_api::openai::{Caller, Job, Limits, chat, completion, tokenize};
use plimsoll_api::service::{GenerateRequest, ModelCard, Priority, Prompt, Urgency};
use proptest::prelude::*;
use serde_json::{Value, json};

fn cards() -> Vec<ModelCard> {
    vec![ModelCard { id: "tiny".to_owned(), context: 128, vocab: 100, choices: 1024, created: 1, chat: true }]
}

const CALLER: Caller<'static> = Caller {
    request_id: "r1",
    tenant: 3,
    urgency: Urgency { priority: None, arrived: None, ttft: None, itl: None, timeout: None },
};
const LIMITS: Limits = Limits { max_choices: 8 };

fn read_chat(body: &[u8]) -> Result<Job, Error> {
    chat::read(body, &cards(), CALLER, LIMITS)
}

fn read_completion(body: &[u8]) -> Result<Job, Error> {
    completion::read(body, &cards(), CALLER, LIMITS)
}

/// The least body, with more fields in it.
fn with(least: Value, more: &Value) -> Vec<u8> {
    let mut body = least;
    for (key, value) in more.as_object().into_iter().flatten() {
        body[key] = value.clone();
    }
    body.to_string().into_bytes()
}

fn chat_with(more: &Value) -> Result<Job, Error> {
    read_chat(&with(json!({"messages": [{"role": "user", "content": "Hi"}]}), more))
}

fn completion_with(more: &Value) -> Result<Job, Error> {
    read_completion(&with(json!({"prompt": "Hi"}), more))
}

fn only(job: Result<Job, Error>) -> GenerateRequest {
    let mut job = job.expect("accepted");
    assert_eq!(job.requests.len(), 1);
    job.requests.remove(0)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(got: Result<T, Error>, param: &str, words: &str) {
    let error = got.expect_err("refused");
    assert_eq!(error.param.as_deref().unwrap_or(""), param, "{error:?}");
    assert!(error.message.contains(words), "`{words}` is not in `{}`", error.message);
}

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

#[test]
fn no_tokens_at_all_is_a_request_to_score_a_text_and_never_a_chat() {
    let nothing = json!({"max_tokens": 0});
    assert_eq!(completion_with(&nothing).unwrap().requests[0].max_tokens, Some(0));
    refused(chat_with(&nothing), "max_tokens", "at least 1");
    refused(chat_with(&json!({"max_completion_tokens": 0})), "max_completion_tokens", "at least 1");
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

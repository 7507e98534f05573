//! One request at a time: what it says, how it ends, what is refused.

mod common;

use common::{Bench, END, config, encode, request};
use plimsoll_api::error::Reason;
use plimsoll_api::service::{Finish, GenerateRequest, Prompt, Sampling, Usage};
use plimsoll_runtime::LaneConfig;
use plimsoll_testkit::engine::Script;

/// A text that is one token.
const MERGED: &str = "he";

fn usage(prompt_tokens: u32, completion_tokens: u32) -> Option<Usage> {
    Some(Usage { prompt_tokens, cached_tokens: 0, completion_tokens })
}

#[tokio::test]
async fn a_text_is_what_the_engine_says() {
    let bench = Bench::new(common::script(), config());
    for (prompt, count) in [("a", 1), ("once", 5), ("a longer prompt, over more than one block of keys", 70)]
    {
        let outcome = bench.run(request(prompt, count)).await.unwrap();
        assert_eq!(outcome.texts, [bench.alone(prompt, count as usize)], "{prompt}");
        assert_eq!(outcome.finishes, [Some(Finish::Length)]);
        assert_eq!(outcome.usage, usage(encode(prompt).len() as u32, count));
    }
    bench.assert_nothing_left();
}

#[tokio::test]
async fn an_end_token_ends_it_and_is_not_text() {
    let script = Script { end: Some((END, 9)), ..common::script() };
    let bench = Bench::new(script, config());
    for i in 0..20 {
        let prompt = format!("prompt {i}");
        let expected = bench.alone(&prompt, 50);
        let outcome = bench.run(request(&prompt, 50)).await.unwrap();
        assert_eq!(outcome.texts[0], expected);
        let by_end = expected.len() < 50;
        assert_eq!(outcome.finishes[0], Some(if by_end { Finish::Stop } else { Finish::Length }));
        let generated = expected.len() as u32 + u32::from(by_end);
        assert_eq!(outcome.usage.unwrap().completion_tokens, generated);

        let on = bench.run(GenerateRequest { ignore_eos: true, ..request(&prompt, 50) }).await.unwrap();
        assert_eq!((on.finishes[0], on.usage.unwrap().completion_tokens), (Some(Finish::Length), 50));
        assert!(on.texts[0].starts_with(&expected));
    }
    bench.assert_nothing_left();
}

#[tokio::test]
async fn a_stop_string_ends_it_and_is_not_text() {
    let bench = Bench::new(common::script(), config());
    let whole = bench.alone("stop me", 40);
    for (from, to) in [(0, 1), (3, 5), (10, 17), (37, 40)] {
        let stop = whole[from..to].to_owned();
        let expected = &whole[..whole.find(&stop).unwrap()];
        let outcome =
            bench.run(GenerateRequest { stop: vec![stop.clone()], ..request("stop me", 40) }).await.unwrap();
        assert_eq!((&*outcome.texts[0], outcome.finishes[0]), (expected, Some(Finish::Stop)), "{stop}");
    }
    let never = GenerateRequest { stop: vec!["THE END".into()], ..request("stop me", 40) };
    let outcome = bench.run(never).await.unwrap();
    assert_eq!((&outcome.texts[0], outcome.finishes[0]), (&whole, Some(Finish::Length)));
    bench.assert_nothing_left();
}

/// Neither the tokens of the stop string, nor one less than the text that was sent.
#[tokio::test]
async fn logprobs_are_of_the_text_before_the_stop_string() {
    let bench = Bench::new(common::script(), config());
    let whole = bench.alone("stop me", 40);
    for (from, to) in [(0, 1), (3, 5), (10, 17), (37, 40)] {
        let stop = vec![whole[from..to].to_owned()];
        let asked = GenerateRequest { stop, logprobs: Some(0), ..request("stop me", 40) };
        let outcome = bench.run(asked).await.unwrap();
        assert_eq!(outcome.tokens[0].iter().map(|token| &*token.text).collect::<String>(), outcome.texts[0]);
    }
    // What was held back and was no stop string in the end.
    let begun = vec![format!("{}THE END", &whole[36..])];
    let asked = GenerateRequest { stop: begun, logprobs: Some(0), ..request("stop me", 40) };
    let outcome = bench.run(asked).await.unwrap();
    assert_eq!((&outcome.texts[0], outcome.tokens[0].len()), (&whole, 40));
    // A token of which only the beginning is text counts.
    let &[merged] = &encode(MERGED)[..] else { panic!("{MERGED} is one token") };
    let sampling = Sampling { logit_bias: vec![(merged, 100.0)], ..request("", 1).sampling };
    let stop = vec![format!("{}{MERGED}", &MERGED[1..])];
    let asked = GenerateRequest { stop, sampling, logprobs: Some(0), ..request("stop me", 40) };
    let outcome = bench.run(asked).await.unwrap();
    assert_eq!((&*outcome.texts[0], outcome.tokens[0].len()), (&MERGED[..1], 1));
    bench.assert_nothing_left();
}

#[tokio::test]
async fn continuations_differ_by_seed_and_a_seed_repeats() {
    let bench = Bench::new(common::script(), config());
    let sampling = Sampling { temperature: 5.0, seed: Some(7), ..Sampling::default() };
    let asked = GenerateRequest { n: 5, sampling, ignore_eos: true, ..request("many", 20) };
    let first = bench.run(asked.clone()).await.unwrap();
    let again = bench.run(asked.clone()).await.unwrap();
    assert_eq!(first.texts, again.texts);
    assert_eq!(first.usage, usage(4, 100));
    for i in 1..5 {
        assert_ne!(first.texts[0], first.texts[i]);
    }
    let unseeded = GenerateRequest { sampling: Sampling { seed: None, ..asked.sampling.clone() }, ..asked };
    let (one, two) = (bench.run(unseeded.clone()).await.unwrap(), bench.run(unseeded).await.unwrap());
    assert_ne!(one.texts, two.texts);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn logprobs_come_with_the_text_and_echo_has_the_prompts() {
    // Fewer rows of logits than the prompt has tokens: it is reported in chunks.
    let mut script = common::script();
    script.shape.max_logits = 16;
    let bench = Bench::new(script, config());
    let prompt = "a prompt of some length, in several chunks";
    let asked = GenerateRequest { logprobs: Some(3), ..request(prompt, 6) };
    let plain = bench.run(asked.clone()).await.unwrap();
    assert_eq!(plain.tokens[0].iter().map(|t| &*t.text).collect::<String>(), plain.texts[0]);
    for token in &plain.tokens[0] {
        assert_eq!(
            (token.top[0].0, Some(token.top[0].3)),
            (token.id, token.logprob),
            "greedy takes the best"
        );
        assert!(token.top.len() == 3 && token.top.windows(2).all(|pair| pair[0].3 >= pair[1].3));
    }
    let echoed = bench.run(GenerateRequest { echo: true, n: 2, ..asked.clone() }).await.unwrap();
    for i in 0..2 {
        assert_eq!(echoed.texts[i], format!("{prompt}{}", plain.texts[0]));
        let (of_prompt, generated) = echoed.tokens[i].split_at(encode(prompt).len());
        assert_eq!(of_prompt.iter().map(|t| t.id).collect::<Vec<_>>(), encode(prompt));
        assert!(of_prompt[0].logprob.is_none() && of_prompt[1..].iter().all(|t| t.logprob.is_some()));
        assert_eq!(generated, plain.tokens[0]);
    }
    let nothing = bench.run(GenerateRequest { echo: true, max_tokens: Some(0), ..asked }).await.unwrap();
    assert_eq!((&*nothing.texts[0], nothing.tokens[0].len()), (prompt, encode(prompt).len()));
    assert_eq!(nothing.usage, usage(encode(prompt).len() as u32, 0));
    bench.assert_nothing_left();
}

#[tokio::test]
async fn what_can_never_run_is_refused_before_it_queues() {
    let bench = Bench::new(common::script(), config());
    let plain = |prompt| GenerateRequest { prompt, ..request("", 5) };
    let cases = [
        (GenerateRequest { model: "other".into(), ..request("a", 5) }, Reason::ModelNotFound, "model"),
        (request("a", 640), Reason::ContextLength, "max_tokens"),
        (
            GenerateRequest { max_tokens: None, ..request(&"ab ".repeat(400), 0) },
            Reason::ContextLength,
            "max_tokens",
        ),
        // More than every token that fits could say: known before it is cut into tokens.
        (request(&"ab ".repeat(1_000_000), 5), Reason::ContextLength, "prompt"),
        (plain(Prompt::Text(String::new())), Reason::InvalidRequest, "prompt"),
        (plain(Prompt::Tokens(vec![1, 2, 70_000])), Reason::InvalidRequest, "prompt[2]"),
        (GenerateRequest { n: 0, ..request("a", 5) }, Reason::InvalidRequest, "n"),
        (GenerateRequest { n: 100_000, ..request("a", 5) }, Reason::InvalidRequest, "n"),
    ];
    for (asked, reason, param) in cases {
        let error = bench.run(asked).await.unwrap_err();
        assert_eq!(
            (error.reason, error.param.as_deref(), error.retry_after),
            (reason, Some(param), None),
            "{error}"
        );
    }
    let fits = bench.run(request("a", 639)).await.unwrap();
    assert_eq!(fits.texts[0].len(), 639);
    let open = bench.run(GenerateRequest { max_tokens: None, ..request("a", 0) }).await.unwrap();
    assert_eq!(open.texts[0], fits.texts[0]);
    bench.assert_nothing_left();
}

#[tokio::test]
async fn long_prompts_are_cut_elsewhere_and_say_the_same() {
    let bench = Bench::new(common::script(), LaneConfig { inline_bytes: 10, ..config() });
    let prompt = "some words beyond ten bytes";
    let outcome = bench.run(request(prompt, 12)).await.unwrap();
    assert_eq!(outcome.texts[0], bench.alone(prompt, 12));
    bench.assert_nothing_left();
}

#[test]
fn a_warm_up_leaves_no_trace() {
    let bench = Bench::new(common::script(), LaneConfig::default());
    let outcome = tokio::runtime::Runtime::new().unwrap().block_on(bench.run(request("warm", 9))).unwrap();
    assert_eq!(outcome.texts[0], bench.alone("warm", 9));
    bench.assert_nothing_left();
}

#[tokio::test]
async fn the_engine_is_told_of_the_next_steps_tokens() {
    let bench = Bench::new(common::script(), config());
    let answer = bench.run(GenerateRequest { ignore_eos: true, ..request("short", 20) }).await.unwrap();
    assert_eq!(answer.usage, usage(5, 20));
    let touched = || bench.observed.touched.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(touched(), 19, "the last one is in no step");
    // Of a prompt in several chunks, those that follow a chunk as well.
    let rows = bench.script.shape.max_rows;
    bench.run(GenerateRequest { ignore_eos: true, ..request(&"x".repeat(rows + 10), 1) }).await.unwrap();
    assert!(touched() >= 19 + 10, "{} tokens", touched());
}

//! What a client finds out about a server before the run.

mod scripted;

use plimsoll_load::prompts::CalibratedBy;
use plimsoll_load::target::Target;
use plimsoll_load::{Client, ClientOptions};
use scripted::{Act, Asked, STREAM, beside, connect, done, options, plain, prompt_words, text, whole};

#[test]
fn a_server_that_counts() {
    let client = beside(whole, async |target| connect(target).await.unwrap());
    assert_eq!(client.model(), "m");
    assert!(client.dialect().ignore_eos && client.dialect().usage);
    let calibration = client.calibration();
    assert_eq!(
        (calibration.overhead, calibration.per_word, calibration.by),
        (10.0, 1.0, CalibratedBy::Usage)
    );
}

/// Answers without usage; refuses the fields in `unknown` as strict servers do.
fn strict(unknown: &'static [&'static str], tokenizes: bool) -> impl Fn(&Asked) -> Vec<Act> {
    move |asked| {
        if asked.path == "/tokenize" {
            let words = asked.body["prompt"].as_str().map_or(0, |text| text.split(' ').count());
            let count = serde_json::json!({"count": words * 2});
            let found = tokenizes && words > 0;
            return if found {
                plain("200 OK", "", &count.to_string())
            } else {
                plain("404 Not Found", "", "")
            };
        }
        if let Some(name) = unknown.iter().find(|&&name| asked.body.get(name).is_some()) {
            let body = format!(r#"{{"error":{{"message":"{name} is not known"}}}}"#);
            return plain("400 Bad Request", "", &body);
        }
        let mut acts = vec![Act::Send(STREAM.to_owned()), text("a"), text("b")];
        acts.extend(done());
        acts
    }
}

#[test]
fn servers_that_know_less() {
    let none: &[&str] = &[];
    let cases = [
        (none, true, (true, true), CalibratedBy::Tokenize),
        (none, false, (true, true), CalibratedBy::Assumed),
        (&["ignore_eos"], false, (false, true), CalibratedBy::Assumed),
        (&["stream_options"], false, (true, false), CalibratedBy::Assumed),
        (&["ignore_eos", "stream_options"], true, (false, false), CalibratedBy::Tokenize),
    ];
    for (unknown, tokenizes, (ignore_eos, usage), by) in cases {
        let client = beside(strict(unknown, tokenizes), async |target| connect(target).await.unwrap());
        assert_eq!((client.dialect().ignore_eos, client.dialect().usage), (ignore_eos, usage), "{unknown:?}");
        assert_eq!(client.calibration().by, by, "{unknown:?} {tokenizes}");
    }
}

#[track_caller]
fn refused(handler: impl Fn(&Asked) -> Vec<Act> + 'static, model: Option<&str>, says: &[&str]) {
    let model = model.map(str::to_owned);
    let error =
        beside(handler, async |target| Client::connect(ClientOptions { model, ..options(target) }).await);
    let Err(error) = error else { panic!("it was taken") };
    let error = error.to_string();
    assert!(says.iter().all(|words| error.contains(words)), "{error}");
}

#[test]
fn what_cannot_work_is_said_before_the_run() {
    refused(whole, Some("other"), &["has no model `other`", "it has m"]);
    let always =
        |status: &'static str| move |_: &Asked| plain(status, "", r#"{"error":{"message":"because"}}"#);
    refused(always("401 Unauthorized"), None, &["/v1/chat/completions", "401 because"]);
    refused(always("429 Too Many Requests"), None, &["429 because", "idle before a run"]);
    refused(always("400 Bad Request"), None, &["400 because"]);
    refused(|_| vec![Act::Cut], None, &["does not take the request"]);
}

#[test]
fn the_first_complaint_counts() {
    let complain = |asked: &Asked| {
        let what = if asked.body.get("ignore_eos").is_some() { "no chat template" } else { "something else" };
        plain("400 Bad Request", "", &format!(r#"{{"error":{{"message":"{what}"}}}}"#))
    };
    refused(complain, None, &["no chat template"]);
}

#[test]
fn nobody_there() {
    let error = beside(whole, async |_| {
        // A port that was free a moment ago.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        drop(listener);
        connect(Target::parse(&address).unwrap()).await.unwrap_err()
    });
    let error = error.to_string();
    assert!(error.contains("cannot be reached") && error.contains("is the server running there?"), "{error}");
}

#[test]
fn headers_and_prefix_are_sent() {
    let handler = |asked: &Asked| {
        assert!(asked.head.contains("authorization: bearer key"), "{}", asked.head);
        assert!(prompt_words(asked) > 0);
        whole(asked)
    };
    beside(handler, async |target| {
        let authorization = plimsoll_load::HeaderValue::from_static("Bearer key");
        let headers = vec![(plimsoll_load::HeaderName::from_static("authorization"), authorization)];
        Client::connect(ClientOptions { headers, ..options(target) }).await.unwrap();
    });
}

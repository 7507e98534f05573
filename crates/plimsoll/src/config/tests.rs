use super::keys::ModelKeys;
use super::*;
use std::io::Write;

fn wanted(models: &[&str], engine: EngineKeys, file: &str) -> (Wanted, tempfile::NamedTempFile) {
    let mut on_disk = tempfile::NamedTempFile::new().unwrap();
    on_disk.write_all(file.as_bytes()).unwrap();
    let models = models.iter().map(|name| (*name).to_owned()).collect();
    (Wanted { models, engine, file: Some(on_disk.path().to_owned()) }, on_disk)
}

fn config(models: &[&str], engine: EngineKeys, server: ServerKeys, file: &str) -> anyhow::Result<Server> {
    let (wanted, _on_disk) = wanted(models, engine, file);
    super::server(&wanted, server)
}

#[test]
fn defaults() {
    let config = config(&["smollm2"], EngineKeys::default(), ServerKeys::default(), "").unwrap();
    assert_eq!(config.http.to_string(), DEFAULT_HTTP);
    assert_eq!(config.admin.to_string(), DEFAULT_ADMIN);
    assert_eq!(
        config.compute,
        Compute { threads: None, kernel: Kernel::Auto, prefetch: Prefetch::default() }
    );
    assert_eq!((config.models[0].max_seqs, config.models[0].queue), (16, 256));
    assert_eq!(config.models[0].ctx, None);
    assert!(config.api_keys.is_empty());
}

#[test]
fn what_is_asked_for_early_is_named() {
    let check = |file: &str| {
        let config = config(&["smollm2"], EngineKeys::default(), ServerKeys::default(), file)?;
        let Prefetch { panels, kv, embeddings } = config.compute.prefetch;
        anyhow::Ok(([panels, kv, embeddings], config.models[0].parking.ahead > 0))
    };
    let cases = [
        ("", ([true, true, false], true)),
        ("[server]\nprefetch = ['none']", ([false; 3], false)),
        ("[server]\nprefetch = ['kv', 'parked']", ([false, true, false], true)),
        ("[server]\nprefetch = ['panels']", ([true, false, false], false)),
        ("[server]\nprefetch = ['embeddings']", ([false, false, true], false)),
    ];
    for (file, expected) in cases {
        assert_eq!(check(file).unwrap(), expected, "{file}");
    }
    let error = check("[server]\nprefetch = ['none', 'kv']").unwrap_err();
    assert!(error.to_string().contains("`none` stands alone"), "{error}");
}

#[test]
fn a_flag_wins_over_the_model_and_that_over_the_server() {
    let file = "[server]\nqueue = 3\nmax_seqs = 3\nctx = 300\nhttp = ':1'\nadmin = ':2'\n\
                [[model]]\nsource = 'smollm2'\nmax_seqs = 2\nctx = 200";
    let flags = EngineKeys { ctx: Some(100), ..EngineKeys::default() };
    let server = ServerKeys { http: Some(":9".into()), ..ServerKeys::default() };
    let config = config(&[], flags, server, file).unwrap();
    let model = &config.models[0];
    assert_eq!((model.ctx, model.max_seqs, model.queue), (Some(100), 2, 3));
    assert_eq!((config.http.port, config.admin.port), (9, 2));
}

#[test]
fn the_nearest_promise_counts() {
    let file = "[server]\nslo = ['ttft=4s', 'b:ttft=3s']\n\
                [[model]]\nname = 'a'\nsource = 'smollm2'\nslo = { ttft = '2s' }\n\
                [[model]]\nname = 'b'\nsource = 'smollm2'\n[[model]]\nname = 'c'\nsource = 'smollm2'";
    let ttfts = |slo: &[&str]| {
        let slo = Some(slo.iter().map(|text| text.parse().unwrap()).collect());
        let flags = EngineKeys { slo, ..EngineKeys::default() };
        let config = config(&[], flags, ServerKeys::default(), file).unwrap();
        config.models.iter().map(|model| model.promise.ttft.unwrap().as_secs()).collect::<Vec<_>>()
    };
    assert_eq!(ttfts(&[]), [2, 3, 4]);
    assert_eq!(ttfts(&["a:ttft=1s"]), [1, 3, 4]);
    assert_eq!(ttfts(&["ttft=9s"]), [2, 3, 9]);
    let flags = EngineKeys { slo: Some(vec!["d:ttft=1s".parse().unwrap()]), ..EngineKeys::default() };
    let error = config(&[], flags, ServerKeys::default(), file).unwrap_err().to_string();
    assert_eq!(error, "slo: there is no model `d`; served are a, b, c");
}

#[test]
fn a_promise_is_given_once() {
    let cases = [
        ("slo = ['ttft=1s', 'itl=60ms']", "slo: what all models promise stands there twice"),
        ("slo = ['smollm2:ttft=1s', 'ttft=2s', 'smollm2:itl=1s']", "slo: `smollm2` stands there twice"),
    ];
    for (list, says) in cases {
        let file = format!("[server]\n{list}\n[[model]]\nsource = 'smollm2'");
        let error = config(&[], EngineKeys::default(), ServerKeys::default(), &file).unwrap_err().to_string();
        assert!(error.starts_with(says), "{error}");
    }
    let slo = Some(vec!["ttft=1s".parse().unwrap(), "ttft=2s".parse().unwrap()]);
    let flags = EngineKeys { slo, ..EngineKeys::default() };
    assert!(config(&["smollm2"], flags, ServerKeys::default(), "").is_err());
}

#[test]
fn every_value_is_in_range() {
    let cases = [
        ("[server]\nmax_seqs = 0", "max_seqs = 0 is out of range; it must be from 1 to 1024"),
        ("[server]\nqueue = 100000", "queue = 100000 is out of range; it must be from 1 to 65536"),
        ("[server]\nctx = 1", "ctx = 1 is out of range"),
        ("[server]\nthreads = 0", "threads = 0 is out of range"),
        ("[server]\nkv_memory = '1KiB'", "kv_memory = 1 KiB is out of range"),
        ("[server]\nbody_limit = '1B'", "body_limit = 1 B is out of range"),
        ("[server]\ndrain = '25h'", "drain = 90000s is out of range; it must be from 0ns to 86400s"),
        ("[server]\nhttp = 'here'", "http = `here` is no address; write HOST:PORT, such as 127.0.0.1:8000"),
        ("[server]\nadmin = 'a:70000'", "admin = `a:70000` is no address"),
        ("[server]\napi_key = ['']", "api_key: a key is empty"),
        ("[server]\napi_key = ['a', 'b', 'a']", "api_key: number 3 is there already"),
        ("[[key]]\nkey = ''", "api_key: a key is empty"),
        ("[[key]]\nkey = 'a'\nmax_in_flight = 0", "key.max_in_flight = 0 is out of range"),
        ("[server]\napi_key = ['a']\n[[key]]\nkey = 'a'", "key: number 1 is there already"),
    ];
    for (file, message) in cases {
        let error = config(&["smollm2"], EngineKeys::default(), ServerKeys::default(), file).unwrap_err();
        assert!(format!("{error:#}").contains(message), "{file}\nsays {error:#}");
    }
}

#[test]
fn experiments_go_to_the_models_they_name() {
    let file = "[[model]]\nname = 'a'\nsource = 'smollm2'\n[[model]]\nname = 'b'\nsource = 'smollm2'\n\
                [[experiment]]\nname = 'queue'\nmodel = 'b'\nvary = 'queue_policy'\nseed = 3\nblock = '10s'\n\
                arms = [{ value = 'little' }, { value = 'band', weight = 2 }]\n\
                [[experiment]]\nname = 'class'\nvary = 'priority'\nmeasure = 'ttft'\n\
                arms = [{ value = 'standard' }, { value = 'batch', name = 'patient' }]";
    let config = config(&[], EngineKeys::default(), ServerKeys::default(), file).unwrap();
    let names = |model: &Model| model.experiments.iter().map(|e| e.design.name.clone()).collect::<Vec<_>>();
    assert_eq!(config.models.iter().map(names).collect::<Vec<_>>(), [vec!["class"], vec!["queue", "class"]]);
    let [queue, class] = &config.models[1].experiments[..] else { panic!("two are set") };
    assert_eq!(queue.vary, plimsoll_runtime::Vary::QueuePolicy(vec![QueuePolicy::Little, QueuePolicy::Band]));
    assert_eq!((queue.design.wash_out, queue.design.arms[1].weight), (Duration::from_secs(2), 2));
    assert_eq!(
        (queue.design.measure, class.design.measure),
        (plimsoll_runtime::Measure::Goodput, plimsoll_runtime::Measure::Ttft)
    );
    assert_eq!(class.design.arms[1].name, "patient");
}

#[test]
fn an_experiment_that_cannot_be_done_is_refused() {
    let queue = "name = 'q'\nvary = 'queue_policy'\narms = [{ value = 'little' }, { value = 'fixed' }]";
    let arms = |vary: &str, a: &str, b: &str| {
        format!("name = 'e'\nvary = '{vary}'\narms = [{{ value = '{a}' }}, {{ value = '{b}' }}]")
    };
    let cases = [
        (arms("queue_policy", "little", "lifo"), "experiment `e`: there is no queue policy `lifo`"),
        (
            arms("batch", "a", "b"),
            "experiment `e`: nothing that is called `batch` can vary; what can is queue_policy",
        ),
        (arms("prefetch", "on", "yes"), "experiment `e`: `yes` is neither on nor off"),
        (arms("step_budget", "50ms", "2s"), "experiment `e`: step_budget = 2s is out of range"),
        (arms("priority", "standard", "vip"), "experiment `e`: there is no class `vip`"),
        (arms("expected_output", "64", "0"), "experiment `e`: expected_output = 0 is out of range"),
        (arms("prefix_cache", "on", "on"), "experiment `e`: two of its arms are called `on`"),
        (
            arms("prefix_cache", "on", "off") + "\nwash_out = '1s'",
            "experiment `e`: each request has its own prefix_cache",
        ),
        (
            arms("prefix_cache", "on", "off") + "\nmeasure = 'goodput'",
            "experiment `e`: `goodput` says nothing",
        ),
        ("name = 'e'\nvary = 'prefetch'".into(), "experiment `e`: it has 0 arms; it must have 2 to 16"),
        (
            queue.replace("'fixed' }", "'fixed', weight = 0 }"),
            "experiment `q`: the weight of its arm `fixed` is 0",
        ),
        (
            format!("{queue}\nblock = '4s'\nwash_out = '2s'"),
            "experiment `q`: its wash-out of 2s leaves nothing",
        ),
        (format!("{queue}\nblock = '10ms'"), "experiment `q`: its blocks are 10ms long"),
        (
            format!("{queue}\nmodel = 'other'"),
            "experiment `q`: there is no model `other`; served are smollm2",
        ),
        (format!("{queue}\n[[experiment]]\n{queue}"), "two experiments are called `q`"),
        (
            format!("{queue}\n[[experiment]]\n{}", queue.replace("'q'", "'r'")),
            "experiment `r`: `q` varies the queue_policy of model `smollm2`, too",
        ),
        (queue.replace("name = 'q'", "seed = 1"), "an [[experiment]] needs a `name`"),
        (
            format!("{}\n[server]\npark_memory = '0B'", arms("prefetch", "on", "off")),
            "experiment `e`: model `smollm2` has no park_memory",
        ),
    ];
    for (experiment, message) in cases {
        let file = format!("[[experiment]]\n{experiment}");
        let error = config(&["smollm2"], EngineKeys::default(), ServerKeys::default(), &file).unwrap_err();
        let text = format!("{error:#}");
        assert!(text.starts_with(message), "{file}\nsays {text}");
    }
}

#[test]
fn a_server_needs_a_model() {
    let error = config(&[], EngineKeys::default(), ServerKeys::default(), "").unwrap_err();
    assert!(error.to_string().contains("plimsoll serve smollm2"), "{error}");
}

#[test]
fn addresses() {
    let cases = [
        ("8000", "127.0.0.1:8000"),
        (":8000", "127.0.0.1:8000"),
        ("localhost:0", "localhost:0"),
        ("0.0.0.0:80", "0.0.0.0:80"),
        ("[::1]:80", "[::1]:80"),
    ];
    for (text, shown) in cases {
        assert_eq!(address("http", text).unwrap().to_string(), shown, "{text}");
    }
}

#[test]
fn the_documents_example_is_true() {
    let document = include_str!("../../../../docs/configuration.md");
    let (_, rest) = document.split_once("```toml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let config = config(&[], EngineKeys::default(), ServerKeys::default(), example).unwrap();
    assert_eq!(config.models.len(), 2);
}

#[test]
fn the_document_explains_every_key() {
    let document = include_str!("../../../../docs/configuration.md");
    for key in file::server_keys() {
        let row = format!("| `{key}` | `--{}` | `PLIMSOLL_", key.replace('_', "-"));
        assert!(document.contains(&row), "docs/configuration.md lacks a row that starts {row}");
    }
}

#[test]
fn a_missing_file_is_an_error_when_it_was_named() {
    let wanted = Wanted { file: Some("no-such.toml".into()), ..Wanted::default() };
    let error = single(&wanted).unwrap_err();
    assert!(error.to_string().starts_with("cannot read the configuration file no-such.toml"), "{error}");
    assert!(ModelKeys::default().engine() == EngineKeys::default());
}

#[test]
fn keys_have_limits() {
    let file = "[server]\napi_key = ['a']\n[[key]]\nkey = 'b'\npriority = 'batch'\nleast_ttft = '300ms'\nleast_itl = '30ms'\n\
                least_timeout = '2s'\nmax_in_flight = 4\n[[key]]\nkey = 'c'";
    let config = config(&["smollm2"], EngineKeys::default(), ServerKeys::default(), file).unwrap();
    assert_eq!(config.api_keys, ["a".into(), "b".into(), "c".into()]);
    let model = &config.models[0];
    let ms = Duration::from_millis;
    let class = plimsoll_runtime::Class::Batch;
    let limited = TenantLimits {
        class,
        least_ttft: ms(300),
        least_itl: ms(30),
        least_timeout: ms(2000),
        in_flight: Some(4),
    };
    let none = TenantLimits::default();
    assert_eq!((model.tenants, &model.tenant_limits[..]), (3, &[none, limited, none][..]));
}

//! `plimsoll.toml`: text to keys. An unknown key is an error that names the nearest known one.

use super::experiments::{EXPERIMENT_KEYS, ExperimentKeys};
use super::keys::{EngineKeys, MODEL_KEYS, ModelKeys, PLANNED_KEYS, ServerKeys, TENANT_KEYS, TenantKeys};
use anyhow::{Context, anyhow, bail};
use clap::Args;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::path::Path;
use toml::Table;

/// What a file says.
#[derive(Debug, Default, PartialEq)]
pub struct File {
    pub server: ServerKeys,
    pub engine: EngineKeys,
    pub models: Vec<ModelKeys>,
    pub experiments: Vec<ExperimentKeys>,
    pub keys: Vec<TenantKeys>,
}

/// One section read as `T`; keys of another reader of the same section are left to it.
#[derive(Deserialize)]
#[serde(default)]
struct Section<T> {
    server: T,
    model: Vec<ModelKeys>,
    experiment: Vec<ExperimentKeys>,
    key: Vec<TenantKeys>,
}

impl<T: Default> Default for Section<T> {
    fn default() -> Self {
        Self { server: T::default(), model: Vec::new(), experiment: Vec::new(), key: Vec::new() }
    }
}

impl File {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let table: Table = text.parse().map_err(|error| at_line(text, &error))?;
        check_keys(&table)?;
        let engine: Section<EngineKeys> = section(text)?;
        let server: Section<ServerKeys> = section(text)?;
        let Section { server: lanes, model: models, experiment: experiments, key: keys } = engine;
        Ok(Self { server: server.server, engine: lanes, models, experiments, keys })
    }
}

fn section<T: DeserializeOwned + Default>(text: &str) -> anyhow::Result<Section<T>> {
    toml::from_str(text).map_err(|error| at_line(text, &error))
}

/// The parser's message on one line, with the line it is about.
pub fn at_line(text: &str, error: &toml::de::Error) -> anyhow::Error {
    let message = plain(&error.message().replace('\n', " "));
    match error.span() {
        Some(span) => anyhow!("line {}: {message}", text[..span.start].matches('\n').count() + 1),
        None => anyhow!("{message}"),
    }
}

/// What the parser expected, in words of the file instead of the program's.
fn plain(message: &str) -> String {
    const WORDS: [(&str, &str); 6] = [
        ("usize", "a whole number, 0 or more"),
        ("u64", "a whole number, 0 or more"),
        ("u32", "a whole number, 0 or more"),
        ("f64", "a number"),
        ("a sequence", "a list in square brackets"),
        ("struct Slo", "a table, such as { ttft = \"500ms\", itl = \"60ms\" }"),
    ];
    let spelled = message.rsplit_once("expected ").and_then(|(before, expected)| {
        let (_, words) = WORDS.iter().find(|(rust, _)| *rust == expected)?;
        Some(format!("{before}expected {words}"))
    });
    spelled.unwrap_or_else(|| message.to_owned())
}

fn check_keys(table: &Table) -> anyhow::Result<()> {
    known("", table, &["server", "model", "experiment", "key"])?;
    if let Some(server) = table.get("server").and_then(toml::Value::as_table) {
        let keys = server_keys();
        known("server.", server, &keys.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    for (section, keys) in
        [("model", MODEL_KEYS.as_slice()), ("experiment", &EXPERIMENT_KEYS), ("key", &TENANT_KEYS)]
    {
        if table.get(section).is_some_and(toml::Value::is_table) {
            bail!("`[{section}]` is one of a list, even if it is alone: write `[[{section}]]`");
        }
        for one in table.get(section).and_then(toml::Value::as_array).into_iter().flatten() {
            known(&format!("{section}."), one.as_table().unwrap_or(&Table::new()), keys)?;
        }
    }
    Ok(())
}

/// Every flag that is a key: the flags are made from the same fields.
pub fn server_keys() -> Vec<String> {
    let command = ServerKeys::augment_args(EngineKeys::augment_args(clap::Command::new("keys")));
    command.get_arguments().map(|arg| arg.get_id().to_string()).collect()
}

fn known(section: &str, table: &Table, keys: &[&str]) -> anyhow::Result<()> {
    let Some(key) = table.keys().find(|key| !keys.contains(&key.as_str())) else { return Ok(()) };
    if let Some((_, message)) = PLANNED_KEYS.iter().find(|(planned, _)| planned == key) {
        bail!("`{section}{key}`: {message}");
    }
    match nearest(key, keys) {
        Some(near) => bail!("unknown key `{section}{key}`; did you mean `{section}{near}`?"),
        None => bail!("unknown key `{section}{key}`; the keys here are {}", keys.join(", ")),
    }
}

/// The key that is meant by `key`, if one is near enough to be.
fn nearest<'a>(key: &str, keys: &[&'a str]) -> Option<&'a str> {
    let near = keys.iter().map(|known| (strsim::jaro_winkler(&key.replace('-', "_"), known), *known));
    near.filter(|(likeness, _)| *likeness > 0.75).max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::units::Size;

    #[test]
    fn reads_both_sections() {
        let text = r#"
            [server]
            http = "127.0.0.1:9000"
            api_key = ["a", "b"]
            threads = 2
            kernel = "avx2"
            [[model]]
            name = "small"
            source = "smollm2"
            kv_memory = "64MiB"
        "#;
        let file = File::parse(text).unwrap();
        assert_eq!(file.server.http.as_deref(), Some("127.0.0.1:9000"));
        assert_eq!(file.server.api_key, Some(vec!["a".into(), "b".into()]));
        assert_eq!(file.engine.threads, Some(2));
        assert_eq!(file.models[0].kv_memory, Some(Size(64 << 20)));
        assert_eq!(File::parse("").unwrap(), File::default());
    }

    #[test]
    fn refuses_and_says_what_would_be_right() {
        let cases = [
            ("[server]\nhtpp = 'x'", "unknown key `server.htpp`; did you mean `server.http`?"),
            ("[server]\nmax-seqs = 3", "unknown key `server.max-seqs`; did you mean `server.max_seqs`?"),
            ("[servr]", "unknown key `servr`; did you mean `server`?"),
            ("[[model]]\nsouce = 'x'", "unknown key `model.souce`; did you mean `model.source`?"),
            (
                "[[model]]\nzzz = 'x'",
                "unknown key `model.zzz`; the keys here are name, source, ctx, max_seqs, kv_memory, kv_type, queue, slo, profile",
            ),
            (
                "[[key]]\nkey = 'a'\nprority = 'batch'",
                "unknown key `key.prority`; did you mean `key.priority`?",
            ),
            ("[[key]]\npriority = 'batch'", "line 1: missing field `key`"),
            ("[[model]]\nslo = { tpot = '1ms' }", "line 2: unknown field `tpot`, expected one of `ttft`"),
            (
                "[server]\ngrpc = ':8001'",
                "`server.grpc`: gRPC is not served yet; remove it and use the HTTP API",
            ),
            (
                "\n[server]\nthreads = 'two'",
                "line 3: invalid type: string \"two\", expected a whole number, 0 or more",
            ),
            (
                "[[model]]\nctx = -5",
                "line 2: invalid value: integer `-5`, expected a whole number, 0 or more",
            ),
            (
                "[server]\ndrain = 30",
                "line 2: invalid type: integer `30`, expected a duration with its unit in quotes",
            ),
            (
                "[server]\nkv_memory = 64",
                "line 2: invalid type: integer `64`, expected a size with its unit in quotes",
            ),
            (
                "[server]\napi_key = 'a'",
                "line 2: invalid type: string \"a\", expected a list in square brackets",
            ),
            (
                "[[model]]\nslo = 'ttft=1s'",
                "line 2: invalid type: string \"ttft=1s\", expected a table, such as {",
            ),
            ("[model]\nname = 'a'", "`[model]` is one of a list, even if it is alone: write `[[model]]`"),
            ("[server]\nbody_limit = '3 apples'", "line 2: `3 apples` is no size; write 512MiB or 2GB"),
            ("[server]\nkernel = 'sse'", "line 2: unknown variant `sse`, expected one of"),
            ("[[experiment]]\nvery = 'x'", "unknown key `experiment.very`; did you mean `experiment.vary`?"),
            (
                "[[experiment]]\narms = [{ values = 'x' }]",
                "line 2: unknown field `values`, expected one of `value`",
            ),
            ("[server\n", "line 1: "),
            ("server = 3", "line 1: invalid type: integer `3`"),
        ];
        for (text, message) in cases {
            let error = File::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(message), "{text}\nsays {error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn the_list_of_model_keys_is_complete() {
        let every = "name = 'a'\nsource = 'b'\nctx = 1\nmax_seqs = 1\nkv_memory = '1GiB'\nkv_type = 'q8'\nqueue = 1\n\
            slo = { ttft = '1s', ttft_per_token = '1ms', itl = '1s', e2e = '1s', quantile = 0.9 }\nprofile = 'p'";
        let model: ModelKeys = toml::from_str(every).unwrap();
        let shown = format!("{model:?}");
        assert!(!shown.contains("None"), "a key of `every` is missing: {shown}");
        let keys: Vec<_> = every.lines().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(keys, MODEL_KEYS);
    }
}

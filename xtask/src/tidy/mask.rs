//! Rust source with everything that is not code blanked out, so that a keyword found in it is one.

/// `source` with comments, strings and characters replaced by spaces: same length, same lines.
pub fn mask(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut code = String::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let skipped = skip(bytes, at);
        let end = if skipped == 0 { at + 1 } else { at + skipped };
        for &byte in &bytes[at..end.min(bytes.len())] {
            let blank = skipped > 0 || !byte.is_ascii();
            code.push(if blank && byte != b'\n' { ' ' } else { char::from(byte) });
        }
        at = end;
    }
    code
}

/// Length of the comment, string or character that starts at `at`; 0 when code does.
fn skip(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()),
        b'/' if rest.starts_with(b"/*") => block_comment(rest),
        b'"' => string(rest),
        b'\'' => character(rest),
        b'r' if at == 0 || !is_word(bytes[at - 1]) || is_string_prefix(bytes, at) => raw_string(rest),
        _ => 0,
    }
}

/// Whether the `b` or `c` before a raw string's `r` is its prefix and not the end of a longer word.
fn is_string_prefix(bytes: &[u8], at: usize) -> bool {
    matches!(bytes[at - 1], b'b' | b'c') && (at == 1 || !is_word(bytes[at - 2]))
}

/// Whether `byte` may be part of an identifier.
pub fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                break;
            }
        } else {
            at += 1;
        }
    }
    at
}

fn string(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_string(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end: Vec<u8> = std::iter::once(b'"').chain(std::iter::repeat_n(b'#', hashes)).collect();
    let body = 2 + hashes;
    let found = rest[body..].windows(end.len()).position(|window| window == end);
    found.map_or(rest.len(), |position| body + position + end.len())
}

/// A character literal; 0 for a lifetime.
fn character(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        return rest
            .iter()
            .skip(3)
            .position(|&byte| byte == b'\'')
            .map_or(rest.len(), |position| position + 4);
    }
    // One character of up to four bytes, then the closing quote; a lifetime has none.
    let width = match rest.get(1) {
        Some(byte) if byte.is_ascii() => 1,
        Some(_) => rest[2..].iter().take_while(|byte| (0x80..0xc0).contains(*byte)).count() + 1,
        None => return 0,
    };
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_remains() {
        let cases = [
            ("a // x\nb", "a\nb"),
            ("a /* x /* y */ z */ b", "a b"),
            (r#"f("un\"safe")"#, "f( )"),
            (r###"f(r#"a"b"#)"###, "f( )"),
            (r#"f(b"x", br"y", c"z")"#, "f(b , b , c )"),
            ("r#type r", "r#type r"),
            ("'a' '\\'' '\\u{1F600}' 'é'", ""),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            ("var\"x\"", "var"),
            ("/* open", ""),
            ("\"open", ""),
        ];
        for (source, code) in cases {
            let masked = mask(source);
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&masked), words(code), "{source}");
            assert_eq!(masked.len(), source.len(), "{source}");
        }
    }
}

//! Vectors of the kernels stay out of closures that the standard library calls: such a closure is compiled without the
//! instruction set, and each operation in it becomes a function call (`crates/kernels/src/simd/mod.rs`).

use super::Finding;
use super::mask::mask;
use super::source::{line_of, words};

/// What takes a closure.
const TAKERS: [&str; 9] =
    ["from_fn", "map", "zip_with", "for_each", "fold", "filter_map", "flat_map", "reduce", "then"];
/// What instruction sets are called where they are parameters: kernels take `s: S` or `simd: S`.
const TOKENS: [&str; 2] = ["s", "simd"];

/// Checks one source file; `path` is relative to the repository.
pub fn check(path: &str, source: &str) -> Vec<Finding> {
    let code = mask(source);
    if !path.starts_with("crates/kernels/src/") || !code.contains("Simd") {
        return Vec::new();
    }
    let is_set = path.starts_with("crates/kernels/src/simd/") && !path.ends_with("portable.rs");
    let mut found = Vec::new();
    for taker in TAKERS {
        for at in words(&code, taker) {
            let inside = arguments(&code[at + taker.len()..]);
            let has_vectors = TOKENS.iter().any(|token| !words(inside, token).is_empty())
                || (is_set && inside.contains("_mm"));
            if inside.contains('|') && has_vectors {
                let place = format!("{path}:{}", line_of(&code, at) + 1);
                let message = format!("a vector goes through the closure of `{taker}`; write a loop");
                found.push(Finding::new(place, message));
            }
        }
    }
    found
}

/// What stands between the parentheses that `code` begins with; nothing if it begins otherwise.
fn arguments(code: &str) -> &str {
    let mut depth = 0usize;
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' if depth == 1 => return &code[1..at],
            b')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => return "",
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_stay_out_of_closures() {
        let kernel = |body: &str| format!("fn run<S: Simd>(self, s: S) {{\n    {body}\n}}");
        for (path, source, broken) in [
            ("crates/kernels/src/a.rs", kernel("let k: [S::F; 4] = from_fn(|i| s.splat(x[i]));"), 1),
            ("crates/kernels/src/a.rs", kernel("let k = k.map(|k| s.add(k, k));"), 1),
            ("crates/kernels/src/a.rs", kernel("rows.iter().for_each(|row| tile(s, row));"), 1),
            ("crates/kernels/src/a.rs", kernel("let sum = (0..4).fold(zero, |sum, i| s.add(sum, k[i]));"), 1),
            ("crates/kernels/src/a.rs", kernel("let keys: [*const u16; B] = from_fn(|b| page(b));"), 0),
            ("crates/kernels/src/a.rs", kernel("for i in 0..4 { k[i] = s.splat(x[i]); }"), 0),
            ("crates/kernels/src/a.rs", kernel("// k.map(|k| s.add(k, k))"), 0),
            ("crates/kernels/src/a.rs", "fn f(x: [u8; 2]) { x.map(|s| s + 1); }".into(), 0),
            ("crates/model/src/a.rs", kernel("let k = k.map(|k| s.add(k, k));"), 0),
            ("crates/kernels/src/simd/avx2.rs", "// Simd\nfn f() { a.map(|x| _mm256_abs_ps(x)); }".into(), 0),
            (
                "crates/kernels/src/simd/avx2.rs",
                "impl Simd for A { fn f() { a.map(|x| _mm256_x(x)); } }".into(),
                1,
            ),
        ] {
            let found = check(path, &source);
            assert_eq!(found.len(), broken, "{path}: {source}\n{found:?}");
        }
    }
}

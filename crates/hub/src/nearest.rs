//! Which known word a typed one looks like.

/// Edit distance without regard to case. Long texts are cut: this is for messages.
fn distance(a: &str, b: &str) -> usize {
    let cut = |text: &str| text.chars().take(256).collect::<String>().to_lowercase();
    strsim::levenshtein(&cut(a), &cut(b))
}

/// The known word that `typed` is a misspelling of, if one is near enough to suggest.
pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = typed.len().max(3) / 2;
    known
        .into_iter()
        .map(|word| (distance(typed, word), word))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, word)| word)
}

/// At most `limit` of `known`, the most similar to `typed` first; files of the same kind, then names, count before folders.
pub(crate) fn most_similar<'a>(
    typed: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Vec<String> {
    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let wanted = file(typed);
    let kind = |path: &str| path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let mut ranked: Vec<(bool, usize, &str)> = known
        .into_iter()
        .take(4096)
        .map(|path| {
            (kind(path) != kind(typed), distance(&wanted, &file(path)).min(distance(typed, path)), path)
        })
        .collect();
    ranked.sort();
    ranked.into_iter().take(limit).map(|(_, _, path)| path.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelled_words_find_their_neighbour() {
        let known = ["smollm2", "minilm", "minilm-int8"];
        for (typed, expected) in [
            ("smolm2", Some("smollm2")),
            ("SMOLLM2", Some("smollm2")),
            ("minilm-int", Some("minilm-int8")),
            ("llama-3-70b", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
    }

    #[test]
    fn a_right_file_in_a_wrong_folder_comes_first() {
        let known = ["pkg/__init__.py", "pkg/data/model.gguf", "pkg/cli.py", "pkg/model"];
        assert_eq!(most_similar("pkg/model.gguf", known, 1), ["pkg/data/model.gguf"]);
    }
}

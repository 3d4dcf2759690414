//! Finds the known word that a misspelled one probably means.

/// The candidate with the fewest edits from `word`, if they are at most a third of its letters (or
/// two): words that differ more are not typing errors.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    candidates
        .into_iter()
        .map(|candidate| (edits(word.as_bytes(), candidate.as_bytes()), candidate))
        .min()
        .filter(|(edits, candidate)| *edits <= (candidate.len() / 3).max(2))
        .map(|(_, candidate)| candidate)
}

/// Levenshtein distance in bytes.
fn edits(a: &[u8], b: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word() {
        let known = ["data_dir", "http_listen", "retention", "query"];
        for (word, expected) in [
            ("data-dir", Some("data_dir")),
            ("retenton", Some("retention")),
            ("qery", Some("query")),
            ("http_lisen", Some("http_listen")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
    }
}

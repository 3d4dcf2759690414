//! Words and phrases that every store must find in the same lines, however it cuts a text into
//! words.
//!
//! Stores differ in what a word is: whether `a.b` or `a_b` is one, and whether case counts. A word
//! is therefore asked for only if it has letters alone, has a space or an end of the text on both
//! sides wherever it occurs, and always has the same case. The same holds for a phrase as a whole,
//! and nothing but one space ever stands between its words.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use super::samples::{self, Sample};

/// Letters of a word at least: shorter ones are in half of all lines.
const LETTERS_MIN: usize = 4;

/// Letters of each word of a phrase at least.
const PHRASE_LETTERS_MIN: usize = 3;

/// See the module.
pub struct Vocabulary {
    /// Sorted.
    pub words: Vec<&'static str>,
    /// Two words each, sorted.
    pub phrases: Vec<String>,
}

impl Vocabulary {
    /// The vocabulary of the samples.
    pub fn get() -> &'static Vocabulary {
        static VOCABULARY: OnceLock<Vocabulary> = OnceLock::new();
        VOCABULARY.get_or_init(|| Vocabulary::of(samples::all()))
    }

    fn of(samples: &'static [Sample]) -> Vocabulary {
        let messages = || samples.iter().flat_map(|sample| &sample.messages);
        let tokens: BTreeSet<&str> = messages().flat_map(|message| message.split(' ')).collect();
        let is_plain = |token: &str| token.bytes().all(|byte| byte.is_ascii_alphabetic());
        let lower: Vec<String> = tokens.iter().map(|token| token.to_ascii_lowercase()).collect();
        let programs: Vec<&str> = samples.iter().map(|sample| sample.program).collect();
        let words: BTreeSet<&'static str> = tokens
            .iter()
            .copied()
            .filter(|token| token.len() >= LETTERS_MIN && is_plain(token))
            .filter(|word| {
                let small = word.to_ascii_lowercase();
                let within = lower.iter().filter(|token| token.contains(&small)).count();
                // Only the word itself has it.
                within == 1 && !programs.iter().any(|program| program.contains(&small))
            })
            .collect();
        Vocabulary { words: words.into_iter().collect(), phrases: phrases(samples) }
    }
}

/// Two words each, sorted.
fn phrases(samples: &[Sample]) -> Vec<String> {
    let messages = || samples.iter().flat_map(|sample| &sample.messages);
    let text: String = messages().map(|message| format!(" {message} \n")).collect();
    let small = text.to_ascii_lowercase();
    // Neighbours by what stands between them: stores skip what is not a word.
    let mut between: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for line in small.lines() {
        let mut last: Option<(&str, usize)> = None;
        let mut at = 0;
        for token in line.split(|c: char| !c.is_ascii_alphanumeric()) {
            if !token.is_empty() {
                if let Some((word, end)) = last {
                    between.entry((word, token)).or_default().insert(&line[end..at]);
                }
                last = Some((token, at + token.len()));
            }
            at += token.len() + 1;
        }
    }
    let is_word = |word: &str| {
        word.len() >= PHRASE_LETTERS_MIN && word.bytes().all(|byte| byte.is_ascii_alphabetic())
    };
    let has_one_form = |phrase: &str| {
        let mut places = small.match_indices(phrase).map(|(at, _)| at);
        let first = places.next()?;
        let form = &text[first..first + phrase.len()];
        let is_apart = |at: usize| {
            small.as_bytes()[at - 1] == b' ' && small.as_bytes()[at + phrase.len()] == b' '
        };
        let same = |at: usize| is_apart(at) && &text[at..at + phrase.len()] == form;
        (is_apart(first) && places.all(same)).then(|| form.to_owned())
    };
    let single = BTreeSet::from([" "]);
    let mut phrases: Vec<String> = between
        .iter()
        .filter(|((first, second), gaps)| is_word(first) && is_word(second) && **gaps == single)
        .filter_map(|((first, second), _)| has_one_form(&format!("{first} {second}")))
        .collect();
    phrases.sort();
    phrases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_words_and_phrases_and_all_tokenizers_agree_on_them() {
        let vocabulary = Vocabulary::get();
        assert!(vocabulary.words.len() > 150, "{}", vocabulary.words.len());
        assert!(vocabulary.phrases.len() > 100, "{}", vocabulary.phrases.len());
        for word in vocabulary.words.iter().step_by(17) {
            for message in samples::all().iter().flat_map(|sample| &sample.messages) {
                let is_word = message.split(' ').any(|token| token == *word);
                let small = word.to_ascii_lowercase();
                let found = message.to_ascii_lowercase().contains(&small);
                assert_eq!(is_word, found, "{word}: {message}");
            }
        }
        for phrase in vocabulary.phrases.iter().step_by(17) {
            let words: Vec<&str> = phrase.split(' ').collect();
            for message in samples::all().iter().flat_map(|sample| &sample.messages) {
                let tokens: Vec<&str> = message
                    .split(|c: char| !c.is_ascii_alphanumeric())
                    .filter(|token| !token.is_empty())
                    .collect();
                let in_a_row = tokens.windows(2).any(|pair| pair == words);
                assert_eq!(message.contains(phrase), in_a_row, "{phrase}: {message}");
            }
        }
    }
}

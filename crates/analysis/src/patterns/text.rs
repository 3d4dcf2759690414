//! A skeleton or template as clustering sees it: tokens, and the places that may vary.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;

use crate::patterns::lex::{Kind, Token, VARIED, tokenise};

/// A skeleton, or what became of it when places in it were found to vary.
pub(crate) struct Text {
    pub bytes: Vec<u8>,
    pub tokens: Vec<Token>,
    /// Words with letters.
    words: usize,
    /// A hash of each token.
    hashes: Vec<u64>,
    /// A hash of the tokens in front of each token and of the end.
    before: Vec<u64>,
    /// A hash of each token and those behind it, and of the end.
    from: Vec<u64>,
}

/// Part of a text that may vary as a whole, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub start: usize,
    pub end: usize,
}

impl Place {
    pub fn token(at: usize) -> Place {
        Place { start: at, end: at + 1 }
    }
}

impl Text {
    pub fn new(bytes: Vec<u8>) -> Text {
        let mut tokens = Vec::new();
        tokenise(&bytes, &mut tokens, usize::MAX);
        let words = tokens.iter().filter(|token| is_wordy(token, &bytes)).count();
        let state = FixedState::with_seed(0);
        let hash = |token: &Token| {
            let mut hasher = state.build_hasher();
            hasher.write(token.text(&bytes));
            hasher.finish()
        };
        let hashes: Vec<u64> = tokens.iter().map(hash).collect();
        let mut before = vec![0];
        for hash in &hashes {
            before.push(combine(before[before.len() - 1], *hash));
        }
        let mut from = vec![0; tokens.len() + 1];
        for at in (0..tokens.len()).rev() {
            from[at] = combine(from[at + 1], hashes[at]);
        }
        Text { bytes, tokens, words, hashes, before, from }
    }

    /// What stands at a place.
    pub fn filler(&self, place: Place) -> &[u8] {
        let end = self.tokens[place.end - 1].end as usize;
        &self.bytes[self.tokens[place.start].start as usize..end]
    }

    /// Whether the token is a word with letters, not a sign such as `-`.
    pub fn is_wordy(&self, at: usize) -> bool {
        is_wordy(&self.tokens[at], &self.bytes)
    }

    /// All that may vary: words with letters, values, dashes, and the contents of brackets and
    /// quotes.
    pub fn places(&self) -> Vec<Place> {
        let mut places = Vec::new();
        let mut open: Vec<(u8, usize)> = Vec::new();
        for (i, token) in self.tokens.iter().enumerate() {
            if token.is_value() || self.is_wordy(i) || token.text(&self.bytes) == b"-" {
                places.push(Place::token(i));
            }
            if token.kind != Kind::Mark {
                continue;
            }
            let mark = self.bytes[token.start as usize];
            if let Some(at) = open.iter().rposition(|(close, _)| *close == mark) {
                let start = open[at].1;
                open.truncate(at);
                if i > start + 1 {
                    places.push(Place { start, end: i });
                }
            } else if let Some(close) = closing(mark) {
                open.push((close, i + 1));
            }
        }
        places
    }

    /// Words with letters, without the first one of the text.
    pub fn words_behind_first(&self) -> impl Iterator<Item = usize> {
        let begins = (0..self.tokens.len()).find(|&at| self.is_content(at)).unwrap_or(0);
        (begins + 1..self.tokens.len()).filter(|&at| self.is_wordy(at))
    }

    /// The places that were found to vary, as tokens.
    pub fn varied_at(&self) -> Vec<usize> {
        let varied = |&at: &usize| self.tokens[at].text(&self.bytes) == [VARIED];
        (0..self.tokens.len()).filter(varied).collect()
    }

    /// Whether the text begins with the place.
    pub fn is_first(&self, place: Place) -> bool {
        !(0..place.start).any(|at| self.is_content(at))
    }

    fn is_content(&self, at: usize) -> bool {
        self.tokens[at].is_value() || self.is_wordy(at)
    }

    /// Number of words with letters outside the place.
    pub fn context_words(&self, place: Place) -> usize {
        self.words - (place.start..place.end).filter(|&at| self.is_wordy(at)).count()
    }

    /// The word in front of the place, if only a space is between them.
    pub fn word_before(&self, place: Place) -> &[u8] {
        match &self.tokens[..place.start] {
            [.., word, space] if space.kind == Kind::Space => word.text(&self.bytes),
            _ => &[],
        }
    }

    /// A hash of a token.
    pub fn token_hash(&self, at: usize) -> u64 {
        self.hashes[at]
    }

    /// A hash of the text around a place, and of where it is.
    pub fn context_hash(&self, place: Place) -> u64 {
        combine(combine(self.before[place.start], self.from[place.end]), place.start as u64)
    }

    /// A hash of the text without some tokens, which are in order.
    pub fn hash_without(&self, tokens: &[usize]) -> u64 {
        self.hashes.iter().enumerate().fold(0, |all, (at, hash)| {
            combine(all, if tokens.binary_search(&at).is_ok() { 0 } else { *hash })
        })
    }

    /// The text with [`VARIED`] at some places; of places within each other, the outer one counts.
    pub fn with_varied(&self, places: &[Place]) -> Vec<u8> {
        let mut places = places.to_vec();
        places.sort_unstable_by_key(|place| (place.start, usize::MAX - place.end));
        let mut out = Vec::with_capacity(self.bytes.len());
        let mut at = 0;
        for place in places {
            if place.start < at {
                continue;
            }
            self.copy(at, place.start, &mut out);
            out.push(VARIED);
            at = place.end;
        }
        self.copy(at, self.tokens.len(), &mut out);
        out
    }

    fn copy(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        if from < to {
            out.extend_from_slice(self.filler(Place { start: from, end: to }));
        }
    }
}

fn combine(all: u64, next: u64) -> u64 {
    let mut hasher = FixedState::with_seed(1).build_hasher();
    hasher.write_u64(all);
    hasher.write_u64(next);
    hasher.finish()
}

fn is_wordy(token: &Token, bytes: &[u8]) -> bool {
    let is_letter = |b: &u8| b.is_ascii_alphabetic() || !b.is_ascii();
    token.kind == Kind::Word && token.text(bytes).iter().any(is_letter)
}

fn closing(mark: u8) -> Option<u8> {
    Some(match mark {
        b'(' => b')',
        b'[' => b']',
        b'{' => b'}',
        b'<' => b'>',
        b'"' | b'\'' => mark,
        _ => return None,
    })
}

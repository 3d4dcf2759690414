//! Finds the lines of a frame that each rule may touch, in one pass over its bytes for all rules.
//!
//! Most rules select few lines by a text, or mask what few lines hold. So the payload is searched
//! once for the texts of all filters and all masks of tokens, and for digits
//! and signs where other masks need them. A line that is not found for a rule is not touched by it,
//! as long as no other rule changed the line; a line that is found may still turn out to have
//! nothing. The search is done in lower case, so that one search serves texts in any case; the case
//! is compared where something is found.
//!
//! All lines are found for rules without a text, and for masks with a pattern of one's own, whose
//! matches depend on where a line begins and ends. Lines that may hold newlines are found for all
//! rules: the payload holds the lengths of such lines in front of them.

use std::collections::BTreeMap;

use aho_corasick::packed::Searcher;
use aho_corasick::{AhoCorasick, Input, MatchKind, Span};
use memchr::memmem;
use query::RawLines;
use record::Frame;
use record::frame::HEADER_BYTES;

use super::mask::{Kind, Mask, TOKEN_TEXTS, TokenText};
use super::{Action, Rule};

/// Bytes of the payload that are put in lower case at a time: they stay in the processor's cache.
const PART_BYTES: usize = 16 << 10;
/// Texts of at least that many bytes are searched for together, those of one byte less together,
/// and shorter ones one by one: the search for several texts looks at as many bytes as the shortest
/// has, up to four, and stops in vain the more often the fewer these are.
const LONG_BYTES_MIN: usize = 4;

/// For each rule the lines that it may touch, ascending; none: all.
pub type Found = Vec<Option<Vec<u32>>>;

/// What is searched for, for the rules of a set.
#[derive(Default)]
pub struct Finder {
    /// For each rule, what finds its lines.
    searched: Vec<Searched>,
    groups: Vec<Group>,
    /// Length of the longest text.
    text_bytes_max: usize,
    /// Kinds of masks without texts, with the rules that have them.
    kinds: Vec<(Kind, Vec<usize>)>,
}

/// What finds the lines of a rule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Searched {
    /// Nothing: it may touch all lines.
    Nothing,
    /// The texts of its filter, where the origins of a frame keep texts.
    Filter,
    /// What its masks look for.
    Masks,
}

/// A text in lower case, and who looks for it, or for a text that begins with it.
struct Text {
    lower: String,
    wanted: Vec<Wanted>,
}

struct Wanted {
    text: String,
    how: TokenText,
    rule: usize,
}

/// Texts that are searched for together. None of them begins with another one, so at most one
/// begins at each place.
struct Group {
    texts: Vec<Text>,
    search: Search,
}

enum Search {
    One(memmem::Finder<'static>),
    Packed(Searcher),
    /// For more texts than that one can search for.
    Automaton(AhoCorasick),
}

impl Finder {
    /// What finds the lines of these rules.
    pub fn new(rules: &[Rule]) -> Finder {
        let mut finder = Finder::default();
        let mut wanted: Vec<Wanted> = Vec::new();
        for (rule, Rule { filter, action, texts, .. }) in rules.iter().enumerate() {
            let mut want = |text: &str, how| wanted.push(Wanted { text: text.into(), how, rule });
            let searched = match (filter, texts, action) {
                (Some(_), Some(texts), _) => {
                    let how = if texts.any_case() { TokenText::AnyCase } else { TokenText::Exact };
                    texts.texts().for_each(|text| want(text, how));
                    Searched::Filter
                }
                (None, _, Action::Mask(masks)) => {
                    let kinds: Option<Vec<Kind>> = masks.iter().map(Mask::kind).collect();
                    for kind in kinds.iter().flatten() {
                        match kind {
                            Kind::Tokens => {
                                TOKEN_TEXTS.iter().for_each(|(text, how)| want(text, *how))
                            }
                            kind => finder.add_kind(*kind, rule),
                        }
                    }
                    if kinds.is_some() { Searched::Masks } else { Searched::Nothing }
                }
                _ => Searched::Nothing,
            };
            finder.searched.push(searched);
        }
        finder.add_texts(wanted);
        finder
    }

    fn add_kind(&mut self, kind: Kind, rule: usize) {
        match self.kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, rules)) if rules.last() == Some(&rule) => {}
            Some((_, rules)) => rules.push(rule),
            None => self.kinds.push((kind, vec![rule])),
        }
    }

    fn add_texts(&mut self, wanted: Vec<Wanted>) {
        let mut by_text: BTreeMap<String, Vec<Wanted>> = BTreeMap::new();
        for wanted in wanted {
            by_text.entry(wanted.text.to_ascii_lowercase()).or_default().push(wanted);
        }
        let (mut long, mut middle, mut groups) = (Vec::new(), Vec::new(), Vec::new());
        for (lower, wanted) in by_text {
            self.text_bytes_max = self.text_bytes_max.max(lower.len());
            let text = Text { lower, wanted };
            match text.lower.len() {
                LONG_BYTES_MIN.. => add_text(&mut long, text),
                length if length + 1 == LONG_BYTES_MIN => add_text(&mut middle, text),
                _ => groups.push(vec![text]),
            }
        }
        groups.extend([long, middle].into_iter().filter(|texts| !texts.is_empty()));
        let groups: Option<Vec<Group>> = groups.into_iter().map(Group::new).collect();
        match groups {
            Some(groups) => self.groups = groups,
            None => self.searched.fill(Searched::Nothing),
        }
    }

    /// One that finds all lines for each of so many rules.
    #[cfg(test)]
    pub fn of_all_lines(rules: usize) -> Finder {
        Finder { searched: vec![Searched::Nothing; rules], ..Finder::default() }
    }

    /// The lines that each rule may touch, as they came.
    pub fn find(&self, frame: &Frame) -> Found {
        let decide = RawLines::decide(frame);
        let is_searched = |searched: &Searched| match searched {
            Searched::Nothing => None,
            Searched::Filter if !decide => None,
            Searched::Filter | Searched::Masks => Some(Vec::new()),
        };
        let mut found: Found = self.searched.iter().map(is_searched).collect();
        if found.iter().all(Option::is_none) {
            return found;
        }
        let mut lines = Lines { frame, offsets: Vec::new(), found: &mut found };
        self.find_texts(&mut lines);
        for (kind, rules) in &self.kinds {
            let payload = frame.payload();
            let mut from = 0;
            while let Some(at) = kind.next_in(payload, from) {
                let line = lines.add(at, rules.iter().copied());
                from = lines.end_of(line);
            }
        }
        let mut first = 0;
        for run in frame.runs() {
            if run.has_lengths() {
                let all = found.iter_mut().flatten();
                all.for_each(|found| found.extend(first..first + run.lines));
            }
            first += run.lines;
        }
        for found in found.iter_mut().flatten() {
            found.sort_unstable();
            found.dedup();
        }
        found
    }

    fn find_texts(&self, lines: &mut Lines<'_, '_>) {
        if self.groups.is_empty() {
            return;
        }
        let payload = lines.frame.payload();
        let mut lower = Vec::with_capacity(PART_BYTES + self.text_bytes_max);
        for begin in (0..payload.len()).step_by(PART_BYTES) {
            let end = payload.len().min(begin + PART_BYTES + self.text_bytes_max);
            lower.clear();
            lower.extend_from_slice(&payload[begin..end]);
            lower.make_ascii_lowercase();
            for group in &self.groups {
                let mut from = 0;
                // What begins behind the part is found in the next one.
                while let Some((text, at)) = group.search.next(&lower, from)
                    && at < PART_BYTES
                {
                    from = at + 1;
                    for Wanted { text, how, rule } in &group.texts[text].wanted {
                        if how.is_at(text, payload, begin + at) {
                            lines.add(begin + at, [*rule]);
                        }
                    }
                }
            }
        }
    }
}

/// Adds a text to those that stand before it in their order.
fn add_text(texts: &mut Vec<Text>, text: Text) {
    match texts.last_mut() {
        Some(last) if text.lower.starts_with(&last.lower) => last.wanted.extend(text.wanted),
        _ => texts.push(text),
    }
}

impl Group {
    /// None if an automaton for these texts would have too many states.
    fn new(texts: Vec<Text>) -> Option<Group> {
        let lower = || texts.iter().map(|text| text.lower.as_bytes());
        let search = match &texts[..] {
            [one] => Search::One(memmem::Finder::new(&one.lower).into_owned()),
            _ => match Searcher::new(lower()) {
                Some(searcher) => Search::Packed(searcher),
                None => {
                    let kind = MatchKind::LeftmostFirst;
                    let automaton = AhoCorasick::builder().match_kind(kind).build(lower());
                    Search::Automaton(automaton.ok()?)
                }
            },
        };
        Some(Group { texts, search })
    }
}

impl Search {
    /// The next place of a text at or behind `from`, with the index of the text.
    fn next(&self, payload: &[u8], from: usize) -> Option<(usize, usize)> {
        let found = match self {
            Search::One(finder) => {
                return finder.find(&payload[from..]).map(|at| (0, from + at));
            }
            Search::Packed(searcher) => searcher.find_in(payload, Span::from(from..payload.len())),
            Search::Automaton(automaton) => automaton.find(Input::new(payload).range(from..)),
        };
        found.map(|found| (found.pattern().as_usize(), found.start()))
    }
}

/// Collects lines by places in the payload.
struct Lines<'f, 'o> {
    frame: &'f Frame,
    /// Where lines begin; empty before the first one is found.
    offsets: Vec<u32>,
    found: &'o mut Found,
}

impl Lines<'_, '_> {
    /// Adds the line that holds a byte of the payload to those of some rules; returns its index.
    fn add(&mut self, at: usize, rules: impl IntoIterator<Item = usize>) -> usize {
        if self.offsets.is_empty() {
            self.offsets = self.frame.line_offsets();
        }
        let at = (HEADER_BYTES + at) as u32;
        // A table of lengths is taken for a part of the line before; lines with one are added
        // anyway.
        let line = self.offsets.partition_point(|offset| *offset <= at).saturating_sub(1);
        for rule in rules {
            if let Some(found) = &mut self.found[rule]
                && found.last() != Some(&(line as u32))
            {
                found.push(line as u32);
            }
        }
        line
    }

    /// Where the payload goes on behind a line.
    fn end_of(&self, line: usize) -> usize {
        let payload_end = self.frame.payload().len();
        self.offsets.get(line + 1).map_or(payload_end, |next| *next as usize - HEADER_BYTES)
    }
}

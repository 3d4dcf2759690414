//! Finds which words of skeletons vary, and makes templates of them.
//!
//! Evidence is always of one kind: the same text around a place, with many different words in it.
//! It counts which skeletons there are, not how often they came nor in which order.
//!
//! The cost grows with the number of skeletons times their places, not with their pairs.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use crate::patterns::lex::{VALUE, VARIED};
use crate::patterns::text::{Place, Text};

/// So many different texts at one place vary.
const FILLERS_MIN: usize = 6;
/// The same, for the first word of a message and where fewer than [`CONTEXT_WORDS_MIN`] other words
/// stand: the first word usually names the event, and where little else is said, it is the message.
const FILLERS_UNTRUSTED_MIN: usize = 24;
/// The same, for each of several places that vary at once.
const FILLERS_OF_SEVERAL_MIN: usize = 16;
/// The same, behind a word that announces a name.
const FILLERS_ANNOUNCED_MIN: usize = 2;
/// Words of a text that must stay when places in it vary.
const CONTEXT_WORDS_MIN: usize = 2;
/// Most places that are found to vary at once.
const PLACES_MAX: usize = 4;
/// Most rounds. Each can find places beside those that the one before found; what would be found
/// later stays as it is.
const ROUNDS_MAX: usize = 6;
/// Most sets of varying places that a text is compared at with templates. Texts that differ from
/// templates in other sets stay patterns of their own.
const SETS_MAX: usize = 64;

/// Whether a name follows the word.
fn announces_name(word: &[u8]) -> bool {
    let words: [&[u8]; 5] = [b"user", b"username", b"account", b"host", b"hostname"];
    words.iter().any(|announcing| word.eq_ignore_ascii_case(announcing))
}

/// Returns the template of each skeleton, in the same order.
pub(crate) fn templates<'a>(skeletons: impl Iterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    let mut current: Vec<Vec<u8>> = skeletons.map(<[u8]>::to_vec).collect();
    for _ in 0..ROUNDS_MAX {
        let mut distinct = current.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let texts: Vec<Text> = distinct.into_iter().map(Text::new).collect();
        let mut varied = single_places(&texts);
        if varied.iter().all(Vec::is_empty) {
            varied = several_places(&texts);
        }
        let mut next: HashMap<&[u8], Vec<u8>, FixedState> = HashMap::default();
        for ((text, varied), covering) in texts.iter().zip(&varied).zip(covering(&texts)) {
            if !varied.is_empty() {
                next.insert(&text.bytes, text.with_varied(varied));
            } else if let Some(template) = covering {
                next.insert(&text.bytes, template.bytes.clone());
            }
        }
        if next.is_empty() {
            break;
        }
        for text in &mut current {
            if let Some(template) = next.get(&text[..]) {
                text.clone_from(template);
            }
        }
    }
    current
}

/// Finds single places that vary: the text around them is the same. Returns those of each text.
fn single_places(texts: &[Text]) -> Vec<Vec<Place>> {
    let mut contexts: Vec<(u64, usize, Place)> = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        contexts
            .extend(text.places().into_iter().map(|place| (text.context_hash(place), i, place)));
    }
    contexts.sort_unstable();
    let mut varied = vec![Vec::new(); texts.len()];
    for group in contexts.chunk_by(|a, b| a.0 == b.0).filter(|group| group.len() > 1) {
        // Texts differ, and here in their fillers alone: there are as many as texts.
        let fillers: Vec<&[u8]> =
            group.iter().map(|&(_, i, place)| texts[i].filler(place)).collect();
        let (_, first, place) = group[0];
        let text = &texts[first];
        let context_words = text.context_words(place);
        let trusted = !text.is_first(place) && context_words >= CONTEXT_WORDS_MIN;
        let fillers_min = match trusted {
            true if announces_name(text.word_before(place)) => FILLERS_ANNOUNCED_MIN,
            true => FILLERS_MIN,
            false if context_words > 0 => FILLERS_UNTRUSTED_MIN,
            false => usize::MAX,
        };
        if fillers.len() >= fillers_min {
            group.iter().for_each(|&(_, i, place)| varied[i].push(place));
            continue;
        }
        // Fewer, but values are among them: then words at the same place are values, too.
        let is_value = |filler: &&[u8]| **filler == [VARIED] || (trusted && **filler == [VALUE]);
        let has_value = fillers.iter().any(is_value);
        for (n, &(_, i, place)) in group.iter().enumerate() {
            let is_token = place.end == place.start + 1 && fillers[n] != [VARIED];
            if is_token && (has_value || differs_in_digits(n, &fillers)) {
                varied[i].push(place);
            }
        }
    }
    varied
}

/// Whether another filler differs from this one in its digits alone: `eth0` and `eth1`.
fn differs_in_digits(n: usize, fillers: &[&[u8]]) -> bool {
    let same = |a: &u8, b: &u8| a == b || (a.is_ascii_digit() && b.is_ascii_digit());
    let filler = fillers[n];
    filler.iter().any(u8::is_ascii_digit)
        && fillers.iter().enumerate().any(|(other, text)| {
            other != n
                && text.len() == filler.len()
                && text.iter().zip(filler).all(|(a, b)| same(a, b))
        })
}

/// Finds several places that vary at once, in many texts: those of the rarest words of each text.
fn several_places(texts: &[Text]) -> Vec<Vec<Place>> {
    let words: Vec<Vec<usize>> = rarest_first(texts);
    // Texts that are the same without their rarest words, by the number of these.
    let mut contexts: Vec<(usize, u64, usize, Vec<usize>)> = Vec::new();
    for (i, text) in texts.iter().enumerate() {
        for count in 2..=PLACES_MAX.min(words[i].len().saturating_sub(CONTEXT_WORDS_MIN)) {
            let mut rarest = words[i][..count].to_vec();
            rarest.sort_unstable();
            contexts.push((count, text.hash_without(&rarest), i, rarest));
        }
    }
    contexts.sort_unstable();
    let mut varied = vec![Vec::new(); texts.len()];
    for group in contexts.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
        if group.len() < FILLERS_OF_SEVERAL_MIN {
            continue;
        }
        let all_vary = (0..group[0].0).all(|n| {
            let filler = |(_, _, i, rarest): &(usize, u64, usize, Vec<usize>)| {
                texts[*i].filler(Place::token(rarest[n]))
            };
            let mut fillers: Vec<&[u8]> = group.iter().map(filler).collect();
            fillers.sort_unstable();
            fillers.dedup();
            fillers.len() >= FILLERS_OF_SEVERAL_MIN
        });
        for (_, _, i, rarest) in group.iter().filter(|_| all_vary) {
            if varied[*i].is_empty() {
                varied[*i] = rarest.iter().map(|&at| Place::token(at)).collect();
            }
        }
    }
    varied
}

/// The words of each text without the first one, those in front that the fewest texts of the same
/// form have in the same place. None for texts whose form is rare.
fn rarest_first(texts: &[Text]) -> Vec<Vec<usize>> {
    let mut words: Vec<Vec<usize>> =
        texts.iter().map(|text| text.words_behind_first().collect()).collect();
    let forms: Vec<u64> =
        texts.iter().zip(&words).map(|(text, words)| text.hash_without(words)).collect();
    let mut sizes: HashMap<u64, usize, FixedState> = HashMap::default();
    forms.iter().for_each(|form| *sizes.entry(*form).or_default() += 1);
    let mut counts: HashMap<(u64, usize, u64), usize, FixedState> = HashMap::default();
    for ((text, words), form) in texts.iter().zip(&mut words).zip(&forms) {
        if sizes[form] < FILLERS_OF_SEVERAL_MIN {
            words.clear();
        }
        for &at in &*words {
            *counts.entry((*form, at, text.token_hash(at))).or_default() += 1;
        }
    }
    for ((text, words), form) in texts.iter().zip(&mut words).zip(&forms) {
        // Of equally rare words, the last ones: names stand behind what is said of them.
        words
            .sort_by_cached_key(|&at| (counts[&(*form, at, text.token_hash(at))], usize::MAX - at));
    }
    words
}

/// For each text, a template that is the same but for places that vary in the template.
fn covering(texts: &[Text]) -> Vec<Option<&Text>> {
    // Sets of varying places, by the number of tokens of their texts.
    let mut sets: HashMap<usize, Vec<Vec<usize>>, FixedState> = HashMap::default();
    let mut templates: HashMap<u64, &Text, FixedState> = HashMap::default();
    for text in texts {
        let places = text.varied_at();
        if !places.is_empty() {
            templates.insert(text.hash_without(&places), text);
            let known = sets.entry(text.tokens.len()).or_default();
            if known.len() < SETS_MAX && !known.contains(&places) {
                known.push(places);
            }
        }
    }
    let find = |text: &Text| {
        let own = text.varied_at();
        sets.get(&text.tokens.len())?.iter().find_map(|set| {
            let may_vary = |&at: &usize| text.tokens[at].is_value() || text.is_wordy(at);
            let fits = own.len() < set.len()
                && own.iter().all(|at| set.contains(at))
                && set.iter().all(may_vary);
            let template = fits.then(|| templates.get(&text.hash_without(set))).flatten()?;
            (template.varied_at() == *set).then_some(*template)
        })
    };
    texts.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::pattern;
    use crate::patterns::skeleton::Scratch;

    /// The different patterns of messages, sorted.
    fn patterns(messages: impl IntoIterator<Item = String>) -> Vec<String> {
        let mut scratch = Scratch::default();
        let skeletons: Vec<Vec<u8>> =
            messages.into_iter().map(|m| scratch.skeleton(m.as_bytes()).to_vec()).collect();
        let text = |t: Vec<u8>| String::from_utf8(pattern::text(&t)).unwrap();
        let mut found: Vec<String> =
            templates(skeletons.iter().map(|s| &s[..])).into_iter().map(text).collect();
        found.sort();
        found.dedup();
        found
    }

    /// Words that are no values by their form.
    fn name(n: usize) -> String {
        [n / 26 / 26 % 26, n / 26 % 26, n % 26].map(|n| (b'a' + n as u8) as char).iter().collect()
    }

    #[test]
    fn many_words_at_a_place_vary() {
        let messages = |count| (0..count).map(|n| format!("login of {} failed", name(n)));
        assert_eq!(patterns(messages(FILLERS_MIN - 1)).len(), FILLERS_MIN - 1);
        assert_eq!(patterns(messages(FILLERS_MIN)), ["login of <*> failed"]);
    }

    #[test]
    fn first_words_vary_only_if_they_are_very_many() {
        let messages = |count| (0..count).map(|n| format!("{} was started", name(n)));
        let most = FILLERS_UNTRUSTED_MIN - 1;
        assert_eq!(patterns(messages(most)).len(), most);
        assert_eq!(patterns(messages(most + 1)), ["<*> was started"]);
        // Nothing else is said.
        assert_eq!(patterns((0..100).map(name)).len(), 100);
    }

    #[test]
    fn words_vary_beside_values_and_behind_what_announces_names() {
        let check = |messages: &[&str], expected: &[&str]| {
            assert_eq!(patterns(messages.iter().map(|m| (*m).to_owned())), expected);
        };
        check(&["domain x17 is full", "domain root is full"], &["domain <*> is full"]);
        check(
            &["session of user joe ended", "session of user eve ended"],
            &["session of user <*> ended"],
        );
        check(&["link eth0 is up", "link eth1 is up", "link lan is up"], &["link <*> is up"]);
        check(&["state is up", "state is down"], &["state is down", "state is up"]);
    }

    #[test]
    fn text_in_brackets_and_quotes_varies_as_a_whole() {
        let agent = |n| vec![name(n); n % 4 + 1].join(" ");
        let messages = (0..10).map(|n| format!("request of \"{}\" was served", agent(n)));
        assert_eq!(patterns(messages), ["request of \"<*>\" was served"]);
    }

    #[test]
    fn several_places_vary_at_once() {
        let message =
            |n: usize| format!("{} gave {} to {} as usual", "eve", name(n), name(7 * n + 999));
        assert_eq!(
            patterns((0..FILLERS_OF_SEVERAL_MIN).map(message)),
            ["eve gave <*> to <*> as usual"]
        );
        assert_eq!(patterns((0..FILLERS_MIN).map(message)).len(), FILLERS_MIN);
    }

    #[test]
    fn templates_take_in_what_they_cover() {
        let mut messages: Vec<String> =
            (0..8).map(|n| format!("{} sends {} to joe now", "host", name(n))).collect();
        messages.extend((0..8).map(|n| format!("{} sends all to {} now", "host", name(n))));
        let both = messages.iter().cloned().chain(["host sends much to all now".to_owned()]);
        let found = patterns(both);
        assert!(found.len() <= 3, "{found:?}");
    }

    #[test]
    fn templates_of_templates_are_the_same() {
        let messages =
            (0..300).map(|n| format!("login of {} from {} failed", name(n), name(9 * n)));
        let mut scratch = Scratch::default();
        let skeletons: Vec<Vec<u8>> =
            messages.map(|m| scratch.skeleton(m.as_bytes()).to_vec()).collect();
        let once = templates(skeletons.iter().map(|s| &s[..]));
        assert_eq!(templates(once.iter().map(|s| &s[..])), once);
    }
}

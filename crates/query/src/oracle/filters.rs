//! Filters of the naive evaluator, and random filters.

use std::cmp::Ordering;
use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use text::duration::{DAY_NS, MINUTE_NS};
use text::time::parse_timestamp;

use super::{Row, any_name, any_number, any_word, time_of, value};
use crate::base::TimeRange;
use crate::base::number::{parse_comparable, parse_number};
use crate::{
    Comparison, DayRange, FieldComparison, Filter, Number, Pattern, PatternPlace, Recurring, Test,
    ValueKind, WeekRange,
};

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Ends of all occurrences of `phrase` in `text` at word boundaries.
fn phrase_ends(text: &[char], phrase: &[char], prefix: bool) -> Vec<usize> {
    let fits = |start: &usize| {
        let end = start + phrase.len();
        let goes_on_before = *start > 0 && is_word(phrase[0]) && is_word(text[start - 1]);
        let goes_on_behind =
            !prefix && end < text.len() && is_word(phrase[phrase.len() - 1]) && is_word(text[end]);
        text[*start..end] == *phrase && !goes_on_before && !goes_on_behind
    };
    let starts = 0..(text.len() + 1).saturating_sub(phrase.len());
    starts.filter(fits).map(|start| start + phrase.len()).collect()
}

fn contains_phrase(text: &str, phrase: &str, prefix: bool) -> bool {
    if phrase.is_empty() {
        return text.is_empty() != prefix;
    }
    let (text, phrase): (Vec<char>, Vec<char>) = (text.chars().collect(), phrase.chars().collect());
    !phrase_ends(&text, &phrase, prefix).is_empty()
}

fn passes(test: &Test, text: &str) -> bool {
    match test {
        Test::Phrase(phrase) => contains_phrase(text, phrase, false),
        Test::Prefix(phrase) => contains_phrase(text, phrase, true),
        Test::Exact(value) => text == value,
        Test::ExactPrefix(prefix) => text.starts_with(prefix.as_str()),
        Test::Substring(part) => text.contains(part.as_str()),
        Test::Regex(pattern) => {
            // A generated pattern is a word, or two words with "|" between them.
            pattern.text().split('|').any(|part| text.contains(part))
        }
        Test::AnyCasePhrase(phrase) => {
            contains_phrase(&text.to_lowercase(), &phrase.to_lowercase(), false)
        }
        Test::AnyCasePrefix(phrase) => {
            contains_phrase(&text.to_lowercase(), &phrase.to_lowercase(), true)
        }
        Test::ValueType(kind) => {
            let is_whole = |text: &str| text.parse::<i64>().is_ok_and(|n| n.to_string() == text);
            let whole = is_whole(text);
            let decimal = whole
                || text.split_once('.').is_some_and(|(before, behind)| {
                    let positive = before.strip_prefix('-').unwrap_or(before);
                    is_whole(positive)
                        && !positive.starts_with('-')
                        && !behind.is_empty()
                        && behind.chars().all(|c| c.is_ascii_digit())
                });
            let address = text.parse::<Ipv4Addr>().is_ok();
            let time = parse_timestamp(text.as_bytes()).is_some();
            match kind {
                ValueKind::Unsigned(max) => {
                    whole && text.parse::<u64>().is_ok_and(|number| number <= *max)
                }
                ValueKind::Int64 => whole,
                ValueKind::Float64 => decimal,
                ValueKind::Ipv4 => address,
                ValueKind::Iso8601 => time,
                ValueKind::Text => !text.is_empty() && !decimal && !address && !time,
            }
        }
        Test::In(values) => values.iter().any(|v| v == text),
        Test::Sequence(phrases) => {
            let text: Vec<char> = text.chars().collect();
            let mut from = 0;
            phrases.iter().filter(|p| !p.is_empty()).all(|phrase| {
                let phrase: Vec<char> = phrase.chars().collect();
                let ends = phrase_ends(&text, &phrase, false);
                let next = ends.into_iter().find(|end| end - phrase.len() >= from);
                from = next.unwrap_or(from);
                next.is_some()
            })
        }
        Test::Compare { comparison, value } => {
            let ordering = match parse_comparable(value.as_bytes()) {
                Some(number) => {
                    parse_comparable(text.as_bytes()).and_then(|n| n.partial_cmp(&number))
                }
                None => Some(text.as_bytes().cmp(value.as_bytes())),
            };
            ordering.is_some_and(|ordering| holds(*comparison, ordering))
        }
        Test::Range { low, low_inside, high, high_inside } => parse_comparable(text.as_bytes())
            .is_some_and(|n| {
                let above = if *low_inside { n >= low.value } else { n > low.value };
                above && if *high_inside { n <= high.value } else { n < high.value }
            }),
        Test::CommonCase { phrases, whole } => phrases.iter().any(|phrase| {
            let spellings = spellings(phrase);
            spellings
                .iter()
                .any(|s| if *whole { text == s } else { contains_phrase(text, s, false) })
        }),
        Test::StringRange { low, high } => text >= low.as_str() && text < high.as_str(),
        Test::Ipv4Range { low, high } => {
            text.parse::<Ipv4Addr>().is_ok_and(|address| *low <= address && address <= *high)
        }
        Test::Ipv6Range { low, high } => {
            let mapped = text.parse::<Ipv4Addr>().map(|address| address.to_ipv6_mapped());
            let address = text.parse::<Ipv6Addr>().or(mapped);
            address.is_ok_and(|address| *low <= address && address <= *high)
        }
        Test::PatternMatch { pattern, place } => {
            // White space of any length is one space, and none at the ends of a whole value.
            let is_space = |c: &char| c.is_ascii_whitespace() || c.is_ascii_control();
            let mut text: Vec<char> = text.chars().collect();
            text.dedup_by(|next, before| is_space(next) && is_space(before));
            text.iter_mut().filter(|c| is_space(c)).for_each(|c| *c = ' ');
            if *place == PatternPlace::Whole {
                text = String::from_iter(text).trim_matches(' ').chars().collect();
            }
            let starts = match place {
                PatternPlace::Anywhere | PatternPlace::End => 0..text.len() + 1,
                PatternPlace::Whole | PatternPlace::Beginning => 0..1,
            };
            let to_end = matches!(place, PatternPlace::Whole | PatternPlace::End);
            starts.into_iter().any(|start| {
                // A placeholder at the start of a pattern must match at the start of a word or
                // number.
                let before = text[..start].last().copied().unwrap_or(' ');
                let inside = match pattern.starts_with("<N>") {
                    true => {
                        (before.is_ascii_alphanumeric() || before == '_')
                            && !"_TXxvshm".contains(before)
                    }
                    false => is_word(before),
                };
                // A search lets `<W>` begin at a letter only; anchored at the start, `<W>` may be
                // empty.
                let searched = matches!(place, PatternPlace::Anywhere | PatternPlace::End);
                let letter = text.get(start).copied().is_some_and(is_word);
                let empty_word = searched && pattern.starts_with("<W>") && !letter;
                let cut_off =
                    pattern.starts_with('<') && inside && *place != PatternPlace::Beginning;
                !empty_word
                    && !cut_off
                    && pattern_end(pattern, &text, start)
                        .is_some_and(|end| !to_end || end == text.len())
            })
        }
        // The generator, and functions such as `values`, make only arrays of texts.
        Test::JsonArrayContainsAny(values) => {
            let texts = text.trim().strip_prefix("[\"").and_then(|rest| rest.strip_suffix("\"]"));
            texts.is_some_and(|texts| {
                texts.split("\",\"").any(|text| values.iter().any(|v| v == text))
            })
        }
        Test::Length { min, max } => (*min..=*max).contains(&(text.chars().count() as u64)),
    }
}

fn holds(comparison: Comparison, ordering: Ordering) -> bool {
    match comparison {
        Comparison::Less => ordering.is_lt(),
        Comparison::LessOrEqual => ordering.is_le(),
        Comparison::Greater => ordering.is_gt(),
        Comparison::GreaterOrEqual => ordering.is_ge(),
    }
}

/// A phrase as it is, in capitals, and with every subset of its capitals in lower case.
fn spellings(phrase: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    for c in phrase.chars() {
        let small = c.to_lowercase().next().unwrap();
        let with = |last: char| all.iter().map(move |start| format!("{start}{last}"));
        all = with(c).chain(with(small)).collect();
    }
    all.push(phrase.to_uppercase());
    all
}

/// The end of a match of a pattern of text, `<N>` and `<W>` that begins at `from`.
fn pattern_end(pattern: &str, text: &[char], from: usize) -> Option<usize> {
    let run = |fits: fn(&char) -> bool| text[from..].iter().take_while(|c| fits(c)).count();
    if let Some(rest) = pattern.strip_prefix("<N>") {
        let end = from + run(|c| c.is_ascii_hexdigit());
        let digits = &text[from..end];
        let decimal = !digits.is_empty() && digits.iter().all(char::is_ascii_digit);
        let hexadecimal = digits.len() >= 4 && digits.len().is_multiple_of(2);
        let goes_on = text
            .get(end)
            .is_some_and(|&c| (c.is_ascii_alphanumeric() || c == '_') && !"_TZsmhun".contains(c));
        return if (decimal || hexadecimal) && !goes_on {
            pattern_end(rest, text, end)
        } else {
            None
        };
    }
    if let Some(rest) = pattern.strip_prefix("<W>") {
        let end = from + run(|c| is_word(*c));
        return if from < text.len() { pattern_end(rest, text, end) } else { None };
    }
    match pattern.chars().next() {
        None => Some(from),
        Some(c) if text.get(from) == Some(&c) => {
            pattern_end(&pattern[c.len_utf8()..], text, from + 1)
        }
        Some(_) => None,
    }
}

pub(super) fn selects(filter: &Filter, row: &Row) -> bool {
    match filter {
        Filter::All => true,
        Filter::And(filters) => filters.iter().all(|f| selects(f, row)),
        Filter::Or(filters) => filters.iter().any(|f| selects(f, row)),
        Filter::Not(filter) => !selects(filter, row),
        Filter::Time(range) => time_of(row).is_some_and(|ns| range.contains(ns)),
        Filter::Recurring(Recurring::Day(day)) => time_of(row).is_some_and(|ns| {
            let clock = (ns + day.offset_ns).rem_euclid(DAY_NS);
            let (start, end) =
                (i64::from(day.start_minutes) * MINUTE_NS, i64::from(day.end_minutes) * MINUTE_NS);
            let behind = clock > start || day.start_inside && clock == start;
            let before = clock < end || day.end_inside && clock == end;
            if start <= end { behind && before } else { behind || before }
        }),
        Filter::Recurring(Recurring::Week(week)) => time_of(row).is_some_and(|ns| {
            let today = ((ns + week.offset_ns).div_euclid(DAY_NS) + 4).rem_euclid(7) as u8;
            let mut days = vec![week.first];
            while days.last() != Some(&week.last) {
                days.push((days[days.len() - 1] + 1) % 7);
            }
            if !week.last_inside {
                days.pop();
            }
            if !week.first_inside && !days.is_empty() {
                days.remove(0);
            }
            days.contains(&today)
        }),
        Filter::Subquery(_) => panic!("not generated"),
        Filter::Fields { left, comparison, right } => {
            let (left, right) = (value(row, left), value(row, right));
            let numbers = parse_number(left.as_bytes()).zip(parse_number(right.as_bytes()));
            let times = parse_timestamp(left.as_bytes()).zip(parse_timestamp(right.as_bytes()));
            let ordering = match (numbers, times) {
                (Some((left, right)), _) => left.partial_cmp(&right).unwrap(),
                (_, Some((left, right))) => left.cmp(&right),
                _ => left.cmp(right),
            };
            match comparison {
                FieldComparison::Equal => left == right,
                FieldComparison::Ordered(comparison) => holds(*comparison, ordering),
            }
        }
        Filter::Field { name, test } => passes(test, value(row, name)),
        Filter::AnyField { beginning, test } => row.iter().any(|(name, value)| {
            let computed = ["_time", "_stream", "_line", "_received", "_line_id"];
            name.starts_with(beginning.as_str())
                && !computed.contains(&name.as_str())
                && passes(test, value)
        }),
    }
}

// ---- random filters ----

/// A filter that tests only the level.
pub(super) fn any_level_filter() -> impl Strategy<Value = Filter> {
    let test = prop::sample::select(vec!["error", "info", ""]).prop_flat_map(|value| {
        let value = value.to_owned();
        prop::sample::select(vec![Test::Exact(value.clone()), Test::Phrase(value)])
    });
    let field = test.prop_map(|test| Filter::Field { name: "level".to_owned(), test });
    prop_oneof![
        Just(Filter::All),
        field.clone(),
        field.clone().prop_map(|field| Filter::Not(Box::new(field))),
        (field.clone(), field).prop_map(|(a, b)| Filter::Or(vec![a, b])),
    ]
}

fn any_test() -> impl Strategy<Value = Test> {
    let numeric = any_number().prop_filter_map("a number", |n| Number::parse(&n));
    let regex = prop::sample::select(vec!["err", "err|open", "é|a", "x_1"]);
    prop_oneof![
        1 => any_word().prop_map(Test::Phrase),
        1 => any_word().prop_map(Test::Prefix),
        1 => any_word().prop_map(Test::Exact),
        1 => any_word().prop_map(Test::ExactPrefix),
        1 => any_word().prop_map(Test::Substring),
        1 => regex.prop_map(|text| Test::Regex(Pattern::new(text).unwrap())),
        1 => any_word().prop_map(Test::AnyCasePhrase),
        1 => any_word().prop_map(Test::AnyCasePrefix),
        1 => prop::collection::vec(any_word(), 0..4).prop_map(Test::In),
        1 => prop::collection::vec(any_word(), 0..4).prop_map(Test::Sequence),
        1 => (any_comparison(), prop_oneof![any_number(), any_word()])
            .prop_map(|(comparison, value)| Test::Compare { comparison, value }),
        1 => (numeric.clone(), any::<bool>(), numeric, any::<bool>()).prop_map(
            |(low, low_inside, high, high_inside)| Test::Range {
                low,
                low_inside,
                high,
                high_inside
            }
        ),
        1 => (0u64..6, 0u64..9).prop_map(|(min, max)| Test::Length { min, max }),
        4 => any_other_test(),
    ]
}

fn any_other_test() -> impl Strategy<Value = Test> {
    let address = || prop::sample::select(vec!["0.0.0.0", "9.0.0.1", "10.0.0.1", "255.1.2.3"]);
    let v4 = move || address().prop_map(|text| text.parse::<Ipv4Addr>().unwrap());
    let v6 = prop::sample::select(vec!["::", "::1", "::ffff:9.0.0.9", "ffff::"])
        .prop_map(|text| text.parse::<Ipv6Addr>().unwrap());
    let patterns = vec!["<N>", "a <N>", "x_<N>", "<W> <W>", "err", "", "<N>ms", "<W>:<W>", "<x>"];
    let places = vec![
        PatternPlace::Anywhere,
        PatternPlace::Whole,
        PatternPlace::Beginning,
        PatternPlace::End,
    ];
    prop_oneof![
        (prop::collection::vec(any_word(), 0..3), any::<bool>())
            .prop_map(|(phrases, whole)| Test::CommonCase { phrases, whole }),
        prop::collection::vec(any_word(), 0..3).prop_map(Test::JsonArrayContainsAny),
        prop::sample::select(ValueKind::NAMES.map(|(_, kind)| kind).to_vec())
            .prop_map(Test::ValueType),
        (any_word(), any_word()).prop_map(|(low, high)| Test::StringRange { low, high }),
        (v4(), v4()).prop_map(|(low, high)| Test::Ipv4Range { low, high }),
        (v6.clone(), v6).prop_map(|(low, high)| Test::Ipv6Range { low, high }),
        (prop::sample::select(patterns), prop::sample::select(places))
            .prop_map(|(pattern, place)| Test::PatternMatch { pattern: pattern.to_owned(), place }),
    ]
}

/// Event times are some nanoseconds behind midnight, so such offsets change the result.
fn any_recurring() -> impl Strategy<Value = Recurring> {
    let minutes = || prop::sample::select(vec![0u16, 1, 720, 1_439, 1_440]);
    let day = (minutes(), any::<bool>(), minutes(), any::<bool>(), -60i64..60);
    let week = (0u8..7, any::<bool>(), 0u8..7, any::<bool>(), -60i64..60);
    prop_oneof![
        day.prop_map(|(start_minutes, start_inside, end_minutes, end_inside, offset_ns)| {
            Recurring::Day(DayRange {
                start_minutes: start_minutes % 1_440,
                start_inside,
                end_minutes,
                end_inside,
                offset_ns,
            })
        }),
        week.prop_map(|(first, first_inside, last, last_inside, offset_ns)| {
            Recurring::Week(WeekRange { first, first_inside, last, last_inside, offset_ns })
        }),
    ]
}

fn any_field_comparison() -> impl Strategy<Value = FieldComparison> {
    prop_oneof![
        1 => Just(FieldComparison::Equal),
        2 => any_comparison().prop_map(FieldComparison::Ordered),
    ]
}

fn any_comparison() -> impl Strategy<Value = Comparison> {
    prop::sample::select(vec![
        Comparison::Less,
        Comparison::LessOrEqual,
        Comparison::Greater,
        Comparison::GreaterOrEqual,
    ])
}

pub(super) fn any_filter() -> impl Strategy<Value = Filter> {
    let range = (0i64..50, 0i64..50).prop_map(|(start_ns, end_ns)| TimeRange { start_ns, end_ns });
    let name =
        prop_oneof![4 => any_name(), 1 => Just("_stream".to_owned()), 1 => Just("none".to_owned())];
    let leaf = prop_oneof![
        1 => Just(Filter::All),
        1 => range.prop_map(Filter::Time),
        1 => any_recurring().prop_map(Filter::Recurring),
        1 => (any_name(), any_field_comparison(), any_name())
            .prop_map(|(left, comparison, right)| Filter::Fields { left, comparison, right }),
        1 => (prop::sample::select(vec!["", "_", "l", "a"]), any_test()).prop_map(
            |(beginning, test)| Filter::AnyField { beginning: beginning.to_owned(), test }
        ),
        6 => (name, any_test()).prop_map(|(name, test)| Filter::field(&name, test)),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(Filter::and),
            prop::collection::vec(inner.clone(), 1..4).prop_map(Filter::or),
            inner.prop_map(|f| Filter::Not(Box::new(f))),
        ]
    })
}

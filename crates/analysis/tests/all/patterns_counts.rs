//! What merging guarantees, and what happens at the bound.

use analysis::patterns::{
    Counts, EXAMPLE_BYTES_MAX, Group, PLACEHOLDER, Pattern, PatternId, Scratch,
};
use proptest::prelude::*;

/// Words of few kinds, so that skeletons meet: values, names, text and what is cut.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        "[a-c]{1,2}",
        "user|from|failed|=|\\(|\\)|\"|/|:|-",
        "[0-9]{1,3}",
        "[\\PC]{0,3}",
    ];
    let text = proptest::collection::vec(word, 0..8).prop_map(|words| words.join(" ").into_bytes());
    prop_oneof![9 => text, 1 => proptest::collection::vec(any::<u8>(), 0..40)]
}

fn counted(messages: &[(Vec<u8>, i64)], skeletons_max: usize) -> Counts {
    let (mut counts, mut scratch) = (Counts::new(skeletons_max), Scratch::default());
    messages.iter().for_each(|(message, time)| counts.push(message, time_ns(*time), &mut scratch));
    counts
}

/// Time 0 stands for none.
fn time_ns(time: i64) -> Option<i64> {
    Some(time).filter(|&time| time > 0)
}

/// What all patterns say together: messages, first and last time.
fn totals(patterns: &[Pattern]) -> (u64, Option<i64>, Option<i64>) {
    let hits = patterns.iter().map(|p| p.group.hits).sum();
    let first = patterns.iter().filter_map(|p| p.group.first_ns).min();
    (hits, first, patterns.iter().filter_map(|p| p.group.last_ns).max())
}

proptest! {
    #[test]
    fn order_and_distribution_do_not_matter_below_the_bound(
        messages in proptest::collection::vec((message(), 0i64..9), 0..120),
        states in proptest::collection::vec(0usize..4, 120),
        rotated in 0usize..120,
    ) {
        let whole = counted(&messages, 1_000).patterns();
        let mut parts: Vec<Counts> = (0..4).map(|_| Counts::new(1_000)).collect();
        let mut scratch = Scratch::default();
        for i in 0..messages.len() {
            let (message, time) = &messages[(i + rotated) % messages.len()];
            parts[states[i]].push(message, time_ns(*time), &mut scratch);
        }
        let mut merged = parts.pop().unwrap();
        parts.into_iter().for_each(|part| merged.merge(part));
        prop_assert!(merged.rest().is_none());
        prop_assert_eq!(merged.patterns(), whole);
    }

    #[test]
    fn groups_are_the_whole_state(
        messages in proptest::collection::vec((message(), 0i64..9), 0..60),
        skeletons_max in prop_oneof![Just(4usize), Just(1_000)],
    ) {
        let counts = counted(&messages, skeletons_max);
        let mut copy = Counts::new(skeletons_max);
        for (skeleton, group) in counts.groups() {
            copy.merge_group(skeleton.into(), group.clone());
        }
        prop_assert_eq!(copy.bytes(), counts.bytes());
        prop_assert_eq!(copy.rest(), counts.rest());
        prop_assert_eq!(copy.patterns(), counts.patterns());
    }

    #[test]
    fn beyond_the_bound_totals_stay_exact(
        messages in proptest::collection::vec((message(), 0i64..9), 1..120),
        at in 0usize..120,
    ) {
        let (left, right) = messages.split_at(at.min(messages.len()));
        let mut merged = counted(left, 6);
        merged.merge(counted(right, 6));
        prop_assert!(merged.groups().count() <= 7);
        prop_assert_eq!(totals(&merged.patterns()), totals(&counted(&messages, 1_000).patterns()));
    }

    #[test]
    fn any_message_is_in_a_pattern(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let counts = counted(&[(bytes.clone(), 5)], 10);
        let id = counts.classifier().pattern_of(&bytes);
        let patterns = counts.patterns();
        prop_assert_eq!(patterns.len(), 1);
        prop_assert_eq!(Some(patterns[0].id), id);
        prop_assert_eq!(patterns[0].id, PatternId::of(&patterns[0].text));
        let text_is_utf8 = std::str::from_utf8(&patterns[0].text).is_ok();
        prop_assert!(text_is_utf8 || std::str::from_utf8(&bytes).is_err());
    }
}

#[test]
fn templates_outlive_the_bound_and_the_rarest_go_into_the_rest() {
    let (mut counts, mut scratch) = (Counts::new(32), Scratch::default());
    let word =
        |n: u32| format!("{}{}", (b'a' + (n / 26) as u8) as char, (b'a' + (n % 26) as u8) as char);
    for n in 0..200 {
        counts.push(format!("login of {} failed", word(n % 60)).as_bytes(), Some(1), &mut scratch);
        let other = format!("{} {} {}", word(n), word(n + 1), word(n + 2));
        counts.push(other.as_bytes(), None, &mut scratch);
    }
    let rest = counts.rest().cloned().expect("more skeletons than may be kept");
    let patterns = counts.patterns();
    assert_eq!((&patterns[0].text[..], patterns[0].group.hits), (&b"login of <*> failed"[..], 200));
    let rest_pattern = patterns.iter().find(|p| p.text == PLACEHOLDER.as_bytes()).unwrap();
    assert_eq!(rest_pattern.group, rest);
    assert_eq!(patterns.iter().map(|p| p.group.hits).sum::<u64>(), 400);
}

#[test]
fn the_rest_takes_nothing_in() {
    let (mut counts, mut scratch) = (Counts::new(10), Scratch::default());
    for letter in 'a'..='k' {
        counts.push(letter.to_string().as_bytes(), None, &mut scratch);
    }
    let hits: Vec<u64> = counts.patterns().iter().map(|p| p.group.hits).collect();
    assert_eq!(hits, [6, 1, 1, 1, 1, 1]);
}

#[test]
fn a_pattern_knows_its_first_message() {
    let counts = counted(
        &[(b"x 3".into(), 7), (b"x 2".into(), 5), (b"x 1".into(), 5), (b"x 0".into(), 0)],
        10,
    );
    let example = b"x 1".as_slice().into();
    let group = Group { hits: 4, first_ns: Some(5), last_ns: Some(7), example };
    let (text, id) = (b"x <*>".to_vec(), PatternId(0x6d0b_7c30_54a2_63e7));
    assert_eq!(counts.patterns(), [Pattern { id, text, group }]);
    assert_eq!(id.to_string(), "6d0b7c3054a263e7");
}

#[test]
fn examples_are_cut_at_a_character() {
    for (message, length) in [
        ("a".repeat(EXAMPLE_BYTES_MAX), EXAMPLE_BYTES_MAX),
        ("a".repeat(EXAMPLE_BYTES_MAX + 1), EXAMPLE_BYTES_MAX),
        (format!("a{}", "\u{fc}".repeat(EXAMPLE_BYTES_MAX)), EXAMPLE_BYTES_MAX - 1),
    ] {
        assert_eq!(Group::of(message.as_bytes(), None).example.len(), length);
    }
}

#[test]
fn unknown_messages_have_no_pattern() {
    let mut classifier = counted(&[(b"port 1".into(), 0)], 10).classifier();
    assert!(classifier.pattern_of(b"port 2").is_some());
    assert_eq!(classifier.pattern_of(b"door 2"), None);
}

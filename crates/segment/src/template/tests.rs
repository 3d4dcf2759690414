//! Whole columns: values round-trip, needles are found as by a plain search, and damage is an
//! error.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use record::automaton::{BEGIN, NO, UNSURE, YES};

#[path = "../../tests/common/automata.rs"]
mod automata;

fn texts_of<T: AsRef<[u8]>>(values: &[T]) -> Texts {
    let mut texts = Texts::default();
    for value in values {
        texts.push(value.as_ref());
    }
    texts
}

fn sections_of(encoded: &Encoded) -> [&[u8]; SECTIONS] {
    encoded.sections.each_ref().map(Vec::as_slice)
}

/// Checks that all and some values round-trip, and that the needles are found where they occur.
fn check<T: AsRef<[u8]>>(values: &[T], needles: &[&[u8]]) {
    let texts = texts_of(values);
    let encoded = encode(texts.values());
    let column =
        TemplateColumn::open(sections_of(&encoded), values.len(), texts.bytes.len()).unwrap();
    assert_eq!(column.len(), values.len());
    assert!(column.decode().unwrap() == texts, "values differ");
    let rows: Vec<u32> = (0..values.len() as u32).filter(|row| row % 3 == 1).collect();
    let some: Vec<_> = rows.iter().map(|&row| texts.get(row as usize)).collect();
    assert!(column.decode_rows(&rows).unwrap() == texts_of(&some), "rows differ");
    let edges = column.edges();
    for value in values {
        let rest = value.as_ref().strip_prefix(&edges.begin[..]);
        assert!(rest.is_some_and(|rest| rest.ends_with(&edges.end)), "{edges:?}");
    }
    for needle in needles {
        let whole = |text: &[u8], at: usize| whole_word(text, at, needle.len());
        for accept in [None, Some(&whole as Accept<'_>)] {
            let naive = |row: &u32| {
                let value = texts.get(*row as usize);
                (0..=value.len()).any(|at| {
                    value[at..].starts_with(needle) && accept.is_none_or(|accept| accept(value, at))
                })
            };
            let expected: Vec<u32> = (0..values.len() as u32).filter(naive).collect();
            let found = column.matching_rows(needle, accept).unwrap();
            assert_eq!(found, expected, "needle {:?}", needle.escape_ascii().to_string());
        }
        for found in [YES, UNSURE, NO] {
            if needle.is_empty() || !needle.is_ascii() {
                continue;
            }
            let automaton = automata::holding(needle, found);
            let end = |value| automaton.end(automaton.step(BEGIN, value));
            let expected: Vec<AutomatonState> = texts.values().iter().map(end).collect();
            assert_eq!(column.passing(&automaton).unwrap(), expected);
        }
    }
}

fn whole_word(text: &[u8], at: usize, length: usize) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    !word(at.checked_sub(1).and_then(|at| text.get(at))) && !word(text.get(at + length))
}

#[test]
fn small_and_odd_columns() {
    check::<&str>(&[], &[b"", b"x"]);
    check(&[""], &[b"", b"x"]);
    check(&["", "", ""], &[b""]);
    check(&["a"; 100], &[b"a", b"b", b"aa"]);
    check(&["x 1", "x 2"], &[b"x", b"x 1", b" ", b"1"]);
    check(&["a\nb 1", "c\n", "\n", "d", "e 22", "f", "g"], &[b"\n", b"b 1"]);
    let bytes: Vec<Vec<u8>> = (0..=255u8).map(|b| vec![b; usize::from(b % 7)]).collect();
    check(&bytes, &[&[0], &[1, 1], &[2], &[255, 255]]);
    let marks: Vec<Vec<u8>> =
        (0..50).map(|i| format!("\0 \x01 {i} \x02\x01").into_bytes()).collect();
    check(&marks, &[b"\0", b"\x01 4", b" \x02"]);
}

#[test]
fn needles_across_borders() {
    let values: Vec<String> = (0..300)
        .map(|i| {
            let user = ["root", "anna", "bob", "eve", "x1", "y-2"][i * i % 6];
            match i % 3 {
                0 => format!(
                    "Failed password for {user} from 10.0.{}.{} port {}",
                    i % 7,
                    i % 11,
                    i * 37
                ),
                1 => format!("session opened for user {user}(uid={})", i % 5),
                _ => format!("{i}: took {}.{:03} s", i % 4, i * 7 % 1000),
            }
        })
        .collect();
    check(
        &values,
        &[
            b"Failed",
            b"password",
            b"for",
            b"for root",
            b"for x",
            b"from 10.0",
            b"0.1",
            b"uid=",
            b"uid=3",
            b"=3)",
            b"root from",
            b"port 3",
            b"t 37",
            b"s",
            b"took 1.",
            b"absent",
            b"Failed password for anna",
            b"user eve(uid",
            b"2 from 10",
            b"",
            b" ",
            b"opened for user y-2(uid=1)",
        ],
    );
}

/// Each search of a column spends some of the decoding budget, so that searching a column more than
/// once would end in an error.
#[test]
fn a_column_that_many_templates_share_is_searched_once() {
    let marks = b"!#$%&*+,;:<=>?@^|~";
    let mark = |i: usize| char::from(marks[i % marks.len()]);
    let values: Vec<String> = (0..6000)
        .map(|i| {
            let (first, second) = (mark(i), mark(i / marks.len()));
            let address = format!("{}.{}.{}.{}", 10 + i % 5, i % 7, i * i % 251, i * 31 % 199);
            format!("{address} {first} up {second}")
        })
        .collect();
    let texts = texts_of(&values);
    let encoded = encode(texts.values());
    let column =
        TemplateColumn::open(sections_of(&encoded), values.len(), texts.bytes.len()).unwrap();
    let Kind::Templates(templates) = &column.view.kind else { panic!("no templates") };
    assert!(templates.templates.len() > 8 * BUDGET_TEXTS, "{}", templates.templates.len());
    check(&values, &[b"203.0.113.77", b"10.3.1.2", b"10.3.9.93", b"9.93"]);
}

#[test]
fn real_logs() {
    let folder = Path::new("../../testdata/corpora");
    let (mut files, mut size, mut rival) = (0, 0, 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "log") {
            continue;
        }
        files += 1;
        let raw = std::fs::read(&path).unwrap();
        let lines: Vec<&[u8]> = raw.split(|&b| b == b'\n').take(2000).collect();
        let part = lines[lines.len() / 2];
        let middle = &part[part.len() / 3..part.len() / 3 + 9.min(part.len() / 3)];
        check(&lines, &[b"error", b"INFO", b"failed", b"1", b"user=", b"absent word", middle]);

        let encoded = encode(texts_of(&lines).values());
        let compressed = |bytes: &[u8]| zstd::bulk::compress(bytes, 9).unwrap().len();
        size += encoded.sections.iter().map(|s| compressed(s)).sum::<usize>();
        rival += compressed(&lines.join(&b'\n'));
    }
    assert_eq!(files, 12);
    assert!(size * 5 < rival * 4, "{size} bytes, and {rival} without templates");
}

#[test]
fn common_edges_of_all_values_are_found() {
    let edges = |value: &dyn Fn(usize) -> String| {
        let values: Vec<String> = (0..200).map(value).collect();
        let texts = texts_of(&values);
        let encoded = encode(texts.values());
        let column = TemplateColumn::open(sections_of(&encoded), 200, texts.bytes.len()).unwrap();
        let super::Edges { begin, end } = column.edges();
        (String::from_utf8(begin).unwrap(), String::from_utf8(end).unwrap())
    };
    let (begin, end) =
        edges(&|i| format!(" - - [18/May/2015:10:{:02}:{:02} +0000] \"", i / 60, i % 60));
    // The time is one slot.
    assert_eq!((&begin[..], &end[..]), (" - - [", " +0000] \""));
    let of_two = |i: usize| match i % 2 {
        0 => format!("user {} logged in from afar", i * 7919),
        _ => format!("user {} was sent away from afar", i * 7919),
    };
    let (begin, end) = edges(&of_two);
    assert!(begin.starts_with("user ") && end.ends_with(" from afar"), "{begin}|{end}");
    assert_eq!(edges(&|_| "as ever".into()), ("as ever".into(), String::new()));
}

#[test]
fn damage_is_an_error_or_other_text_and_never_a_panic() {
    let values: Vec<String> = (0..200)
        .map(|i| match i % 4 {
            0 => format!(
                "GET /a/{} {} {:x}",
                i % 9,
                200 + i % 3,
                i * 0x1234_5678u64 + 0x10_0000_0000
            ),
            1 => format!(
                "at 08:{:02}:{:02} user {}",
                i / 60,
                i % 60,
                ["a", "b", "c", "d\n"][i as usize % 4]
            ),
            2 => format!("id {:016x}", i.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            _ => "nothing varies".to_owned(),
        })
        .collect();
    let texts = texts_of(&values);
    let encoded = encode(texts.values());
    let look = |sections: [&[u8]; SECTIONS]| {
        let Ok(column) = TemplateColumn::open(sections, values.len(), texts.bytes.len()) else {
            return;
        };
        if let Ok(decoded) = column.decode() {
            assert!(decoded.len() == values.len() && decoded.bytes.len() <= texts.bytes.len());
        }
        let _ = column.matching_rows(b"user", None);
        let _ = column.edges();
        let _ = column.passing(&automata::holding(b"user", YES));
        let _ = column.outline(&<[u8]>::len);
    };
    for section in 0..SECTIONS {
        let original = &encoded.sections[section];
        for at in 0..original.len() {
            for flip in [1, 0x10, 0x80, 0xff] {
                let mut damaged = original.clone();
                damaged[at] ^= flip;
                let mut sections = sections_of(&encoded);
                sections[section] = &damaged;
                look(sections);
            }
            let mut sections = sections_of(&encoded);
            sections[section] = &original[..at];
            assert!(decode(sections, values.len(), texts.bytes.len()).is_err(), "cut at {at}");
        }
    }
    for (rows, bytes) in
        [(0, 0), (values.len() - 1, texts.bytes.len()), (values.len() + 1, texts.bytes.len())]
    {
        assert!(decode(sections_of(&encoded), rows, bytes).is_err(), "{rows} rows");
    }
    assert!(decode(sections_of(&encoded), values.len(), texts.bytes.len() - 1).is_err());
}

/// A column that was written before is read; the fixture is three sections, each after its length
/// (u32).
#[test]
fn a_fixture_is_read() {
    let fixture = include_bytes!("../../tests/fixtures/templates.bin");
    let mut rest = &fixture[..];
    let sections = [(); SECTIONS].map(|()| {
        let (length, behind) = rest.split_first_chunk::<4>().unwrap();
        let (section, behind) = behind.split_at(u32::from_le_bytes(*length) as usize);
        rest = behind;
        section
    });
    let texts = texts_of(&fixture_values());
    let column = TemplateColumn::open(sections, texts.len(), texts.bytes.len()).unwrap();
    assert!(column.decode().unwrap() == texts);
    let outline = column.outline(&<[u8]>::len).join("\n");
    for encoding in
        ["same", "lines", "lengths", "digits", "hex", "dictionary", "templates", "\\x01"]
    {
        assert!(outline.contains(encoding), "{encoding} is missing in\n{outline}");
    }
}

/// Values that need every encoding.
fn fixture_values() -> Vec<Vec<u8>> {
    let mix = |i: u64| i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let line = |i: u64| match i % 4 {
        0 => format!("08:{:02}:{:02},{:03} GET \"/a/{}\"", i / 60, i % 60, mix(i) % 1000, i % 9),
        1 => format!("id {:016x} of {:08}", mix(i), mix(i) % 100_000_000),
        2 => format!("user {} of a\x01b{}", ["ann", "bob", "cid", "dot", "eve"][i as usize % 5], i),
        _ if i % 48 == 3 => format!("note \"two\nlines {i}\" with quotes"),
        _ => format!("up since 4 days, load {}", mix(i) % 7),
    };
    (0..240).map(|i| line(i).into_bytes()).collect()
}

/// Lines as programs write them, and arbitrary ones.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "user", "failed", "from", "opened", "a", "é", "-", "=", "(x)", "\"q", "\"",
    ]);
    let number = prop_oneof![0u64..20, any::<u64>()];
    let part = prop_oneof![
        4 => word.prop_map(|w| w.as_bytes().to_vec()),
        2 => number.clone().prop_map(|n| n.to_string().into_bytes()),
        1 => number.prop_map(|n| format!("0x{n:08x}").into_bytes()),
        1 => (0u8..24, 0u8..60).prop_map(|(h, m)| format!("{h:02}:{m:02}:00").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    let separator = prop::sample::select(vec![" ", "", ", ", "\t"]);
    prop::collection::vec((part, separator), 0..7).prop_map(|parts| {
        parts
            .into_iter()
            .flat_map(|(part, separator)| [part, separator.as_bytes().to_vec()].concat())
            .collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_lines(
        lines in prop::collection::vec(line(), 1..30),
        picks in prop::collection::vec(any::<prop::sample::Index>(), 1..200),
        needle in any::<(prop::sample::Index, u8, u8)>(),
    ) {
        let values: Vec<&Vec<u8>> = picks.iter().map(|pick| pick.get(&lines)).collect();
        let from = needle.0.get(&lines);
        let start = usize::from(needle.1).min(from.len());
        let end = (start + usize::from(needle.2 % 12)).min(from.len());
        check(&values, &[&from[start..end], b"user", b"1", b" "]);
    }

    #[test]
    fn any_bytes_are_read_without_panic(
        tables in prop::collection::vec(any::<u8>(), 0..100),
        numbers in prop::collection::vec(any::<u8>(), 0..100),
        rows in 0usize..50,
    ) {
        let tables = [&[1][..], &tables].concat();
        if let Ok(column) = TemplateColumn::open([&tables, &numbers, &numbers], rows, 1000) {
            let _ = column.decode();
            let _ = column.matching_rows(b"a", None);
            let _ = column.passing(&automata::holding(b"a", YES));
        }
    }
}

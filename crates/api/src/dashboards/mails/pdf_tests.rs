//! Tests of the document of PDF: its texts, its bounds, and its axes where clocks change.

use std::io::Read as _;

use super::*;
use crate::dashboards::mails::shown::Series;
use crate::dashboards::mails::times::zone;

const HOUR: i64 = 3_600_000;
/// 2026-03-29T00:00:00+01:00, the day on which the clocks of Berlin go forward.
const START: i64 = 1_774_738_800_000;

fn report(parts: Vec<Part>) -> Report {
    Report {
        title: "Shop – état 中".to_owned(),
        owner: Some("ann".to_owned()),
        link: Some("https://logs.example.com/?view=dashboards&dashboard=shop".to_owned()),
        range_ms: (START, START + 23 * HOUR),
        zone: zone("Europe/Berlin").unwrap(),
        zone_name: "Europe/Berlin".to_owned(),
        variables: vec!["host: web1, web2".to_owned()],
        notes: vec!["This mail is late.".to_owned()],
        parts,
    }
}

fn part(title: &str, shown: Shown) -> Part {
    Part { title: title.to_owned(), shown, notes: vec![format!("A note of {title}.")] }
}

fn series(label: &str, points: Vec<Option<f64>>) -> Series {
    let size = points.iter().flatten().sum();
    Series { label: label.to_owned(), points, size, is_additive: true }
}

fn chart(is_bars: bool, points: usize) -> Shown {
    let values =
        |factor: f64| (0..points).map(move |n| Some((n as f64 * 0.7).sin().abs() * factor));
    let gaps = (0..points).map(|n| (n % 7 != 3).then_some(n as f64));
    Shown::Chart(Chart {
        times_ms: (0..points as i64).map(|n| START + n * HOUR).collect(),
        step_ms: HOUR,
        series: vec![
            series("error", values(30.0).collect()),
            series("info", values(90.0).collect()),
            series("with gaps", gaps.collect()),
        ],
        unit: Unit::Number,
        is_bars,
        is_stacked: is_bars,
    })
}

fn all_kinds() -> Report {
    let table = Table {
        columns: vec![("pattern".to_owned(), false), ("hits".to_owned(), true)],
        rows: (0..20)
            .map(|n| {
                vec![format!("connection {n} closed by {}", "peer ".repeat(40)), n.to_string()]
            })
            .collect(),
    };
    let list = List {
        entries: vec![("/checkout".to_owned(), 120.0), ("/ (none)".to_owned(), 30.0)],
        unit: Unit::Millis,
    };
    let cells = |factor: f64| (0..23).map(|n| (f64::from(n) * factor).floor() % 9.0).collect();
    let heat = Heat {
        times_ms: (0..23).map(|n| START + n * HOUR).collect(),
        step_ms: HOUR,
        rows: (0..30).map(|n| (format!("{n} ms – {} ms", n + 1), cells(f64::from(n)))).collect(),
        unit: Unit::Number,
    };
    let empty = Heat { rows: Vec::new(), ..heat.clone() };
    report(vec![
        part("Lines over time", chart(false, 23)),
        part("Times as a map", Shown::Heat(heat)),
        part("An empty map", Shown::Heat(empty)),
        part("Stacked", chart(true, 23)),
        part("One point", chart(false, 1)),
        part("Numbers", Shown::Numbers(vec![("Lines, total".to_owned(), "1,234".to_owned())])),
        part("Slow paths", Shown::List(list)),
        part("Patterns", Shown::Table(table)),
        part("What it is", Shown::Text("First line\nsecond line".to_owned())),
        part("Empty", Shown::Nothing),
        part("Broken", Shown::Failed("expected a filter".to_owned())),
    ])
}

/// The operators of all pages, with the texts in parentheses. Texts with other characters than
/// those of ASCII are written in hexadecimal, and are decoded here.
fn contents(document: &[u8]) -> String {
    let mut out = String::new();
    let mut rest = document;
    let find = |text: &[u8], part: &[u8]| text.windows(part.len()).position(|at| at == part);
    while let Some(at) = find(rest, b"stream\n") {
        rest = &rest[at + 7..];
        let Some(end) = find(rest, b"\nendstream") else { break };
        let mut bytes = Vec::new();
        flate2::read::ZlibDecoder::new(&rest[..end]).read_to_end(&mut bytes).unwrap();
        for (at, part) in String::from_utf8_lossy(&bytes).split(['<', '>']).enumerate() {
            let digits: Vec<u32> = part.chars().filter_map(|c| c.to_digit(16)).collect();
            match at % 2 == 1 && digits.len() == part.len() {
                true => out.extend(digits.chunks(2).filter_map(|pair| {
                    char::from_u32(pair.iter().fold(0, |sum, digit| sum * 16 + digit))
                })),
                false => out.push_str(part),
            }
        }
        rest = &rest[end + 10..];
    }
    out
}

#[test]
fn a_document_has_the_texts_of_all_panels() {
    let bytes = document(&all_kinds()).unwrap();
    assert!(bytes.starts_with(b"%PDF-1."));
    let text = contents(&bytes);
    for part in [
        "Open the dashboard",
        "Lines over time",
        "with gaps",
        "12:00",
        "Times as a map",
        "2 ms",
        "The darker, the more; the darkest is 8.",
        "There are no numbers to draw.",
        "Stacked",
        "Numbers",
        "1,234",
        "/checkout",
        "120 ms",
        "Patterns",
        "hits",
        "second line",
        "No line matches",
        "This panel could not be evaluated: expected a filter",
        "Note: A note of Broken.",
        "Note: This mail is late.",
        "host: web1, web2",
        "With the rights of ann",
        "Page 1 of",
    ] {
        // Parentheses are escaped in texts of PDF; none of these has one.
        assert!(text.contains(part), "{part}");
    }
    assert!(text.contains("\\\\u{4e2d}") || text.contains("\\u{4e2d}"), "an escaped character");
    assert!(text.contains("Characters that the font"));
    // For a look at it with other programs.
    if let Ok(path) = std::env::var("LOGINSON_PDF") {
        std::fs::write(path, bytes).unwrap();
    }
}

#[test]
fn a_document_is_bounded_and_says_so() {
    let mut long = all_kinds();
    let text = Shown::Text("a line\n".repeat(600));
    long.parts = (0..30).map(|n| part(&format!("Text {n}"), text.clone())).collect();
    let bytes = document(&long).unwrap();
    let text = contents(&bytes);
    assert!(text.contains(&format!("Page {PAGES_MAX} of {PAGES_MAX}")));
    assert!(text.contains("The document ends here"), "{}", &text[text.len() - 2000..]);
    let mut many = all_kinds();
    many.parts = vec![part("Many", chart(false, 3_000)); POINTS_TOTAL_MAX / 9_000 + 1];
    let text = contents(&document(&many).unwrap());
    assert_eq!(text.matches("this one is not drawn").count(), 1);
}

#[test]
fn ticks_follow_the_clocks() {
    let berlin = zone("Europe/Berlin").unwrap();
    let texts = |start: i64, hours: i64| -> Vec<String> {
        let ticks = time_ticks(start, start + hours * HOUR, &berlin);
        ticks.into_iter().map(|(ms, text)| format!("{text} {}", (ms - start) / 60_000)).collect()
    };
    // 02:00 does not exist: 03:00 stands where it would be.
    assert_eq!(
        texts(START, 4),
        [
            "03-29 0",
            "00:30 30",
            "01:00 60",
            "01:30 90",
            "03:00 120",
            "03:30 150",
            "04:00 180",
            "04:30 210",
            "05:00 240"
        ]
    );
    // The day has 23 hours: its midnights are at their places.
    assert_eq!(
        texts(START, 47),
        [
            "03-29 0",
            "06:00 300",
            "12:00 660",
            "18:00 1020",
            "03-30 1380",
            "06:00 1740",
            "12:00 2100",
            "18:00 2460",
            "03-31 2820"
        ]
    );
    // In October, 02:00 comes twice.
    let october = 1_792_879_200_000;
    assert_eq!(
        texts(october, 4),
        [
            "10-25 0",
            "00:30 30",
            "01:00 60",
            "01:30 90",
            "02:00 120",
            "02:30 150",
            "02:00 180",
            "02:30 210",
            "03:00 240"
        ]
    );
    assert_eq!(texts(START, 8 * 24).len(), 9);
    assert_eq!(time_ticks(START, START, &berlin).len(), 1);
}

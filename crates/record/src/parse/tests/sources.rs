//! The table of `docs/sources.md`: made of one line of each source, `testdata/sources/lines.txt`.
//! With `LOGINSON_BLESS` set, the test writes the table instead of comparing it.

use std::fmt::Write;
use std::path::Path;

use super::*;

const BEGIN: &str = "<!-- begin: made of testdata/sources/lines.txt -->\n";
const END: &str = "<!-- end -->\n";
/// Names that are shown in columns of their own, or that every head of syslog gives.
const LEFT_OUT: [&str; 10] = [
    "_msg",
    "_type",
    "_level",
    "_remote_ip",
    "hostname",
    "format",
    "priority",
    "facility",
    "facility_keyword",
    "severity",
];
/// More names of one line are not shown.
const NAMES_MAX: usize = 12;

struct Source<'a> {
    name: &'a str,
    way: &'a str,
    line: &'a str,
}

fn origin(way: &str) -> Origin {
    match way {
        "udp" => syslog_udp(),
        "file" => file(),
        "http json" => http(Format::Json, Hints::default()),
        other => panic!("{other} is no way in"),
    }
}

fn row_of(source: &Source<'_>) -> String {
    let origin = origin(source.way);
    let batch = parse_with(&ParserConfig::default(), &origin, &[source.line.as_bytes()]);
    let row = batch.row(0);
    assert_eq!(row.get_by_name("_note"), None, "{}", source.name);
    let get = |name: &str| {
        let value = row.get_by_name(name).map(|value| String::from_utf8_lossy(value).into_owned());
        value.unwrap_or("–".into())
    };
    let time = match row.time_ns() {
        ARRIVAL_NS => "–".to_owned(),
        time_ns => time_text(time_ns),
    };
    let mut names: Vec<&str> = row.fields().map(|(id, _)| batch.name(id)).collect();
    names.retain(|name| !LEFT_OUT.contains(name));
    if row.get_by_name("priority").is_some() {
        // The word of the priority.
        names.retain(|name| *name != "level");
    }
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    let mut names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    let names = if names.is_empty() { "–".to_owned() } else { names.join(", ") };
    let (host, level) = (get("hostname"), get("_level"));
    format!("| {} | {host} | {time} | {level} | {names} |\n", source.name)
}

fn table(lines: &str) -> (String, usize) {
    let (mut table, mut count) = (String::new(), 0);
    for block in lines.split("\n\n").filter(|block| !block.starts_with("# ")) {
        let block = block.trim_end();
        if let Some(title) = block.strip_prefix("## ") {
            write!(table, "\n### {title}\n\n").expect("memory");
            table.push_str("| vendor | host | time | level | fields |\n|---|---|---|---|---|\n");
            continue;
        }
        let parts: Vec<&str> = block.split('\n').collect();
        let [name, way, line] = parts[..] else { panic!("not three lines: {block}") };
        table.push_str(&row_of(&Source { name, way, line }));
        count += 1;
    }
    table.push('\n');
    (table, count)
}

#[test]
fn the_table_of_the_documents_is_that_of_the_parser() {
    let project = Path::new("../..");
    let lines = std::fs::read_to_string(project.join("testdata/sources/lines.txt")).unwrap();
    let (table, count) = table(&lines);
    assert!(count >= 60, "{count} sources");
    let path = project.join("docs/sources.md");
    let document = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = document.split_once(BEGIN).expect("the table has a beginning");
    let (found, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("LOGINSON_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    for (found, expected) in found.lines().zip(table.lines()) {
        assert_eq!(found, expected, "LOGINSON_BLESS=1 writes the table anew");
    }
    assert_eq!(found, table, "LOGINSON_BLESS=1 writes the table anew");
}

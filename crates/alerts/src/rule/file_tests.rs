//! Rule files: those of vmalert, mistakes, bombs, arbitrary text.

use proptest::prelude::*;

use super::*;
use crate::testing::FakeEngine;

fn parse(text: &str) -> Result<RuleFile, RuleError> {
    RuleFile::parse("rules.yml", text, &Defaults::default(), &FakeEngine::default())
}

const FULL: &str = r#"
groups:
  - name: web            # the group
    type: vlogs
    interval: 5m
    eval_offset: 1m
    limit: 50
    concurrency: 4
    labels: {team: ops, severity: low}
    rules:
      - alert: Errors
        expr: '_type:access status:>=500 | stats by (host) count() n | filter n:>10'
        for: 10m
        keep_firing_for: 5m
        labels:
          severity: page
          tier: 5
        annotations:
          summary: "{{ $labels.host }} has {{ $value }} errors"
        debug: true
        update_entries_limit: 40
      - record: requests
        expr: |
          * | stats by (host) count() n
---
groups:
  - name: second
    rules: []
"#;

#[test]
fn files_of_vmalert_are_read_as_they_are() {
    let file = parse(FULL).unwrap();
    let [web, second] = &file.groups[..] else { panic!("{file:?}") };
    assert_eq!((web.interval.as_secs(), web.offset), (300, Some(Duration::from_secs(60))));
    assert_eq!((web.series_max, second.series_max), (50, 1_000));
    assert_eq!((second.interval.as_secs(), second.delay.as_secs()), (60, 5));
    let [errors, requests] = &web.rules[..] else { panic!("{web:?}") };
    assert_eq!((errors.kind, requests.kind), (Kind::Alert, Kind::Record));
    assert_eq!((errors.hold.as_secs(), errors.keep_firing_for.as_secs()), (600, 300));
    let labels: Vec<(&str, &str)> =
        errors.labels.iter().map(|(name, value)| (name.as_str(), value.text())).collect();
    assert_eq!(labels, [("team", "ops"), ("severity", "page"), ("tier", "5")]);
    assert_eq!(requests.expr, "* | stats by (host) count() n");
    // Ids stay the same over versions: the state that is kept is found by them.
    assert_eq!((web.id.as_str(), errors.id.as_str()), ("6a3d7194b8344383", "f56c4f6c7d57d146"));
}

#[test]
fn errors_name_the_line_and_the_remedy() {
    let rule = |rule: &str| format!("groups:\n- name: g\n  rules:\n  - {rule}\n");
    for (text, line, part) in [
        ("groups:\n- name: g\n  colour: red\n".to_owned(), Some(3), "unknown field `colour`"),
        (rule("alert: a\n    exprr: x\n    expr: x"), Some(5), "unknown field `exprr`"),
        ("groups:\n- name: g\n  type: prometheus\n".to_owned(), Some(3), "type: vlogs"),
        ("groups:\n- name: g\n  type: graphite\n".to_owned(), Some(3), "'graphite'"),
        ("groups:\n- name: g\n  interval: 5 minutes\n".to_owned(), Some(3), "not a duration"),
        ("groups:\n- name: g\n  interval: 10ms\n".to_owned(), Some(3), "too short"),
        ("groups:\n- name: g\n  interval: 1m\n  eval_offset: 2m\n".to_owned(), Some(4), "below"),
        ("groups:\n- name: g\n  limit: 100000\n".to_owned(), Some(3), "at most 10000"),
        ("groups:\n- name: g\n- name: g\n".to_owned(), Some(3), "two groups"),
        ("groups:\n- name: ''\n".to_owned(), Some(2), "`name`"),
        (rule("expr: x"), Some(4), "either `alert` or `record`"),
        (rule("alert: a\n    record: b\n    expr: x"), Some(6), "either"),
        (rule("alert: a\n    expr: ''"), Some(5), "empty"),
        (rule("alert: a\n    expr: bad"), Some(5), "`expr` of the rule 'a': no stats"),
        (rule("alert: a"), Some(4), "expr"),
        (rule("record: a\n    expr: x\n    for: 1m"), Some(6), "`alert`"),
        (rule("alert: a\n    expr: x\n    for: -1m"), Some(6), "`for`"),
        (rule("alert: a\n    expr: x\n    labels: {alertname: b}"), Some(6), "rename"),
        (rule("alert: a\n    expr: x\n    annotations:\n      s: '{{ if 1 }}'"), Some(7), "'if'"),
        (rule("alert: a\n    expr: x\n  - alert: a\n    expr: x"), Some(7), "twice"),
        ("groups: [\n".to_owned(), None, ""),
        ("groups: 5\n".to_owned(), Some(1), ""),
        (" ".repeat(2 << 20), None, "split it"),
    ] {
        let error = parse(&text).expect_err(&text);
        assert!(line.is_none() || error.line == line, "{text}: {error:?}");
        assert!(error.what.contains(part), "{text}: {error}");
    }
}

#[test]
fn alias_bombs_are_refused() {
    let mut text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for (from, to) in [('a', 'b'), ('b', 'c'), ('c', 'd'), ('d', 'e'), ('e', 'f'), ('f', 'g')] {
        let aliases = vec![format!("*{from}"); 10].join(", ");
        text.push_str(&format!("{to}: &{to} [{aliases}]\n"));
    }
    parse(&text).unwrap_err();
    let deep = format!("groups: {}{}", "[".repeat(5_000), "]".repeat(5_000));
    parse(&deep).unwrap_err();
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,60}") {
        let _ = parse(&text);
    }

    #[test]
    fn no_damaged_file_panics(at in 0..FULL.len(), cut in 0..20_usize, put in "\\PC{0,3}") {
        let start = FULL.floor_char_boundary(at);
        let end = FULL.ceil_char_boundary((start + cut).min(FULL.len()));
        let _ = parse(&format!("{}{put}{}", &FULL[..start], &FULL[end..]));
    }
}

//! Helpers of the tests of all filters, and tests of how filters are combined. The examples of each
//! filter are tested in its own file.

use crate::testing::{record, rows_of};

/// Checks which messages a filter selects.
pub(super) fn check(filter: &str, selected: &[&str], others: &[&str]) {
    let messages: Vec<&str> = selected.iter().chain(others).copied().collect();
    let records: Vec<_> = messages.iter().map(|m| record(1, &[("_msg", m)])).collect();
    let expected: Vec<String> = selected.iter().map(|m| format!("_msg={m}")).collect();
    let shown = |rows: Vec<String>| rows.into_iter().filter(|r| !r.is_empty()).collect::<Vec<_>>();
    assert_eq!(shown(rows_of(&format!("{filter} | fields _msg"), &records)), expected, "{filter}");
}

/// Checks whether a filter selects a record.
pub(super) fn check_fields(filter: &str, fields: &[(&str, &str)], expected: bool) {
    let found = rows_of(filter, &[record(5, fields)]).len() == 1;
    assert_eq!(found, expected, "{filter} on {fields:?}");
}

#[test]
fn logic() {
    check("NOT info OR debug", &["x", "info debug"], &["info"]);
    check("NOT (info OR debug)", &["x"], &["info debug", "info"]);
    check("a b or c", &["a b", "c"], &["a", "b"]);
    check("a AND (b or c)", &["a b", "a c"], &["a", "b c"]);
    check("a -b", &["a"], &["a b", "b"]);
    check("!!a", &["a"], &["b"]);
    check("a !\"b c\"", &["a b"], &["a b c"]);
}

#[test]
fn groups_of_a_field() {
    let check = check_fields;
    let fields = [("log.level", "error"), ("app", "foobar")];
    check("log.level:(info or error)", &fields, true);
    check("log.level:(info or !=error)", &fields, false);
    check("log.level:!error", &fields, false);
    check("log.level:-info", &fields, true);
    check("log.level:not(info or fatal)", &fields, true);
    check("log.level:error -app:(buggy_app OR foobar)", &fields, false);
    check("\"log.level\":\"error\" -(\"buggy_app\" OR \"foobar\")", &fields, true);
}

#[test]
fn computed_fields() {
    check_fields("_line_id:=00000001-1-0", &[("a", "b")], true);
    check_fields("_line:foo _received:*", &[("_msg", "a foo")], true);
}

#[test]
fn numbers_in_any_field_are_those_of_senders() {
    let fields = [("_remote_ip", "10.0.0.9"), ("_type", "json"), ("n", "12")];
    for (filter, expected) in [
        ("*:>50", false),
        ("*:>10", true),
        ("*:range(1000, inf)", false),
        ("*:ipv4_range(10.0.0.0/8)", false),
        ("*:len_range(8, 8)", false),
        ("*:>zzz or *:>jj", false),
        ("_remote_ip:>50", true),
        ("_remote*:ipv4_range(10.0.0.0/8)", true),
        ("*:json *:\"10.0.0.9\"", true),
    ] {
        check_fields(filter, &fields, expected);
    }
}

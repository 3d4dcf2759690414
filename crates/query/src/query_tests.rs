//! Messages about wrong queries, and that any text is answered.

use proptest::prelude::*;

use crate::{NESTING_MAX, PIPES_MAX, QUERY_BYTES_MAX, Query};

/// Checks the whole message about a wrong query; `caret` is the place in the text.
fn check(text: &str, caret: usize, expected: &str) {
    let error = Query::parse(text, 0).expect_err(text);
    let place = format!("\n  {text}\n  {:caret$}^", "");
    assert_eq!(error.to_string(), format!("{expected}{place}"), "{text}");
}

#[test]
fn messages_show_the_place() {
    let filter = "expected a word or a \"phrase\" or field:value or \"(\" or \"*\"";
    check("", 0, &format!("the query ends where a filter should be; {filter}"));
    check("error and", 9, &format!("the query ends where a filter should be; {filter}"));
    check("error or | x", 9, &format!("unexpected \"|\"; {filter}"));
    check(
        "(error or warn",
        14,
        "the query ends in the middle of the filters in parentheses; expected \")\"",
    );
    check("error) | count()", 5, "unexpected \")\"; expected \"|\" or the end");
    check("level:\"err", 6, "the quoted text does not end; expected a closing \"");
    check(
        "level:",
        6,
        "the query ends where the value of \"level\" should be; expected a word or a \"phrase\" or =exact or \
         ~regex or * or a comparison or a function or \"(\"",
    );
    check(
        "~\"a(\"",
        1,
        "the regular expression cannot be used: error: unclosed group; expected a regular expression",
    );
    check(
        "_time:5q error",
        6,
        "not a time; expected a duration such as 5m or a time such as 2026-01-31T12:00Z or [from, to)",
    );
    check("size:range(1, x)", 14, "not a number; expected a number such as 10, 1.5KB or 250ms");
    check(
        "user:in(_time:1d path:admin | fields user)",
        17,
        "in(…) takes a list of values; queries inside it are not supported; expected \",\" or \")\"",
    );
    check("*foo", 4, "a substring needs a \"*\" on both sides; expected \"*\"");
    check(
        "* | sort by (a",
        14,
        "the query ends in the middle of the fields to sort by; expected \")\"",
    );
    check(
        "* | stats by (level) cnt()",
        21,
        "there is no stats function \"cnt\"; expected count or count_empty or count_uniq or sum or avg or min \
         or max or quantile or median",
    );
    check(
        "* | stats count() a, sum(x) a",
        21,
        "the name \"a\" is used twice; expected a name with \"as\"",
    );
    check("* | limit x", 10, "not a number of rows; expected a number of rows");
    check(
        "* | grep x",
        4,
        "there is no pipe \"grep\"; expected fields or delete or rename or copy or filter or limit or offset or \
         sort or uniq or top or stats or field_names or field_values or facets or len or json_array_len or hash",
    );
    check("{app=\"x\"", 8, "the stream selector does not end; expected \",\" or \"or\" or \"}\"");
}

#[test]
fn the_place_is_shown_in_characters_and_long_queries_are_cut() {
    let text = format!("{} тест )", "x ".repeat(100));
    let error = Query::parse(&text, 0).unwrap_err();
    assert_eq!(&text[error.position..], ")");
    let shown = error.to_string();
    let (query, caret) = (shown.lines().nth(1).unwrap(), shown.lines().nth(2).unwrap());
    assert_eq!(query.chars().nth(caret.chars().count() - 1), Some(')'));
    assert!(query.chars().count() < 130);
}

#[test]
fn limits() {
    let nested = |n: usize| format!("{}a{}", "(".repeat(n), ")".repeat(n));
    assert!(Query::parse(&nested(NESTING_MAX - 1), 0).is_ok());
    assert!(Query::parse(&nested(NESTING_MAX), 0).is_ok());
    assert!(Query::parse(&nested(NESTING_MAX + 1), 0).is_err());
    assert!(Query::parse(&format!("{}a", "!".repeat(QUERY_BYTES_MAX - 1)), 0).is_err());
    let piped = |n: usize| format!("a{}", " | limit 1".repeat(n));
    assert!(Query::parse(&piped(PIPES_MAX), 0).is_ok());
    assert!(Query::parse(&piped(PIPES_MAX + 1), 0).is_err());
    let long = |n: usize| "a".repeat(n);
    assert!(Query::parse(&long(QUERY_BYTES_MAX), 0).is_ok());
    assert!(Query::parse(&long(QUERY_BYTES_MAX + 1), 0).is_err());
}

/// Checks that a query is written back as expected, and read again as the same.
fn check_written(text: &str, expected: &str) {
    let query = Query::parse(text, 0).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(query.to_string(), expected);
    assert_eq!(Query::parse(expected, 0).as_ref(), Ok(&query), "{expected}");
}

#[test]
fn queries_are_written_back() {
    let check = check_written;
    check("error", "\"error\"");
    check("a B:c and (d or -e)", "\"a\" B:\"c\" (\"d\" or !\"e\")");
    check("* | FIELDS a, b* | HEAD", "* | fields a, \"b\"* | limit 10");
    check(
        "{a=b} | count(), sum(x)",
        "a:=\"b\" | stats count(*) as \"count(*)\", sum(x) as \"sum(x)\"",
    );
    check("_time:[1000000000,2001)", "_time:[2001-09-09T01:46:40Z,2001-01-01T00:00:00Z)");
    check("_time:>=2262-05", "_time:>=2262-04-11T23:47:16.854775807Z");
    check(
        "* | stats by (_time:1d offset 2h, size:1KB, \"a b\") quantile(0.9, took) if (x or y) as p",
        "* | stats by (_time:1d offset 2h, size:\"1KB\", \"a b\") quantile(0.9, took) if (\"x\" or \"y\") as p",
    );
    check("* | order by (a, b desc) desc limit 3", "* | sort by (a desc, b) limit 3");
    check("* | top 5 (a)", "* | top 5 by (a)");
    check("* | uniq a, b, a hits", "* | uniq by (a, b) with hits");
}

#[test]
fn queries_say_which_fields_they_need() {
    let check = |text: &str, needed: &[&str]| {
        let query = Query::parse(text, 0).unwrap();
        let found = query.needed_fields(&["_id".to_owned()]);
        let names = ["_msg", "_time", "_stream", "_raw", "_id", "level", "n", "app_name", "abc"];
        let found: Vec<&str> = names.into_iter().filter(|n| found.contains(n)).collect();
        assert_eq!(found, needed, "{text}");
    };
    let shown = ["_msg", "_time", "_stream", "_id", "level", "n", "app_name", "abc"];
    check("error", &shown);
    check("* | fields level, a*", &["_id", "level", "app_name", "abc"]);
    check("* | delete a*, n", &["_msg", "_time", "_stream", "_id", "level"]);
    check("* | fields level | filter _raw:x", &["_raw", "_id", "level"]);
    check("* | stats by (_time:5m) count() if (error) n", &["_msg", "_time"]);
    check("level:x | count()", &[]);
    check("* | top 5 by (level)", &["level"]);
    check("* | rename n as level | fields level", &["_id", "n"]);
    check("* | rename a* as b* | fields bbc", &["_id", "app_name", "abc"]);
    check("* | copy n as level | fields level, n", &["_id", "n"]);
    check("* | len(_msg) as n | fields n", &["_msg", "_id"]);
    check("* | len(_msg) as n | fields level", &["_id", "level"]);
    check("* | fields level | sort by (n) limit 3", &["_id", "level"]);
    check("* | sort by (n) limit 3 | fields level", &["_id", "level", "n"]);
    check("* | delete level | field_names", &["_msg", "_time", "_stream", "n", "app_name", "abc"]);
    check("* | top 5 by (_raw)", &["_raw"]);
}

const PIECES: &[&str] = &[
    "error",
    "level",
    ":",
    "=",
    "~",
    "!",
    "-",
    "*",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    "|",
    "\"",
    "'",
    "`",
    "\\",
    " ",
    "and",
    "or",
    "not",
    "_time",
    "_stream",
    "5m",
    "2026-01-31",
    "T12:00Z",
    "range",
    "in",
    "i",
    "seq",
    "offset",
    "<",
    ">",
    "1KB",
    "fields",
    "sort",
    "by",
    "stats",
    "count",
    "quantile",
    "0.5",
    "as",
    "if",
    "limit",
    "top",
    "uniq",
    "é",
    "\u{0}",
    "facets",
    "rename",
    "len_range",
    "inf",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn any_text_is_answered(text in ".{0,60}") {
        answered(&text);
    }

    #[test]
    fn any_pieces_are_answered(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 0..25),
        gap in prop::sample::select(vec!["", " "]),
    ) {
        answered(&pieces.join(gap));
    }
}

/// Either the query is understood, and written back it is the same; or the error points into it.
fn answered(text: &str) {
    match Query::parse(text, 0) {
        Ok(query) => {
            let written = query.to_string();
            assert_eq!(Query::parse(&written, 0).as_ref(), Ok(&query), "{text} as {written}");
        }
        Err(error) => {
            assert!(text.is_char_boundary(error.position), "{text}");
            assert!(error.to_string().contains('^'));
        }
    }
}

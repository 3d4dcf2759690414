//! Tests the messages about wrong queries, and that every text is parsed or refused.

use proptest::prelude::*;

use crate::{NESTING_MAX, PIPES_MAX, QUERY_BYTES_MAX, Query};

/// The messages about wrong queries: each query after `>`, then its message.
///
/// When messages change or queries are added, run the test with `LOGINSON_BLESS=1` and check the
/// difference.
const MESSAGES: &str = include_str!("query_tests/messages.txt");

#[test]
fn messages_about_wrong_queries() {
    let queries = MESSAGES.lines().filter_map(|line| line.strip_prefix('>'));
    let mut found = String::new();
    for query in queries {
        let query = query.strip_prefix(' ').unwrap_or(query);
        let error = Query::parse(query, 0).expect_err(query);
        found.push_str(format!("> {query}").trim_end());
        found.push_str(&format!("\n{error}\n\n"));
    }
    if std::env::var_os("LOGINSON_BLESS").is_some() {
        let path = "src/lang/syntax/query_tests/messages.txt";
        std::fs::write(path, &found).expect("the messages can be written");
    } else {
        assert_eq!(found, MESSAGES, "run with LOGINSON_BLESS=1 to take these messages over");
    }
}

/// The queries that VictoriaLogs 1.52.2 shows in its documentation, an empty line between them.
const DOCUMENTED: &str = include_str!("query_tests/documented.txt");

#[test]
fn queries_of_the_documentation_of_victorialogs_are_known() {
    let differences = include_str!("../../../../../docs/logsql.md");
    let not_there = differences.lines().find(|line| line.starts_with("- Not there: the pipes "));
    let not_there: Vec<&str> = not_there.expect("a list").split('`').skip(1).step_by(2).collect();
    let mut unused = not_there.clone();
    for text in DOCUMENTED.split("\n\n") {
        let missing = not_there.iter().find(|pipe| text.contains(**pipe));
        unused.retain(|pipe| Some(pipe) != missing);
        match (Query::parse(text, 0), missing) {
            (Ok(query), None) => {
                let written = query.to_string();
                assert_eq!(Query::parse(&written, 0).as_ref(), Ok(&query), "{text}: {written}");
            }
            (Ok(_), Some(pipe)) => panic!("there is a pipe {pipe}: {text}"),
            (Err(_), Some(_)) => {}
            (Err(error), None) => panic!("{text}: {error}"),
        }
    }
    assert!(unused.is_empty(), "no documented query has a pipe of {unused:?}");
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

/// Checks that a query is written as expected, and that parsing that text gives the same query.
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
    check(
        "error  # lines with the word\n | fields a#b, \"#\" #, c\n# the end",
        "\"error\" | fields \"a#b\", \"#\"",
    );
    check("#\n*", "*");
    check(
        "_time:day_range(08:00,18:00] offset 1h _time:week_range[mon,FRIDAY)",
        "_time:day_range(08:00, 18:00] offset 1h _time:week_range[Mon, Fri)",
    );
    check(
        "a:ipv4_range(10.1.2.3/8) ip:ipv6_range(fe80::/16) b:GT_FIELD(c)",
        "a:ipv4_range(10.0.0.0, 10.255.255.255) ip:ipv6_range(fe80::, fe80:ffff:ffff:ffff:ffff:ffff:ffff:ffff) \
         b:gt_field(\"c\")",
    );
    check(
        "* | by (_time:week offset 1h, ip:/24, x:10 offset 3) row_max(a, b*, c) r, json_values() sort (d desc) limit 2 j",
        "* | stats by (_time:1w offset -3d23h, ip:/24, x:\"10\" offset \"3\") row_max(a, \"b\"*, c) as r, \
         json_values() sort by (d desc) limit 2 as j",
    );
    check("* | a:b | \"c\" | {d=e}", "* | filter a:\"b\" | filter \"c\" | filter d:=\"e\"");
    check("* | (a) count() n", "* | stats by (a) count(*) as n");
    check(
        "* | last 3 by (a, b desc) partition by (c) rank",
        "* | sort by (a desc, b) partition by (c) limit 3 rank as rank",
    );
    check("* | first", "* | sort by (_time) limit 1");
    check("* | top 5 (a) rank as r", "* | top 5 by (a) rank as r");
    check("* | mv a* as *", "* | rename \"a\"* as *");
    check(
        "* | extract if (x) 'a=<b> ' from c skip_empty_results",
        "* | extract if (\"x\") \"a=<b> \" from c skip_empty_results",
    );
    check(
        "* | format <a> as b keep_original_fields",
        "* | format \"<a>\" as b keep_original_fields",
    );
    check("* | replace ('a', b) at c limit 2", "* | replace (\"a\", \"b\") at c limit 2");
    check("* | replace_regexp if (*) (a, '')", "* | replace_regexp if (*) (\"a\", \"\")");
    check(
        "* | collapse_nums at a prettify | decolorize b | decolorize",
        "* | collapse_nums at a prettify | decolorize b | decolorize",
    );
    check(
        "* | unpack_json a fields (b*, c) result_prefix p",
        "* | unpack_json from a fields (\"b\"*, c) result_prefix \"p\"",
    );
    check(
        "* | unpack_syslog offset -2h keep_original_fields",
        "* | unpack_syslog offset -2h keep_original_fields",
    );
    check("* | unpack_words a drop_duplicates", "* | unpack_words from a drop_duplicates");
    check(
        "* | pack_json fields (a) b | pack_logfmt",
        "* | pack_json fields (a) as b | pack_logfmt",
    );
    check(
        "* | time_add 90m at t | sample 5 | drop_empty_fields",
        "* | time_add 1h30m at t | sample 5 | drop_empty_fields",
    );
    check(
        "* | len(a) b | hash(a) | json_array_len a c",
        "* | len(a) as b | hash(a) | json_array_len(a) as c",
    );
    check("* | unroll a, b | blocks_count as c", "* | unroll by (a, b) | blocks_count as c");
    check("* | set_stream_fields if (a) b, c", "* | set_stream_fields if (\"a\") b, c");
}

#[test]
fn queries_say_which_fields_they_need() {
    let check = |text: &str, needed: &[&str]| {
        let query = Query::parse(text, 0).unwrap();
        let found = query.needed_fields(&["_line_id".to_owned()]);
        let names =
            ["_msg", "_time", "_stream", "_line", "_line_id", "level", "n", "app_name", "abc"];
        let found: Vec<&str> = names.into_iter().filter(|n| found.contains(n)).collect();
        assert_eq!(found, needed, "{text}");
    };
    let shown = ["_msg", "_time", "_stream", "_line_id", "level", "n", "app_name", "abc"];
    check("error", &shown);
    check("* | fields level, a*", &["_line_id", "level", "app_name", "abc"]);
    check("* | delete a*, n", &["_msg", "_time", "_stream", "_line_id", "level"]);
    check("* | fields level | filter _line:x", &["_line", "_line_id", "level"]);
    check("* | stats by (_time:5m) count() if (error) n", &["_msg", "_time"]);
    check("level:x | count()", &[]);
    check("* | top 5 by (level)", &["level"]);
    check("* | rename n as level | fields level", &["_line_id", "n"]);
    check("* | rename a* as b* | fields bbc", &["_line_id", "app_name", "abc"]);
    check("* | copy n as level | fields level, n", &["_line_id", "n"]);
    check("* | len(_msg) as n | fields n", &["_msg", "_line_id"]);
    check("* | len(_msg) as n | fields level", &["_line_id", "level"]);
    check("* | fields level | sort by (n) limit 3", &["_line_id", "level"]);
    check("* | sort by (n) limit 3 | fields level", &["_line_id", "level", "n"]);
    check("* | delete level | field_names", &["_msg", "_time", "_stream", "n", "app_name", "abc"]);
    check("* | top 5 by (_line)", &["_line"]);
}

/// The texts in backticks in a column of the tables of a page, without single signs and without
/// examples that have an ellipsis.
fn examples(page: &str, column: usize) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with('|') && !line.starts_with("|---"));
    let cells = rows
        .filter_map(|row| row.replace("\\|", "\u{0}").split('|').nth(column).map(str::to_owned));
    let spans = cells.flat_map(|cell| {
        cell.split('`')
            .skip(1)
            .step_by(2)
            .map(|span| span.replace('\u{0}', "|"))
            .collect::<Vec<_>>()
    });
    let whole = |span: &String| !span.contains('…') && span.contains(char::is_alphanumeric);
    spans.filter(whole).collect()
}

#[test]
fn the_examples_of_the_documentation_are_queries() {
    let filters = include_str!("../../../../../docs/logsql/filters.md");
    let overview = include_str!("../../../../../docs/logsql.md");
    let functions = include_str!("../../../../../docs/logsql/functions.md");
    let stats =
        |span: &String| format!("* | stats {}", span.replace(['[', ']'], "").replace(" N", " 5"));
    let grouped = |span: &String| format!("* | stats {span} count()");
    let (by, called): (Vec<_>, Vec<_>) = examples(functions, 2)
        .into_iter()
        .chain(examples(functions, 1))
        .partition(|s| s.starts_with("by "));
    let called = called.iter().filter(|span| span.contains('(')).map(stats);
    let first = examples(overview, 1).into_iter().take_while(|span| span != "fields");
    let both = examples(filters, 1).into_iter().chain(examples(filters, 2));
    let all: Vec<String> = first.chain(both).chain(called).chain(by.iter().map(grouped)).collect();
    assert!(all.len() > 100, "the tables are found: {all:?}");
    for example in all {
        answered(&example);
        assert!(Query::parse(&example, 0).is_ok(), "{example}");
    }
}

#[test]
fn the_pipes_of_the_documentation_are_pipes() {
    let page = include_str!("../../../../../docs/logsql/pipes.md");
    // Other names of a pipe stand alone.
    let written: Vec<String> =
        examples(page, 1).into_iter().filter(|span| span.contains([' ', '('])).collect();
    assert!(written.len() > 35, "the tables are found: {written:?}");
    for pipe in written {
        let query = format!("* | {pipe}");
        answered(&query);
        assert!(Query::parse(&query, 0).is_ok(), "{pipe}");
    }
}

#[test]
fn the_seeds_of_the_fuzzer_are_queries() {
    for seed in [
        include_str!("../../../../../fuzz/seeds/logsql/every_filter"),
        include_str!("../../../../../fuzz/seeds/logsql/every_function"),
        include_str!("../../../../../fuzz/seeds/logsql/every_pipe"),
    ] {
        let query = Query::parse(seed, 0).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Query::parse(&query.to_string(), 0), Ok(query));
    }
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
    "patterns",
    "differences",
    "where",
    "scale",
    "of",
    "rename",
    "len_range",
    "inf",
    "ipv4_range",
    "ipv6_range",
    "10.0.0.0/8",
    "::1",
    "day_range",
    "week_range",
    "Mon",
    "08:00",
    "eq_field",
    "lt_field",
    "pattern_match",
    "<N>",
    "contains_common_case",
    "string_range",
    "exact",
    "re",
    "#",
    "\n",
    "month",
    "/24",
    "row_max",
    "json_values",
    "histogram",
    "rate",
    "uniq_values",
    "field_min",
    "desc",
    "math",
    "+",
    "^",
    "extract",
    "<a>",
    "from",
    "format",
    "replace",
    "unpack_json",
    "split",
    "unroll",
    "pack_logfmt",
    "time_add",
    "partition",
    "rank",
    "(?P<a>b)",
    "extract_regexp",
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

/// Checks that a text is parsed, and written as a text that gives the same query; or that the error
/// points into the text.
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

#[test]
fn other_ways_to_write_a_query() {
    let check = |text: &str, expected: &str| {
        let query = Query::parse(text, 0).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(query.to_string(), expected, "{text}");
        assert_eq!(Query::parse(expected, 0).as_ref(), Ok(&query), "{expected}");
    };
    check("error;", "\"error\"");
    check("error | limit 5 ; ;\n", "\"error\" | limit 5");
    check("\"error;\"", "\"error;\"");
    check("* | not error b", "* | filter !\"error\" \"b\"");
    check("* | sort by (a) rank pos limit 3", "* | sort by (a) limit 3 rank as pos");
    check("* | sort by (a) rank limit 3", "* | sort by (a) limit 3 rank as rank");
    check("* | sort by (a) rank", "* | sort by (a) rank as rank");
    check("* | first 2 by (a) rank \"x y\"", "* | sort by (a) limit 2 rank as \"x y\"");
    check("* | dedup by (a, b)", "* | sort by (_time) partition by (a, b) limit 1");
    check(
        "* | stats count() switch(case (a) x, case (b or c) as y, default as z), sum(n) s",
        "* | stats count(*) if (\"a\") as x, count(*) if (\"b\" or \"c\") as y, \
         count(*) if (!\"a\" !(\"b\" or \"c\")) as z, sum(n) as s",
    );
    check("* | stats count() switch", "* | stats count(*) as switch");
    for wrong in [
        "* | stats count() switch()",
        "* | stats count() switch(a)",
        "* | stats count() switch(case (a) x, case (b) x)",
        "* | stats count() switch(default a, default b)",
        "* | deduplicate by",
    ] {
        assert!(Query::parse(wrong, 0).is_err(), "{wrong}");
    }
}

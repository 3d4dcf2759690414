//! Queries that are deep or long in every possible way: parsing, writing, copying, running and
//! dropping them fits a small stack.

use crate::dist::run;
use crate::lang::context::Context;
use crate::lang::syntax::cursor::NESTING_MAX;
use crate::lang::syntax::query::PIPES_MAX;
use crate::testing::{Memory, batch, record};
use crate::{Query, REGEX_NESTING_MAX};

/// Stack of the tests: half of that of the threads of the server, although code that is not
/// optimised takes several times the stack. A deeper recursion aborts the test.
const STACK_BYTES: usize = 2 << 20;

fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.expect("a thread starts").join().expect("nothing panics");
}

/// Parses a query, writes it, parses it again, copies it, runs it and drops it. The error is that
/// of the first parsing.
fn whole_life(text: &str) -> Result<(), String> {
    read_and_written(text).map(|query| runs(&query))
}

fn read_and_written(text: &str) -> Result<Query, String> {
    let query = Query::parse(text, 0).map_err(|error| error.message)?;
    let written = query.to_string();
    if written.len() <= crate::QUERY_BYTES_MAX {
        let again = Query::parse(&written, 0).map_err(|error| error.message);
        assert_eq!(again.as_ref(), Ok(&query), "{text:.200} / {written:.200}");
    }
    let _ = (query.filter().time_range(), query.needed_fields(&[]), query.clone());
    Ok(query)
}

fn runs(query: &Query) {
    let records = |n: i64| record(n, &[("_msg", "a"), ("a", "1"), ("type", "plain")]);
    let mut source =
        Memory::new(vec![batch(1, &[records(1)]), batch(2, &[records(2), records(3)])]);
    for columns in [None, Some(1)] {
        source.columns = columns;
        let mut context = Context::default();
        context.limits.threads = 1;
        // Only the stack matters here, so the run may fail.
        let _ = run(query, &source, &context, &mut |_| std::ops::ControlFlow::Continue(()));
    }
}

fn wrapped(before: &str, inner: &str, behind: &str, n: usize) -> String {
    format!("{}{inner}{}", before.repeat(n), behind.repeat(n))
}

fn chain(operand: &str, operator: &str, n: usize) -> String {
    vec![operand; n].join(operator)
}

/// A list of `n` different fields.
fn numbered(n: usize) -> String {
    (0..n).map(|field| format!("a{field}")).collect::<Vec<_>>().join(", ")
}

/// Makes a query of `n` equal parts.
type Make = Box<dyn Fn(usize) -> String + Send>;

/// As many pipes as may precede or follow another one.
fn pipes() -> String {
    " | copy a b | filter a:1 | math a + 1 as c".repeat(PIPES_MAX / 3 - 1)
}

fn limited() -> Vec<(&'static str, usize, Make)> {
    const QUERIES: usize = NESTING_MAX / 10;
    const REGEX: usize = REGEX_NESTING_MAX as usize - 1;
    vec![
        ("parentheses", NESTING_MAX, Box::new(|n| wrapped("(", "a", ")", n))),
        ("!", NESTING_MAX, Box::new(|n| wrapped("!", "a", "", n))),
        ("-", NESTING_MAX, Box::new(|n| wrapped("-", "a", "", n))),
        ("not", NESTING_MAX, Box::new(|n| wrapped("not ", "a", "", n))),
        (
            "! of a value",
            NESTING_MAX,
            Box::new(|n| wrapped("!", "b", "", n).replacen('!', "a:!", 1)),
        ),
        ("not of a value", NESTING_MAX, Box::new(|n| format!("a:{}", wrapped("not ", "b", "", n)))),
        ("group of a field", NESTING_MAX, Box::new(|n| format!("a:{}", wrapped("(", "b", ")", n)))),
        ("field in a group", NESTING_MAX, Box::new(|n| wrapped("a:(", "b", ")", n))),
        ("not and parenthesis", NESTING_MAX / 2, Box::new(|n| wrapped("!(", "a", ")", n))),
        ("or and and", NESTING_MAX, Box::new(|n| wrapped("a or b (", "c", ")", n))),
        ("and not or", NESTING_MAX / 2, Box::new(|n| wrapped("a !(b or ", "c", ")", n))),
        ("any field", NESTING_MAX, Box::new(|n| format!("*:{}", wrapped("(", "b", ")", n)))),
        (
            "selector",
            NESTING_MAX - 2,
            Box::new(|n| wrapped("a or b (", "{a!=\"b\" or c!=\"d\",e=\"f\"}", ")", n)),
        ),
        (
            "shorthand",
            NESTING_MAX - 2,
            Box::new(|n| wrapped("a or b (", "contains_any(x,y) contains_all(x,y)", ")", n)),
        ),
        ("pipes", PIPES_MAX, Box::new(|n| format!("*{}", " | fields a".repeat(n)))),
        ("filters", PIPES_MAX, Box::new(|n| format!("*{}", " | filter a:1".repeat(n)))),
        ("limits", PIPES_MAX, Box::new(|n| format!("*{}", " | limit 5".repeat(n)))),
        ("sorts", PIPES_MAX, Box::new(|n| format!("*{}", " | sort by (a)".repeat(n)))),
        ("unions", PIPES_MAX, Box::new(|n| format!("*{}", " | union (*)".repeat(n)))),
        ("subqueries", QUERIES, Box::new(|n| wrapped("a:in(", "*", " | fields a)", n))),
        (
            "unions in unions",
            QUERIES,
            Box::new(|n| format!("*{}", wrapped(" | union (*", "", ")", n))),
        ),
        (
            "joins in joins",
            QUERIES,
            Box::new(|n| format!("*{}", wrapped(" | join by (a) (*", "", ")", n))),
        ),
        (
            "unions behind pipes",
            QUERIES,
            Box::new(|n| format!("*{}", wrapped(&format!("{} | union (*", pipes()), "", ")", n))),
        ),
        (
            "unions before pipes",
            // The innermost pipes have expressions, which are one level deeper.
            QUERIES - 1,
            Box::new(|n| format!("*{}", wrapped(" | union (*", "", &format!("{})", pipes()), n))),
        ),
        (
            "condition",
            NESTING_MAX - 1,
            Box::new(|n| format!("* | count() if ({})", wrapped("(", "a", ")", n))),
        ),
        (
            "condition of format",
            NESTING_MAX - 1,
            Box::new(|n| format!("* | format if ({}) \"x\" as y", wrapped("(", "a", ")", n))),
        ),
        (
            "math parentheses",
            NESTING_MAX,
            Box::new(|n| format!("* | math {} as x", wrapped("(", "a", ")", n))),
        ),
        (
            "math signs",
            NESTING_MAX,
            Box::new(|n| format!("* | math {} as x", wrapped("-", "a", "", n))),
        ),
        (
            "math calls",
            NESTING_MAX,
            Box::new(|n| format!("* | math {} as x", wrapped("abs(", "a", ")", n))),
        ),
        (
            "math to the right",
            NESTING_MAX / 2,
            Box::new(|n| format!("* | math {} as x", wrapped("a-(", "a", ")", n))),
        ),
        ("math sum", 500, Box::new(|n| format!("* | math {} as x", chain("a", "+", n)))),
        ("math names itself", 500, Box::new(|n| format!("* | math {}", chain("a", "+", n)))),
        (
            "math defaults",
            500,
            Box::new(|n| format!("* | math {} as x", chain("a", " default ", n))),
        ),
        (
            "groups of a regular expression",
            REGEX,
            Box::new(|n| format!("~`{}`", wrapped("(", "a", ")", n))),
        ),
        ("classes in classes", REGEX, Box::new(|n| format!("~`{}`", wrapped("[", "a", "]", n)))),
        ("repetitions", REGEX / 2, Box::new(|n| format!("~`{}`", wrapped("(", "a", "?)?", n)))),
        ("repetitions in a row", REGEX, Box::new(|n| format!("~`a{}`", "{1}".repeat(n)))),
        ("classes", 500, Box::new(|n| format!("~`{}`", "[ab]".repeat(n)))),
        (
            "groups of extract_regexp",
            REGEX - 1,
            Box::new(|n| format!("* | extract_regexp `(?P<x>{})`", wrapped("(", "a", ")", n))),
        ),
    ]
}

fn wide() -> Vec<(&'static str, Make)> {
    vec![
        ("words", Box::new(|n| chain("a", " ", n))),
        ("or", Box::new(|n| chain("a", " or ", n))),
        ("fields", Box::new(|n| chain("a:b", " or ", n))),
        ("nots", Box::new(|n| chain("!a", " ", n))),
        ("or of and", Box::new(|n| chain("a b", " or ", n))),
        ("group", Box::new(|n| format!("a:({})", chain("b", " or ", n)))),
        ("in", Box::new(|n| format!("a:in({})", chain("b", ",", n)))),
        ("contains_any", Box::new(|n| format!("a:contains_any({})", chain("b", ",", n)))),
        ("contains_all", Box::new(|n| format!("a:contains_all({})", chain("b", ",", n)))),
        ("seq", Box::new(|n| format!("seq({})", chain("b", ",", n)))),
        ("selector", Box::new(|n| format!("{{{}}}", chain("a=\"b\"", " or ", n)))),
        ("fields pipe", Box::new(|n| format!("* | fields {}", chain("a", ", ", n)))),
        ("by", Box::new(|n| format!("* | stats by ({}) count()", numbered(n)))),
        ("math entries", Box::new(|n| format!("* | math {}", chain("a as b", ", ", n)))),
        ("rows", Box::new(|n| format!("* | join by (a) rows({})", chain("{a=b}", ", ", n)))),
        ("format", Box::new(|n| format!("* | format \"{}\"", "<a>".repeat(n)))),
        ("alternatives", Box::new(|n| format!("~`{}`", chain("a", "|", n)))),
    ]
}

#[test]
fn what_is_limited_is_taken_up_to_the_limit_and_refused_beyond() {
    on_small_stack(|| {
        for (name, most, make) in limited() {
            for n in [1, 2, most - 1, most] {
                let result = whole_life(&make(n));
                assert_eq!(result, Ok(()), "{name}, {n} of {most}: {:.300}", make(n));
            }
            for n in [most + 1, 2 * most, 6_000, 100_000, 1_000_000] {
                let error = whole_life(&make(n)).expect_err(&format!("{name}: {n}"));
                let told = ["more than", "longer than", "exceed", "larger than"];
                assert!(told.iter().any(|told| error.contains(told)), "{name}, {n}: {error:.300}");
            }
        }
    });
}

#[test]
fn what_is_wide_costs_no_stack() {
    on_small_stack(|| {
        for (name, make) in wide() {
            for n in [1, 2, 300] {
                let result = whole_life(&make(n));
                assert_eq!(result, Ok(()), "{name}, {n}: {:.300}", make(n));
            }
            // As many parts as the longest text holds, and more.
            let part_bytes = make(2_000).len() / 2_000 + 1;
            let _ = read_and_written(&make(crate::QUERY_BYTES_MAX / part_bytes - 10));
            for n in [6_000, 100_000, 1_000_000] {
                let _ = read_and_written(&make(n));
            }
        }
    });
}

#[test]
fn what_never_ends_is_refused() {
    on_small_stack(|| {
        for part in [
            "(",
            "!",
            "-",
            "not ",
            "a:(",
            "a:!",
            "*:",
            "*:(",
            "{",
            "a:in(",
            "in(",
            "* | union (",
            "* | join by (a) (",
            "* | math (",
            "* | math -",
            "* | math abs(",
            "* | count() if (",
            "options(",
            "* | format if (",
            "range(",
            "a or (",
        ] {
            for n in [NESTING_MAX, 6_000, 100_000, 1_000_000] {
                assert!(whole_life(&part.repeat(n)).is_err(), "{part} {n}");
            }
        }
    });
}

#[test]
fn a_long_name_is_not_held_for_any_number_of_values() {
    let name = "n".repeat(100_000);
    for values in ["a ", "(a) ", "!a ", "a or "] {
        let query = |n: usize| format!("{name}:({} x)", values.repeat(n));
        assert_eq!(Query::parse(&query(20), 0).map(drop), Ok(()));
        let error = Query::parse(&query(25_000), 0).expect_err(values);
        assert!(error.message.contains("names of fields"), "{error}");
    }
    let error =
        Query::parse(&format!("{name}:contains_any({})", "a,".repeat(25_000)), 0).unwrap_err();
    assert!(error.message.contains("names of fields"), "{error}");
}

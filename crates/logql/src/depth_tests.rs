//! Queries that are deep or long in every possible way: all processing of a query fits a small
//! stack, whatever its text.

use query::Context;

use crate::ast::{BinaryOp, Expr};
use crate::metric::Grid;
use crate::push::push;
use crate::testing::{Memory, batch, record};
use crate::{NESTING_MAX, STAGES_MAX, logs, metric, parse};

/// Stack for the queries of these tests: half of that of the server's threads, and tests are not
/// optimised, which takes several times the stack. A deeper recursion aborts the test.
const STACK_BYTES: usize = 2 << 20;

/// Levels that the operands of a chain need themselves, at most.
const OWN_LEVELS_MAX: usize = 3;

fn on_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(work);
    thread.expect("a thread starts").join().expect("nothing panics");
}

/// Parses a query, writes it, parses it again, copies it, runs it and drops everything. The error
/// is that of parsing.
fn whole_life(text: &str) -> Result<(), String> {
    let expr = parse(text).map_err(|error| error.to_string())?;
    let written = expr.to_string();
    if written.len() <= crate::QUERY_BYTES_MAX {
        assert_eq!(
            parse(&written).map_err(|e| e.to_string()),
            Ok(expr.clone()),
            "{:.200}",
            written
        );
    }
    let source =
        Memory(vec![batch(1, &[record(1_000_000_000, &[("type", "plain"), ("_msg", "a")])])]);
    let context = Context::default();
    // The meaning of the query does not matter here, so it may be refused.
    match &expr {
        Expr::Log(query) => {
            let _ = push(query).filter.to_string();
            let _ = logs::run(query, &source, &context, 10, false, true);
        }
        Expr::Metric(metric) => {
            let grid = Grid::new(1_000_000_000, 2_000_000_000, 1_000_000_000).expect("two points");
            let _ = metric::run(metric, &source, &context, grid);
        }
    }
    Ok(())
}

fn wrapped(before: &str, inner: &str, behind: &str, n: usize) -> String {
    format!("{}{inner}{}", before.repeat(n), behind.repeat(n))
}

fn chain(operand: &str, operator: &str, n: usize) -> String {
    vec![operand; n].join(operator)
}

/// A way to make a query of `n` equal parts.
type Make = Box<dyn Fn(usize) -> String + Send>;

/// Levels that a regular expression may have.
const REGEX: usize = query::REGEX_NESTING_MAX as usize;

/// Queries of `n` parts, of which at most a given number is accepted.
fn limited() -> Vec<(String, usize, Make)> {
    let mut kinds: Vec<(String, usize, Make)> = Vec::new();
    let mut add = |name: &str, most: usize, make: Make| kinds.push((name.to_owned(), most, make));
    for op in [
        "or",
        "and",
        "unless",
        "==",
        "!=",
        ">",
        ">=",
        "<",
        "<=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "^",
        "== bool",
        "+ on ()",
        "and ignoring (a)",
        "* on () group_left ()",
    ] {
        let sign = op.split(' ').next().expect("an operator");
        let is_set = BinaryOp::named(sign).expect("an operator").is_set();
        for operand in ["vector(1)", "1", "(1)", "-1"] {
            if operand != "vector(1)" && is_set {
                continue;
            }
            let operator = format!(" {op} ");
            add(
                &format!("{operand} {op}"),
                NESTING_MAX,
                Box::new(move |n| chain(operand, &operator, n)),
            );
        }
    }
    add("range chain", NESTING_MAX, Box::new(|n| chain("rate({}[1s])", "+", n)));
    add("parentheses", NESTING_MAX - 1, Box::new(|n| wrapped("(", "1", ")", n)));
    add("sum", NESTING_MAX - 1, Box::new(|n| wrapped("sum(", "vector(1)", ")", n)));
    add("sum by", NESTING_MAX - 1, Box::new(|n| wrapped("sum by (a) (", "vector(1)", ")", n)));
    add("topk", NESTING_MAX - 1, Box::new(|n| wrapped("topk(1,", "vector(1)", ")", n)));
    add(
        "label_replace",
        NESTING_MAX - 1,
        Box::new(|n| wrapped("label_replace(", "vector(1)", ",\"a\",\"\",\"b\",\"\")", n)),
    );
    // At each level a parenthesis, and a chain that begins with it.
    add(
        "chains in chains",
        NESTING_MAX / 2,
        Box::new(|n| wrapped("(", "1", "+1)+1", n - 1) + "+1"),
    );
    add("chains to the right", NESTING_MAX, Box::new(|n| wrapped("1+(", "1", ")", n - 1)));
    add("powers in powers", NESTING_MAX, Box::new(|n| wrapped("1^(", "1", ")", n - 1)));
    add("parentheses of lines", NESTING_MAX - 1, Box::new(|n| wrapped("(", "{}", ")", n)));
    add(
        "parentheses of ranges",
        NESTING_MAX - 1,
        Box::new(|n| format!("rate({})", wrapped("(", "{}[1s]", ")", n))),
    );
    add(
        "parentheses of tests",
        NESTING_MAX,
        Box::new(|n| format!("{{}} | {}", wrapped("(", "a=\"\"", ")", n))),
    );
    add(
        "tests in tests",
        NESTING_MAX,
        Box::new(|n| format!("{{}} | {}", wrapped("a=\"\" and b=\"\" or (", "a=\"\"", ")", n))),
    );
    add(
        "tests in tests of unwrap",
        NESTING_MAX - 1,
        Box::new(|n| {
            let test = wrapped("a=\"\" or (b=\"\" and ", "a=\"\"", ")", n);
            format!("sum_over_time({{}} | unwrap x | {test} [1s])")
        }),
    );
    add("labels of json", 100, Box::new(|n| format!("{{}} | json {}", chain("a=\"b.c\"", ",", n))));
    add("stages", STAGES_MAX, Box::new(|n| format!("{{}} {}", "|= \"a\" ".repeat(n))));
    add("stages with tests", STAGES_MAX, Box::new(|n| format!("{{}} {}", "| a=\"\" ".repeat(n))));
    add(
        "conditions of templates",
        32,
        Box::new(|n| {
            let nested = wrapped("{{ if .a }}", "x", "{{ else }}y{{ end }}", n);
            format!("{{}} | line_format `{nested}`")
        }),
    );
    add(
        "parentheses of templates",
        32,
        Box::new(|n| format!("{{}} | line_format `{{{{ {} }}}}`", wrapped("(", ".a", ")", n))),
    );
    for (name, before, regex_end) in
        [("line", "{} |~ `", "`"), ("label", "{a=~`", "`}"), ("test", "{} | a=~`", "`")]
    {
        add(
            &format!("groups of a regular expression of a {name}"),
            REGEX - 1,
            Box::new(move |n| format!("{before}{}{regex_end}", wrapped("(", "a", ")", n))),
        );
    }
    add(
        "classes of a regular expression",
        REGEX - 1,
        Box::new(|n| format!("{{}} |~ `{}`", wrapped("[", "a", "]", n))),
    );
    add(
        "captures",
        REGEX - 2,
        Box::new(|n| format!("{{}} | regexp `(?P<x>{})`", wrapped("(", "a", ")", n))),
    );
    kinds
}

/// Queries that may have any number of parts, within the limit of their length.
fn wide() -> Vec<(&'static str, Make)> {
    vec![
        ("needles", Box::new(|n| format!("{{}} |= {}", chain("\"a\"", " or ", n)))),
        ("patterns", Box::new(|n| format!("{{}} |> {}", chain("\"a<_>\"", " or ", n)))),
        ("matchers", Box::new(|n| format!("{{{}}}", chain("a=\"b\"", ",", n)))),
        ("tests with or", Box::new(|n| format!("{{}} | {}", chain("a=\"\"", " or ", n)))),
        ("tests with and", Box::new(|n| format!("{{}} | {}", chain("a=\"\"", " and ", n)))),
        ("tests in a row", Box::new(|n| format!("{{}} | {}", chain("a>1", " ", n)))),
        ("or of and", Box::new(|n| format!("{{}} | {}", chain("a=\"\" and b=1", " or ", n)))),
        ("place in json", Box::new(|n| format!("{{}} | json a=\"{}\"", chain("b", ".", n)))),
        ("index in json", Box::new(|n| format!("{{}} | json a=\"b{}\"", "[0]".repeat(n)))),
        ("keep", Box::new(|n| format!("{{}} | keep {}", chain("a", ",", n)))),
        ("drop", Box::new(|n| format!("{{}} | drop {}", chain("a=\"b\"", ",", n)))),
        ("grouping", Box::new(|n| format!("sum by ({}) (vector(1))", chain("a", ",", n)))),
        ("on", Box::new(|n| format!("vector(1) + on ({}) vector(1)", chain("a", ",", n)))),
        ("actions", Box::new(|n| format!("{{}} | line_format `{}`", "{{.a}}".repeat(n)))),
        ("calls", Box::new(|n| format!("{{}} | line_format `{{{{.a{}}}}}`", "|ToUpper".repeat(n)))),
        (
            "else if",
            Box::new(|n| {
                let others = "{{else if .a}}x".repeat(n);
                format!("{{}} | line_format `{{{{if .a}}}}x{others}{{{{end}}}}`")
            }),
        ),
        (
            "filters of unwrap",
            Box::new(|n| format!("sum_over_time({{}} | unwrap x {} [1s])", "| a=\"\"".repeat(n))),
        ),
        ("sum of halves", Box::new(|n| halves("1", n))),
        ("or of halves", Box::new(|n| halves("vector(1)", n).replace('+', " or "))),
    ]
}

/// A chain with parentheses around halves, so that its tree is as low as possible.
fn halves(operand: &str, n: usize) -> String {
    match n {
        0 | 1 => operand.to_owned(),
        n => format!("({}+{})", halves(operand, n / 2), halves(operand, n - n / 2)),
    }
}

#[test]
fn what_is_limited_is_taken_up_to_the_limit_and_refused_beyond() {
    on_small_stack(|| {
        for (name, most, make) in limited() {
            for n in [1, 2, most - OWN_LEVELS_MAX] {
                let result = whole_life(&make(n));
                assert_eq!(result, Ok(()), "{name}, {n} of {most}: {:.300}", make(n));
            }
            for n in [most + OWN_LEVELS_MAX, 2 * most, 6_000, 100_000, 1_000_000] {
                let error = whole_life(&make(n)).expect_err(&format!("{name}: {n}"));
                let phrases = ["more than", "longer than", "exceed", "larger than"];
                assert!(
                    phrases.iter().any(|phrase| error.contains(phrase)),
                    "{name}, {n}: {error:.300}"
                );
            }
        }
    });
}

#[test]
fn what_is_wide_costs_no_stack() {
    on_small_stack(|| {
        for (name, make) in wide() {
            for n in [1, 2, 300, 1_000] {
                let result = whole_life(&make(n));
                assert_eq!(result, Ok(()), "{name}, {n}: {:.300}", make(n));
            }
            // As much as the longest text can hold, and more.
            let part_bytes = make(2_000).len() / 2_000 + 1;
            let _ = whole_life(&make(crate::QUERY_BYTES_MAX / part_bytes - 10));
            for n in [6_000, 100_000, 1_000_000] {
                let _ = whole_life(&make(n));
            }
        }
    });
}

#[test]
fn what_never_ends_is_refused() {
    on_small_stack(|| {
        for part in [
            "(",
            "{",
            "[",
            "{} | (",
            "sum(",
            "rate(",
            "rate((",
            "1+(",
            "1^(",
            "-",
            "--",
            "!",
            "1-",
            "1^",
            "{} | a=\"\" or (",
            "{}|=",
            "{} | line_format `{{(`",
            "label_replace(",
            "topk(1, ",
            "vector(",
            "1 + on (",
            "{a=",
        ] {
            for n in [NESTING_MAX, 6_000, 100_000, 1_000_000] {
                assert!(whole_life(&part.repeat(n)).is_err(), "{part} {n}");
            }
        }
    });
}

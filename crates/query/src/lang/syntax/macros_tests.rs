//! Tests of macros.

use super::cursor::Cursor;
use super::macros::{
    EXPANDED_BYTES_MAX, Expansion, MACRO_BYTES_MAX, Macro, MacroForm, PARAMETERS_MAX,
};
use super::query::Query;

fn make(name: &str, parameters: &[&str], text: &str) -> Result<Macro, String> {
    Macro::new(name, parameters.iter().map(|p| (*p).to_owned()).collect(), text, "")
}

fn some() -> Vec<Macro> {
    let all: [(&str, &[&str], &str); 16] = [
        ("errors", &[], "level:error or level:fatal"),
        ("of", &["app"], "app:=$app"),
        ("slow", &["field", "limit"], "$field:>$limit"),
        ("either", &["a", "b"], "$a or $b"),
        ("beginning", &["word"], "_msg:$word* and x:=$word*"),
        ("since", &["range"], "_time:$range"),
        ("status", &["range"], "status:$range"),
        (
            "busiest",
            &["by", "n"],
            "| stats by ($by) count() as lines | sort by (lines desc) | limit $n",
        ),
        ("report", &["app"], "@of($app) level:error | stats count() as n"),
        ("ms", &["ns"], "$ns/1000000"),
        ("difference", &["a", "b"], "$a - $b*2"),
        ("twice", &["x"], "@either($x, @of($x))"),
        ("circle", &["x"], "@round($x)"),
        ("round", &["x"], "a or @circle($x)"),
        ("many", &[], "@more() @more() @more() @more() @more() @more() @more() @more() @more()"),
        ("more", &[], "@most() @most() @most() @most() @most() @most() @most() @most() @most()"),
    ];
    let mut macros: Vec<Macro> =
        all.iter().map(|(name, parameters, text)| make(name, parameters, text).unwrap()).collect();
    macros.push(make("most", &[], &"a ".repeat(2_000)).unwrap());
    macros
}

fn parse(text: &str) -> Result<Query, String> {
    let mut cursor = Cursor::new(text, 1_000_000_000_000_000_000);
    cursor.expansion = Expansion::with(some());
    Query::parse_whole(&mut cursor).map_err(|error| {
        assert!(error.position <= text.len() && error.query == text, "{error:?}");
        error.to_string()
    })
}

#[test]
fn a_call_is_the_tree_that_its_text_stands_for() {
    for (call, expanded) in [
        ("@errors()", "level:error or level:fatal"),
        // What comes out of a macro stands as if in parentheses.
        ("app:=a @errors()", "app:=a (level:error or level:fatal)"),
        ("!@errors()", "!(level:error or level:fatal)"),
        ("@of(shop)", "app:=shop"),
        ("@of(\"a b\") @of('x\"y')", "app:=\"a b\" app:='x\"y'"),
        ("@slow(took, 5s)", "took:>5s"),
        ("@slow(\"my field\", -5)", "\"my field\":>-5"),
        ("@either(level:error, host:web* -debug)", "level:error or (host:web* -debug)"),
        ("@either((a or b), !c)", "a or b or !c"),
        ("@beginning(\"con\")", "_msg:con* and x:=con*"),
        ("@since(5m)", "_time:5m"),
        ("@since([2026-01-01, 2026-01-02)) x", "_time:[2026-01-01, 2026-01-02) x"),
        ("@status(range[500, 600))", "status:range[500, 600)"),
        ("@status(in(500, 502))", "status:in(500, 502)"),
        ("@status(500 or 502)", "status:(500 or 502)"),
        ("@status(=500)", "status:=500"),
        (
            "* | @busiest(host, 3)",
            "* | stats by (host) count() as lines | sort by (lines desc) | limit 3",
        ),
        (
            "* | limit 9 | @busiest(\"a,b\", 3) | limit 1",
            "* | limit 9 | stats by (\"a,b\") count() as lines | sort by (lines desc) | limit 3 | limit 1",
        ),
        ("@report(shop)", "app:=shop level:error | stats count() as n"),
        ("@report(shop) | limit 1", "app:=shop level:error | stats count() as n | limit 1"),
        (
            "x:in(@report(shop) | fields n)",
            "x:in(app:=shop level:error | stats count() as n | fields n)",
        ),
        ("* | math @ms(took) as x", "* | math took / 1000000 as x"),
        ("* | math @ms(a + b) * 2 as x", "* | math (a + b) / 1000000 * 2 as x"),
        ("* | math @difference(-a, @ms(b)) as x", "* | math -a - (b / 1000000) * 2 as x"),
        (
            "* | filter @errors() | @of(x) or y",
            "* | filter (level:error or level:fatal) | app:=x or y",
        ),
        (
            "* | stats count() if (@errors()) n",
            "* | stats count() if (level:error or level:fatal) n",
        ),
        ("@twice(shop)", "shop or app:=shop"),
        ("level:@either(a, b)", "level:(a or b)"),
        ("@of(shop) # @of(comment)", "app:=shop"),
        // These call nothing.
        ("\"@of\" (shop)", "\"@of\" shop"),
        ("@of (shop)", "\"@of\" shop"),
        ("@timestamp:(a or b)", "\"@timestamp\":(a or b)"),
        ("$x", "\"$x\""),
    ] {
        let query = parse(call).unwrap_or_else(|error| panic!("{call}: {error}"));
        let expected = parse(expanded).unwrap_or_else(|error| panic!("{expanded}: {error}"));
        assert_eq!(query.to_string(), expected.to_string(), "{call}");
        assert_eq!(parse(&query.to_string()).unwrap().to_string(), query.to_string(), "{call}");
    }
}

#[test]
fn an_argument_stays_one_value_or_one_filter() {
    for (call, expected) in [
        (
            "@of(\"a\\\" or level:error or x:\\\"\")",
            Some("app:=\"a\\\" or level:error or x:\\\"\""),
        ),
        ("@of(\"$app\")", Some("app:=\"$app\"")),
        ("@of(\"@errors()\")", Some("app:=\"@errors()\"")),
        ("a @either(\"x) | delete\", b)", Some("a (\"x) | delete\" or b)")),
        ("@either(a | limit 1, b)", None),
        ("@either(a) or (b, c)", None),
        ("* | @busiest(host | limit 1, 3)", None),
        ("* | @busiest(host, 3 | limit 1)", None),
        ("@slow(took, 5 or a:6)", None),
        ("@of(a or b)", None),
    ] {
        match (parse(call), expected) {
            (Ok(query), Some(expected)) => {
                assert_eq!(query.to_string(), parse(expected).unwrap().to_string(), "{call}");
            }
            (Err(_), None) => {}
            (other, _) => panic!("{call}: {other:?}"),
        }
    }
}

#[test]
fn errors_stand_at_the_call_and_say_what_is_wrong_inside() {
    for (wrong, messages) in [
        ("a @error()", &["no macro @error", "@errors", "\n  a @error()\n    ^"][..]),
        ("a @nothing_like_it()", &["quote \"@nothing_like_it\""]),
        ("a @of()", &["@of($app) takes 1 arguments, and has 0"]),
        ("a @of(b, c)", &["and has 2"]),
        ("@slow(, 5)", &["an argument of @slow is empty"]),
        ("@of(b", &["ends in the arguments of @of"]),
        ("@of(\"b", &["does not end"]),
        ("a @slow(took, 5 or 6)", &["in @slow, at `$limit`", "single word", "\n  a @slow"]),
        ("x @since(yesterday)", &["in @since", "not a time", "\n  x @since(yesterday)\n    ^"]),
        ("a @either(b, (c)", &["ends in the arguments"]),
        ("a @either(b, c:)", &["in @either", "in the argument $b, at its end", "ends where"]),
        ("@circle(a)", &["@circle calls itself: @circle → @round → @circle"]),
        ("@either(@circle(a), b)", &["calls itself"]),
        ("@many()", &["stand for more than"]),
        ("a @busiest(host, 3)", &["@busiest stands for pipes; write it behind \"|\""]),
        ("a @report(b)", &["only be the beginning"]),
        ("@report(b) c", &["only pipes can follow"]),
        ("* | @report(b)", &["only be the beginning"]),
    ] {
        let error = parse(wrong).expect_err(wrong);
        for message in messages {
            assert!(error.contains(message), "{wrong}: {error}");
        }
    }
    let nested = format!("{}a{}", "@either(b, ".repeat(11), ")".repeat(11));
    assert!(parse(&nested).unwrap_err().contains("macros in each other"));
}

#[test]
fn a_macro_is_checked_when_it_is_made() {
    let form = |text: &str| make("m", &[], text).unwrap().form();
    assert_eq!(form("a or b"), MacroForm::Filter);
    assert_eq!(form("a:in(b | fields c)"), MacroForm::Filter);
    assert_eq!(form("\"a | b\" # | c"), MacroForm::Filter);
    assert_eq!(form(" | limit 1"), MacroForm::Pipes);
    assert_eq!(form("a | limit 1"), MacroForm::Query);
    assert_eq!(form("_time:[2026-01-01, 2026-01-02)"), MacroForm::Filter);
    let long = "a".repeat(MACRO_BYTES_MAX + 1);
    let parameters: Vec<String> = (0..=PARAMETERS_MAX).map(|n| format!("p{n}")).collect();
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    for (name, parameters, text, message) in [
        ("", &[][..], "a", "is no name"),
        ("a-b", &[], "a", "is no name"),
        ("1a", &[], "a", "is no name"),
        ("m", &["a b"], "a", "is no name"),
        ("m", &["a", "a"], "$a", "twice"),
        ("m", &["a"], "b", "does not use its parameter $a"),
        ("m", &[], "a:$b", "no parameter 'b'"),
        ("m", &["a"], "$a+$b", "no parameter 'b'"),
        ("m", &[], "  # nothing", "empty"),
        ("m", &[], "\"a", "does not end"),
        ("m", &[], "(a", "not closed"),
        ("m", &[], "a) or (b", "nothing is open"),
        ("m", &[], &long, "longer than"),
        ("m", &parameters, "a", "are the most"),
    ] {
        let error = make(name, parameters, text).expect_err(text);
        assert!(error.contains(message), "{text}: {error}");
    }
    assert!(make("m", &[], &long[1..]).is_ok());
    assert!(make("m", &[], "cost:\"$5\" $5").is_ok());
    const { assert!(EXPANDED_BYTES_MAX >= MACRO_BYTES_MAX) };
}

#[test]
fn a_query_calls_what_it_may_call() {
    use super::macros::{Callable, set_configured, set_saved};
    set_configured(vec![make("fixed", &[], "a").unwrap()]);
    set_saved(vec![make("fixed", &[], "b").unwrap(), make("changing", &[], "c").unwrap()]);
    let parse = |text: &str, callable| {
        Query::parse_with(text, 0, callable).map(|query| query.to_string()).ok()
    };
    let written = |text: &str| Query::parse(text, 0).ok().map(|query| query.to_string());
    assert_eq!(parse("@fixed()", Callable::All), written("a"));
    assert_eq!(parse("@changing()", Callable::All), written("c"));
    assert_eq!(parse("@fixed()", Callable::Configured), written("a"));
    assert_eq!(parse("@changing()", Callable::Configured), None);
    assert_eq!(parse("@fixed()", Callable::None), None);

    // What is not shared is not told to be there, and hides what is.
    let shared = |name: &str, text: &str| make(name, &[], text).unwrap().shared(true);
    set_configured(vec![make("fixed", &[], "a").unwrap(), shared("common", "d")]);
    set_saved(vec![
        shared("fixed", "b"),
        shared("kept", "e"),
        make("changing", &[], "c").unwrap(),
        shared("outer", "@changing()"),
    ]);
    assert_eq!(parse("@common()", Callable::Shared), written("d"));
    assert_eq!(parse("@kept()", Callable::Shared), written("e"));
    for text in ["@fixed()", "@changing()", "@outer()", "* | filter @changing()"] {
        let error = Query::parse_with(text, 0, Callable::Shared).unwrap_err().message;
        assert!(error.contains("there is no macro @"), "{error}");
    }
    let error = Query::parse_with("@changin()", 0, Callable::Shared).unwrap_err().message;
    assert!(!error.contains("did you mean"), "{error}");
    assert_eq!(parse("@outer()", Callable::All), written("c"));
}

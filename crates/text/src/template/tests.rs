//! The grammar of templates, in a small language.

use proptest::prelude::*;

use std::sync::Arc;

use super::*;

static FUNCTIONS: [Function; 3] = [
    Function {
        name: "upper",
        least: 1,
        most: 1,
        call: Run::Linear(|a| Ok(shown(&a[0]).to_uppercase().into())),
    },
    Function {
        name: "join",
        least: 1,
        most: 3,
        call: Run::Linear(|a| Ok(a.iter().map(shown).collect::<Vec<_>>().join("-").into())),
    },
    Function {
        name: "fail",
        least: 1,
        most: 1,
        call: Run::Linear(|_| Err("it failed".to_owned())),
    },
];

static LANGUAGE: Language<String> = Language {
    functions: &FUNCTIONS,
    variable: |written| match written {
        "word" => Ok(Some("word".to_owned())),
        path if path.starts_with('.') => Ok(Some(path[1..].to_owned())),
        path if path.starts_with('$') => Err(format!("no variable {path}")),
        _ => Ok(None),
    },
    check: |_, _, _| Ok(()),
    bound: |value| match shown(&value).len() {
        0..=100 => Ok(value),
        _ => Err("too long".to_owned()),
    },
    show_number: number::shortest,
    has_conditions: true,
    template_bytes_max: 1000,
};

fn shown(value: &Value<'_>) -> String {
    value.shown(number::shortest).into_owned()
}

/// Variables stand for their names; `none` is empty.
fn rendered(text: &str) -> Result<String, String> {
    let template = Template::parse(text, &LANGUAGE)?;
    assert_eq!(template.text(), text);
    let value = |name: &String| if name == "none" { "".into() } else { name.clone().into() };
    template.render(&value, 1000)
}

#[test]
fn templates_are_rendered() {
    for (text, expected) in [
        ("", ""),
        ("plain } {text", "plain } {text"),
        ("{{ .a }}{{.b}}", "ab"),
        ("{{ word }}", "word"),
        ("{{ 7 }} {{ -2.50 }} {{ 1000000 }} {{ 1e6 }} {{ true }}", "7 -2.5 1000000 1e+06 true"),
        ("{{ \"q\\\"\\u00e9\\x41\" }} {{ `r\\` }} {{ \"}}\" }}", "q\"éA r\\ }}"),
        ("{{ .a | upper }} {{ upper .a }} {{ upper (upper .a) }}", "A A A"),
        ("{{ .a | join 1 | join true }}", "true-1-a"),
        ("{{ join (join .a .b) (upper `c`) }}", "a-b-C"),
        ("a \n{{- .x -}}\n b", "axb"),
        ("a {{-3}} b", "a -3 b"),
        ("{{/* a \" }} comment */}}x {{- /* another */ -}} y", "xy"),
        ("{{ if .a }}yes{{ else }}no{{ end }}", "yes"),
        ("{{ if .none }}yes{{ else }}no{{ end }}", "no"),
        ("{{ if .none }}a{{ else if 0 }}b{{ else if word }}c{{ else }}d{{ end }}", "c"),
        ("{{ if .a }}{{ if false }}a{{ end }}b{{ end }}", "b"),
        ("{{ .a }}{{ `{{ .b }}` }}", "a{{ .b }}"),
    ] {
        assert_eq!(rendered(text).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn faults_are_named() {
    for (text, part) in [
        ("{{ .a", "not closed; write `}}`"),
        ("{{ \"a }}", "not closed"),
        ("{{/* a }}", "not closed; write `*/`"),
        ("{{ }}", "a value is missing"),
        ("{{ .a | }}", "no function behind '|'; write one of upper, join, fail in {{ .a | }}"),
        ("{{ .a | .b }}", "no function behind '|'"),
        ("{{ .a .b }}", "without '|'"),
        ("{{ nosuch }}", "the function 'nosuch' is not supported; there are upper, join, fail"),
        ("{{ template .a }}", "the word 'template' is not supported"),
        ("{{ $a }}", "no variable $a"),
        ("{{ upper }}", "upper takes 1 argument, and gets 0"),
        ("{{ .a | upper .b }}", "upper takes 1 argument, and gets 2"),
        ("{{ join }}", "join takes 1 or more arguments, and gets 0"),
        ("{{ upper upper .a }}", "'upper' stands where a value has to be"),
        ("{{ (.a }}", "a ')' is missing"),
        ("{{ .a) }}", "a ')' too many in {{ .a) }}"),
        ("{{ \"\\q\" }}", "no text in quotes"),
        ("{{ \"\\xff\" }}", "no text in quotes"),
        ("{{ 1x }}", "'1x' is no number"),
        ("{{ .a := 1 }}", "'$name := …' is expected"),
        ("{{ if .a }}", "an 'if' has no 'end'"),
        ("{{ if }}{{ end }}", "a value is missing"),
        ("{{ end }}", "'end' has no 'if'"),
        ("{{ if .a }}{{ else }}{{ else }}{{ end }}", "'else' follows 'else'"),
        ("{{ if .a }}{{ else .b }}{{ end }}", "'else' is followed by a value"),
        ("{{ fail 1 }}", "fail: it failed"),
    ] {
        let error = rendered(text).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn depth_length_and_results_are_bounded() {
    let parentheses = |n: usize| format!("{{{{ {}.a{} }}}}", "(".repeat(n), ")".repeat(n));
    assert_eq!(rendered(&parentheses(DEPTH_MAX)).as_deref(), Ok("a"));
    assert!(rendered(&parentheses(DEPTH_MAX + 1)).unwrap_err().contains("more than 32"));
    let conditions = |n: usize| "{{if 1}}".repeat(n) + "x" + &"{{end}}".repeat(n);
    assert_eq!(rendered(&conditions(DEPTH_MAX)).as_deref(), Ok("x"));
    assert!(rendered(&conditions(DEPTH_MAX + 1)).unwrap_err().contains("more than 32"));
    assert!(rendered(&"x".repeat(1001)).unwrap_err().contains("longer than 1000 bytes"));
    let long = "y".repeat(60);
    assert!(
        rendered(&format!("{{{{ join `{long}` `{long}` }}}}")).unwrap_err().contains("too long")
    );
    // What is behind the part that made it too long, is left out.
    let template = Template::parse("{{ .long }}{{ .long }}x", &LANGUAGE).unwrap();
    assert_eq!(template.render(&|name| name.as_str().into(), 5).unwrap(), "longlong");
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}") {
        let _ = rendered(&text);
    }

    #[test]
    fn no_action_panics(parts in prop::collection::vec(prop::sample::select(vec![
        "{{", "}}", "{{-", "-}}", "$a", ".b", "|", "upper", "join", "if", "else", "end", "\"a\"",
        "\"", "`", "\\", "(", ")", " ", "-", "1", "%", "é", "/*", "*/", "true", "range", "with", ":=", "=", ",", "$", ".", "break",
    ]), 0..12)) {
        let _ = rendered(&parts.concat());
    }

    #[test]
    fn text_without_actions_stays(text in "[^{]{0,40}") {
        prop_assert_eq!(rendered(&text).unwrap(), text);
    }
}

#[test]
fn loops_and_variables_of_a_template() {
    let list = |text: &str| {
        let template = Template::parse(text, &LANGUAGE)?;
        let value = |name: &String| match name.as_str() {
            "list" => Value::List(Arc::new(vec![Value::Int(1), "b".into(), Value::Nothing])),
            "long" => Value::Int(STEPS_MAX as i64 + 1),
            "object" => {
                let inner = Value::Object(Arc::new([("x".to_owned(), Value::Int(7))].into()));
                Value::Object(Arc::new([("in".to_owned(), inner)].into()))
            }
            name => name.to_owned().into(),
        };
        template.render(&value, 1000)
    };
    for (text, expected) in [
        ("{{ range .list }}[{{ . }}]{{ end }}", "[1][b][<no value>]"),
        ("{{ range $i, $v := .list }}{{ $i }}={{ $v }};{{ end }}", "0=1;1=b;2=<no value>;"),
        (
            "{{ range $v := .list }}{{ if $v }}{{ $v }}{{ else }}{{ continue }}{{ end }},{{ end }}",
            "1,b,",
        ),
        ("{{ range .list }}{{ break }}{{ end }}-", "-"),
        ("{{ range .list }}{{ range 2 }}{{ . }}{{ end }}{{ end }}", "010101"),
        ("{{ range .object }}{{ .x }}{{ end }}", "7"),
        (
            "{{ with .object }}{{ .in.x }} {{ .in.none.more }} {{ $.word }}{{ end }}",
            "7 <no value> word",
        ),
        ("{{ $a := 1 }}{{ with 5 }}{{ $a = . }}{{ $b := 2 }}{{ $b }}{{ end }}{{ $a }}", "25"),
        ("{{ $a := 1 }}{{ if true }}{{ $a := 2 }}{{ $a }}{{ end }}{{ $a }}", "21"),
        ("{{ .list }} {{ .object }}", "[1 b <no value>] map[in:map[x:7]]"),
        ("{{ range 0 }}x{{ else }}none{{ end }}", "none"),
    ] {
        assert_eq!(list(text).as_deref(), Ok(expected), "{text}");
    }
    for (text, expected) in [
        ("{{ range .long }}{{ end }}", "more than 100000 steps"),
        ("{{ range .word }}{{ end }}", "range needs a list"),
        ("{{ with .word }}{{ .a }}{{ end }}", "'.a' is asked of a value that is no object"),
        ("{{ $a = 1 }}", "the variable $a is not known here"),
        ("{{ if true }}{{ $a := 1 }}{{ end }}{{ $a }}", "no variable $a"),
        ("{{ range .list }}", "a 'range' has no 'end'"),
        ("{{ with .list }}{{ else }}{{ else }}{{ end }}", "'else' follows 'else'"),
        ("{{ continue }}", "'continue' stands outside of 'range'"),
        ("{{ $a, $b, $c := 1 }}", "'$name := …' is expected"),
        ("{{ := 1 }}", "'$name := …' is expected"),
        ("{{ .a, .b }}", "without '|'"),
    ] {
        let error = list(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

//! Templates of `line_format` and `label_format`: those of [`text::template`] with labels
//! (`{{.level}}`), `__line__`, `__timestamp__`, `now` and the functions of Loki
//! ([`super::functions`]).
//! `docs/grafana.md` lists the functions.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use text::template::number::shortest;
use text::template::{Language, Value};

use super::Item;
use super::functions::{FUNCTIONS, fits};
use crate::lex::QUERY_BYTES_MAX;

/// Limit of the output of a template for one line. Beyond it the line has an error.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A template.
pub type Template = text::template::Template<Variable>;

/// What a template names.
#[derive(Clone)]
pub enum Variable {
    /// The label of a name; empty if there is none.
    Label(String),
    /// All labels of the output.
    Labels,
    /// The line.
    Line,
    /// The time of the line.
    Timestamp,
    /// The time of the machine.
    Now,
}

static LANGUAGE: Language<Variable> = Language {
    functions: &FUNCTIONS,
    variable,
    check: |_, _, _| Ok(()),
    bound: |value| match &value {
        Value::Text(text) => fits(text.len()).map(|()| value),
        _ => Ok(value),
    },
    show_number: shortest,
    has_conditions: true,
    template_bytes_max: QUERY_BYTES_MAX,
};

/// Parses a template.
pub fn parse(text: &str) -> Result<Template, String> {
    Template::parse(text, &LANGUAGE)
}

/// The output of a template for a line.
pub fn render(template: &Template, item: &Item<'_>) -> Result<String, String> {
    let value = |variable: &Variable| match variable {
        Variable::Label(name) => item.with_label(name, str::to_owned).into(),
        Variable::Line => Value::Text(Cow::Borrowed(&item.line)),
        Variable::Labels => {
            let labels = item.labels().into_iter();
            Value::Object(Arc::new(labels.map(|(name, value)| (name, value.into())).collect()))
        }
        Variable::Timestamp => Value::Time(item.time_ns),
        Variable::Now => {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Value::Time(i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
        }
    };
    let may_continue = |bytes: usize| item.may_continue(bytes);
    let out = template.render_while(&value, OUTPUT_BYTES_MAX, &may_continue)?;
    match out.len() > OUTPUT_BYTES_MAX {
        true => Err(format!("the template makes more than {OUTPUT_BYTES_MAX} bytes")),
        false => Ok(out),
    }
}

fn variable(written: &str) -> Result<Option<Variable>, String> {
    match written {
        "__line__" => return Ok(Some(Variable::Line)),
        "__timestamp__" => return Ok(Some(Variable::Timestamp)),
        "now" => return Ok(Some(Variable::Now)),
        "." => return Ok(Some(Variable::Labels)),
        _ => {}
    }
    match written.strip_prefix('.') {
        Some(name) if !name.is_empty() && !name.contains('.') => {
            Ok(Some(Variable::Label(name.to_owned())))
        }
        None if !written.starts_with('$') => Ok(None),
        _ => Err(format!(
            "'{written}' is not known; there are labels, such as .level, variables that the template \
             makes, __line__, __timestamp__ and now"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stage::Fields;

    struct Nothing;
    impl Fields for Nothing {
        fn field(&self, name: &str) -> Cow<'_, str> {
            Cow::Borrowed(if name == "pid" { "7" } else { "" })
        }
    }

    fn rendered(template: &str) -> String {
        let stream = [("app".to_owned(), "web".to_owned()), ("n".to_owned(), "12".to_owned())];
        let pulse = query::Pulse::endless();
        let item = Item::new(0, Cow::Borrowed("the line"), &stream, "info", &Nothing, &pulse);
        match parse(template) {
            Ok(template) => {
                render(&template, &item).unwrap_or_else(|error| format!("failed: {error}"))
            }
            Err(error) => format!("refused: {error}"),
        }
    }

    #[test]
    fn what_templates_make() {
        for (template, expected) in [
            ("a {{.app}} b", "a web b"),
            ("{{.absent}}|{{.pid}}", "|7"),
            ("{{ .app | ToUpper }}", "WEB"),
            ("{{ ToUpper .app | printf \"%s-%d\" \"x\" 3 }}", "failed: printf: too many arguments"),
            (
                "{{ printf \"%s:%d:%5.1f|%-4s|%q\" .app 3 2.25 \"a\" \"b\" }}",
                "web:3:  2.2|a   |\"b\"",
            ),
            ("{{ Replace .app \"e\" \"E\" 1 }}", "wEb"),
            ("{{ .app | replace \"e\" \"o\" | upper }}", "WOB"),
            ("{{ if eq .app \"web\" }}yes{{ else }}no{{ end }}", "yes"),
            ("{{ if .absent }}a{{ else if contains \"e\" .app }}b{{ else }}c{{ end }}", "b"),
            ("a {{- .app -}} b", "awebb"),
            ("{{/* nothing */}}x", "x"),
            ("{{ __line__ | trunc 3 }} {{ __timestamp__ }}", "the 1970-01-01 00:00:00 +0000 UTC"),
            ("{{ add 1 (mul 2 .n) }}", "25"),
            ("{{ divf 1e7 4 }} {{ divf 5 2 }}", "2.5e+06 2.5"),
            ("{{ default \"-\" .absent }}", "-"),
            ("{{ .app | substr 1 3 }}", "eb"),
            ("{{ .app | urlencode }}{{ \"a%20b\" | urldecode }}", "weba b"),
            ("{{ \"%zz\" | urldecode }}", "failed: urldecode: not URL-encoded"),
            ("{{ duration_seconds \"1m\" }} {{ bytes \"1KB\" }}", "60 1000"),
            ("{{ regexReplaceAll \"(w)e\" .app \"${1}o\" }}", "wob"),
            ("{{ if and .app (not .absent) }}1{{ end }}", "1"),
            ("{{ eq true (lt 1 2) }}", "true"),
            ("{{ repeat 99999999 .app }}", "failed: repeat: more than 1048576 bytes"),
            ("{{ printf \"%k\" 1 }}", "failed: printf: the format '%k' of printf is not supported"),
            (
                "{{ nosuch .app }}",
                "refused: the function 'nosuch' is not supported; there are ToLower",
            ),
            ("{{ range .app }}x{{ end }}", "failed: range needs a list or an object"),
            ("{{ range .app }}x", "refused: a 'range' has no 'end'"),
            ("{{ define \"x\" }}", "refused: the word 'define' is not supported"),
            ("{{ $x }}", "refused: '$x' is not known; there are labels, such as .level"),
            ("{{ .a.b }}", "refused: '.a.b' is not known; there are labels, such as .level"),
            // All labels of the output, but no fields.
            ("{{ . }}", "map[app:web detected_level:info n:12]"),
            (
                "{{ range $k, $v := . }}{{ $k }}={{ $v }} {{ end }}",
                "app=web detected_level=info n=12 ",
            ),
            // Variables, with, range.
            ("{{ $x := .app }}{{ $x | upper }}{{ $x = \"b\" }}{{ $x }}", "WEBb"),
            ("{{ with .app }}<{{ . }}>{{ else }}none{{ end }}", "<web>"),
            ("{{ with .absent }}<{{ . }}>{{ else }}none {{ .app }}{{ end }}", "none web"),
            ("{{ with $y := .app }}{{ $y }}{{ $.n }}{{ end }}", "web12"),
            ("{{ if $y := .app }}{{ $y }}{{ end }}", "web"),
            (
                "{{ range $i, $q := fromJson \"[3,\\\"a\\\",true,null]\" }}{{ $i }}:{{ $q }} {{ end }}",
                "0:3 1:a 2:true 3:<no value> ",
            ),
            (
                "{{ range fromJson `[{\"q\":{\"n\":1}},{\"q\":{\"n\":2}}]` }}{{ .q.n }},{{ end }}",
                "1,2,",
            ),
            (
                "{{ range fromJson `[1,2,3,4]` }}{{ if eq . 2 }}{{ continue }}{{ end }}{{ if gt . 3 }}{{ break }}{{ end }}{{ . }}{{ end }}",
                "13",
            ),
            ("{{ range fromJson `[]` }}x{{ else }}empty{{ end }}", "empty"),
            ("{{ range fromJson `broken` }}x{{ else }}empty{{ end }}", "empty"),
            ("{{ fromJson `{\"foo\": 55, \"b\": [1, \"x\"]}` }}", "map[b:[1 x] foo:55]"),
            ("{{ (fromJson `{\"a\":{\"b\":\"deep\"}}`).a.b }}", "deep"),
            ("{{ index (fromJson `{\"a\":[5,6]}`) \"a\" 1 }}", "6"),
            ("{{ len (fromJson `[1,2]`) }}{{ len .app }}", "23"),
            ("{{ break }}", "refused: 'break' stands outside of 'range'"),
            // Times.
            ("{{ __timestamp__ | date \"2006-01-02 15:04\" }}", "1970-01-01 00:00"),
            ("{{ date \"2006\" \"x\" }}", "failed: date: no time"),
            ("{{ \"2021-11-02\" | toDate \"2006-01-02\" | unixEpoch }}", "1635811200"),
            ("{{ toDate \"2006-01-02\" \"2021-11-02\" | unixEpochMillis }}", "1635811200000"),
            (
                "{{ toDateInZone \"2006-01-02\" \"UTC\" \"2021-11-02\" | unixEpochNanos }}",
                "1635811200000000000",
            ),
            (
                "{{ toDateInZone \"2006\" \"Mars\" \"2021\" }}",
                "failed: toDateInZone: the zone 'Mars' is not supported",
            ),
            ("{{ toDate \"2006\" \"x\" }}", "failed: toDate: 'x' is no time in the layout '2006'"),
            ("{{ date \"2006-01-02\" (unixToTime \"1679577215\") }}", "2023-03-23"),
            ("{{ unixToTime \"19439\" }}", "2023-03-23 00:00:00 +0000 UTC"),
            ("{{ unixToTime \"1679577215123\" | unixEpochMillis }}", "1679577215123"),
            ("{{ unixToTime \"12\" }}", "failed: unixToTime: '12' has"),
            ("{{ if gt (unixEpoch now) 1700000000 }}late{{ end }}", "late"),
            // Others.
            ("{{ \"hé\" | b64enc }} {{ b64dec \"aMOp\" }}", "aMOp hé"),
            ("{{ b64dec \"%\" }}", "failed: b64dec: not Base64"),
            ("{{ maxf 1 2.5 3 }} {{ minf 1.5 2.5 }}", "3 1.5"),
            ("{{ round 123.555555 3 }} {{ round 123.88571428571 5 .2 }}", "123.556 123.88572"),
            ("{{ \"a b\" | urlencode }} {{ \"a+b\" | urldecode }}", "a+b a b"),
            ("{{ if and (contains \"he\" \"hello\") (or .absent (ne 1 2)) }}yes{{ end }}", "yes"),
            ("{{ println 1 .app }}", "1 web\n"),
            ("{{ print 1 2 \"a\" \"b\" }}", "1 2ab"),
            ("{{ .app", "refused: an action is not closed; write `}}` behind it"),
            ("{{ if .app }}", "refused: an 'if' has no 'end'"),
            ("{{ end }}", "refused: 'end' has no 'if' in front of it"),
            ("{{ ToUpper }}", "refused: ToUpper takes 1 argument, and gets 0 in {{ ToUpper }}"),
            ("{{ add 1 }}", "refused: add takes 2 or more arguments, and gets 1 in {{ add 1 }}"),
        ] {
            let found = rendered(template);
            match expected.starts_with("refused: ") || expected.starts_with("failed: ") {
                // Errors go on with what there is instead.
                true => assert!(found.starts_with(expected), "{template}: {found}"),
                false => assert_eq!(found, expected, "{template}"),
            }
        }
    }
}

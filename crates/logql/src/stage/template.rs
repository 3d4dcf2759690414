//! Templates of `line_format` and `label_format`: those of [`text::template`] with labels
//! (`{{.level}}`), `__line__`, `__timestamp__` and the functions of Loki ([`super::functions`]).
//! `docs/grafana.md` lists the functions.

use std::borrow::Cow;

use text::template::{Language, Value};

use super::Item;
use super::functions::{FUNCTIONS, fits};
use crate::lex::QUERY_BYTES_MAX;
use crate::units::format_number;

/// Limit of the output of a template for one line. Beyond it the line has an error.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A template.
pub type Template = text::template::Template<Variable>;

/// What a template names.
#[derive(Clone)]
pub enum Variable {
    /// The label of a name; empty if there is none.
    Label(String),
    /// The line.
    Line,
    /// The time of the line.
    Timestamp,
}

static LANGUAGE: Language<Variable> = Language {
    functions: &FUNCTIONS,
    variable,
    check: |_, _, _| Ok(()),
    bound: |value| match &value {
        Value::Text(text) => fits(text.len()).map(|()| value),
        _ => Ok(value),
    },
    show_number: format_number,
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
        Variable::Timestamp => text::time::format_time(item.time_ns).into(),
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
        _ => {}
    }
    match written.strip_prefix('.') {
        Some(name) if !name.is_empty() && !name.contains('.') => {
            Ok(Some(Variable::Label(name.to_owned())))
        }
        None if !written.starts_with('$') => Ok(None),
        _ => Err(format!(
            "'{written}' is not supported; there are labels, such as .level, __line__ and \
             __timestamp__"
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
            ("{{ __line__ | trunc 3 }} {{ __timestamp__ }}", "the 1970-01-01T00:00:00Z"),
            ("{{ add 1 (mul 2 .n) }}", "25"),
            ("{{ divf 1e7 4 }}", "2500000"),
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
            ("{{ range .app }}", "refused: the word 'range' is not supported"),
            ("{{ $x }}", "refused: '$x' is not supported; there are labels, such as .level"),
            ("{{ . }}", "refused: '.' is not supported; there are labels, such as .level"),
            ("{{ .a.b }}", "refused: '.a.b' is not supported; there are labels, such as .level"),
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

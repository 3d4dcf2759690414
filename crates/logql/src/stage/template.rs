//! Templates of `line_format` and `label_format`: a part of Go's text/template.
//!
//! Supported are text, labels (`{{.level}}`), functions with arguments, pipes (`{{.level |
//! ToUpper}}`), parentheses, `if`/`else if`/`else`/`end`, comments, and `-` to trim spaces.
//! `docs/grafana.md` lists the functions. Left out: `range`, `with`, `define`, variables, methods.

use super::Item;
use super::functions::{self, Function, Value};

/// Nested actions. Deeper templates are refused.
const NESTING_MAX: usize = 32;
/// Limit of the output of a template for one line. Beyond it the line has an error.
pub const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// A template.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    text: String,
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq)]
enum Node {
    Text(String),
    Show(Pipe),
    If { branches: Vec<(Pipe, Vec<Node>)>, otherwise: Vec<Node> },
}

/// Calls, each with the result of the one before as its last argument.
type Pipe = Vec<Call>;

#[derive(Clone, Debug, PartialEq)]
enum Call {
    Term(Term),
    Function(Function, Vec<Term>),
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    Label(String),
    Value(Value),
    Line,
    Timestamp,
    Pipe(Pipe),
}

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Template, String> {
        let mut reader = Reader { pieces: pieces(text)?, at: 0 };
        let (nodes, end) = reader.nodes(0)?;
        match end {
            None => Ok(Template { text: text.to_owned(), nodes }),
            Some(word) => Err(format!("unexpected {{{{{word}}}}}")),
        }
    }

    /// The template as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The output for a line.
    pub fn render(&self, item: &Item<'_>) -> Result<String, String> {
        let mut out = String::new();
        render(&self.nodes, item, &mut out)?;
        Ok(out)
    }
}

fn render(nodes: &[Node], item: &Item<'_>, out: &mut String) -> Result<(), String> {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Show(pipe) => out.push_str(&run(pipe, item)?.shown()),
            Node::If { branches, otherwise } => {
                let mut taken = otherwise;
                for (condition, nodes) in branches {
                    if run(condition, item)?.is_true() {
                        taken = nodes;
                        break;
                    }
                }
                render(taken, item, out)?;
            }
        }
        if out.len() > OUTPUT_BYTES_MAX {
            return Err(format!("the template makes more than {OUTPUT_BYTES_MAX} bytes"));
        }
    }
    Ok(())
}

fn run(pipe: &Pipe, item: &Item<'_>) -> Result<Value, String> {
    let mut last: Option<Value> = None;
    for call in pipe {
        last = Some(match call {
            Call::Term(term) => value(term, item)?,
            Call::Function(function, terms) => {
                let mut arguments =
                    terms.iter().map(|term| value(term, item)).collect::<Result<Vec<_>, _>>()?;
                arguments.extend(last.take());
                function.call(&arguments)?
            }
        });
    }
    Ok(last.expect("a pipe has a call"))
}

fn value(term: &Term, item: &Item<'_>) -> Result<Value, String> {
    Ok(match term {
        Term::Label(name) => Value::Text(item.with_label(name, str::to_owned)),
        Term::Value(value) => value.clone(),
        Term::Line => Value::Text(item.line.clone().into_owned()),
        Term::Timestamp => Value::Text(text::time::format_time(item.time_ns)),
        Term::Pipe(pipe) => run(pipe, item)?,
    })
}

enum Piece {
    Text(String),
    Action(Vec<Token>),
}

/// Splits a template into text and actions.
fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut trim = false;
    loop {
        let at = rest.find("{{");
        let mut before = &rest[..at.unwrap_or(rest.len())];
        if trim {
            before = before.trim_start();
        }
        let Some(at) = at else {
            pieces.push(Piece::Text(before.to_owned()));
            return Ok(pieces);
        };
        let mut inner = &rest[at + 2..];
        if let Some(trimmed) = inner.strip_prefix("- ") {
            before = before.trim_end();
            inner = trimmed;
        }
        pieces.push(Piece::Text(before.to_owned()));
        if let Some(comment) = inner.trim_start().strip_prefix("/*") {
            let end = comment.find("*/").ok_or("a comment does not end")?;
            inner = &comment[end + 2..];
        }
        let (tokens, behind, trims) = action(inner)?;
        (rest, trim) = (behind, trims);
        if !tokens.is_empty() {
            pieces.push(Piece::Action(tokens));
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Label(String),
    Value(Value),
    Pipe,
    Open,
    Close,
}

/// The tokens of an action up to its `}}`, the text behind it, and whether leading spaces of that
/// text are trimmed.
fn action(text: &str) -> Result<(Vec<Token>, &str, bool), String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix("-}}") {
            return Ok((tokens, behind, true));
        }
        if let Some(behind) = rest.strip_prefix("}}") {
            return Ok((tokens, behind, false));
        }
        let c = rest.chars().next().ok_or("an action does not end; }} is missing")?;
        let word = |from: &str| {
            from.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(from.len())
        };
        let (token, length) = match c {
            '|' => (Token::Pipe, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '"' | '`' => {
                let (value, length) = literal(rest)?;
                (Token::Value(Value::Text(value)), length)
            }
            '.' => {
                let length = word(&rest[1..]);
                if length == 0 {
                    return Err("not supported: . alone; name a label, such as .level".to_owned());
                }
                (Token::Label(rest[1..=length].to_owned()), length + 1)
            }
            c if c.is_ascii_digit() || c == '-' || c == '+' => {
                let end = rest[1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
                let length = end.map_or(rest.len(), |end| end + 1);
                let written = &rest[..length];
                let value = match (written.parse::<i64>(), written.parse::<f64>()) {
                    (Ok(int), _) => Value::Int(int),
                    (_, Ok(float)) => Value::Float(float),
                    _ => return Err(format!("'{written}' is not a number")),
                };
                (Token::Value(value), length)
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let length = word(rest);
                (Token::Word(rest[..length].to_owned()), length)
            }
            '$' => return Err("not supported: variables ($)".to_owned()),
            c => return Err(format!("unexpected character {c:?}")),
        };
        tokens.push(token);
        rest = &rest[length..];
    }
}

fn literal(text: &str) -> Result<(String, usize), String> {
    let ended = "a quoted string does not end";
    if let Some(raw) = text.strip_prefix('`') {
        let length = raw.find('`').ok_or(ended)?;
        return Ok((raw[..length].to_owned(), length + 2));
    }
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((place, c)) = chars.next() {
        match c {
            '"' => return Ok((value, place + 1)),
            '\\' => value.push(match chars.next().ok_or(ended)?.1 {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                c @ ('"' | '\\' | '\'') => c,
                c => return Err(format!("unknown escape \\{c}")),
            }),
            c => value.push(c),
        }
    }
    Err(ended.to_owned())
}

struct Reader {
    pieces: Vec<Piece>,
    at: usize,
}

impl Reader {
    /// Nodes up to the end, or to `else`, `else if` or `end`, which is returned with the text
    /// behind it.
    fn nodes(&mut self, depth: usize) -> Result<(Vec<Node>, Option<String>), String> {
        if depth > NESTING_MAX {
            return Err(format!("more than {NESTING_MAX} nested actions"));
        }
        let mut nodes = Vec::new();
        while self.at < self.pieces.len() {
            self.at += 1;
            match &self.pieces[self.at - 1] {
                Piece::Text(text) if text.is_empty() => {}
                Piece::Text(text) => nodes.push(Node::Text(text.clone())),
                Piece::Action(tokens) => match &tokens[0] {
                    Token::Word(word) if word == "end" || word == "else" => {
                        return Ok((nodes, Some(word.clone())));
                    }
                    Token::Word(word) if word == "if" => {
                        let condition = pipe(&tokens[1..])?;
                        nodes.push(self.conditional(condition, depth)?);
                    }
                    Token::Word(word)
                        if ["range", "with", "define", "block", "template", "break"]
                            .contains(&word.as_str()) =>
                    {
                        return Err(format!("not supported: {word}"));
                    }
                    _ => nodes.push(Node::Show(pipe(tokens)?)),
                },
            }
        }
        Ok((nodes, None))
    }

    fn conditional(&mut self, condition: Pipe, depth: usize) -> Result<Node, String> {
        let mut branches = Vec::new();
        let mut condition = Some(condition);
        loop {
            let (nodes, end) = self.nodes(depth + 1)?;
            let end = end.ok_or("an if without end")?;
            let is_else = end == "else";
            let Some(wanted) = condition.take() else {
                return match is_else {
                    true => Err("else after else".to_owned()),
                    false => Ok(Node::If { branches, otherwise: nodes }),
                };
            };
            branches.push((wanted, nodes));
            if !is_else {
                return Ok(Node::If { branches, otherwise: Vec::new() });
            }
            let Piece::Action(tokens) = &self.pieces[self.at - 1] else {
                unreachable!("it was an action")
            };
            condition = match tokens.get(1) {
                None => None,
                Some(Token::Word(word)) if word == "if" => Some(pipe(&tokens[2..])?),
                Some(_) => return Err("unexpected text after else".to_owned()),
            };
        }
    }
}

fn pipe(tokens: &[Token]) -> Result<Pipe, String> {
    let mut at = 0;
    let pipe = pipe_at(tokens, &mut at, 0)?;
    if at < tokens.len() {
        return Err("unexpected \")\"".to_owned());
    }
    Ok(pipe)
}

fn pipe_at(tokens: &[Token], at: &mut usize, depth: usize) -> Result<Pipe, String> {
    if depth > NESTING_MAX {
        return Err(format!("more than {NESTING_MAX} nested parentheses"));
    }
    let mut calls: Pipe = Vec::new();
    loop {
        let head = tokens.get(*at).ok_or("an action ends too early")?;
        let call = match head {
            Token::Word(name) if functions::constant(name).is_none() && !is_own(name) => {
                let function = Function::named(name)
                    .ok_or_else(|| format!("function \"{name}\" not defined"))?;
                *at += 1;
                let mut terms = Vec::new();
                while !matches!(tokens.get(*at), None | Some(Token::Pipe | Token::Close)) {
                    terms.push(term(tokens, at, depth)?);
                }
                function.check(terms.len() + usize::from(!calls.is_empty()))?;
                Call::Function(function, terms)
            }
            _ if !calls.is_empty() => {
                return Err("only a function may follow |".to_owned());
            }
            _ => Call::Term(term(tokens, at, depth)?),
        };
        calls.push(call);
        match tokens.get(*at) {
            Some(Token::Pipe) => *at += 1,
            None | Some(Token::Close) => return Ok(calls),
            Some(_) => return Err("a value may not follow a value".to_owned()),
        }
    }
}

fn is_own(name: &str) -> bool {
    name == "__line__" || name == "__timestamp__"
}

fn term(tokens: &[Token], at: &mut usize, depth: usize) -> Result<Term, String> {
    let token = &tokens[*at];
    *at += 1;
    Ok(match token {
        Token::Label(name) => Term::Label(name.clone()),
        Token::Value(value) => Term::Value(value.clone()),
        Token::Word(name) if name == "__line__" => Term::Line,
        Token::Word(name) if name == "__timestamp__" => Term::Timestamp,
        Token::Word(name) => match functions::constant(name) {
            Some(value) => Term::Value(value),
            None => Term::Pipe(vec![Call::Function(
                {
                    let function = Function::named(name)
                        .ok_or_else(|| format!("function \"{name}\" not defined"))?;
                    function.check(0)?;
                    function
                },
                Vec::new(),
            )]),
        },
        Token::Open => {
            let pipe = pipe_at(tokens, at, depth + 1)?;
            if tokens.get(*at) != Some(&Token::Close) {
                return Err("\")\" is missing".to_owned());
            }
            *at += 1;
            Term::Pipe(pipe)
        }
        Token::Pipe | Token::Close => return Err("a value is missing".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::stage::Fields;

    struct Nothing;
    impl Fields for Nothing {
        fn field(&self, name: &str) -> Cow<'_, str> {
            Cow::Borrowed(if name == "pid" { "7" } else { "" })
        }
    }

    fn render(template: &str) -> String {
        let stream = [("app".to_owned(), "web".to_owned()), ("n".to_owned(), "12".to_owned())];
        let item = Item::new(0, Cow::Borrowed("the line"), &stream, "info", &Nothing);
        match Template::parse(template) {
            Ok(template) => template.render(&item).unwrap_or_else(|e| format!("failed: {e}")),
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
            ("{{ default \"-\" .absent }}", "-"),
            ("{{ .app | substr 1 3 }}", "eb"),
            ("{{ regexReplaceAll \"(w)e\" .app \"${1}o\" }}", "wob"),
            ("{{ if and .app (not .absent) }}1{{ end }}", "1"),
            ("{{ nosuch .app }}", "refused: function \"nosuch\" not defined"),
            ("{{ range .app }}", "refused: not supported: range"),
            ("{{ .app", "refused: an action does not end; }} is missing"),
            ("{{ if .app }}", "refused: an if without end"),
            ("{{ end }}", "refused: unexpected {{end}}"),
            ("{{ ToUpper }}", "refused: ToUpper takes 1 argument"),
            ("{{ repeat 99999999 .app }}", "failed: repeat: more than 1048576 bytes"),
        ] {
            assert_eq!(render(template), expected, "{template}");
        }
    }
}

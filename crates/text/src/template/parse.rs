//! The grammar of templates: text to nodes.

use super::{Call, DEPTH_MAX, Function, Kind, Language, Node, Pipe, Term, Value};
use crate::quoted::{Dialect, unquote};

/// Words of Go's templates that are no functions.
const CONTROL: [&str; 10] =
    ["if", "else", "end", "range", "with", "template", "define", "block", "break", "continue"];

#[derive(Clone, Debug, PartialEq)]
enum Token {
    /// A function, or a word such as `if`.
    Word(String),
    /// `$labels.host`, `.level`.
    Path(String),
    Value(Value<'static>),
    Pipe,
    Open,
    Close,
}

/// A part of the text.
enum Piece<'t> {
    Text(&'t str),
    /// What is between the braces, as tokens and as written.
    Action(Vec<Token>, &'t str),
}

/// The nodes of a template.
pub(super) fn nodes<V>(text: &str, language: &'static Language<V>) -> Result<Vec<Node<V>>, String> {
    let bytes_max = language.template_bytes_max;
    if text.len() > bytes_max {
        return Err(format!("the template is longer than {bytes_max} bytes; shorten it"));
    }
    let mut reader = Reader { language, pieces: pieces(text)?, next: 0 };
    let (nodes, end) = reader.nodes(0)?;
    match end {
        None => Ok(nodes),
        Some(word) => Err(format!("'{word}' has no 'if' in front of it")),
    }
}

fn pieces(text: &str) -> Result<Vec<Piece<'_>>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    // `-}}` takes the white space behind it away.
    let mut trims = false;
    while let Some((before, action)) = rest.split_once("{{") {
        let (mut inside, behind) = split_action(action)?;
        let mut before = if trims { before.trim_start() } else { before };
        if let Some(trimmed) = inside.strip_prefix('-')
            && trimmed.starts_with(char::is_whitespace)
        {
            (inside, before) = (trimmed, before.trim_end());
        }
        trims = false;
        if let Some(trimmed) = inside.strip_suffix('-')
            && trimmed.ends_with(char::is_whitespace)
        {
            (inside, trims) = (trimmed, true);
        }
        let inside = inside.trim();
        pieces.push(Piece::Text(before));
        if !(inside.starts_with("/*") && inside.ends_with("*/")) {
            pieces.push(Piece::Action(tokens(inside)?, inside));
        }
        rest = behind;
    }
    pieces.push(Piece::Text(if trims { rest.trim_start() } else { rest }));
    Ok(pieces)
}

/// The action up to `}}`, which does not count in texts and comments, and what is behind it.
fn split_action(text: &str) -> Result<(&str, &str), String> {
    let begin = text.strip_prefix('-').unwrap_or(text).trim_start();
    let mut at = match begin.strip_prefix("/*") {
        Some(comment) => {
            let (_, behind) = comment
                .split_once("*/")
                .ok_or_else(|| "a comment is not closed; write `*/` behind it".to_owned())?;
            text.len() - behind.len()
        }
        None => 0,
    };
    let bytes = text.as_bytes();
    let mut quote = None;
    while at < bytes.len() {
        match (bytes[at], quote) {
            (b'\\', Some(b'"')) => at += 1,
            (byte, Some(open)) if byte == open => quote = None,
            (byte @ (b'"' | b'`'), None) => quote = Some(byte),
            (b'}', None) if bytes.get(at + 1) == Some(&b'}') => {
                return Ok((&text[..at], &text[at + 2..]));
            }
            _ => {}
        }
        at += 1;
    }
    Err("an action is not closed; write `}}` behind it".to_owned())
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        // The length of a word from an offset on.
        let word = |from: usize| {
            let is_part = |c: char| c.is_alphanumeric() || "_.".contains(c);
            from + rest[from..].find(|c| !is_part(c)).unwrap_or(rest.len() - from)
        };
        let (token, length) = match first {
            '|' => (Token::Pipe, 1),
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '"' | '`' => {
                let mut bytes = Vec::new();
                let length = unquote(rest.as_bytes(), Dialect::Go, &mut bytes).ok();
                let value = String::from_utf8(bytes).ok();
                let (Some(length), Some(value)) = (length, value) else {
                    return Err(format!("there is no text in quotes at {rest}"));
                };
                (Token::Value(value.into()), length)
            }
            '$' | '.' => (Token::Path(rest[..word(1)].to_owned()), word(1)),
            '-' | '+' | '0'..='9' => (Token::Value(number(&rest[..word(1)])?), word(1)),
            first if first.is_alphabetic() || first == '_' => {
                (Token::Word(rest[..word(0)].to_owned()), word(0))
            }
            first => return Err(format!("'{first}' is not supported in {{{{ {text} }}}}")),
        };
        tokens.push(token);
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn number(text: &str) -> Result<Value<'static>, String> {
    if let Ok(int) = text.parse() {
        return Ok(Value::Int(int));
    }
    let float = text.parse().ok().filter(|float: &f64| float.is_finite());
    float.map(Value::Float).ok_or_else(|| format!("'{text}' is no number"))
}

struct Reader<'t, V: 'static> {
    language: &'static Language<V>,
    pieces: Vec<Piece<'t>>,
    next: usize,
}

impl<V> Reader<'_, V> {
    /// Nodes up to the end, or to `else`, `else if` or `end`, which is returned and is the piece
    /// before the next one.
    fn nodes(&mut self, depth: usize) -> Result<(Vec<Node<V>>, Option<String>), String> {
        if depth > DEPTH_MAX {
            return Err(too_deep("conditions"));
        }
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get(self.next) {
            self.next += 1;
            match piece {
                Piece::Text("") => {}
                Piece::Text(text) => nodes.push(Node::Text((*text).to_owned())),
                Piece::Action(tokens, text) => match tokens.first() {
                    Some(Token::Word(word))
                        if self.language.has_conditions && (word == "end" || word == "else") =>
                    {
                        return Ok((nodes, Some(word.clone())));
                    }
                    Some(Token::Word(word)) if self.language.has_conditions && word == "if" => {
                        let condition = self.pipe(&tokens[1..], text)?;
                        nodes.push(self.conditional(condition, depth)?);
                    }
                    _ => nodes.push(Node::Show(self.pipe(tokens, text)?)),
                },
            }
        }
        Ok((nodes, None))
    }

    /// What follows `{{ if … }}`, up to its `{{ end }}`.
    fn conditional(&mut self, condition: Pipe<V>, depth: usize) -> Result<Node<V>, String> {
        let mut branches = Vec::new();
        let mut condition = Some(condition);
        loop {
            let (nodes, end) = self.nodes(depth + 1)?;
            let end = end.ok_or_else(|| "an 'if' has no 'end'".to_owned())?;
            let is_else = end == "else";
            let Some(wanted) = condition.take() else {
                return match is_else {
                    true => Err("'else' follows 'else'; write 'else if'".to_owned()),
                    false => Ok(Node::If { branches, otherwise: nodes }),
                };
            };
            branches.push((wanted, nodes));
            if !is_else {
                return Ok(Node::If { branches, otherwise: Vec::new() });
            }
            let Piece::Action(tokens, text) = &self.pieces[self.next - 1] else {
                unreachable!("a word ended the nodes")
            };
            condition = match tokens.get(1) {
                None => None,
                Some(Token::Word(word)) if word == "if" => Some(self.pipe(&tokens[2..], text)?),
                Some(_) => {
                    return Err(format!("'else' is followed by a value in {{{{ {text} }}}}"));
                }
            };
        }
    }

    fn pipe(&self, tokens: &[Token], text: &str) -> Result<Pipe<V>, String> {
        let mut parser = Parser { language: self.language, tokens, next: 0, depth: 0 };
        let pipe = parser.pipe().map_err(|what| format!("{what} in {{{{ {text} }}}}"))?;
        match parser.peek() {
            None => Ok(pipe),
            Some(_) => Err(format!("there is a ')' too many in {{{{ {text} }}}}")),
        }
    }
}

fn too_deep(what: &str) -> String {
    format!("{what} are nested deeper than they may be, more than {DEPTH_MAX} in each other")
}

struct Parser<'t, V: 'static> {
    language: &'static Language<V>,
    tokens: &'t [Token],
    next: usize,
    depth: usize,
}

impl<'t, V> Parser<'t, V> {
    fn peek(&self) -> Option<&'t Token> {
        self.tokens.get(self.next)
    }

    fn pipe(&mut self) -> Result<Pipe<V>, String> {
        let first = match self.peek() {
            Some(Token::Word(name)) if self.value(name)?.is_none() => self.call(false)?,
            _ => {
                let term = self.term()?;
                (self.language.check)(None, std::slice::from_ref(&term), 0)?;
                Call::Value(term)
            }
        };
        let mut calls = vec![first];
        loop {
            match self.peek() {
                Some(Token::Pipe) => {
                    self.next += 1;
                    calls.push(self.call(true)?);
                }
                None | Some(Token::Close) => return Ok(calls),
                Some(_) => return Err("a value is followed by another one without '|'".to_owned()),
            }
        }
    }

    /// A function and its arguments; `is_piped` says that the pipe brings one more.
    fn call(&mut self, is_piped: bool) -> Result<Call<V>, String> {
        let Some(Token::Word(name)) = self.peek() else {
            return Err(format!("there is no function behind '|'; write one of {}", self.names()));
        };
        self.next += 1;
        let Some(function) = self.language.functions.iter().find(|f| f.name == name) else {
            let what = if CONTROL.contains(&name.as_str()) { "word" } else { "function" };
            let names = self.names();
            return Err(format!("the {what} '{name}' is not supported; there are {names}"));
        };
        let mut arguments = Vec::new();
        while !matches!(self.peek(), None | Some(Token::Pipe | Token::Close)) {
            arguments.push(self.term()?);
        }
        let given = arguments.len() + usize::from(is_piped);
        let Function { least, most, .. } = *function;
        if !(least..=most).contains(&given) {
            let more = if most > least { " or more" } else { "" };
            let plural = if least == 1 && most == 1 { "" } else { "s" };
            return Err(format!("{name} takes {least}{more} argument{plural}, and gets {given}"));
        }
        (self.language.check)(Some(function), &arguments, given)?;
        Ok(Call::Function(function, arguments))
    }

    fn names(&self) -> String {
        let names: Vec<&str> = self.language.functions.iter().map(|f| f.name).collect();
        names.join(", ")
    }

    /// The constant or variable that a word names.
    fn value(&self, word: &str) -> Result<Option<Kind<V>>, String> {
        Ok(match word {
            "true" => Some(Kind::Value(Value::Bool(true))),
            "false" => Some(Kind::Value(Value::Bool(false))),
            word => (self.language.variable)(word)?.map(Kind::Variable),
        })
    }

    fn term(&mut self) -> Result<Term<V>, String> {
        let token = self.peek().ok_or_else(|| "a value is missing".to_owned())?;
        self.next += 1;
        Ok(Term(match token {
            Token::Value(value) => Kind::Value(value.clone()),
            Token::Path(path) => match (self.language.variable)(path)? {
                Some(variable) => Kind::Variable(variable),
                None => return Err(format!("'{path}' is not supported")),
            },
            Token::Word(name) => self.value(name)?.ok_or_else(|| {
                format!("'{name}' stands where a value has to be; put it in parentheses")
            })?,
            Token::Open => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(too_deep("parentheses"));
                }
                let inner = self.pipe()?;
                if self.peek() != Some(&Token::Close) {
                    return Err("a ')' is missing".to_owned());
                }
                self.next += 1;
                self.depth -= 1;
                Kind::Pipe(inner)
            }
            Token::Pipe | Token::Close => return Err("a value is missing".to_owned()),
        }))
    }
}

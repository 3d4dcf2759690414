//! The grammar of templates: text to parts.

use super::functions::{self, Function, directives};
use super::{Call, Operand, Part, Pipeline};

/// Bytes of a template.
const TEMPLATE_BYTES_MAX: usize = 16 << 10;
/// How deep parentheses may be nested.
const DEPTH_MAX: usize = 16;
/// Words of Go's templates that are no functions.
const CONTROL: [&str; 12] = [
    "if", "else", "end", "range", "with", "template", "define", "block", "break", "continue",
    "query", "args",
];

#[derive(Debug, Clone, PartialEq)]
enum Token {
    /// A function, or a word such as `if`.
    Word(String),
    /// `$labels.host`, `.Value`.
    Path(String),
    Text(String),
    Number(f64),
    Pipe,
    Open,
    Close,
}

/// The parts of a template.
pub fn parts(text: &str) -> Result<Vec<Part>, String> {
    if text.len() > TEMPLATE_BYTES_MAX {
        return Err(format!("the template is longer than {TEMPLATE_BYTES_MAX} bytes; shorten it"));
    }
    let mut parts = Vec::new();
    let mut rest = text;
    // `-}}` takes the white space behind it away.
    let mut trims = false;
    while let Some((before, action)) = rest.split_once("{{") {
        let (inside, after) = split_action(action)?;
        let before = if trims { before.trim_start() } else { before };
        let inside = match inside.strip_prefix('-') {
            Some(inside) if inside.starts_with(char::is_whitespace) => {
                push_text(&mut parts, before.trim_end());
                inside
            }
            _ => {
                push_text(&mut parts, before);
                inside
            }
        };
        trims = inside.ends_with('-') && inside[..inside.len() - 1].ends_with(char::is_whitespace);
        let inside = if trims { &inside[..inside.len() - 1] } else { inside };
        let inside = inside.trim();
        if !(inside.starts_with("/*") && inside.ends_with("*/")) {
            let mut parser = Parser { tokens: tokens(inside)?, next: 0, depth: 0 };
            let pipeline =
                parser.pipeline().map_err(|what| format!("{what} in {{{{ {inside} }}}}"))?;
            if parser.next < parser.tokens.len() {
                return Err(format!("there is a ')' too many in {{{{ {inside} }}}}"));
            }
            parts.push(Part::Action(pipeline));
        }
        rest = after;
    }
    push_text(&mut parts, if trims { rest.trim_start() } else { rest });
    Ok(parts)
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    if !text.is_empty() {
        parts.push(Part::Text(text.to_owned()));
    }
}

/// The action up to `}}`, which does not count in texts, and what is behind it.
fn split_action(text: &str) -> Result<(&str, &str), String> {
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut at = 0;
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
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word = |from: usize| {
            let is_part = |c: char| c.is_alphanumeric() || "_.".contains(c);
            let length = rest[from..].find(|c| !is_part(c)).unwrap_or(rest.len() - from);
            from + length
        };
        let length = match first {
            '|' => {
                tokens.push(Token::Pipe);
                1
            }
            '(' => {
                tokens.push(Token::Open);
                1
            }
            ')' => {
                tokens.push(Token::Close);
                1
            }
            '"' => {
                let length = quoted_length(rest);
                // Go's escapes that people use are those of JSON.
                let value = serde_json::from_str(&rest[..length])
                    .map_err(|_| format!("{} is not a text in quotes", &rest[..length]))?;
                tokens.push(Token::Text(value));
                length
            }
            '`' => {
                let (value, _) =
                    rest[1..].split_once('`').ok_or_else(|| "a '`' is not closed".to_owned())?;
                tokens.push(Token::Text(value.to_owned()));
                value.len() + 2
            }
            '$' | '.' => {
                let length = word(1);
                tokens.push(Token::Path(rest[..length].to_owned()));
                length
            }
            '-' | '0'..='9' => {
                let length = word(1);
                let number = rest[..length].parse().ok().filter(|number: &f64| number.is_finite());
                let number = number.ok_or_else(|| format!("'{}' is no number", &rest[..length]))?;
                tokens.push(Token::Number(number));
                length
            }
            first if first.is_alphabetic() => {
                let length = word(0);
                tokens.push(Token::Word(rest[..length].to_owned()));
                length
            }
            first => return Err(format!("'{first}' is not supported in {{{{ {text} }}}}")),
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// Bytes of the text in quotes at the start of `text`.
fn quoted_length(text: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

struct Parser {
    tokens: Vec<Token>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    fn pipeline(&mut self) -> Result<Pipeline, String> {
        let first = match self.peek() {
            Some(Token::Word(_)) => Operand::Call(Box::new(self.call(false)?)),
            _ => self.operand()?,
        };
        let mut then = Vec::new();
        loop {
            match self.peek() {
                Some(Token::Pipe) => {
                    self.next += 1;
                    then.push(self.call(true)?);
                }
                None | Some(Token::Close) => break,
                Some(_) => return Err("a value is followed by another one without '|'".to_owned()),
            }
        }
        if first == Operand::Labels {
            return Err("all labels cannot be shown; write for example $labels.host".to_owned());
        }
        Ok(Pipeline { first, then })
    }

    /// A function and its arguments; `is_piped` says that the pipe brings one more.
    fn call(&mut self, is_piped: bool) -> Result<Call, String> {
        let Some(Token::Word(name)) = self.peek().cloned() else {
            return Err(format!(
                "there is no function behind '|'; write one of {}",
                functions::NAMES
            ));
        };
        self.next += 1;
        let Some(mut function) = Function::of(&name) else {
            let what = if CONTROL.contains(&name.as_str()) { "word" } else { "function" };
            return Err(format!(
                "the {what} '{name}' is not supported; there are {}",
                functions::NAMES
            ));
        };
        let mut arguments = Vec::new();
        while !matches!(self.peek(), None | Some(Token::Pipe | Token::Close)) {
            arguments.push(self.operand()?);
        }
        if let Function::Printf(format) = &mut function {
            if arguments.is_empty() {
                return Err("printf needs a format in quotes".to_owned());
            }
            let Operand::Text(text) = arguments.remove(0) else {
                return Err("the format of printf has to be a text in quotes".to_owned());
            };
            *format = directives(&text)?;
        }
        let given = arguments.len() + usize::from(is_piped);
        let needed = function.arguments();
        if given != needed {
            return Err(format!("{name} takes {needed} arguments, and gets {given}"));
        }
        let labels = arguments.iter().filter(|operand| **operand == Operand::Labels).count();
        let takes_labels = function == Function::Index;
        if takes_labels != (arguments.first() == Some(&Operand::Labels)) || labels > 1 {
            return Err("write all labels only as in index $labels \"name\"".to_owned());
        }
        Ok(Call { function, arguments })
    }

    fn operand(&mut self) -> Result<Operand, String> {
        let token = self.peek().cloned().ok_or_else(|| "a value is missing".to_owned())?;
        self.next += 1;
        Ok(match token {
            Token::Text(text) => Operand::Text(text),
            Token::Number(number) => Operand::Number(number),
            Token::Path(path) => path_operand(&path)?,
            Token::Open => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(format!("parentheses are nested deeper than {DEPTH_MAX}"));
                }
                let inner = self.pipeline()?;
                if self.peek() != Some(&Token::Close) {
                    return Err("a ')' is missing".to_owned());
                }
                self.next += 1;
                self.depth -= 1;
                Operand::Pipeline(Box::new(inner))
            }
            Token::Word(name) => {
                return Err(format!(
                    "'{name}' stands where a value has to be; put it in parentheses"
                ));
            }
            Token::Pipe | Token::Close => return Err("a value is missing".to_owned()),
        })
    }
}

fn path_operand(path: &str) -> Result<Operand, String> {
    Ok(match path {
        "$labels" | ".Labels" => Operand::Labels,
        "$value" | ".Value" => Operand::Value,
        "$expr" | ".Expr" => Operand::Expr,
        "$activeAt" | ".ActiveAt" => Operand::ActiveAt,
        "$for" | ".For" => Operand::For,
        "$externalURL" | ".ExternalURL" => Operand::ExternalUrl,
        path => {
            let name = path.strip_prefix("$labels.").or_else(|| path.strip_prefix(".Labels."));
            let name = name.filter(|name| !name.is_empty()).ok_or_else(|| {
                format!(
                    "'{path}' is not supported; there are $labels.NAME, $value, $expr, $activeAt, \
                     $for and $externalURL"
                )
            })?;
            if name.contains('.') {
                return Err(format!("write index $labels \"{name}\" for a name with dots"));
            }
            Operand::Label(name.to_owned())
        }
    })
}

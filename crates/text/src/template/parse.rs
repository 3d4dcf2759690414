//! The grammar of templates: text to nodes.

use super::{Call, DEPTH_MAX, Flow, Function, Kind, Language, Node, Pipe, Term, Value};
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
    /// `.a.b` right behind a `)`.
    Field(String),
    /// `:=`
    Declare,
    /// `=`
    Assign,
    Comma,
}

/// A part of the text.
enum Piece<'t> {
    Text(&'t str),
    /// What is between the braces, as tokens and as written.
    Action(Vec<Token>, &'t str),
}

/// The nodes of a template, and how many variables it has of its own.
pub(super) fn nodes<V>(
    text: &str,
    language: &'static Language<V>,
) -> Result<(Vec<Node<V>>, usize), String> {
    let bytes_max = language.template_bytes_max;
    if text.len() > bytes_max {
        return Err(format!("the template is longer than {bytes_max} bytes; shorten it"));
    }
    let mut reader = Reader {
        language,
        pieces: pieces(text)?,
        next: 0,
        locals: Vec::new(),
        count: 0,
        dots: 0,
        ranges: 0,
    };
    let (nodes, end) = reader.nodes(0)?;
    match end {
        None => Ok((nodes, reader.count)),
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
    let mut is_behind_close = false;
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
            '.' if is_behind_close && word(1) > 1 => {
                (Token::Field(rest[..word(1)].to_owned()), word(1))
            }
            ':' if rest.starts_with(":=") => (Token::Declare, 2),
            '=' => (Token::Assign, 1),
            ',' => (Token::Comma, 1),
            '$' | '.' => (Token::Path(rest[..word(1)].to_owned()), word(1)),
            '-' | '+' | '0'..='9' => (Token::Value(number(&rest[..word(1)])?), word(1)),
            first if first.is_alphabetic() || first == '_' => {
                (Token::Word(rest[..word(0)].to_owned()), word(0))
            }
            first => return Err(format!("'{first}' is not supported in {{{{ {text} }}}}")),
        };
        is_behind_close = token == Token::Close && !rest[length..].starts_with(char::is_whitespace);
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
    /// The variables of the template that are known here, the last one of a name counts.
    locals: Vec<(String, usize)>,
    /// All variables so far.
    count: usize,
    /// `with` and `range` around here.
    dots: usize,
    /// `range` around here.
    ranges: usize,
}

impl<V> Reader<'_, V> {
    /// Nodes up to the end, or to `else`, `else if` or `end`, which is returned and is the piece
    /// before the next one.
    fn nodes(&mut self, depth: usize) -> Result<(Vec<Node<V>>, Option<String>), String> {
        if depth > DEPTH_MAX {
            return Err(too_deep("conditions"));
        }
        let known = self.locals.len();
        let mut nodes = Vec::new();
        while let Some(piece) = self.pieces.get_mut(self.next) {
            self.next += 1;
            let (tokens, text) = match piece {
                Piece::Text("") => continue,
                Piece::Text(text) => {
                    nodes.push(Node::Text((*text).to_owned()));
                    continue;
                }
                Piece::Action(tokens, text) => (std::mem::take(tokens), *text),
            };
            let word = match tokens.first() {
                Some(Token::Word(word)) if self.language.has_conditions => word.as_str(),
                _ => "",
            };
            match word {
                "end" | "else" => {
                    let word = word.to_owned();
                    self.put_back(tokens);
                    self.locals.truncate(known);
                    return Ok((nodes, Some(word)));
                }
                "if" => {
                    let (names, condition) = self.declared(&tokens[1..], text)?;
                    let condition = match names.first() {
                        // The variable is set before, and asked.
                        Some(local) => {
                            nodes.push(Node::Set(*local, condition));
                            vec![Call::Value(Term(Kind::Local(*local, Vec::new())))]
                        }
                        None => condition,
                    };
                    nodes.push(self.conditional(condition, depth)?);
                }
                "with" => {
                    let (names, value) = self.declared(&tokens[1..], text)?;
                    let local = names.first().copied();
                    let [inner, otherwise] = self.block("with", depth)?;
                    nodes.push(Node::With { value, local, nodes: inner, otherwise });
                }
                "range" => {
                    let (names, values) = self.declared(&tokens[1..], text)?;
                    let (key, local) = match names[..] {
                        [] => (None, None),
                        [local] => (None, Some(local)),
                        [key, local, ..] => (Some(key), Some(local)),
                    };
                    self.ranges += 1;
                    let [inner, otherwise] = self.block("range", depth)?;
                    self.ranges -= 1;
                    nodes.push(Node::Range { values, key, local, nodes: inner, otherwise });
                }
                "break" | "continue" if tokens.len() == 1 => {
                    if self.ranges == 0 {
                        return Err(format!("'{word}' stands outside of 'range'"));
                    }
                    let flow = if word == "break" { Flow::Break } else { Flow::Continue };
                    nodes.push(Node::Leave(flow));
                }
                _ => {
                    let (names, pipe) = self.declared(&tokens, text)?;
                    nodes.push(match names.first() {
                        Some(local) => Node::Set(*local, pipe),
                        None => Node::Show(pipe),
                    });
                }
            }
        }
        self.locals.truncate(known);
        Ok((nodes, None))
    }

    /// Gives the last action its tokens back.
    fn put_back(&mut self, taken: Vec<Token>) {
        if let Some(Piece::Action(tokens, _)) = self.pieces.get_mut(self.next - 1) {
            *tokens = taken;
        }
    }

    /// A pipe, with the variables that get its value: `$x := …`, `$i, $x := …`, `$x = …`. New ones
    /// are known from here on.
    fn declared(&mut self, tokens: &[Token], text: &str) -> Result<(Vec<usize>, Pipe<V>), String> {
        let place = tokens.iter().position(|t| matches!(t, Token::Declare | Token::Assign));
        let Some(place) = place.filter(|_| self.language.has_conditions) else {
            return Ok((Vec::new(), self.pipe(tokens, text)?));
        };
        let is_new = tokens[place] == Token::Declare;
        let pipe = self.pipe(&tokens[place + 1..], text)?;
        let wrong = || format!("'$name := …' is expected in {{{{ {text} }}}}");
        let mut names = Vec::new();
        for part in tokens[..place].split(|token| *token == Token::Comma) {
            let [Token::Path(path)] = part else { return Err(wrong()) };
            let name = path.strip_prefix('$').filter(|name| !name.is_empty()).ok_or_else(wrong)?;
            if name.contains('.') || names.len() == 2 {
                return Err(wrong());
            }
            let local = match is_new {
                true => {
                    self.count += 1;
                    self.locals.push((name.to_owned(), self.count - 1));
                    self.count - 1
                }
                false => {
                    let known = self.locals.iter().rev().find(|(known, _)| known == name);
                    known.ok_or_else(|| format!("the variable ${name} is not known here"))?.1
                }
            };
            names.push(local);
        }
        Ok((names, pipe))
    }

    /// What follows `{{ with … }}` or `{{ range … }}` up to its end: what is done for a value, and
    /// otherwise.
    fn block(&mut self, word: &str, depth: usize) -> Result<[Vec<Node<V>>; 2], String> {
        let open = || format!("a '{word}' has no 'end'");
        self.dots += 1;
        let (nodes, end) = self.nodes(depth + 1)?;
        self.dots -= 1;
        match end.ok_or_else(open)?.as_str() {
            "else" => {
                if let Piece::Action(tokens, text) = &self.pieces[self.next - 1]
                    && tokens.len() > 1
                {
                    return Err(format!("'else' of '{word}' stands alone, not {{{{ {text} }}}}"));
                }
                let (otherwise, end) = self.nodes(depth + 1)?;
                match end.ok_or_else(open)?.as_str() {
                    "end" => Ok([nodes, otherwise]),
                    _ => Err("'else' follows 'else'".to_owned()),
                }
            }
            _ => Ok([nodes, Vec::new()]),
        }
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
        let (locals, in_dot) = (&self.locals[..], self.dots > 0);
        let language = self.language;
        let mut parser = Parser { language, tokens, next: 0, depth: 0, locals, in_dot };
        let pipe = parser.pipe().map_err(|what| format!("{what} in {{{{ {text} }}}}"))?;
        match parser.peek() {
            None => Ok(pipe),
            Some(_) => Err(format!("there is a ')' too many in {{{{ {text} }}}}")),
        }
    }
}

/// The names of a path.
fn names(path: &str) -> Result<Vec<String>, String> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    match path.split('.').all(|name| !name.is_empty()) {
        true => Ok(path.split('.').map(str::to_owned).collect()),
        false => Err(format!("a name is missing in '{path}'")),
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
    locals: &'t [(String, usize)],
    /// Whether the dot is the value of a `with` or `range`.
    in_dot: bool,
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

    /// What a path names: a variable of the template, a part of the value of a `with` or `range`,
    /// or a variable of the language.
    fn path(&self, path: &str) -> Result<Kind<V>, String> {
        if self.language.has_conditions {
            if self.in_dot && path.starts_with('.') {
                return Ok(Kind::Dot(names(&path[1..])?));
            }
            let (name, rest) = path.split_once('.').unwrap_or((path, ""));
            let known = name
                .strip_prefix('$')
                .filter(|name| !name.is_empty())
                .and_then(|name| self.locals.iter().rev().find(|(known, _)| known == name));
            if let Some((_, local)) = known {
                return Ok(Kind::Local(*local, names(rest)?));
            }
        }
        // `$` is what the dot is at the beginning.
        let path = match path.strip_prefix('$') {
            Some("") if self.language.has_conditions => ".",
            Some(root) if self.language.has_conditions && root.starts_with('.') => root,
            _ => path,
        };
        match (self.language.variable)(path)? {
            Some(variable) => Ok(Kind::Variable(variable)),
            None => Err(format!("'{path}' is not supported")),
        }
    }

    fn term(&mut self) -> Result<Term<V>, String> {
        let token = self.peek().ok_or_else(|| "a value is missing".to_owned())?;
        self.next += 1;
        Ok(Term(match token {
            Token::Value(value) => Kind::Value(value.clone()),
            Token::Path(path) => self.path(path)?,
            Token::Field(_) | Token::Declare | Token::Assign | Token::Comma => {
                return Err("a value is missing".to_owned());
            }
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
                match self.peek() {
                    Some(Token::Field(path)) => {
                        self.next += 1;
                        Kind::At(inner, names(&path[1..])?)
                    }
                    _ => Kind::Pipe(inner),
                }
            }
            Token::Pipe | Token::Close => return Err("a value is missing".to_owned()),
        }))
    }
}

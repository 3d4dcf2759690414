//! Templates: the part of Go's `text/template` that rules of alerts and LogQL use.
//!
//! A template is text with actions in `{{ … }}`. An action is a pipe of values and functions, such
//! as `{{ .host }}`, `{{ $value | humanize }}`, `{{ printf "%.2f" (div .a .b) }}`; `-` beside the
//! braces trims white space; `{{/* a comment */}}` is nothing. A [`Language`] says which functions
//! and variables there are, and whether there are `if`, `with`, `range`, and variables of the
//! template (`$x := …`). What it does not have, is an error when a template is parsed.
//!
//! What a template makes is never read as a template again. Its work is bounded by its length, by
//! [`STEPS_MAX`] steps of all of its ranges, and by the bounds on what a function and the whole may
//! make.
//!
//! Left out: `define`, `template`, `block`, methods.

pub mod number;
mod parse;
pub mod printf;
mod value;

use std::fmt;

pub use value::Value;

/// Parentheses in parentheses, and conditions in conditions. Deeper templates are refused.
const DEPTH_MAX: usize = 32;
/// Steps of all ranges of a template together, each time it is rendered. Beyond it, rendering
/// fails.
pub const STEPS_MAX: usize = 100_000;

/// Checks the arguments of a function, and how many it gets with the one of the pipe; without a
/// function, the value at the start of a pipe.
type Check<V> = fn(Option<&Function>, &[Term<V>], usize) -> Result<(), String>;

/// What templates of one kind may name.
pub struct Language<V: 'static> {
    /// The functions.
    pub functions: &'static [Function],
    /// The variable that a path (`.a`, `$a.b`) or a word names; none for a word that names no
    /// variable. The error says which variables there are.
    pub variable: fn(&str) -> Result<Option<V>, String>,
    /// Checks the arguments of a function, and how many it gets with the one of the pipe; without a
    /// function, the value at the start of a pipe.
    pub check: Check<V>,
    /// Limits what a function made.
    pub bound: for<'v> fn(Value<'v>) -> Result<Value<'v>, String>,
    /// Writes a number with a fraction.
    pub show_number: fn(f64) -> String,
    /// Whether there are `{{ if … }}`, `with`, `range`, and variables of the template.
    pub has_conditions: bool,
    /// Bytes of a template. Longer ones are refused.
    pub template_bytes_max: usize,
}

/// A function of templates.
#[derive(Clone, Copy)]
pub struct Function {
    /// Its name.
    pub name: &'static str,
    /// The least number of arguments.
    pub least: usize,
    /// The greatest number of arguments.
    pub most: usize,
    /// Its result; the number of arguments has been checked. An error gets the name in front.
    pub call: Run,
}

/// A function that asks whether it may go on.
pub type CheckedFunction =
    for<'v> fn(&[Value<'v>], &dyn Fn(usize) -> bool) -> Result<Value<'v>, String>;

/// How a function is run.
#[derive(Clone, Copy)]
pub enum Run {
    /// In a time that is linear in the length of its arguments.
    Linear(for<'v> fn(&[Value<'v>]) -> Result<Value<'v>, String>),
    /// With checks whether it may go on: the number is that of the bytes that it is about to look
    /// at. After a check that says no, it returns any result.
    Checked(CheckedFunction),
}

/// A template.
#[derive(Clone)]
pub struct Template<V: 'static> {
    text: String,
    language: &'static Language<V>,
    nodes: Vec<Node<V>>,
    /// How many variables the template has of its own.
    locals: usize,
}

#[derive(Clone)]
enum Node<V> {
    Text(String),
    Show(Pipe<V>),
    /// Gives a variable of the template its value.
    Set(usize, Pipe<V>),
    If {
        branches: Vec<(Pipe<V>, Vec<Node<V>>)>,
        otherwise: Vec<Node<V>>,
    },
    With {
        value: Pipe<V>,
        local: Option<usize>,
        nodes: Vec<Node<V>>,
        otherwise: Vec<Node<V>>,
    },
    Range {
        values: Pipe<V>,
        key: Option<usize>,
        local: Option<usize>,
        nodes: Vec<Node<V>>,
        otherwise: Vec<Node<V>>,
    },
    /// Ends the range, or its step.
    Leave(Flow),
}

/// How rendering goes on behind a node.
#[derive(Clone, Copy, PartialEq)]
enum Flow {
    On,
    Continue,
    Break,
}

/// Calls, each with the result of the one before as its last argument; at least one.
type Pipe<V> = Vec<Call<V>>;

#[derive(Clone)]
enum Call<V> {
    Value(Term<V>),
    Function(&'static Function, Vec<Term<V>>),
}

/// An argument.
#[derive(Clone)]
pub struct Term<V>(Kind<V>);

#[derive(Clone)]
enum Kind<V> {
    Value(Value<'static>),
    Variable(V),
    /// A variable of the template, and a path in its value.
    Local(usize, Vec<String>),
    /// A path in the value of the innermost `with` or `range`.
    Dot(Vec<String>),
    Pipe(Pipe<V>),
    /// A path in the result of a pipe.
    At(Pipe<V>, Vec<String>),
}

impl<V> Term<V> {
    /// The text, if it is one in quotes.
    pub fn text(&self) -> Option<&str> {
        match &self.0 {
            Kind::Value(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The variable, if it is one.
    pub fn variable(&self) -> Option<&V> {
        match &self.0 {
            Kind::Variable(variable) => Some(variable),
            _ => None,
        }
    }
}

impl<V> Template<V> {
    /// Parses a template. The error names what is not supported.
    pub fn parse(text: &str, language: &'static Language<V>) -> Result<Template<V>, String> {
        let (nodes, locals) = parse::nodes(text, language)?;
        Ok(Template { text: text.to_owned(), language, nodes, locals })
    }

    /// The template as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text with the results of its actions. It ends with the first part that makes it longer
    /// than `bytes_max`.
    pub fn render<'r>(
        &'r self,
        values: &dyn Fn(&'r V) -> Value<'r>,
        bytes_max: usize,
    ) -> Result<String, String> {
        self.render_while(values, bytes_max, &|_| true)
    }

    /// As [`Template::render`], with checks whether it may go on: `may_continue` is told how many
    /// bytes are about to be looked at. Once it returns false, the result may be anything.
    pub fn render_while<'r>(
        &'r self,
        values: &dyn Fn(&'r V) -> Value<'r>,
        bytes_max: usize,
        may_continue: &dyn Fn(usize) -> bool,
    ) -> Result<String, String> {
        let language = self.language;
        let mut rendering = Rendering {
            language,
            values,
            bytes_max,
            may_continue,
            out: String::new(),
            locals: vec![Value::Nothing; self.locals],
            dot: Value::Nothing,
            steps: 0,
        };
        rendering.nodes(&self.nodes)?;
        Ok(rendering.out)
    }
}

struct Rendering<'r, 'f, V: 'static> {
    language: &'static Language<V>,
    values: &'f dyn Fn(&'r V) -> Value<'r>,
    bytes_max: usize,
    may_continue: &'f dyn Fn(usize) -> bool,
    out: String,
    locals: Vec<Value<'r>>,
    /// The value of the innermost `with` or `range`.
    dot: Value<'r>,
    steps: usize,
}

impl<'r, V> Rendering<'r, '_, V> {
    fn nodes(&mut self, nodes: &'r [Node<V>]) -> Result<Flow, String> {
        for node in nodes {
            let flow = match node {
                Node::Text(text) => {
                    self.out.push_str(text);
                    Flow::On
                }
                Node::Show(pipe) => {
                    let shown = self.pipe(pipe)?;
                    self.out.push_str(&shown.shown(self.language.show_number));
                    Flow::On
                }
                Node::Set(local, pipe) => {
                    self.locals[*local] = self.pipe(pipe)?;
                    Flow::On
                }
                Node::If { branches, otherwise } => {
                    let mut taken = otherwise;
                    for (condition, nodes) in branches {
                        if self.pipe(condition)?.is_true() {
                            taken = nodes;
                            break;
                        }
                    }
                    self.nodes(taken)?
                }
                Node::With { value, local, nodes, otherwise } => {
                    let value = self.pipe(value)?;
                    match value.is_true() {
                        true => {
                            if let Some(local) = local {
                                self.locals[*local] = value.clone();
                            }
                            self.nodes_at(value, nodes)?
                        }
                        false => self.nodes(otherwise)?,
                    }
                }
                Node::Range { .. } => self.range(node)?,
                Node::Leave(flow) => *flow,
            };
            if flow != Flow::On {
                return Ok(flow);
            }
            if self.out.len() > self.bytes_max {
                // What follows is cut off anyway.
                return Ok(Flow::Break);
            }
        }
        Ok(Flow::On)
    }

    /// Nodes for which the dot is this value.
    fn nodes_at(&mut self, dot: Value<'r>, nodes: &'r [Node<V>]) -> Result<Flow, String> {
        let outer = std::mem::replace(&mut self.dot, dot);
        let flow = self.nodes(nodes);
        self.dot = outer;
        flow
    }

    fn range(&mut self, range: &'r Node<V>) -> Result<Flow, String> {
        let Node::Range { values, key, local, nodes, otherwise } = range else {
            unreachable!("called for a range")
        };
        let values = self.pipe(values)?;
        if !values.is_true() {
            return self.nodes(otherwise);
        }
        let mut step = |name: Value<'r>, value: Value<'r>| -> Result<Flow, String> {
            self.steps += 1;
            if self.steps > STEPS_MAX {
                return Err(format!("the ranges of the template take more than {STEPS_MAX} steps"));
            }
            if !(self.may_continue)(1) {
                return Err("the query has ended".to_owned());
            }
            if let Some(key) = key {
                self.locals[*key] = name;
            }
            if let Some(local) = local {
                self.locals[*local] = value.clone();
            }
            let flow = self.nodes_at(value, nodes)?;
            let is_full = self.out.len() > self.bytes_max;
            Ok(if is_full { Flow::Break } else { flow })
        };
        match &values {
            Value::List(list) => {
                for (place, value) in list.iter().enumerate() {
                    if step(Value::Int(place as i64), value.clone())? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Object(object) => {
                for (name, value) in object.iter() {
                    if step(Value::from(name.clone()), value.clone())? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for (name, text) in map.iter() {
                    let text = Value::from(text.as_str());
                    if step(Value::from(name.as_str()), text)? == Flow::Break {
                        break;
                    }
                }
            }
            Value::Int(count) => {
                for number in 0..*count {
                    if step(Value::Int(number), Value::Int(number))? == Flow::Break {
                        break;
                    }
                }
            }
            _ => return Err("range needs a list or an object, such as that of fromJson".to_owned()),
        }
        Ok(Flow::On)
    }

    fn pipe(&self, pipe: &'r Pipe<V>) -> Result<Value<'r>, String> {
        let mut last = None;
        for call in pipe {
            last = Some(match call {
                Call::Value(term) => self.term(term)?,
                Call::Function(function, terms) => {
                    let arguments = terms.iter().map(|term| self.term(term));
                    let mut arguments = arguments.collect::<Result<Vec<_>, _>>()?;
                    arguments.extend(last.take());
                    let bytes = arguments.iter().map(Value::text_bytes).sum();
                    if !(self.may_continue)(bytes) {
                        return Err("the query has ended".to_owned());
                    }
                    let made = match function.call {
                        Run::Linear(call) => call(&arguments),
                        Run::Checked(call) => call(&arguments, self.may_continue),
                    };
                    let made = made.and_then(self.language.bound);
                    made.map_err(|what| format!("{}: {what}", function.name))?
                }
            });
        }
        Ok(last.expect("a pipe has a call"))
    }

    fn term(&self, term: &'r Term<V>) -> Result<Value<'r>, String> {
        Ok(match &term.0 {
            Kind::Value(value) => value.borrowed(),
            Kind::Variable(variable) => (self.values)(variable),
            Kind::Local(local, path) => self.locals[*local].at(path)?,
            Kind::Dot(path) => self.dot.at(path)?,
            Kind::At(pipe, path) => self.pipe(pipe)?.at(path)?,
            Kind::Pipe(pipe) => self.pipe(pipe)?,
        })
    }
}

/// Templates of one language are equal if their texts are.
impl<V> PartialEq for Template<V> {
    fn eq(&self, other: &Template<V>) -> bool {
        self.text == other.text
    }
}

impl<V> fmt::Debug for Template<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Template").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests;

//! Macros: texts with a name and parameters that queries call as `@slow(5s)`.
//!
//! A call is expanded while the query is parsed, on the tree and not on the text: the text of the
//! macro is parsed by a cursor of its own, and so is each argument. A filter that comes out of it
//! stands as if in parentheses, and a value stays one value, whatever characters are in it. So an
//! argument cannot end a filter, begin a pipe or leave its quotes. A query is written (`explain`,
//! shares of other nodes) as it is after the expansion.
//!
//! In the text of a macro, `$name` stands for an argument. Within quotes it is ordinary text.
//!
//! Limits: [`MACROS_MAX`], [`MACRO_BYTES_MAX`], [`PARAMETERS_MAX`], [`EXPANDED_BYTES_MAX`]; calls
//! and arguments in each other are at most ten deep, and no macro calls itself.
//!
//! The macros belong to the process, as its configuration does: [`set_configured`],
//! [`set_saved`]. Whoever parses a query says which of them it may call ([`Callable`]).

use std::rc::Rc;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use text::nearest::nearest;

use crate::lang::syntax::cursor::{Cursor, is_word_char};
use crate::lang::syntax::derived::{DerivedField, derived};
use crate::lang::syntax::error::ParseError;

/// Macros of the configuration, and as many that people save. More are refused.
///
/// limits.md, Queries: macros of the configuration, and saved ones | {} each | the next one is
/// refused
pub const MACROS_MAX: usize = 1_000;
/// Longest text of a macro, in bytes. A longer one is refused.
///
/// limits.md, Queries: the text of a macro | {} | it is refused
pub const MACRO_BYTES_MAX: usize = 16 << 10;
/// Most parameters of a macro. One with more is refused.
pub const PARAMETERS_MAX: usize = 16;
/// Bytes of texts of macros and of arguments that one query is expanded to. A query with more is
/// refused, since macros that call others twice grow fast.
///
/// limits.md, Queries: texts of macros that a query is expanded to | {} | it is refused
pub const EXPANDED_BYTES_MAX: usize = 256 << 10;
/// Longest name of a macro or of a parameter.
const NAME_BYTES_MAX: usize = 64;
/// Longest description of a macro.
const DESCRIPTION_BYTES_MAX: usize = 1_000;
/// What a call or an argument costs of [`EXPANDED_BYTES_MAX`] beside its text.
const CALL_BYTES: usize = 64;
/// Characters of the text of a macro that an error shows.
const SHOWN_CHARS: usize = 40;

/// A macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Macro {
    name: String,
    parameters: Vec<String>,
    text: String,
    description: String,
    form: MacroForm,
    is_shared: bool,
}

/// What the text of a macro is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MacroForm {
    /// A filter, or an expression of `math`.
    Filter,
    /// Pipes: the text begins with `|`.
    Pipes,
    /// A filter with pipes behind it.
    Query,
}

impl Macro {
    /// A macro; the error says what is wrong with it, and what would be right.
    pub fn new(
        name: &str,
        parameters: Vec<String>,
        text: &str,
        description: &str,
    ) -> Result<Macro, String> {
        let wrong_name = |name: &str| {
            format!(
                "'{name}' is no name of a macro or parameter; use at most {NAME_BYTES_MAX} letters, digits and _, and \
                 begin with a letter or _"
            )
        };
        if !is_name(name) {
            return Err(wrong_name(name));
        }
        if let Some(wrong) = parameters.iter().find(|parameter| !is_name(parameter)) {
            return Err(wrong_name(wrong));
        }
        let count = parameters.len();
        if count > PARAMETERS_MAX {
            return Err(format!("@{name} has {count} parameters; {PARAMETERS_MAX} are the most"));
        }
        if let Some(at) = (1..count).find(|&at| parameters[..at].contains(&parameters[at])) {
            return Err(format!("@{name} has the parameter '{}' twice", parameters[at]));
        }
        if text.len() > MACRO_BYTES_MAX {
            return Err(format!("the text of @{name} is longer than {MACRO_BYTES_MAX} bytes"));
        }
        if description.len() > DESCRIPTION_BYTES_MAX {
            return Err(format!(
                "the description of @{name} is longer than {DESCRIPTION_BYTES_MAX} bytes"
            ));
        }
        let text = text.trim();
        let form = form(text, &parameters).map_err(|error| format!("@{name}: {error}"))?;
        Ok(Macro {
            name: name.to_owned(),
            parameters,
            text: text.to_owned(),
            description: description.to_owned(),
            form,
            is_shared: false,
        })
    }

    /// The same, for callers who see the lines of one tenant alone, too, or not.
    pub fn shared(self, is_shared: bool) -> Macro {
        Macro { is_shared, ..self }
    }

    /// Whether callers who see the lines of one tenant alone may call it, too.
    pub fn is_shared(&self) -> bool {
        self.is_shared
    }

    /// Its name, without the `@`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The names of its parameters, without `$`.
    pub fn parameters(&self) -> &[String] {
        &self.parameters
    }

    /// What it stands for.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What it is for, in words of whoever made it.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Where it can be called.
    pub fn form(&self) -> MacroForm {
        self.form
    }
}

fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Looks at the quotes, brackets and parameters of a text, and says what it is. Whether it can be
/// parsed depends on the arguments of a call.
fn form(text: &str, parameters: &[String]) -> Result<MacroForm, ParseError> {
    let mut cursor = Cursor::new(text, 0);
    let mut form = MacroForm::Filter;
    let (mut depth, mut begins) = (0_usize, true);
    let mut used = vec![false; parameters.len()];
    loop {
        let position = cursor.position();
        let Some(token) = next_token(&mut cursor)? else { break };
        match token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" if depth == 0 => {
                let message = format!("nothing is open that \"{token}\" could close");
                return Err(cursor.error_at(position, &[], message));
            }
            ")" | "]" | "}" => depth -= 1,
            "|" if begins => form = MacroForm::Pipes,
            "|" if depth == 0 && form == MacroForm::Filter => form = MacroForm::Query,
            word => {
                // Words may hold several signs of `math`, as `$a+$b` does.
                for (place, _) in word.match_indices('$') {
                    let Some(name) = parameter_name(&word[place..]) else { continue };
                    match parameters.iter().position(|parameter| parameter == name) {
                        Some(parameter) => used[parameter] = true,
                        None => {
                            let message = format!(
                                "there is no parameter '{name}'; quote \"${name}\" if it is meant as text"
                            );
                            return Err(cursor.error_at(position, &[], message));
                        }
                    }
                }
            }
        }
        begins = false;
    }
    if begins {
        return Err(cursor.error(&["a filter or pipes"], "the text is empty"));
    }
    if depth > 0 {
        return Err(cursor.error(&["a closing bracket"], "a bracket is not closed"));
    }
    if let Some(unused) = used.iter().position(|used| !used) {
        let message = format!("the text does not use its parameter ${}", parameters[unused]);
        return Err(cursor.error_at(0, &[], message));
    }
    Ok(form)
}

/// Takes a quoted text, a word or a sign; none at the end.
fn next_token<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a str>, ParseError> {
    cursor.skip_spaces();
    let rest = cursor.rest();
    let Some(first) = rest.chars().next() else { return Ok(None) };
    if matches!(first, '"' | '\'' | '`') {
        cursor.string(false)?;
        return Ok(Some("\"\""));
    }
    let length = cursor.peek_word(true).len().max(first.len_utf8());
    cursor.eat_text(&rest[..length]);
    Ok(Some(&rest[..length]))
}

/// The name in `$name`, if `text` begins with it.
fn parameter_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix('$')?;
    let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    Some(&name[..end.unwrap_or(name.len())]).filter(|name| is_name(name))
}

/// Which macros a query may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Callable {
    /// None: who may change a macro must not change what this query selects.
    #[default]
    None,
    /// Those of the configuration.
    Configured,
    /// Those that are shared with callers who see the lines of one tenant alone.
    Shared,
    /// Those of the configuration, and those that people save.
    All,
}

impl Callable {
    /// Whether a query may call macros that people save.
    fn reaches_saved(self) -> bool {
        matches!(self, Callable::Shared | Callable::All)
    }

    /// Whether a query may call this one.
    pub fn may_call(self, known: &Macro) -> bool {
        self != Callable::Shared || known.is_shared
    }
}

/// All macros, sorted by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Macros {
    configured: Vec<Arc<Macro>>,
    saved: Vec<Arc<Macro>>,
}

static MACROS: LazyLock<RwLock<Arc<Macros>>> = LazyLock::new(RwLock::default);

fn change(change: impl FnOnce(&mut Macros)) {
    let mut macros = MACROS.write().unwrap_or_else(PoisonError::into_inner);
    change(Arc::make_mut(&mut macros));
}

fn by_name(macros: Vec<Macro>) -> Vec<Arc<Macro>> {
    let mut sorted: Vec<Arc<Macro>> = macros.into_iter().map(Arc::new).collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    sorted
}

/// From now on, queries may call these macros of the configuration.
pub fn set_configured(macros: Vec<Macro>) {
    change(|all| all.configured = by_name(macros));
}

/// From now on, queries may call these macros that people saved. One of the configuration hides
/// one of the same name.
pub fn set_saved(macros: Vec<Macro>) {
    change(|all| all.saved = by_name(macros));
}

/// The macros of the configuration, by name.
pub fn configured() -> Vec<Arc<Macro>> {
    Macros::now().configured.clone()
}

/// The macros that people saved, by name.
pub fn saved() -> Vec<Arc<Macro>> {
    Macros::now().saved.clone()
}

impl Macros {
    fn now() -> Arc<Macros> {
        Arc::clone(&MACROS.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn find(&self, callable: Callable, name: &str) -> Option<&Arc<Macro>> {
        let among = |macros: &'_ [Arc<Macro>]| macros.binary_search_by(|m| (*m.name).cmp(name));
        let found = match among(&self.configured) {
            Ok(found) => Some(&self.configured[found]),
            Err(_) if !callable.reaches_saved() => None,
            Err(_) => among(&self.saved).ok().map(|found| &self.saved[found]),
        };
        found.filter(|found| callable.may_call(found))
    }
}

/// What a cursor knows of macros.
#[derive(Clone, Default)]
pub(crate) struct Expansion {
    macros: Arc<Macros>,
    callable: Callable,
    /// The call whose text is parsed; none in the text of the query itself.
    call: Option<Rc<Call>>,
    /// What was expanded so far, as bytes of [`EXPANDED_BYTES_MAX`].
    pub bytes: usize,
    /// The derived fields that the query may name.
    pub derived: Arc<Vec<DerivedField>>,
}

impl Expansion {
    /// With these macros.
    #[cfg(test)]
    pub fn with(macros: Vec<Macro>) -> Expansion {
        let macros = Macros { configured: by_name(macros), saved: Vec::new() };
        Expansion { macros: Arc::new(macros), callable: Callable::All, ..Expansion::default() }
    }

    /// With all macros as they are now, of which the query may call some.
    pub fn now(callable: Callable) -> Expansion {
        // What restricts, deletes or is done at ingest is about the fields that lines hold.
        let derived = match callable {
            Callable::All | Callable::Shared => derived(),
            Callable::Configured | Callable::None => Arc::default(),
        };
        Expansion { macros: Macros::now(), callable, derived, ..Expansion::default() }
    }
}

/// A macro with the arguments of a call.
pub(crate) struct Call {
    called: Arc<Macro>,
    arguments: Vec<Argument>,
    /// The call in whose text this one stands.
    outer: Option<Rc<Call>>,
}

struct Argument {
    text: String,
    /// Its value, if it is a single word or quoted text.
    value: Option<String>,
}

impl Call {
    fn of<'c>(cursor: &'c Cursor<'_>) -> Option<&'c Rc<Call>> {
        cursor.expansion.call.as_ref()
    }

    /// The calls from the query to this one, as `@a → @b`.
    fn chain(&self) -> String {
        let own = format!("@{}", self.called.name);
        match &self.outer {
            Some(outer) => format!("{} → {own}", outer.chain()),
            None => own,
        }
    }

    fn is_within(&self, name: &str) -> bool {
        self.called.name == name || self.outer.as_ref().is_some_and(|outer| outer.is_within(name))
    }
}

/// The macro that is called at the cursor, which stays where it is. A word that begins with `@`
/// is a call if a parenthesis follows directly.
pub(crate) fn called(cursor: &mut Cursor<'_>) -> Result<Option<Arc<Macro>>, ParseError> {
    let position = cursor.position();
    let Some(name) = called_name(cursor) else { return Ok(None) };
    if cursor.expansion.callable == Callable::None {
        let message = "macros cannot be called here, because whoever may change one could change what is selected";
        return Err(cursor.error_at(position, &["the text that the macro stands for"], message));
    }
    let Expansion { macros, callable, .. } = &cursor.expansion;
    if let Some(found) = macros.find(*callable, name) {
        return Ok(Some(Arc::clone(found)));
    }
    let saved = if callable.reaches_saved() { &macros.saved[..] } else { &[] };
    let all = macros.configured.iter().chain(saved).filter(|known| callable.may_call(known));
    let names = all.map(|known| known.name.as_str());
    let message = match nearest(name, names) {
        Some(near) => format!("there is no macro @{name}; did you mean @{near}?"),
        None => {
            format!("there is no macro @{name}; quote \"@{name}\" to search for the word")
        }
    };
    Err(cursor.error_at(position, &[], message))
}

fn called_name<'a>(cursor: &mut Cursor<'a>) -> Option<&'a str> {
    if cursor.peek() != Some('@') {
        return None;
    }
    let rest = &cursor.rest()[1..];
    let end = rest.find(|c| !is_word_char(c))?;
    (end > 0 && rest[end..].starts_with('(')).then(|| &rest[..end])
}

/// Takes a call of `macro`, at which the cursor stands, and parses its text by `parse`, which has
/// to take all of it.
pub(crate) fn expand<T>(
    cursor: &mut Cursor<'_>,
    called: Arc<Macro>,
    parse: impl FnOnce(&mut Cursor<'_>) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let position = cursor.position();
    let call = take_call(cursor, called, position)?;
    let name = &call.called.name;
    if let Some(outer) = Call::of(cursor)
        && outer.is_within(name)
    {
        let message = format!("the macro @{name} calls itself: {} → @{name}", outer.chain());
        return Err(cursor.error_at(position, &[], message));
    }
    let called = Arc::clone(&call.called);
    let what = format!("@{}", called.name);
    within(cursor, &called.text, Some(Rc::new(call)), (position, &what), parse)
}

fn take_call(
    cursor: &mut Cursor<'_>,
    called: Arc<Macro>,
    position: usize,
) -> Result<Call, ParseError> {
    cursor.eat_text("@");
    cursor.eat_text(&called.name);
    cursor.expect('(', "the call")?;
    let mut arguments = Vec::new();
    cursor.skip_spaces();
    let mut begin = cursor.rest();
    let mut depth = 0_usize;
    loop {
        let before = cursor.rest();
        let token = next_token(cursor)?;
        match token {
            None => {
                let message = format!("the query ends in the arguments of @{}", called.name);
                return Err(cursor.error(&["\")\""], message));
            }
            Some("," | ")") if depth == 0 => {
                let text = begin[..begin.len() - before.len()].trim();
                let is_last = token == Some(")");
                if text.is_empty() && !(is_last && arguments.is_empty()) {
                    let message = format!("an argument of @{} is empty", called.name);
                    return Err(cursor.error_at(position, &["\"\" for an empty text"], message));
                }
                if !text.is_empty() {
                    arguments.push(argument(cursor, text));
                }
                if is_last {
                    break;
                }
                begin = cursor.rest();
            }
            Some("(" | "[" | "{") => depth += 1,
            // A range of time may begin with "[" and end with ")".
            Some(")" | "]" | "}") => depth = depth.saturating_sub(1),
            Some(_) => {}
        }
    }
    if arguments.len() != called.parameters.len() {
        let parameters: Vec<String> = called.parameters.iter().map(|p| format!("${p}")).collect();
        let message = format!(
            "@{}({}) takes {} arguments, and has {}",
            called.name,
            parameters.join(", "),
            parameters.len(),
            arguments.len()
        );
        return Err(cursor.error_at(position, &[], message));
    }
    let outer = Call::of(cursor).cloned();
    Ok(Call { called, arguments, outer })
}

fn argument(cursor: &Cursor<'_>, text: &str) -> Argument {
    let mut alone = Cursor::new(text, cursor.now_ns);
    alone.expansion.call = cursor.expansion.call.clone();
    let value = alone.string(true).ok().flatten().filter(|_| alone.peek().is_none());
    Argument { text: text.to_owned(), value: value.map(|written| written.text) }
}

/// Parses another text in the middle of this one. An error stands at `place`, and says what the
/// text is.
fn within<T>(
    cursor: &mut Cursor<'_>,
    text: &str,
    call: Option<Rc<Call>>,
    place: (usize, &str),
    parse: impl FnOnce(&mut Cursor<'_>) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let (position, what) = place;
    let bytes = cursor.expansion.bytes.saturating_add(text.len() + CALL_BYTES);
    if bytes > EXPANDED_BYTES_MAX {
        let message = format!(
            "the macros of the query stand for more than {EXPANDED_BYTES_MAX} bytes; call fewer, or let them call \
             others less often"
        );
        return Err(cursor.error_at(position, &[], message));
    }
    let expansion = Expansion { call, bytes, ..cursor.expansion.clone() };
    let parsed = cursor.expanded(text, expansion, |inner| {
        let parsed = parse(inner)?;
        match inner.found() {
            None => Ok(parsed),
            Some(found) => Err(inner.error(&["the end"], format!("unexpected {found}"))),
        }
    });
    parsed.map_err(|error| {
        let rest = error.query[error.position..].chars();
        let shown: String =
            rest.take(SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
        let message = match shown.is_empty() {
            true => format!("in {what}, at its end: {}", error.message),
            false => format!("in {what}, at `{shown}`: {}", error.message),
        };
        let expected: Vec<&str> = error.expected.iter().map(String::as_str).collect();
        cursor.error_at(position, &expected, message)
    })
}

/// The parameter at the cursor, which is all of the word there, as the place of its argument.
fn parameter(cursor: &Cursor<'_>, word: &str) -> Result<Option<usize>, ParseError> {
    let (Some(call), Some(name)) = (Call::of(cursor), parameter_name(word)) else {
        return Ok(None);
    };
    let found = call.called.parameters.iter().position(|parameter| parameter == name);
    if found.is_some() && word.len() > name.len() + 1 {
        let message =
            format!("the parameter ${name} cannot be part of a word; put a space behind it");
        return Err(cursor.error_at(cursor.place(), &[], message));
    }
    Ok(found)
}

/// The value of the parameter that `word`, which begins at the cursor, consists of; none if it is
/// no parameter.
pub(super) fn parameter_value(
    cursor: &Cursor<'_>,
    word: &str,
) -> Result<Option<String>, ParseError> {
    let Some(place) = parameter(cursor, word)? else { return Ok(None) };
    let call = Call::of(cursor).expect("a parameter belongs to a call");
    let argument = &call.arguments[place];
    match &argument.value {
        Some(value) => Ok(Some(value.clone())),
        None => {
            let message = format!(
                "{word} has to be a single word or quoted text here, and is `{}`",
                argument.text.chars().take(SHOWN_CHARS).collect::<String>()
            );
            Err(cursor.error_at(cursor.place(), &[], message))
        }
    }
}

/// Whether a parameter stands at the cursor whose argument is an expression: it is taken by
/// [`expand_argument`]. If the parameter is followed by `:` or `*`, it is a value.
pub(crate) fn expression_is_next(cursor: &mut Cursor<'_>) -> Result<bool, ParseError> {
    if Call::of(cursor).is_none() || cursor.peek() != Some('$') {
        return Ok(false);
    }
    let is_value = matches!(cursor.behind_word(), Some(':' | '*'));
    let word = cursor.peek_word(false);
    Ok(!is_value && parameter(cursor, word)?.is_some())
}

/// Whether a parameter stands at the cursor, whatever is behind it.
pub(crate) fn argument_is_next(cursor: &mut Cursor<'_>) -> bool {
    cursor.skip_spaces();
    let (Some(call), Some(name)) = (Call::of(cursor), parameter_name(cursor.rest())) else {
        return false;
    };
    call.called.parameters.iter().any(|parameter| parameter == name)
}

/// Whether the argument of the parameter at the cursor is a single word or quoted text.
pub(crate) fn value_is_next(cursor: &mut Cursor<'_>) -> bool {
    let word = cursor.peek_word(false);
    parameter_value(cursor, word).is_ok_and(|value| value.is_some())
}

/// Takes the parameter at the cursor, and parses its argument by `parse`, which has to take all
/// of it. `word` is the parameter as it is written.
pub(crate) fn expand_argument<T>(
    cursor: &mut Cursor<'_>,
    parse: impl FnOnce(&mut Cursor<'_>) -> Result<T, ParseError>,
) -> Result<T, ParseError> {
    let position = cursor.position();
    let name = parameter_name(cursor.rest()).unwrap_or_default().to_owned();
    let word = format!("${name}");
    let place = parameter(cursor, &word)?.expect("a parameter stands at the cursor");
    cursor.eat_text(&word);
    let call = Rc::clone(Call::of(cursor).expect("a parameter belongs to a call"));
    let what = format!("the argument {word}");
    within(cursor, &call.arguments[place].text, call.outer.clone(), (position, &what), parse)
}

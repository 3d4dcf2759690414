//! The interface that every stats function implements, and its entry in the table of functions.
//!
//! Most functions read some fields and differ only in the state they keep. Such a function is a
//! [`FieldsFunction`]; it needs no code for parsing, writing or comparing. A function with other
//! arguments implements [`Call`] and has an [`OwnFunction`] in the table.
//!
//! [`super::aggregate`] defines how a function runs. Its loop is selected once per block of rows.

use std::any::Any;
use std::fmt;

use super::aggregate::States;
use super::{parse_fields, write_fields};
use crate::base::FieldSet;
use crate::base::names::NamePattern;
use crate::lang::pipe::limit::parse_count;
use crate::lang::pipe::operator::Documentation;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// A function with its arguments, as it is written in a query.
#[derive(Debug)]
pub struct Function(Box<dyn Call>);

/// The entry of a function in the table, as the parser of `stats` uses it.
pub(super) trait Register: Sync {
    /// Documentation for users.
    fn doc(&self) -> &Documentation;

    /// Parses the arguments behind `name(`, and any text behind them that belongs to the function.
    /// The name is at `position`.
    fn parse(
        &'static self,
        cursor: &mut Cursor<'_>,
        position: usize,
    ) -> Result<Function, ParseError>;
}

/// Makes functions comparable and cloneable behind `dyn`; implemented here for every function.
pub(super) trait CallNode: Any {
    fn boxed_clone(&self) -> Box<dyn Call>;
    fn equals(&self, other: &dyn Call) -> bool;
}

impl<C: Call + Clone + PartialEq> CallNode for C {
    fn boxed_clone(&self) -> Box<dyn Call> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn Call) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref::<C>().is_some_and(|other| self == other)
    }
}

/// A function with its arguments. The text of `Display` is parsed as an equal function.
pub(super) trait Call: CallNode + fmt::Debug + fmt::Display + Send + Sync {
    /// Name of the function.
    fn name(&self) -> &'static str;

    /// Adds the fields that the function reads.
    fn add_needed(&self, needed: &mut FieldSet);

    /// The states that run the function.
    fn states(&self) -> Box<dyn States>;

    /// Whether the result is the same for any order of rows. Other functions take the first of
    /// several possible results. The order of values is total: of equal numbers that are written
    /// differently, one is the least.
    fn is_order_free(&self) -> bool;

    /// Whether the function counts rows whatever they hold, and so also rows that stand for many
    /// lines.
    fn counts_rows(&self) -> bool {
        false
    }

    /// Fields of which the function takes each combination of values once, so that further rows
    /// with the same values change nothing. None if further rows change the result.
    fn distinct_fields(&self) -> Option<Vec<&str>> {
        None
    }

    /// Whether the result is a count without a limit, and so identical for any order of rows. The
    /// rounding of a sum, in contrast, depends on the order.
    fn only_counts(&self) -> bool {
        false
    }

    /// Whether the result is a row; such a result is a label where a client wants numbers only.
    fn gives_row(&self) -> bool {
        false
    }
}

impl Clone for Function {
    fn clone(&self) -> Function {
        Function(self.0.boxed_clone())
    }
}

impl PartialEq for Function {
    fn eq(&self, other: &Function) -> bool {
        self.0.equals(&*other.0)
    }
}

impl fmt::Display for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Function {
    pub(super) fn new(call: impl Call) -> Function {
        Function(Box::new(call))
    }

    /// `count()`: the number of rows.
    pub fn count() -> Function {
        Function::new(super::count::COUNT.of(Vec::new()))
    }

    /// Name of the function.
    pub fn name(&self) -> &'static str {
        self.0.name()
    }

    pub(crate) fn counts_rows(&self) -> bool {
        self.0.counts_rows()
    }

    /// As [`Call::distinct_fields`].
    pub(super) fn distinct_fields(&self) -> Option<Vec<&str>> {
        self.0.distinct_fields()
    }

    pub(crate) fn gives_row(&self) -> bool {
        self.0.gives_row()
    }

    pub(super) fn only_counts(&self) -> bool {
        self.0.only_counts()
    }

    pub(super) fn is_order_free(&self) -> bool {
        self.0.is_order_free()
    }

    pub(super) fn add_needed(&self, needed: &mut FieldSet) {
        self.0.add_needed(needed);
    }

    pub(super) fn states(&self) -> Box<dyn States> {
        self.0.states()
    }

    /// The only field of the function, if it takes the field's values as a vector.
    pub(super) fn vector_field(&self) -> Option<String> {
        self.0.states().vector_field().map(str::to_owned)
    }

    /// The function as the type `T`; none if it is another type.
    #[cfg(test)]
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        let call: &dyn Any = &*self.0;
        call.downcast_ref()
    }
}

/// Meaning of a function without fields, or with all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Without {
    /// All fields.
    All,
    /// The row as a whole; `*` has the same meaning.
    Row,
    /// The function takes no fields.
    None(&'static str),
    /// Exactly one field is required.
    One,
}

/// A function whose arguments are names of fields, or beginnings of names, and an optional limit.
pub(super) struct FieldsFunction {
    /// Documentation for users.
    pub doc: Documentation,
    /// Meaning without fields.
    pub without: Without,
    /// Whether `limit N` may follow.
    pub has_limit: bool,
    /// As [`Call::is_order_free`].
    pub is_order_free: fn(&FieldsCall) -> bool,
    /// As [`Call::counts_rows`].
    pub counts_rows: fn(&FieldsCall) -> bool,
    /// Whether further rows with the same values change nothing.
    pub ignores_repeats: fn(&FieldsCall) -> bool,
    /// As [`Call::only_counts`].
    pub only_counts: fn(&FieldsCall) -> bool,
    /// As [`Call::gives_row`].
    pub gives_row: bool,
    /// As [`Call::states`].
    pub states: fn(&FieldsCall) -> Box<dyn States>,
}

impl FieldsFunction {
    /// A function of field values whose result is the same for any order of rows. Other functions
    /// override members with `..FieldsFunction::new(…)`.
    pub const fn new(doc: Documentation, states: fn(&FieldsCall) -> Box<dyn States>) -> Self {
        FieldsFunction {
            doc,
            without: Without::All,
            has_limit: false,
            is_order_free: |_| true,
            counts_rows: |_| false,
            ignores_repeats: |_| false,
            only_counts: |_| false,
            gives_row: false,
            states,
        }
    }

    /// A call with these fields.
    pub fn of(&'static self, fields: Vec<NamePattern>) -> FieldsCall {
        FieldsCall { function: self, fields, limit: None }
    }
}

/// A call of a [`FieldsFunction`] with its arguments.
#[derive(Clone)]
pub(crate) struct FieldsCall {
    function: &'static FieldsFunction,
    /// Fields as they are written.
    pub fields: Vec<NamePattern>,
    /// The number behind `limit`.
    pub limit: Option<u64>,
}

impl FieldsCall {
    /// The fields that the function reads. A field that is named twice counts once, as in
    /// VictoriaLogs.
    pub fn looked_at(&self) -> Vec<NamePattern> {
        let mut looked_at: Vec<NamePattern> = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            if !looked_at.contains(field) {
                looked_at.push(field.clone());
            }
        }
        looked_at
    }

    /// The limit; without one, a number that is never reached.
    pub fn limit(&self) -> u64 {
        self.limit.unwrap_or(u64::MAX)
    }
}

impl PartialEq for FieldsCall {
    fn eq(&self, other: &FieldsCall) -> bool {
        self.function.doc.name == other.function.doc.name
            && self.fields == other.fields
            && self.limit == other.limit
    }
}

impl fmt::Debug for FieldsCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for FieldsCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = if self.fields.is_empty() && self.counts_rows() { "*" } else { "" };
        let all = if matches!(self.function.without, Without::None(_)) { "" } else { all };
        write!(f, "{}({all}{})", self.function.doc.name, write_fields(&self.fields))?;
        self.limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))
    }
}

impl Call for FieldsCall {
    fn name(&self) -> &'static str {
        self.function.doc.name
    }

    fn add_needed(&self, needed: &mut FieldSet) {
        self.fields.iter().for_each(|field| needed.add_pattern(field));
        if self.function.gives_row && self.fields.is_empty() {
            needed.add_pattern(&NamePattern::ANY);
        }
    }

    fn states(&self) -> Box<dyn States> {
        (self.function.states)(self)
    }

    fn is_order_free(&self) -> bool {
        (self.function.is_order_free)(self)
    }

    fn counts_rows(&self) -> bool {
        (self.function.counts_rows)(self)
    }

    fn distinct_fields(&self) -> Option<Vec<&str>> {
        let are_names = self.fields.iter().all(|field| !field.prefix);
        (are_names && (self.function.ignores_repeats)(self))
            .then(|| self.fields.iter().map(|field| field.name.as_str()).collect())
    }

    fn only_counts(&self) -> bool {
        (self.function.only_counts)(self)
    }

    fn gives_row(&self) -> bool {
        self.function.gives_row
    }
}

impl Register for FieldsFunction {
    fn doc(&self) -> &Documentation {
        &self.doc
    }

    fn parse(
        &'static self,
        cursor: &mut Cursor<'_>,
        position: usize,
    ) -> Result<Function, ParseError> {
        let name = self.doc.name;
        let mut fields = parse_fields(cursor, name)?;
        let wrong = |message: String| cursor.error_at(position, &["a field name"], message);
        match self.without {
            Without::All if fields.is_empty() => fields.push(NamePattern::ANY),
            Without::All => {}
            Without::Row | Without::None(_) if fields.contains(&NamePattern::ANY) => fields.clear(),
            Without::None(message) if !fields.is_empty() => return Err(wrong(message.to_owned())),
            Without::Row | Without::None(_) => {}
            Without::One => check_one(name, &fields).map_err(wrong)?,
        }
        let limit = match self.has_limit {
            true => parse_limit(cursor)?,
            false => None,
        };
        Ok(Function::new(FieldsCall { function: self, fields, limit }))
    }
}

/// The error says that exactly one field is required.
pub(super) fn check_one(name: &str, fields: &[NamePattern]) -> Result<(), String> {
    match fields {
        [] => Err(format!("{name}() needs a field")),
        [field] if !field.prefix => Ok(()),
        _ => Err(format!("{name}() takes exactly one field")),
    }
}

/// Parses `limit N`, if it comes next; 0 means no limit.
pub(super) fn parse_limit(cursor: &mut Cursor<'_>) -> Result<Option<u64>, ParseError> {
    if !cursor.eat_keyword("limit") {
        return Ok(None);
    }
    Ok(Some(parse_count(cursor, None)?).filter(|&limit| limit > 0))
}

/// An entry of the table for a function with other arguments than fields.
pub(super) struct OwnFunction {
    /// Documentation for users.
    pub doc: Documentation,
    /// As [`Register::parse`].
    pub parse: fn(&mut Cursor<'_>, usize) -> Result<Function, ParseError>,
}

impl Register for OwnFunction {
    fn doc(&self) -> &Documentation {
        &self.doc
    }

    fn parse(
        &'static self,
        cursor: &mut Cursor<'_>,
        position: usize,
    ) -> Result<Function, ParseError> {
        (self.parse)(cursor, position)
    }
}

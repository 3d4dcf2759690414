//! `join by (a, b) (query) [inner] [prefix "x."]`: adds the fields of those rows of another query
//! that have the same values in the fields `by`. A field that the row has keeps its value. `join by
//! (a) rows({"a":"1","b":"2"}, …)` joins with given rows. A row with several partners becomes
//! several rows. A row without a partner stays as it is, or is dropped with `inner`.
//!
//! The other query runs when the first row comes, within the time and memory that are left. Its
//! rows are held until the end.

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;

use text::quoted::quote;

use super::operator::{Documentation, Mode, Operator, Processor, Registration, one};
use super::{parse_by, tuples, write_names};
use crate::base::{Buffer, FieldSet, Meter, RunError};
use crate::block::{
    Block, COMPUTED_ROWS_MAX, Column, Computed, MadeRow, Scratch, TooLong, VALUE_BYTES_MAX,
};
use crate::lang::pipe::Next;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::{Query, parse_inner};

/// The `join` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Join {
    /// The fields whose values must be equal; at least one.
    pub by: Vec<String>,
    /// The source of the other rows.
    pub with: JoinedWith,
    /// Whether rows without a partner are left out.
    pub inner: bool,
    /// Prefix for the names of the other rows' fields.
    pub prefix: String,
}

/// The source of the rows to join with.
#[derive(Clone, Debug, PartialEq)]
pub enum JoinedWith {
    /// The rows of a query.
    Query(Query),
    /// Given rows, as names and values.
    Rows(Vec<Vec<(String, String)>>),
}

pub(super) static JOIN: Registration = Registration {
    doc: Documentation {
        name: "join",
        aliases: &[],
        syntax: "join by (<field>, …) (<query>) [inner] [prefix \"<text>\"], or rows({…}, …) in place of the query",
        summary: "adds to each row the fields of the rows of another query that have the same \
                  values in these fields",
        example: "join by (user) (app:x | stats by (user) count() n) inner prefix \"x.\"",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Join, ParseError> {
    cursor.eat_keyword("by");
    let position = cursor.position();
    let by = parse_by(cursor)?;
    if by.is_empty() {
        return Err(cursor.error_at(
            position,
            &["field names"],
            "join needs the fields to compare",
        ));
    }
    let with = if cursor.eat_call("rows") {
        JoinedWith::Rows(parse_rows(cursor)?)
    } else {
        cursor.expect('(', "join by (…) (query)")?;
        JoinedWith::Query(parse_inner(cursor, "join by (…) (query)")?)
    };
    let mut join = Join { by, with, inner: false, prefix: String::new() };
    loop {
        if cursor.eat_keyword("inner") {
            join.inner = true;
        } else if cursor.eat_keyword("prefix") {
            join.prefix = cursor.expect_string(true, "a prefix")?.text;
        } else {
            return Ok(join);
        }
    }
}

/// Parses `{"a":"b", c=d}, {…})`.
pub(super) fn parse_rows(
    cursor: &mut Cursor<'_>,
) -> Result<Vec<Vec<(String, String)>>, ParseError> {
    const WHAT: &str = "rows({\"name\":\"value\"}, …)";
    const STOPS: &str = ":=,{}()|";
    let mut rows = Vec::new();
    while !cursor.eat(')') {
        cursor.expect('{', WHAT)?;
        let mut row: Vec<(String, String)> = Vec::new();
        while !cursor.eat('}') {
            let name = cursor.run(STOPS, "a field name")?;
            if row.iter().any(|(known, _)| *known == name.text) {
                let message = format!("the row has the field \"{}\" twice", name.text);
                return Err(cursor.error_at(name.position, &["another field"], message));
            }
            if !cursor.eat('=') {
                cursor.expect(':', WHAT)?;
            }
            row.push((name.text, cursor.run(",{}()|", "a value")?.text));
            if !cursor.eat(',') {
                cursor.expect('}', WHAT)?;
                break;
            }
        }
        rows.push(row);
        // The commas between rows may be missing, as in VictoriaLogs.
        if !cursor.eat(',') && cursor.peek() != Some('{') {
            cursor.expect(')', WHAT)?;
            break;
        }
    }
    Ok(rows)
}

impl JoinedWith {
    /// The query, mutable.
    pub(super) fn query_mut(&mut self) -> Option<&mut Query> {
        match self {
            JoinedWith::Query(query) => Some(query),
            JoinedWith::Rows(_) => None,
        }
    }
}

impl Operator for Join {
    fn mode(&self) -> Mode {
        Mode::Streaming
    }

    fn needed_fields(&self, mut wanted: FieldSet) -> FieldSet {
        wanted.add_all(&self.by);
        wanted
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(JoinRows::new(self))
    }

    fn queries_mut(&mut self) -> Vec<&mut Query> {
        self.with.query_mut().into_iter().collect()
    }
}

impl fmt::Display for JoinedWith {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = match self {
            JoinedWith::Query(query) => return write!(f, "({query})"),
            JoinedWith::Rows(rows) => rows,
        };
        f.write_str(&write_rows(rows))
    }
}

/// Writes `rows({"a":"b"}, …)`.
pub(super) fn write_rows(rows: &[Vec<(String, String)>]) -> String {
    let member = |(name, value): &(String, String)| format!("{}:{}", quote(name), quote(value));
    let row = |row: &Vec<(String, String)>| {
        format!("{{{}}}", row.iter().map(member).collect::<Vec<_>>().join(", "))
    };
    format!("rows({})", rows.iter().map(row).collect::<Vec<_>>().join(", "))
}

/// Makes a row of given names and values.
pub(super) fn given_row(fields: &[(String, String)]) -> MadeRow {
    let mut row = MadeRow::default();
    for (name, value) in fields {
        row.push(name.as_str().into(), value.as_bytes());
    }
    row
}

impl fmt::Display for Join {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "join by ({}) {}", write_names(&self.by), self.with)?;
        f.write_str(if self.inner { " inner" } else { "" })?;
        if self.prefix.is_empty() { Ok(()) } else { write!(f, " prefix {}", quote(&self.prefix)) }
    }
}

type Others = HashMap<Box<[u8]>, Vec<MadeRow>, foldhash::fast::RandomState>;

pub(super) struct JoinRows {
    join: Join,
    /// The rows of the other query, by the compared values; none before the query has run.
    others: Option<Others>,
    scratch: Scratch,
}

impl JoinRows {
    pub fn new(join: &Join) -> JoinRows {
        JoinRows { join: join.clone(), others: None, scratch: Scratch::default() }
    }

    /// Collects the rows to join with.
    fn collect(&mut self, next: &mut Next<'_>) -> Result<Others, RunError> {
        let Join { by, with, prefix, .. } = &self.join;
        let mut others = Others::default();
        let (mut key, mut name) = (Buffer::default(), prefix.clone());
        let scratch = &mut self.scratch;
        let mut add = |block: Block, next: &mut Next<'_>| -> Result<ControlFlow<()>, RunError> {
            let columns: Vec<Column<'_>> = by.iter().map(|name| block.column(name)).collect();
            for row in 0..block.len() {
                write_key(&block, row, &columns, scratch, &mut key, next.meter())?;
                let (mut names_bytes, meter) = (0, next.meter());
                let mut other = MadeRow::copy_without(by, meter, |each| {
                    block.visit(row, &[], scratch, each);
                })?;
                if !prefix.is_empty() {
                    other.rename(|field| {
                        name.truncate(prefix.len());
                        name.push_str(field);
                        names_bytes += name.len() + NAME_BYTES;
                        name.as_str().into()
                    });
                }
                let key = key.bytes();
                meter.take(key.len() + tuples::ENTRY_BYTES + names_bytes)?;
                // Most keys have one row. A vector that grows to one row has room for four.
                match others.get_mut(key) {
                    Some(rows) => rows.push(other),
                    None => _ = others.insert(key.into(), vec![other]),
                }
            }
            Ok(ControlFlow::Continue(()))
        };
        match with {
            JoinedWith::Query(query) => next.run_query(query, &mut add)?,
            JoinedWith::Rows(rows) => {
                let _ = add(Block::Made(rows.iter().map(|row| given_row(row)).collect()), next)?;
            }
        }
        Ok(others)
    }
}

fn write_key(
    block: &Block,
    row: usize,
    columns: &[Column<'_>],
    scratch: &mut Scratch,
    key: &mut Buffer,
    meter: &mut Meter,
) -> Result<(), RunError> {
    key.clear(meter);
    let mut columns = columns.iter();
    columns.try_for_each(|&column| tuples::put_part(block.value(column, row, scratch), key, meter))
}

/// Memory of a name besides its bytes.
const NAME_BYTES: usize = 16;
/// Bytes of rows that are copied at a time, unless one row has more.
const COPIED_BYTES_MAX: usize = 4 << 20;

/// Index of a row in the block, and its partner.
type Pair<'o> = (u32, Option<&'o MadeRow>);

fn hand_on(
    block: &Block,
    pairs: &mut Vec<Pair<'_>>,
    scratch: &mut Scratch,
    next: &mut Next<'_>,
) -> Result<ControlFlow<()>, RunError> {
    next.check()?;
    let picks: Vec<u32> = pairs.iter().map(|(row, _)| *row).collect();
    let copied: usize = picks.iter().map(|&row| block.row_bytes(row as usize)).sum();
    next.meter().take(copied)?;
    let mut rows = block.repeat(&picks);
    let mut computed = Computed::new(pairs.len());
    let mut held = 0;
    for (row, (_, other)) in pairs.drain(..).enumerate() {
        let Some(other) = other else { continue };
        for (name, value) in other.fields() {
            // A row keeps its own value, as in VictoriaLogs.
            if !block.value(block.column(name), picks[row] as usize, scratch).is_empty() {
                continue;
            }
            let column = computed.column(name);
            computed
                .set_with(column, row, |out| out.extend_from_slice(value))
                .map_err(|TooLong| RunError::ValueLimit(VALUE_BYTES_MAX))?;
        }
        next.meter().take(computed.memory_bytes() - held)?;
        held = computed.memory_bytes();
    }
    let more = computed.add_to(&mut rows, scratch, next.meter())?;
    let flow = next.push(rows)?;
    next.meter().give_back(copied + held + more);
    Ok(flow)
}

impl Processor for JoinRows {
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        if self.others.is_none() {
            self.others = Some(self.collect(next)?);
        }
        let others = self.others.as_ref().expect("just set");
        let scratch = &mut self.scratch;
        let mut key = Buffer::default();
        for part in block.into_parts(COMPUTED_ROWS_MAX) {
            let columns: Vec<Column<'_>> =
                self.join.by.iter().map(|name| part.column(name)).collect();
            let mut pairs: Vec<Pair<'_>> = Vec::new();
            let mut bytes = 0;
            for row in 0..part.len() {
                write_key(&part, row, &columns, scratch, &mut key, next.meter())?;
                let partners = others.get(key.bytes()).map_or(&[][..], Vec::as_slice);
                let alone = (partners.is_empty() && !self.join.inner).then_some(None);
                for partner in partners.iter().map(Some).chain(alone) {
                    pairs.push((row as u32, partner));
                    bytes += part.row_bytes(row) + partner.map_or(0, MadeRow::memory_bytes);
                    let enough = pairs.len() == COMPUTED_ROWS_MAX || bytes > COPIED_BYTES_MAX;
                    if enough {
                        bytes = 0;
                    }
                    if enough && hand_on(&part, &mut pairs, scratch, next)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            if !pairs.is_empty() && hand_on(&part, &mut pairs, scratch, next)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Record, check_pipe, record};

    fn records() -> Vec<Record> {
        let app = |app, user| record(1, &[("app", app), ("user", user)]);
        vec![
            app("app1", "a"),
            app("app1", "b"),
            app("app1", "a"),
            app("app2", "b"),
            app("app2", "c"),
        ]
    }

    #[test]
    fn with_given_rows() {
        let check = |pipes: &str, expected: &[&str]| check_pipe(&records(), pipes, expected);
        check(
            r#"fields user | join by (user) rows({"user":"a","role":"admin"}, {user=b, role=guest, "x y":"1"})"#,
            &[
                "user=a role=admin",
                "user=b role=guest x y=1",
                "user=a role=admin",
                "user=b role=guest x y=1",
                "user=c",
            ],
        );
        check(
            r#"fields user | join by (user) rows({"user":"a","role":"admin"}) inner prefix "x.""#,
            &["user=a x.role=admin", "user=a x.role=admin"],
        );
        check("fields user | join by (user) rows() inner", &[]);
        for (wrong, told) in [
            ("rows({a=1, a=2})", "twice"),
            ("rows({a})", "unexpected"),
            ("rows({a=1}", "ends"),
            ("rows(a=1)", "unexpected"),
        ] {
            let error = crate::Query::parse(&format!("* | join by (a) {wrong}"), 0).unwrap_err();
            assert!(error.message.contains(told), "{wrong}: {error}");
        }
    }

    #[test]
    fn rows_of_two_queries() {
        let check = |rest: &str, expected: &[&str]| {
            let hits =
                |app| format!("filter {{app=\"{app}\"}} | stats by (user) count() {app}_hits");
            let other = "* | filter {app=\"app2\"} | stats by (user) count() app2_hits";
            check_pipe(
                &records(),
                &format!("{} | join by (user) ({other}) {rest}", hits("app1")),
                expected,
            );
        };
        check("", &["user=a app1_hits=2", "user=b app1_hits=1 app2_hits=1"]);
        check("inner", &["user=b app1_hits=1 app2_hits=1"]);
        check_pipe(
            &records(),
            "filter app:app2 | join by (user) (app:app1 | uniq by (user, app)) | fields user, app",
            &["user=b app=app2", "user=c app=app2"],
        );
        check("prefix \"x.\"", &["user=a app1_hits=2", "user=b app1_hits=1 x.app2_hits=1"]);
        check_pipe(
            &records(),
            "filter app:app2 | fields user | join by (user) (app:app1 | fields app, user) | fields user, app",
            &["user=b app=app1", "user=c"],
        );
        check_pipe(
            &records(),
            "filter user:c | join by (none) (user:a | fields app) | fields user, app",
            &["user=c app=app2", "user=c app=app2"],
        );
    }
}

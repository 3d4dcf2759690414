//! `json_values(a, foo*) [sort by (b desc, c)] [limit N]`: the rows of the group as a JSON array of
//! objects, with all fields or only the named ones.
//!
//! Rows come in the order of reading, or sorted as by `sort`; with a limit, only the first N. They
//! are kept in the query's memory, at most twice the limit.

use std::cmp::Ordering;
use std::fmt;

use super::aggregate::{Aggregate, Input, PerGroup, States};
use super::call::{Call, Function, OwnFunction, parse_limit};
use super::{parse_fields, write_fields};
use crate::base::names::NamePattern;
use crate::base::number::{SortKind, compare_kinds};
use crate::base::partial_state::{Decoder, Encoder};
use crate::base::{Buffer, FieldSet, Meter, RunError};
use crate::block::Scratch;
use crate::lang::pipe::operator::Documentation;
use crate::lang::pipe::sort::{SortKey, once};
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// Rows kept beyond the limit before the last ones are dropped.
const SPARE_ROWS: u64 = 64;

pub(super) static JSON_VALUES: OwnFunction = OwnFunction {
    doc: Documentation {
        name: "json_values",
        aliases: &[],
        syntax: "json_values(), json_values(<field>, …) [sort by (<field> [desc], …)] [limit <n>]",
        summary: "collects rows as a JSON array of objects, with all fields or only these",
        example: "json_values(user, path) sort by (took desc) limit 3 v",
    },
    parse,
};

/// `json_values` with its arguments.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JsonValuesCall {
    /// Fields to show; empty: all.
    pub fields: Vec<NamePattern>,
    /// Sort keys; empty: the order of reading.
    pub keys: Vec<SortKey>,
    /// Most rows.
    pub limit: Option<u64>,
}

fn parse(cursor: &mut Cursor<'_>, _position: usize) -> Result<Function, ParseError> {
    let mut fields = parse_fields(cursor, JSON_VALUES.doc.name)?;
    if fields.contains(&NamePattern::ANY) {
        fields.clear();
    }
    let mut keys = Vec::new();
    if cursor.eat_keyword("sort") {
        cursor.eat_keyword("by");
        keys = parse_keys(cursor)?;
    }
    let limit = parse_limit(cursor)?;
    Ok(Function::new(JsonValuesCall { fields, keys, limit }))
}

impl fmt::Display for JsonValuesCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "json_values({})", write_fields(&self.fields))?;
        if !self.keys.is_empty() {
            let key = |key: &SortKey| {
                format!("{}{}", quote_name(&key.name), if key.descending { " desc" } else { "" })
            };
            let keys: Vec<String> = self.keys.iter().map(key).collect();
            write!(f, " sort by ({})", keys.join(", "))?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, " limit {limit}"))
    }
}

impl Call for JsonValuesCall {
    fn name(&self) -> &'static str {
        JSON_VALUES.doc.name
    }

    fn add_needed(&self, needed: &mut FieldSet) {
        match self.fields.is_empty() {
            true => needed.add_pattern(&NamePattern::ANY),
            false => self.fields.iter().for_each(|field| needed.add_pattern(field)),
        }
        self.keys.iter().for_each(|key| needed.add(&key.name));
    }

    fn states(&self) -> Box<dyn States> {
        let (fields, keys) = (self.fields.clone(), once(&self.keys));
        let limit = self.limit.unwrap_or(u64::MAX);
        PerGroup::boxed(JsonValues { fields, keys, limit, text: Buffer::default() }, &[])
    }

    fn is_order_free(&self) -> bool {
        false
    }
}

struct JsonValues {
    fields: Vec<NamePattern>,
    keys: Vec<SortKey>,
    limit: u64,
    text: Buffer,
}

/// Parses `(b desc, c)`, behind `sort by`.
fn parse_keys(cursor: &mut Cursor<'_>) -> Result<Vec<SortKey>, ParseError> {
    let mut keys = Vec::new();
    cursor.expect('(', "the fields to sort by")?;
    loop {
        let name = cursor.expect_string(false, "a field name")?.text;
        let descending = cursor.eat_keyword("desc");
        if !descending {
            cursor.eat_keyword("asc");
        }
        keys.push(SortKey { name, descending });
        if !cursor.eat(',') {
            cursor.expect(')', "the fields to sort by")?;
            return Ok(keys);
        }
    }
}

#[derive(Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
}

struct Row {
    keys: Box<[(SortKind, Box<[u8]>)]>,
    json: Box<[u8]>,
}

impl Row {
    fn memory_bytes(&self) -> usize {
        let keys: usize = self.keys.iter().map(|k| size_of_val(k) + k.1.len()).sum();
        // A vector may reserve room for as many again.
        2 * size_of::<Row>() + keys + self.json.len()
    }
}

impl JsonValues {
    fn compare(&self, a: &Row, b: &Row) -> Ordering {
        let mut orders = self.keys.iter().zip(a.keys.iter().zip(&b.keys)).map(|(key, (a, b))| {
            let order = compare_kinds((a.0, &a.1), (b.0, &b.1));
            if key.descending { order.reverse() } else { order }
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }

    /// Sorts the rows, and drops those behind the limit.
    fn shorten(&self, rows: &mut Vec<Row>, meter: &mut Meter) {
        if !self.keys.is_empty() {
            rows.sort_by(|a, b| self.compare(a, b));
        }
        let kept = usize::try_from(self.limit).map_or(rows.len(), |limit| limit.min(rows.len()));
        meter.give_back(rows[kept..].iter().map(Row::memory_bytes).sum());
        rows.truncate(kept);
    }

    fn is_full(&self, rows: &[Row]) -> bool {
        let spare = if self.keys.is_empty() { 0 } else { self.limit.saturating_add(SPARE_ROWS) };
        rows.len() as u64 >= self.limit.saturating_add(spare)
    }
}

impl Aggregate for JsonValues {
    type State = Rows;

    fn add(
        &mut self,
        Rows { rows }: &mut Rows,
        input: &Input<'_>,
        row: usize,
        scratch: &mut Scratch,
        meter: &mut Meter,
    ) -> Result<(), RunError> {
        if self.is_full(rows) {
            self.shorten(rows, meter);
            if self.is_full(rows) {
                return Ok(());
            }
        }
        let mut keys: Vec<(SortKind, Box<[u8]>)> = Vec::with_capacity(self.keys.len());
        for key in &self.keys {
            let value = input.value(&key.name, row, scratch);
            meter.take(size_of::<(SortKind, Box<[u8]>)>() + value.len())?;
            keys.push((SortKind::of(value), value.into()));
        }
        input.write_json(row, &self.fields, scratch, &mut self.text, meter)?;
        let json = self.text.bytes();
        meter.take(2 * size_of::<Row>() + json.len())?;
        rows.push(Row { keys: keys.into(), json: json.into() });
        self.text.clear(meter);
        Ok(())
    }

    fn merge(&mut self, own: &mut Rows, other: Rows, meter: &mut Meter) -> Result<(), RunError> {
        own.rows.extend(other.rows);
        self.shorten(&mut own.rows, meter);
        Ok(())
    }

    fn encode(&self, own: &Self::State, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(own.rows.len() as u64)?;
        for Row { keys, json } in &own.rows {
            keys.iter().try_for_each(|(_, value)| out.bytes(value))?;
            out.bytes(json)?;
        }
        Ok(())
    }

    fn decode(&self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<Self::State, RunError> {
        let mut rows = Vec::new();
        for _ in 0..from.length(size_of::<u32>())? {
            let mut keys: Vec<(SortKind, Box<[u8]>)> = Vec::with_capacity(self.keys.len());
            for _ in &self.keys {
                let value = from.bytes()?;
                meter.take(size_of::<(SortKind, Box<[u8]>)>() + value.len())?;
                keys.push((SortKind::of(value), value.into()));
            }
            let json = from.bytes()?;
            meter.take(2 * size_of::<Row>() + json.len())?;
            rows.push(Row { keys: keys.into(), json: json.into() });
        }
        Ok(Rows { rows })
    }

    fn text_bytes(&self, Rows { rows }: &Rows) -> usize {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        rows.iter().take(limit).map(|row| row.json.len() + 1).sum()
    }

    fn write(&self, Rows { rows }: &mut Rows, _seconds: Option<f64>, out: &mut Vec<u8>) {
        if !self.keys.is_empty() {
            rows.sort_by(|a, b| self.compare(a, b));
        }
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        out.push(b'[');
        for (i, row) in rows.iter().take(limit).enumerate() {
            out.extend_from_slice(if i > 0 { b"," } else { b"" });
            out.extend_from_slice(&row.json);
        }
        out.push(b']');
    }
}

#[cfg(test)]
mod tests {
    use crate::lang::pipe::tests::check;
    use crate::testing::{record, rows_of};

    #[test]
    fn rows_as_json() {
        check(
            "* | stats by (host) json_values(size, level) a",
            &[
                r#"host=x a=[{"size":"10","level":"error"}]"#,
                r#"host=y a=[{"size":"9","level":"info"},{"size":"1KB","level":"error"},{"level":"info"}]"#,
            ],
        );
        check("* | stats json_values(si*) limit 2 a", &[r#"a=[{"size":"10"},{"size":"9"}]"#]);
        check(
            "* | stats json_values(size) sort by (size desc) limit 2 as a",
            &[r#"a=[{"size":"1KB"},{"size":"10"}]"#],
        );
        check(
            "* | stats json_values(_msg) sort by (level, _time desc) limit 3 a",
            &[r#"a=[{"_msg":"c error"},{"_msg":"a error"},{"_msg":"d ok"}]"#],
        );
        check("nothing | stats json_values() a", &["a=[]"]);
        check("a | fields _msg | stats json_values() a", &[r#"a=[{"_msg":"a error"}]"#]);
    }

    #[test]
    fn many_rows_are_shortened() {
        let texts: Vec<String> = (0..500).map(|i| (i * 7 % 500).to_string()).collect();
        let records: Vec<_> = texts.iter().map(|n| record(1, &[("n", n)])).collect();
        let query = "* | stats json_values(n) sort by (n) limit 3 a";
        assert_eq!(rows_of(query, &records), [r#"a=[{"n":"0"},{"n":"1"},{"n":"2"}]"#]);
    }
}

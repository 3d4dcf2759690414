//! `lookup hosts on (client_ip) as (ip) fields (owner, site) prefix "host_"`: adds fields of the
//! row of a table that has the values of some fields as its key.
//!
//! The table belongs to the source of the lines: a query gets it when it begins to run, so it sees
//! one version of the table. Rows without a key in the table stay as they are.

use std::fmt;
use std::sync::Arc;

use text::nearest::nearest;
use text::quoted::quote;

use super::compute::{Compute, ComputePipe, Output, Overwrite};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::TIME;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch};
use crate::lang::source::{Table, Tables};
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::Query;

/// The `lookup` pipe.
#[derive(Clone, Debug)]
pub struct Lookup {
    /// The name of the table.
    pub table: String,
    /// The fields whose values are the key, in the order of `keys`.
    pub on: Vec<String>,
    /// The fields of the table that make up the key; empty: all of its keys.
    pub keys: Vec<String>,
    /// The fields to add; empty: all.
    pub fields: Vec<String>,
    /// Prefix for the names of the fields.
    pub prefix: String,
    /// When fields get new values.
    pub overwrite: Overwrite,
    /// The table, once a query runs.
    bound: Option<Bound>,
}

#[derive(Clone, Debug)]
struct Bound {
    table: Arc<dyn Table>,
    /// The place of the field for each key of the table.
    order: Vec<usize>,
    /// The name of the field that each field of the table becomes; none: it is not wanted.
    names: Vec<Option<String>>,
}

/// The table is no part of what is written.
impl PartialEq for Lookup {
    fn eq(&self, other: &Lookup) -> bool {
        (&self.table, &self.on, &self.keys, &self.fields, &self.prefix, self.overwrite)
            == (&other.table, &other.on, &other.keys, &other.fields, &other.prefix, other.overwrite)
    }
}

pub(super) static LOOKUP: Registration = Registration {
    doc: Documentation {
        name: "lookup",
        aliases: &[],
        syntax: "lookup <table> on (<field>, …) [as (<key>, …)] [fields (<field>, …)] [prefix \"<text>\"] [keep_original_fields] [skip_empty_results]",
        summary: "adds the fields of the row of a configured table that has these values as its key",
        example: "lookup hosts on (client_ip) as (ip) fields (owner, site) prefix \"host_\"",
    },
    parse: |cursor| parse(cursor).map(one),
};

fn parse(cursor: &mut Cursor<'_>) -> Result<Lookup, ParseError> {
    let table = cursor.expect_string(false, "the name of a table")?.text;
    if !cursor.eat_keyword("on") {
        return Err(cursor.error(&["on"], "lookup needs the fields that hold the key"));
    }
    let on = names(cursor)?;
    let position = cursor.position();
    let keys = if cursor.eat_keyword("as") { names(cursor)? } else { Vec::new() };
    if !keys.is_empty() && keys.len() != on.len() {
        let message = format!("{} fields are looked up as {} keys", on.len(), keys.len());
        return Err(cursor.error_at(position, &["a key for each field"], message));
    }
    let fields = if cursor.eat_keyword("fields") { names(cursor)? } else { Vec::new() };
    let prefix = match cursor.eat_keyword("prefix") {
        true => cursor.expect_string(true, "a prefix")?.text,
        false => String::new(),
    };
    let overwrite = Overwrite::parse(cursor);
    Ok(Lookup { table, on, keys, fields, prefix, overwrite, bound: None })
}

/// Parses `(a, b)`, or `a`.
fn names(cursor: &mut Cursor<'_>) -> Result<Vec<String>, ParseError> {
    if !cursor.eat('(') {
        return Ok(vec![cursor.expect_string(false, "a field name")?.text]);
    }
    let mut names = Vec::new();
    loop {
        names.push(cursor.expect_string(false, "a field name")?.text);
        if !cursor.eat(',') {
            break;
        }
    }
    cursor.expect(')', "the field names")?;
    Ok(names)
}

impl fmt::Display for Lookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |names: &[String]| {
            let names: Vec<String> =
                names.iter().map(|name| quote_name(name).to_string()).collect();
            names.join(", ")
        };
        write!(f, "lookup {} on ({})", quote_name(&self.table), list(&self.on))?;
        if !self.keys.is_empty() {
            write!(f, " as ({})", list(&self.keys))?;
        }
        if !self.fields.is_empty() {
            write!(f, " fields ({})", list(&self.fields))?;
        }
        if !self.prefix.is_empty() {
            write!(f, " prefix {}", quote(&self.prefix))?;
        }
        write!(f, "{}", self.overwrite)
    }
}

impl Lookup {
    /// Finds the table, and in it the fields that the pipe names.
    fn bind(&mut self, tables: Option<&dyn Tables>) -> Result<(), String> {
        let name = &self.table;
        let Some(table) = tables.and_then(|tables| tables.table(name)) else {
            let names = tables.map(Tables::names).unwrap_or_default();
            let near = nearest(name, names.iter().map(String::as_str));
            return Err(match near {
                Some(near) => format!("lookup: there is no table '{name}'; did you mean '{near}'?"),
                None => format!("lookup: there is no table '{name}'; give it in [[lookups]]"),
            });
        };
        let unknown = |field: &str, of: &[String]| {
            format!("lookup: table '{name}' has no '{field}'; it has {}", of.join(", "))
        };
        if self.on.len() != table.keys().len() {
            let keys = table.keys();
            return Err(format!(
                "lookup: the key of table '{name}' is ({}), but 'on' names {} fields",
                keys.join(", "),
                self.on.len()
            ));
        }
        let mut order = Vec::with_capacity(table.keys().len());
        for (place, key) in table.keys().iter().enumerate() {
            order.push(match self.keys.is_empty() {
                true => place,
                false => self.keys.iter().position(|given| given == key).ok_or_else(|| {
                    let given = self.keys.iter().find(|given| !table.keys().contains(given));
                    unknown(given.unwrap_or(key), table.keys())
                })?,
            });
        }
        if let Some(field) = self.fields.iter().find(|field| !table.fields().contains(field)) {
            return Err(unknown(field, table.fields()));
        }
        let is_wanted = |field: &String| self.fields.is_empty() || self.fields.contains(field);
        let named = |field: &String| is_wanted(field).then(|| format!("{}{field}", self.prefix));
        let names = table.fields().iter().map(named).collect();
        self.bound = Some(Bound { table, order, names });
        Ok(())
    }
}

impl Query {
    /// Whether a pipe of the query looks values up in tables.
    pub fn has_lookups(&self) -> bool {
        self.pipes.iter().any(|pipe| pipe.get::<Lookup>().is_some())
    }

    /// Gives the `lookup` pipes of the query their tables. Queries inside it get theirs when they
    /// run. An error names the table or field that is not there.
    pub fn bind_tables(&mut self, tables: Option<&dyn Tables>) -> Result<(), String> {
        let lookups = self.pipes.iter_mut().filter_map(|pipe| pipe.get_mut::<Lookup>());
        lookups.into_iter().try_for_each(|lookup| lookup.bind(tables))
    }
}

impl ComputePipe for Lookup {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        self.on.iter().for_each(|field| wanted.add(field));
    }

    fn results(&self) -> Vec<&str> {
        // The names depend on the table.
        Vec::new()
    }

    fn sets_time(&self) -> bool {
        let is_time = |field: &str| TIME.strip_prefix(self.prefix.as_str()) == Some(field);
        match &self.bound {
            Some(bound) => bound.names.iter().flatten().any(|name| name == TIME),
            None => self.fields.iter().any(|field| is_time(field)),
        }
    }
}

impl Compute for Lookup {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let Some(Bound { table, order, names }) = &self.bound else {
            return Err(RunError::Failed(format!(
                "lookup: the tables cannot be read here, so '{}' cannot be",
                self.table
            )));
        };
        let sources: Vec<_> = order.iter().map(|place| block.column(&self.on[*place])).collect();
        let columns: Vec<Option<usize>> =
            names.iter().map(|name| name.as_ref().map(|name| out.column(name))).collect();
        let mut key: Vec<Vec<u8>> = vec![Vec::new(); sources.len()];
        for row in rows.iter() {
            for (source, value) in sources.iter().zip(&mut key) {
                value.clear();
                value.extend_from_slice(block.value(*source, row, scratch));
            }
            if key.iter().all(Vec::is_empty) {
                continue;
            }
            let mut result = Ok(());
            let parts: Vec<&[u8]> = key.iter().map(Vec::as_slice).collect();
            table.find(&parts, &mut |place, value| {
                if let (Ok(()), Some(column)) = (&result, columns[place]) {
                    result = out.put(column, row, value, self.overwrite);
                }
            });
            result?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{batch, record};

    /// The rows of a table: a key and its values.
    #[derive(Debug)]
    struct Rows(Vec<String>, Vec<String>, Vec<(Vec<&'static str>, Vec<&'static str>)>);

    impl Table for Rows {
        fn keys(&self) -> &[String] {
            &self.0
        }

        fn fields(&self) -> &[String] {
            &self.1
        }

        fn find(&self, key: &[&[u8]], each: &mut dyn FnMut(usize, &[u8])) {
            let is_it = |row: &&(Vec<&str>, Vec<&str>)| {
                row.0.iter().map(|part| part.as_bytes()).eq(key.iter().copied())
            };
            if let Some((_, values)) = self.2.iter().find(is_it) {
                values.iter().enumerate().for_each(|(place, value)| each(place, value.as_bytes()));
            }
        }
    }

    #[derive(Debug)]
    struct Hosts;

    impl Tables for Hosts {
        fn table(&self, name: &str) -> Option<Arc<dyn Table>> {
            let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
            let rows = vec![
                (vec!["web1", "eu"], vec!["ann", "b1"]),
                (vec!["web1", "us"], vec!["bob", ""]),
            ];
            let table = Rows(names(&["host", "zone"]), names(&["owner", "rack"]), rows);
            (name == "hosts").then(|| Arc::new(table) as _)
        }

        fn names(&self) -> Vec<String> {
            vec!["hosts".to_owned()]
        }
    }

    fn bound(query: &str) -> Result<Query, String> {
        let mut query = Query::parse(query, 0).map_err(|error| error.message)?;
        query.bind_tables(Some(&Hosts)).map(|()| query)
    }

    #[test]
    fn what_a_table_does_not_have_is_named() {
        for (query, part) in [
            ("* | lookup host on (a, b)", "did you mean 'hosts'"),
            ("* | lookup hosts on a", "is (host, zone)"),
            ("* | lookup hosts on (a, b) as (host, zon)", "has no 'zon'"),
            ("* | lookup hosts on (a, b) fields (owner, x)", "has no 'x'"),
            ("* | lookup hosts on (a, b) as (host)", "2 fields are looked up as 1 keys"),
            ("* | lookup hosts", "needs the fields"),
        ] {
            let error = bound(query).err().unwrap_or_default();
            assert!(error.contains(part), "{query}: {error}");
        }
        assert!(Query::parse("*", 0).unwrap().bind_tables(None).is_ok());
    }

    #[test]
    fn fields_of_the_row_are_added() {
        let records = [
            record(1, &[("h", "web1"), ("z", "eu"), ("owner", "me")]),
            record(2, &[("h", "web1"), ("z", "us"), ("owner", "me")]),
            record(3, &[("h", "web2"), ("z", "eu"), ("owner", "me")]),
            record(4, &[]),
        ];
        let check = |query: &str, expected: &[&str]| {
            let query = bound(query).unwrap();
            let (mut found, mut scratch) = (Vec::new(), Scratch::default());
            let each = &mut |rows: &crate::ResultRows| {
                for row in 0..rows.len() {
                    let mut fields = Vec::new();
                    rows.visit(row, &mut Scratch::default(), |name, value| {
                        fields.push(format!("{name}={}", String::from_utf8_lossy(value)));
                    });
                    found.push(fields.join(" "));
                }
                Ok(())
            };
            let tail = query.tail(&[]).unwrap();
            tail.rows(&batch(1, &records), &Arc::default(), &mut scratch, each).unwrap();
            assert_eq!(found, expected, "{query}");
        };
        check(
            "* | lookup hosts on (h, z) | fields owner, rack",
            &["owner=ann rack=b1", "owner=bob", "owner=me", ""],
        );
        check(
            "* | lookup hosts on (z, h) as (zone, host) fields (owner) prefix 'x_' | fields x_owner, rack",
            &["x_owner=ann", "x_owner=bob", "", ""],
        );
        check(
            "* | lookup hosts on (h, z) keep_original_fields | fields owner",
            &["owner=me", "owner=me", "owner=me", ""],
        );
    }
}

//! The SQL of a table, and its rows in the format JSONEachRow, which is text and so can follow an
//! `INSERT` in one body. Answers are in JSONCompact.

use crate::driver::search::{Match, Search, Wanted};
use crate::row::{ColumnKind, Row, Schema, Value};

/// The column of the key. No other column has this name, because columns have no capitals.
const KEY: &str = "Key";

/// The statements of one table.
pub(super) struct Statements {
    schema: Schema,
    /// The table as an identifier.
    table: String,
    /// The key and all columns, with commas.
    columns: String,
}

impl Statements {
    pub fn new(schema: &Schema) -> Statements {
        let names = schema.columns.iter().map(|column| column.name.as_str());
        let columns: Vec<String> = std::iter::once(KEY).chain(names).map(identifier).collect();
        let (table, columns) = (identifier(&schema.table), columns.join(", "));
        Statements { schema: schema.clone(), table, columns }
    }

    /// `waits`: the server can wait until the data is gone from the disk.
    pub fn drop(&self, waits: bool) -> String {
        format!("DROP TABLE IF EXISTS {}{}", self.table, if waits { " SYNC" } else { "" })
    }

    /// A table whose rows are sorted by the columns `order`, those that it has, else by the time if
    /// it has one, and then by the key. With `words`, texts that are searched have an index.
    pub fn create(&self, order: &[String], fsync: bool, words: bool) -> String {
        let define = |name: &str, kind: ColumnKind| {
            let kind = match kind {
                ColumnKind::Integer => "Int64",
                ColumnKind::Text => "String",
            };
            format!("{} {kind}", identifier(name))
        };
        let schema = &self.schema;
        let columns = schema.columns.iter().map(|column| define(&column.name, column.kind));
        let indexes = schema.columns.iter().filter(|column| words && column.words);
        let indexes = indexes.map(|column| {
            let (index, name) =
                (identifier(&format!("{}_words", column.name)), identifier(&column.name));
            format!("INDEX {index} {name} TYPE text(tokenizer = splitByNonAlpha)")
        });
        let columns: Vec<String> =
            std::iter::once(define(KEY, schema.key)).chain(columns).chain(indexes).collect();
        let order = order.iter().filter(|name| schema.column(name).is_some());
        let mut order: Vec<String> = order.map(|name| identifier(name)).collect();
        if let (true, Some(time)) = (order.is_empty(), schema.time()) {
            order.push(identifier(&schema.columns[time].name));
        }
        order.push(identifier(KEY));
        let settings = match fsync {
            true => " SETTINGS fsync_after_insert = 1, fsync_part_directory = 1",
            false => "",
        };
        format!(
            "CREATE TABLE {} ({}) ENGINE = MergeTree ORDER BY ({}){settings}",
            self.table,
            columns.join(", "),
            order.join(", ")
        )
    }

    /// An insert with its data.
    pub fn insert(&self, rows: &[&Row]) -> Vec<u8> {
        let mut body =
            format!("INSERT INTO {} ({}) FORMAT JSONEachRow\n", self.table, self.columns)
                .into_bytes();
        for row in rows {
            let names = self.schema.columns.iter().map(|column| column.name.as_str());
            let values = names.zip(&row.values);
            for (at, (name, value)) in std::iter::once((KEY, &row.key)).chain(values).enumerate() {
                body.push(if at == 0 { b'{' } else { b',' });
                serde_json::to_writer(&mut body, name).expect("a text is JSON");
                body.push(b':');
                serde_json::to_writer(&mut body, value).expect("a value is JSON");
            }
            body.extend(b"}\n");
        }
        body
    }

    /// The row of a key: rows of one key are alike.
    pub fn read(&self, key: &Value) -> String {
        self.select(&format!("WHERE {} = {} LIMIT 1", identifier(KEY), literal(key)))
    }

    /// At most `rows_max` rows from a key on.
    pub fn scan(&self, from: &Value, rows_max: usize) -> String {
        let key = identifier(KEY);
        self.select(&format!("WHERE {key} >= {} ORDER BY {key} LIMIT {rows_max}", literal(from)))
    }

    /// No rows; an error if there is no such table.
    pub fn nothing(&self) -> String {
        self.select("LIMIT 0")
    }

    fn select(&self, rest: &str) -> String {
        format!("SELECT {} FROM {} {rest} FORMAT JSONCompact", self.columns, self.table)
    }

    /// The number of rows with these values.
    pub fn count(&self, conditions: &[(usize, Value)]) -> String {
        let condition = |(column, value): &(usize, Value)| {
            format!("{} = {}", identifier(&self.schema.columns[*column].name), literal(value))
        };
        let conditions: Vec<String> = conditions.iter().map(condition).collect();
        let filter = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        format!("SELECT count() FROM {}{filter} FORMAT JSONCompact", self.table)
    }

    /// The query for a search; `None` if it needs the time of a table that has none. `has_tokens`:
    /// the server knows words.
    pub fn search(&self, search: &Search, has_tokens: bool) -> Option<String> {
        let name = |column: usize| identifier(&self.schema.columns[column].name);
        let text = |text: &str| literal(&Value::Text(text.to_owned()));
        let time = || self.schema.time().map(name);
        let mut conditions = Vec::new();
        match &search.text {
            None => {}
            Some((column, Match::Word(word))) if has_tokens => {
                conditions.push(format!("hasToken({}, {})", name(*column), text(word)));
            }
            Some((column, Match::Word(word))) => {
                let regex = text(&format!("\\b{word}\\b"));
                conditions.push(format!("match({}, {regex})", name(*column)));
            }
            Some((column, Match::Phrase(phrase))) => {
                conditions.push(format!("position({}, {}) > 0", name(*column), text(phrase)));
            }
            Some((column, Match::Regex(regex))) => {
                conditions.push(format!("match({}, {})", name(*column), text(regex)));
            }
        }
        for (column, value) in &search.equals {
            conditions.push(format!("{} = {}", name(*column), literal(value)));
        }
        if let Some((from, to)) = search.time {
            let time = time()?;
            conditions.push(format!("{time} >= {from} AND {time} < {to}"));
        }
        let filter = match conditions.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", conditions.join(" AND ")),
        };
        let from = format!("FROM {}{filter}", self.table);
        Some(match &search.wanted {
            Wanted::Count => format!("SELECT count() {from} FORMAT JSONCompact"),
            Wanted::Latest { rows_max } => format!(
                "SELECT {} {from} ORDER BY {} DESC LIMIT {rows_max} FORMAT JSONCompact",
                self.columns,
                time()?
            ),
            Wanted::CountBy { column } => {
                let group = name(*column);
                format!("SELECT {group}, count() {from} GROUP BY {group} FORMAT JSONCompact")
            }
            Wanted::CountOver { step_ms } => {
                let step = format!("toInt64(intDiv({}, {step_ms}) * {step_ms})", time()?);
                format!("SELECT {step} AS step, count() {from} GROUP BY step FORMAT JSONCompact")
            }
        })
    }

    /// Merges all parts into one.
    pub fn optimize(&self) -> String {
        format!("OPTIMIZE TABLE {} FINAL", self.table)
    }

    /// An aggregate over the parts of the table that are in use.
    pub fn parts(&self, aggregate: &str) -> String {
        let table = literal(&Value::Text(self.schema.table.clone()));
        format!(
            "SELECT toUInt64({aggregate}) FROM system.parts \
             WHERE database = currentDatabase() AND table = {table} AND active FORMAT JSONCompact"
        )
    }
}

/// Names of tables and columns have letters, digits and `_` only.
fn identifier(name: &str) -> String {
    format!("\"{name}\"")
}

fn literal(value: &Value) -> String {
    match value {
        Value::Integer(number) => number.to_string(),
        Value::Text(text) => {
            let mut out = String::with_capacity(text.len() + 2);
            out.push('\'');
            for c in text.chars() {
                match c {
                    '\\' | '\'' => out.extend(['\\', c]),
                    '\0' => out.push_str("\\0"),
                    c => out.push(c),
                }
            }
            out.push('\'');
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    fn statements() -> Statements {
        let column = |name: &str, kind| Column::new(name, kind, true);
        let columns =
            vec![column("timestamp", ColumnKind::Integer), column("user", ColumnKind::Text)];
        Statements::new(&Schema { table: "logs".to_owned(), key: ColumnKind::Text, columns })
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn tables_are_sorted_by_the_key_or_by_columns_before_it() {
        let order = ["timestamp", "service"].map(str::to_owned);
        for (order, fsync, rest) in [
            (&[][..], false, "(\"Key\")"),
            (
                &order[..],
                true,
                "(\"timestamp\", \"Key\") SETTINGS fsync_after_insert = 1, fsync_part_directory = 1",
            ),
        ] {
            assert_eq!(
                statements().create(order, fsync, true),
                format!(
                    "CREATE TABLE \"logs\" (\"Key\" String, \"timestamp\" Int64, \"user\" String) \
                     ENGINE = MergeTree ORDER BY {rest}"
                )
            );
        }
    }

    #[test]
    fn rows_are_json_after_the_statement() {
        let row = Row {
            key: text("k;\n\0"),
            values: vec![Value::Integer(i64::MIN), text("a \"b\" \\ ž\u{202e}")],
        };
        assert_eq!(
            String::from_utf8(statements().insert(&[&row, &row])).unwrap(),
            "INSERT INTO \"logs\" (\"Key\", \"timestamp\", \"user\") FORMAT JSONEachRow\n".to_owned()
                + &"{\"Key\":\"k;\\n\\u0000\",\"timestamp\":-9223372036854775808,\"user\":\"a \\\"b\\\" \\\\ ž\u{202e}\"}\n"
                    .repeat(2)
        );
    }

    #[test]
    fn queries_quote_their_values() {
        let statements = statements();
        let select = "SELECT \"Key\", \"timestamp\", \"user\" FROM \"logs\"";
        for (sql, expected) in [
            (
                statements.read(&text("it's \\ \0\n`\"")),
                format!(
                    "{select} WHERE \"Key\" = 'it\\'s \\\\ \\0\n`\"' LIMIT 1 FORMAT JSONCompact"
                ),
            ),
            (
                statements.scan(&Value::Integer(-5), 9),
                format!(
                    "{select} WHERE \"Key\" >= -5 ORDER BY \"Key\" LIMIT 9 FORMAT JSONCompact"
                ),
            ),
            (
                statements.count(&[(0, Value::Integer(7)), (1, text(""))]),
                "SELECT count() FROM \"logs\" WHERE \"timestamp\" = 7 AND \"user\" = '' FORMAT JSONCompact"
                    .to_owned(),
            ),
            (statements.count(&[]), "SELECT count() FROM \"logs\" FORMAT JSONCompact".to_owned()),
            (statements.drop(true), "DROP TABLE IF EXISTS \"logs\" SYNC".to_owned()),
            (statements.drop(false), "DROP TABLE IF EXISTS \"logs\"".to_owned()),
        ] {
            assert_eq!(sql, expected);
        }
    }
}

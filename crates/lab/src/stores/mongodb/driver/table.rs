//! Rows as documents, and the commands for a table. The key of a row is the `_id` of its document.

use bson::raw::{CString, RawArrayBuf, RawDocument, RawDocumentBuf, cstr};
use bson::rawdoc;

use super::wire::whole_number;
use crate::row::{ColumnKind, Row, Schema, Value};

/// Limit of the rows of one insert. More become several inserts.
const INSERT_ROWS_MAX: usize = 1000;

/// Limit of the documents of one insert, in bytes of BSON, unless a single one is larger. A command
/// may have 16 MiB.
const INSERT_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A collection of a database, with the fields of its documents.
pub(super) struct Table {
    database: String,
    name: String,
    key: ColumnKind,
    fields: Vec<(CString, ColumnKind)>,
    indexed: Vec<CString>,
    /// Whether writes wait for the server's journal; `None` leaves that to the server.
    journal: Option<bool>,
}

impl Table {
    /// For the documents of `schema`; an error if a name has a NUL.
    pub fn new(database: &str, schema: &Schema, journal: Option<bool>) -> Result<Table, String> {
        let name = |name: &str| CString::try_from(name).map_err(|e| e.to_string());
        let fields = schema.columns.iter().map(|c| Ok((name(&c.name)?, c.kind)));
        let indexed = schema.columns.iter().filter(|c| c.indexed).map(|c| name(&c.name));
        Ok(Table {
            database: database.to_owned(),
            name: schema.table.clone(),
            key: schema.key,
            fields: fields.collect::<Result<_, String>>()?,
            indexed: indexed.collect::<Result<_, String>>()?,
            journal,
        })
    }

    /// The command that removes it, which fails where there is none.
    pub fn drop(&self) -> RawDocumentBuf {
        rawdoc! { "drop": self.name.as_str(), "$db": self.database.as_str() }
    }

    /// The commands that make it again.
    pub fn create(&self) -> Vec<RawDocumentBuf> {
        let (name, database) = (self.name.as_str(), self.database.as_str());
        let mut commands = vec![rawdoc! { "create": name, "$db": database }];
        let mut indexes = RawArrayBuf::new();
        for field in &self.indexed {
            let mut key = RawDocumentBuf::new();
            key.append(field, 1_i32);
            indexes.push(rawdoc! { "key": key, "name": field.as_str() });
        }
        if !indexes.is_empty() {
            commands.push(rawdoc! { "createIndexes": name, "indexes": indexes, "$db": database });
        }
        commands
    }

    /// The command that merges its files.
    pub fn compact(&self) -> RawDocumentBuf {
        rawdoc! { "compact": self.name.as_str(), "force": true, "$db": self.database.as_str() }
    }

    /// The command that tells its size.
    pub fn stats(&self) -> RawDocumentBuf {
        rawdoc! { "collStats": self.name.as_str(), "$db": self.database.as_str() }
    }

    /// The commands that insert these rows, in order.
    pub fn inserts<'a>(&self, rows: impl IntoIterator<Item = &'a Row>) -> Vec<RawDocumentBuf> {
        let mut commands = Vec::new();
        let (mut documents, mut count, mut bytes) = (RawArrayBuf::new(), 0, 0);
        for row in rows {
            let document = self.document(row);
            let more = document.as_bytes().len();
            if count == INSERT_ROWS_MAX || count > 0 && bytes + more > INSERT_BYTES_MAX {
                commands.push(self.insert(std::mem::take(&mut documents)));
                (count, bytes) = (0, 0);
            }
            documents.push(document);
            (count, bytes) = (count + 1, bytes + more);
        }
        if count > 0 {
            commands.push(self.insert(documents));
        }
        commands
    }

    fn insert(&self, documents: RawArrayBuf) -> RawDocumentBuf {
        self.write(rawdoc! { "insert": self.name.as_str(), "documents": documents })
    }

    /// The command that reads a row.
    pub fn read(&self, key: &Value) -> RawDocumentBuf {
        rawdoc! {
            "find": self.name.as_str(),
            "filter": { "_id": bson_of(key) },
            "limit": 1_i64,
            "singleBatch": true,
            "$db": self.database.as_str(),
        }
    }

    /// The command that reads rows in the order of keys. `rows_max` is not 0, which the protocol
    /// takes for no limit.
    pub fn scan(&self, from: &Value, rows_max: i64) -> RawDocumentBuf {
        rawdoc! {
            "find": self.name.as_str(),
            "filter": { "_id": { "$gte": bson_of(from) } },
            "sort": { "_id": 1_i32 },
            "limit": rows_max,
            // A batch that is not full is the last: one more than the limit saves a second command.
            "batchSize": rows_max.saturating_add(1),
            "$db": self.database.as_str(),
        }
    }

    /// The command that continues a scan.
    pub fn more(&self, cursor: i64) -> RawDocumentBuf {
        rawdoc! {
            "getMore": cursor,
            "collection": self.name.as_str(),
            "$db": self.database.as_str(),
        }
    }

    /// The command that counts the rows in which each column has the value.
    pub fn count(&self, conditions: &[(usize, Value)]) -> RawDocumentBuf {
        rawdoc! {
            "count": self.name.as_str(),
            "query": self.fields_of(conditions),
            "$db": self.database.as_str(),
        }
    }

    /// The command that changes columns of a row.
    pub fn update(&self, key: &Value, changes: &[(usize, Value)]) -> RawDocumentBuf {
        let update = rawdoc! {
            "q": { "_id": bson_of(key) },
            "u": { "$set": self.fields_of(changes) },
        };
        self.write(rawdoc! { "update": self.name.as_str(), "updates": [update] })
    }

    /// The command that removes a row.
    pub fn delete(&self, key: &Value) -> RawDocumentBuf {
        let delete = rawdoc! { "q": { "_id": bson_of(key) }, "limit": 1_i32 };
        self.write(rawdoc! { "delete": self.name.as_str(), "deletes": [delete] })
    }

    /// Completes a command that writes.
    fn write(&self, mut command: RawDocumentBuf) -> RawDocumentBuf {
        if let Some(journal) = self.journal {
            command.append(cstr!("writeConcern"), rawdoc! { "w": 1_i32, "j": journal });
        }
        command.append(cstr!("$db"), self.database.as_str());
        command
    }

    fn fields_of(&self, values: &[(usize, Value)]) -> RawDocumentBuf {
        let mut fields = RawDocumentBuf::new();
        for (column, value) in values {
            fields.append(&self.fields[*column].0, bson_of(value));
        }
        fields
    }

    fn document(&self, row: &Row) -> RawDocumentBuf {
        let mut document = rawdoc! { "_id": bson_of(&row.key) };
        for ((name, _), value) in self.fields.iter().zip(&row.values) {
            document.append(name, bson_of(value));
        }
        document
    }

    /// The row of a document.
    pub fn row(&self, document: &RawDocument) -> Result<Row, String> {
        let value = |name: &str, kind: ColumnKind| {
            let value = document.get(name).map_err(|e| e.to_string())?;
            let value = value.and_then(|value| match kind {
                ColumnKind::Integer => whole_number(value).map(Value::Integer),
                ColumnKind::Text => value.as_str().map(|text| Value::Text(text.to_owned())),
            });
            value.ok_or_else(|| format!("a document without {kind:?} `{name}`"))
        };
        let values = self.fields.iter().map(|(name, kind)| value(name.as_str(), *kind));
        let values = values.collect::<Result<_, String>>()?;
        Ok(Row { key: value("_id", self.key)?, values })
    }
}

fn bson_of(value: &Value) -> bson::raw::RawBson {
    match value {
        Value::Integer(number) => bson::raw::RawBson::Int64(*number),
        Value::Text(text) => bson::raw::RawBson::String(text.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    fn table(journal: Option<bool>) -> Table {
        let columns = vec![
            Column::new("time", ColumnKind::Integer, true),
            Column::new("text", ColumnKind::Text, false),
        ];
        let schema = Schema { table: "logs".to_owned(), key: ColumnKind::Text, columns };
        Table::new("lab", &schema, journal).unwrap()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn row(key: &str, message: &str) -> Row {
        Row { key: text(key), values: vec![Value::Integer(i64::MIN), text(message)] }
    }

    #[test]
    fn commands_name_the_table_and_its_fields() {
        let table = table(None);
        let conditions = [(0, Value::Integer(5)), (1, text("x"))];
        for (command, expected) in [
            (table.drop(), rawdoc! { "drop": "logs", "$db": "lab" }),
            (
                table.read(&text("k")),
                rawdoc! {
                    "find": "logs", "filter": { "_id": "k" }, "limit": 1_i64,
                    "singleBatch": true, "$db": "lab",
                },
            ),
            (
                table.scan(&text("k"), 9),
                rawdoc! {
                    "find": "logs", "filter": { "_id": { "$gte": "k" } }, "sort": { "_id": 1_i32 },
                    "limit": 9_i64, "batchSize": 10_i64, "$db": "lab",
                },
            ),
            (
                table.count(&conditions),
                rawdoc! { "count": "logs", "query": { "time": 5_i64, "text": "x" }, "$db": "lab" },
            ),
            (
                table.update(&text("k"), &conditions[..1]),
                rawdoc! {
                    "update": "logs",
                    "updates": [{ "q": { "_id": "k" }, "u": { "$set": { "time": 5_i64 } } }],
                    "$db": "lab",
                },
            ),
            (
                table.delete(&text("k")),
                rawdoc! {
                    "delete": "logs", "deletes": [{ "q": { "_id": "k" }, "limit": 1_i32 }],
                    "$db": "lab",
                },
            ),
        ] {
            assert_eq!(command, expected);
        }
        let index = rawdoc! { "key": { "time": 1_i32 }, "name": "time" };
        assert_eq!(
            table.create()[1],
            rawdoc! { "createIndexes": "logs", "indexes": [index], "$db": "lab" }
        );
    }

    #[test]
    fn writes_wait_for_the_journal_if_asked() {
        for journal in [true, false] {
            assert_eq!(
                table(Some(journal)).inserts([&row("k", "x")]),
                [rawdoc! {
                    "insert": "logs",
                    "documents": [{ "_id": "k", "time": i64::MIN, "text": "x" }],
                    "writeConcern": { "w": 1_i32, "j": journal },
                    "$db": "lab",
                }]
            );
        }
    }

    #[test]
    fn inserts_are_bounded() {
        let table = table(None);
        let sizes = |rows: usize, bytes: usize| -> Vec<usize> {
            let rows: Vec<Row> = (0..rows).map(|_| row("k", &"x".repeat(bytes))).collect();
            let count = |command: &RawDocumentBuf| {
                command.get_array("documents").unwrap().into_iter().count()
            };
            table.inserts(&rows).iter().map(count).collect()
        };
        assert_eq!(sizes(0, 1), [0; 0]);
        assert_eq!(sizes(INSERT_ROWS_MAX, 1), [INSERT_ROWS_MAX]);
        assert_eq!(sizes(INSERT_ROWS_MAX + 1, 1), [INSERT_ROWS_MAX, 1]);
        assert_eq!(sizes(5, INSERT_BYTES_MAX / 2 - 100), [2, 2, 1]);
        assert_eq!(sizes(2, INSERT_BYTES_MAX + 1), [1, 1], "alone");
    }

    #[test]
    fn documents_are_rows_again_and_others_are_errors() {
        let table = table(None);
        let row = row("k", "x\u{0}ž");
        assert_eq!(table.row(&table.document(&row)), Ok(row));
        let double = rawdoc! { "_id": "k", "time": 5.0, "text": "" };
        assert_eq!(table.row(&double).unwrap().values[0], Value::Integer(5));
        for document in [
            rawdoc! {},
            rawdoc! { "_id": "k", "time": 5_i64 },
            rawdoc! { "_id": 5_i64, "time": 5_i64, "text": "" },
            rawdoc! { "_id": "k", "time": "5", "text": "" },
            rawdoc! { "_id": "k", "time": 5_i64, "text": bson::raw::RawBson::Null },
        ] {
            assert!(table.row(&document).is_err(), "{document:?}");
        }
    }
}

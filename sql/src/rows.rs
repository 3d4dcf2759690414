//! Makes columns of rows in JSON. Values of Loginson are texts, each of which becomes what the
//! kind of its column says, or NULL.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayBuilder, ArrayRef, Float64Builder, Int64Builder, RecordBatch, RecordBatchOptions,
    StringBuilder, TimestampNanosecondBuilder,
};
use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::kind::{self, Kind};

/// Rows of a batch.
const BATCH_ROWS_MAX: usize = 8192;
/// Bytes of texts of a batch, beyond which it ends early, so that batches of long lines stay small.
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Sums of LogsQL are doubles, which hold whole numbers exactly up to here.
const EXACT_SUM_MAX: f64 = 9_007_199_254_740_992.0;

/// A column of an answer: the field of the rows, and how its values are read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Field {
    /// The name in the rows.
    pub name: String,
    /// What becomes of the texts.
    pub kind: Kind,
    /// Whether this is a sum of whole numbers, which Loginson may have rounded.
    pub is_sum: bool,
}

/// Collects rows to batches.
pub struct Batches {
    schema: SchemaRef,
    fields: Vec<Field>,
    places: HashMap<String, usize>,
    columns: Vec<Column>,
    /// The values of the row being read. Kept to reuse its memory.
    row: Vec<Option<String>>,
    rows: usize,
    bytes: usize,
}

enum Column {
    Time(TimestampNanosecondBuilder),
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
}

impl Batches {
    /// Fields and columns of the schema correspond to each other by their places.
    pub fn new(schema: SchemaRef, fields: Vec<Field>) -> Batches {
        let places = fields.iter().enumerate().map(|(at, f)| (f.name.clone(), at)).collect();
        let columns = fields.iter().map(|field| Column::new(field.kind)).collect();
        let row = vec![None; fields.len()];
        Batches { schema, fields, places, columns, row, rows: 0, bytes: 0 }
    }

    /// Adds a row; gives a batch once it is large enough.
    pub fn add(&mut self, json: &[u8]) -> Result<Option<RecordBatch>> {
        self.row.fill(None);
        let visitor = Row { places: &self.places, values: &mut self.row };
        let error = serde_json::Deserializer::from_slice(json)
            .deserialize_map(visitor)
            .map_err(|e| exec_datafusion_err!("a row of Loginson cannot be read: {e}"))?;
        if let Some(error) = error {
            return exec_err!("Loginson ended the query: {error}");
        }
        for ((column, field), value) in self.columns.iter_mut().zip(&self.fields).zip(&self.row) {
            let value = value.as_deref().filter(|value| !value.is_empty());
            self.bytes += value.map_or(0, str::len);
            column.add(field, value)?;
        }
        self.rows += 1;
        if self.rows < BATCH_ROWS_MAX && self.bytes < BATCH_BYTES_MAX {
            return Ok(None);
        }
        self.finish().map(Some)
    }

    /// The rows that were added since the last batch.
    pub fn finish(&mut self) -> Result<RecordBatch> {
        let columns: Vec<ArrayRef> = self.columns.iter_mut().map(Column::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        (self.rows, self.bytes) = (0, 0);
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }

    /// Whether there are rows that no batch has.
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }
}

impl Column {
    fn new(kind: Kind) -> Column {
        match kind {
            Kind::Time => Column::Time(TimestampNanosecondBuilder::new().with_timezone("UTC")),
            Kind::Int => Column::Int(Int64Builder::new()),
            Kind::Float => Column::Float(Float64Builder::new()),
            Kind::Text => Column::Text(StringBuilder::new()),
        }
    }

    fn add(&mut self, field: &Field, value: Option<&str>) -> Result<()> {
        match self {
            Column::Time(column) => {
                column.append_option(value.map(string_to_timestamp_nanos).transpose()?);
            }
            Column::Int(column) if field.is_sum => column.append_option(sum(value)?),
            Column::Int(column) => column.append_option(value.and_then(kind::int)),
            // Sums and averages of Loginson may have an exponent, and are `NaN` without numbers.
            Column::Float(column) if field.is_sum => {
                let number = value.and_then(|value| value.parse::<f64>().ok());
                column.append_option(number.filter(|number| !number.is_nan()));
            }
            Column::Float(column) => column.append_option(value.and_then(kind::float)),
            Column::Text(column) => column.append_option(value),
        }
        Ok(())
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Column::Time(column) => ArrayBuilder::finish(column),
            Column::Int(column) => ArrayBuilder::finish(column),
            Column::Float(column) => ArrayBuilder::finish(column),
            Column::Text(column) => ArrayBuilder::finish(column),
        }
    }
}

/// A sum of whole numbers, which LogsQL writes as a double.
fn sum(value: Option<&str>) -> Result<Option<i64>> {
    let Some(number) = value.and_then(|value| value.parse::<f64>().ok()) else { return Ok(None) };
    if number.is_nan() {
        return Ok(None);
    }
    if number.abs() >= EXACT_SUM_MAX {
        return Err(DataFusionError::Execution(
            "a sum of whole numbers is beyond 2^53, where Loginson would round it; narrow the \
             query, or compute in doubles: sum(CAST(x AS DOUBLE))"
                .to_owned(),
        ));
    }
    Ok(Some(number as i64))
}

/// Reads one object into the places of its fields. Other fields are skipped. Its value is the
/// message of the error with which Loginson ends an answer, if the object is one.
struct Row<'a> {
    places: &'a HashMap<String, usize>,
    values: &'a mut [Option<String>],
}

impl<'de> Visitor<'de> for Row<'_> {
    type Value = Option<String>;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object with texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<String>, A::Error> {
        let mut error = None;
        while let Some(key) = map.next_key::<String>()? {
            match self.places.get(&key) {
                // A field of a line is a text; only an error is an object.
                _ if key == "_error" => {
                    let value = map.next_value::<serde_json::Value>()?;
                    match value.as_str() {
                        Some(text) => {
                            if let Some(at) = self.places.get(&key) {
                                self.values[*at] = Some(text.to_owned());
                            }
                        }
                        None => {
                            let message = value["message"].as_str().unwrap_or("without a reason");
                            error = Some(message.to_owned());
                        }
                    }
                }
                Some(at) => {
                    self.values[*at] = Some(map.next_value::<String>()?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(error)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{Field as ArrowField, Schema};
    use datafusion::arrow::util::pretty::pretty_format_batches;

    use super::*;

    fn batches(fields: &[(&str, Kind, bool)]) -> Batches {
        let arrow: Vec<_> = fields
            .iter()
            .map(|(name, kind, _)| ArrowField::new(*name, kind.data_type(), true))
            .collect();
        let fields = fields
            .iter()
            .map(|(name, kind, is_sum)| Field {
                name: (*name).to_owned(),
                kind: *kind,
                is_sum: *is_sum,
            })
            .collect();
        Batches::new(Arc::new(Schema::new(arrow)), fields)
    }

    #[test]
    fn texts_become_values_or_null() {
        let mut batches = batches(&[
            ("_time", Kind::Time, false),
            ("n", Kind::Int, false),
            ("x", Kind::Float, false),
            ("s", Kind::Text, false),
        ]);
        for row in [
            r#"{"_time":"2026-01-31T12:00:00.000000001Z","n":"7","x":"1.50","s":"a\"b","o":"1"}"#,
            r#"{"_time":"2026-01-31T12:00:01Z","n":"007","x":"10KB","s":""}"#,
            r#"{"s":"\u00e9"}"#,
        ] {
            assert!(batches.add(row.as_bytes()).unwrap().is_none());
        }
        let batch = batches.finish().unwrap();
        let shown = pretty_format_batches(&[batch]).unwrap().to_string();
        let rows: Vec<&str> = shown.lines().skip(3).take(3).collect();
        assert!(rows[0].contains("2026-01-31T12:00:00.000000001Z | 7 | 1.5 | a\"b"), "{shown}");
        assert!(rows[1].contains("2026-01-31T12:00:01Z           |   |     |"), "{shown}");
        assert!(rows[2].contains("é"), "{shown}");
        assert!(batches.is_empty());
    }

    #[test]
    fn an_error_at_the_end_ends_the_query() {
        let error = batches(&[("n", Kind::Int, false)])
            .add(br#"{"_error":{"message":"too many rows"}}"#)
            .unwrap_err();
        assert!(error.to_string().contains("too many rows"), "{error}");
        let mut of_lines = batches(&[("_error", Kind::Text, false)]);
        assert!(of_lines.add(br#"{"_error":"a field of a line"}"#).unwrap().is_none());
    }

    #[test]
    fn rounded_sums_are_refused() {
        assert_eq!(sum(Some("NaN")).unwrap(), None);
        assert_eq!(sum(None).unwrap(), None);
        assert_eq!(sum(Some("9007199254740991")).unwrap(), Some(9_007_199_254_740_991));
        let error = sum(Some("9007199254740992")).unwrap_err().to_string();
        assert!(error.contains("CAST(x AS DOUBLE)"), "{error}");
    }
}

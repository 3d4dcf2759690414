//! How rows of the lab are rows of HBase.
//!
//! Keys sort by their bytes: a text is its UTF-8, and an integer eight bytes, big-endian, with the
//! sign flipped. In a table of several regions the first byte of a key is the number of its region,
//! by a hash of the key: so regions have equal shares, whatever the keys are. Every column is a
//! cell of one column family under the column's name, as in YCSB's binding; an integer is eight
//! bytes, big-endian.

use super::thrift::Struct;
use crate::driver::ring::Ring;
use crate::row::{ColumnKind, Row, Schema, Value};

/// The only column family. Its name is stored with every cell.
pub(super) const FAMILY: &[u8] = b"f";

/// Flips the sign of a 64-bit number.
const SIGN: u64 = 1 << 63;

/// The mapping of keys to regions.
#[derive(Debug)]
pub(super) struct Keys {
    ring: Ring,
    regions: u8,
}

impl Keys {
    /// For a table of this many regions.
    pub(super) fn new(regions: u8) -> Keys {
        Keys { ring: Ring::new(usize::from(regions)), regions }
    }

    /// The key in HBase.
    pub(super) fn encode(&self, key: &Value) -> Vec<u8> {
        // A region has one byte: there are at most 255.
        self.in_region(self.ring.shard(key) as u8, key)
    }

    /// Where a scan of each region begins, and before which key it ends; the last has no end.
    pub(super) fn ranges(&self, from: &Value) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
        let end = |region: u8| (region + 1 < self.regions).then(|| vec![region + 1]);
        (0..self.regions).map(|region| (self.in_region(region, from), end(region))).collect()
    }

    /// The first key of each region but the first.
    pub(super) fn splits(&self) -> Vec<Vec<u8>> {
        (1..self.regions).map(|region| vec![region]).collect()
    }

    fn in_region(&self, region: u8, key: &Value) -> Vec<u8> {
        let mut bytes = Vec::new();
        if self.regions > 1 {
            bytes.push(region);
        }
        match key {
            Value::Integer(number) => bytes.extend((*number as u64 ^ SIGN).to_be_bytes()),
            Value::Text(text) => bytes.extend(text.as_bytes()),
        }
        bytes
    }

    fn decode(&self, bytes: &[u8], kind: ColumnKind) -> Option<Value> {
        let bytes = if self.regions > 1 { bytes.get(1..)? } else { bytes };
        match kind {
            ColumnKind::Integer => {
                let number = u64::from_be_bytes(bytes.try_into().ok()?);
                Some(Value::Integer((number ^ SIGN) as i64))
            }
            ColumnKind::Text => text(bytes),
        }
    }

    /// The row in a result of the gateway; `Ok(None)` for the result of a key that has none.
    pub(super) fn row(
        &self,
        schema: &Schema,
        result: &Struct<'_>,
    ) -> Result<Option<Row>, &'static str> {
        let cells = result.structures(2).ok_or("a row without cells")?;
        let Some(key) = result.binary(1) else { return Ok(None) };
        let key = self.decode(key, schema.key).ok_or("a key of another kind")?;
        let value = |name: &str, kind: ColumnKind| {
            let cell = cells.iter().find(|cell| cell.binary(2) == Some(name.as_bytes()));
            let bytes = cell.and_then(|cell| cell.binary(3)).ok_or("a row lacks a column")?;
            let value = match kind {
                ColumnKind::Integer => {
                    bytes.try_into().ok().map(|b| Value::Integer(i64::from_be_bytes(b)))
                }
                ColumnKind::Text => text(bytes),
            };
            value.ok_or("a value of another kind than its column")
        };
        let values = schema.columns.iter().map(|column| value(&column.name, column.kind));
        Ok(Some(Row { key, values: values.collect::<Result<_, _>>()? }))
    }
}

fn text(bytes: &[u8]) -> Option<Value> {
    std::str::from_utf8(bytes).ok().map(|text| Value::Text(text.to_owned()))
}

/// The bytes of a cell.
pub(super) fn cell(value: &Value) -> Vec<u8> {
    match value {
        Value::Integer(number) => number.to_be_bytes().to_vec(),
        Value::Text(text) => text.as_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::thrift;
    use super::*;
    use crate::row::Column;

    fn text_key(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    #[test]
    fn keys_are_in_their_order_and_come_back() {
        let keys = Keys::new(1);
        let numbers = [i64::MIN, -1000, -1, 0, 1, 256, i64::MAX].map(Value::Integer);
        let texts = ["a", "ab", "b", "ž", "🐎"].map(text_key);
        for (kind, all) in [(ColumnKind::Integer, &numbers[..]), (ColumnKind::Text, &texts[..])] {
            let bytes: Vec<_> = all.iter().map(|key| keys.encode(key)).collect();
            assert!(bytes.is_sorted());
            for (key, bytes) in all.iter().zip(&bytes) {
                assert_eq!(keys.decode(bytes, kind).as_ref(), Some(key));
            }
        }
        assert_eq!(keys.decode(b"short", ColumnKind::Integer), None);
        assert_eq!(keys.decode(b"\xff", ColumnKind::Text), None);
    }

    #[test]
    fn regions_have_a_byte_before_the_key() {
        let keys = Keys::new(3);
        assert_eq!(keys.splits(), [[1], [2]]);
        let mut shares = [0; 3];
        for number in 0..3000 {
            let key = Value::Integer(number);
            let bytes = keys.encode(&key);
            shares[usize::from(bytes[0])] += 1;
            assert_eq!(keys.decode(&bytes, ColumnKind::Integer), Some(key));
        }
        assert!(shares.iter().all(|share| *share > 500), "{shares:?}");
        let ranges = keys.ranges(&text_key("k"));
        let expected = [
            (b"\0k".to_vec(), Some(vec![1])),
            (b"\x01k".to_vec(), Some(vec![2])),
            (b"\x02k".to_vec(), None),
        ];
        assert_eq!(ranges, expected);
        assert_eq!(keys.decode(b"", ColumnKind::Text), None);
        assert_eq!(Keys::new(255).splits().len(), 254);
        assert_eq!(Keys::new(255).ranges(&text_key("k")).len(), 255);
    }

    #[test]
    fn a_row_has_all_columns_or_is_an_error() {
        let column = |name: &str, kind| Column::new(name, kind, false);
        let columns = vec![column("size", ColumnKind::Integer), column("text", ColumnKind::Text)];
        let schema = Schema { table: "t".to_owned(), key: ColumnKind::Text, columns };
        let found = |key: Option<&[u8]>, cells: &[(&str, &[u8])]| {
            let mut message = Vec::new();
            thrift::call(&mut message, "get", 1, |result| {
                if let Some(key) = key {
                    result.binary(1, key);
                }
                result.structures(2, cells, |cell, (name, value)| {
                    cell.binary(2, name.as_bytes());
                    cell.binary(3, value);
                });
            });
            // A call has the form of a reply, but for its kind.
            message[3] = 2;
            let reply = thrift::reply(&message).unwrap();
            Keys::new(1).row(&schema, &reply.result)
        };
        let (size, empty) = (("size", &5_i64.to_be_bytes()[..]), ("text", &b""[..]));
        let expected = Row { key: text_key("k"), values: vec![Value::Integer(5), text_key("")] };
        assert_eq!(found(Some(b"k"), &[empty, size]), Ok(Some(expected)));
        assert_eq!(found(None, &[]), Ok(None));
        assert!(found(Some(b"k"), &[size]).is_err());
        assert!(found(Some(b"k"), &[("size", b"5"), empty]).is_err());
        assert!(found(Some(b"k"), &[size, ("text", b"\xff")]).is_err());
        assert!(found(Some(b"\xff"), &[size, empty]).is_err());
    }
}

//! ClickHouse's format RowBinary: the values of a row one after the other, without names and types.
//! An `Int64` or `UInt64` is 8 bytes, little-endian; a `String` is its length (LEB128) and its
//! bytes.

use crate::driver::search::Groups;
use crate::row::{ColumnKind, Row, Schema, Value};

/// The rows of an answer: for each the key, then the columns of the schema.
pub(super) fn rows(schema: &Schema, bytes: &[u8]) -> Result<Vec<Row>, String> {
    let mut reader = Reader { bytes };
    let mut rows = Vec::new();
    while !reader.bytes.is_empty() {
        let key = reader.value(schema.key)?;
        let columns = schema.columns.iter();
        let values = columns.map(|c| reader.value(c.kind)).collect::<Result<_, _>>()?;
        rows.push(Row { key, values });
    }
    Ok(rows)
}

/// Groups: for each its value, and a `UInt64`.
pub(super) fn groups(kind: ColumnKind, bytes: &[u8]) -> Result<Groups, String> {
    let mut reader = Reader { bytes };
    let mut groups = Groups::new();
    while !reader.bytes.is_empty() {
        let value = reader.value(kind)?;
        groups.push((value, number(reader.take(8)?)?));
    }
    groups.sort();
    Ok(groups)
}

/// An answer that is one `UInt64`.
pub(super) fn number(bytes: &[u8]) -> Result<u64, String> {
    let number = bytes.try_into().map(u64::from_le_bytes);
    number.map_err(|_| format!("{} bytes are no number", bytes.len()))
}

/// An answer that is one `String`.
pub(super) fn text(bytes: &[u8]) -> Result<String, String> {
    let mut reader = Reader { bytes };
    let text = reader.text()?;
    match reader.bytes.len() {
        0 => Ok(text),
        more => Err(format!("{more} bytes after a text")),
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn value(&mut self, kind: ColumnKind) -> Result<Value, String> {
        match kind {
            ColumnKind::Integer => {
                let bytes = self.take(8)?;
                let bytes = bytes.try_into().expect("as many as were asked for");
                Ok(Value::Integer(i64::from_le_bytes(bytes)))
            }
            ColumnKind::Text => self.text().map(Value::Text),
        }
    }

    fn text(&mut self) -> Result<String, String> {
        let length = self.length()?;
        let bytes = self.take(length)?;
        String::from_utf8(bytes.to_vec()).map_err(|e| format!("a text is not UTF-8: {e}"))
    }

    fn length(&mut self) -> Result<usize, String> {
        let mut length = 0_u64;
        // Ten groups of 7 bits have room for 64 bits.
        for group in 0..10 {
            let byte = self.take(1)?[0];
            length |= u64::from(byte & 0x7f) << (7 * group);
            if byte & 0x80 == 0 {
                return usize::try_from(length).map_err(|e| e.to_string());
            }
        }
        Err("the length of a text has more than 64 bits".to_owned())
    }

    fn take(&mut self, length: usize) -> Result<&[u8], String> {
        let (taken, rest) = self.bytes.split_at_checked(length).ok_or_else(|| {
            format!("the answer ends {} bytes too early", length - self.bytes.len())
        })?;
        self.bytes = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Column;

    fn schema() -> Schema {
        let column = Column::new("n", ColumnKind::Integer, false);
        Schema { table: "t".to_owned(), key: ColumnKind::Text, columns: vec![column] }
    }

    fn row(key: &str, number: i64) -> Row {
        Row { key: Value::Text(key.to_owned()), values: vec![Value::Integer(number)] }
    }

    #[test]
    fn rows_are_read_and_what_is_none_is_an_error() {
        let long = "ž".repeat(100);
        let mut bytes = b"\x02a\0\xff\xff\xff\xff\xff\xff\xff\x7f".to_vec();
        bytes.extend(b"\x00\x00\x00\x00\x00\x00\x00\x00\x80");
        bytes.extend(b"\xc8\x01");
        bytes.extend(long.as_bytes());
        bytes.extend(5_i64.to_le_bytes());
        let expected = vec![row("a\0", i64::MAX), row("", i64::MIN), row(&long, 5)];
        assert_eq!(rows(&schema(), &bytes), Ok(expected));
        assert_eq!(rows(&schema(), b""), Ok(vec![]));
        for length in 1..bytes.len() {
            let whole_rows = [11, 20].contains(&length);
            assert_eq!(rows(&schema(), &bytes[..length]).is_ok(), whole_rows, "{length} bytes");
        }
        for wrong in
            [&b"\x01\xff12345678"[..], &[0xff; 30], b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"]
        {
            assert!(rows(&schema(), wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn groups_are_sorted_and_whole() {
        let mut bytes = b"\x01b\x02\0\0\0\0\0\0\0".to_vec();
        bytes.extend(b"\x01a\x01\0\0\0\0\0\0\0");
        let text = |text: &str| Value::Text(text.to_owned());
        assert_eq!(groups(ColumnKind::Text, &bytes), Ok(vec![(text("a"), 1), (text("b"), 2)]));
        assert!(groups(ColumnKind::Text, &bytes[..bytes.len() - 1]).is_err());
        assert_eq!(groups(ColumnKind::Integer, b""), Ok(vec![]));
    }

    #[test]
    fn single_values_are_whole() {
        assert_eq!(number(&7_u64.to_le_bytes()), Ok(7));
        assert!(number(b"7").is_err() && number(b"").is_err() && number(&[0; 16]).is_err());
        assert_eq!(text(b"\x01a"), Ok("a".to_owned()));
        assert!(text(b"").is_err() && text(b"\x02a").is_err() && text(b"\x01ab").is_err());
    }
}

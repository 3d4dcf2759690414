//! Reads the records of a table's file: CSV (RFC 4180) with a line of names, or JSON lines, where
//! the file begins with `{`.

use serde_json::{Map, Value};

use super::ROWS_MAX;

/// Names, and a value of each for each record, with the number of its line.
#[derive(Debug, PartialEq)]
pub struct Records {
    pub names: Vec<String>,
    pub rows: Vec<(usize, Vec<Vec<u8>>)>,
}

/// Reads a file; the error names the line.
pub fn records(bytes: &[u8]) -> Result<Records, String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match bytes.trim_ascii_start().first() {
        Some(b'{') => json_lines(bytes),
        _ => csv(bytes),
    }
}

fn too_many() -> String {
    format!("it has more than {ROWS_MAX} rows")
}

fn json_lines(bytes: &[u8]) -> Result<Records, String> {
    let mut records = Records { names: Vec::new(), rows: Vec::new() };
    for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
        if line.trim_ascii().is_empty() {
            continue;
        }
        let object: Map<String, Value> = serde_json::from_slice(line)
            .map_err(|error| format!("line {} is no JSON object: {error}", index + 1))?;
        let mut row: Vec<Vec<u8>> = vec![Vec::new(); records.names.len()];
        for (name, value) in object {
            let place = records.names.iter().position(|known| *known == name);
            let place = place.unwrap_or_else(|| {
                records.names.push(name);
                row.push(Vec::new());
                records.names.len() - 1
            });
            row[place] = match value {
                Value::Null => Vec::new(),
                Value::String(text) => text.into_bytes(),
                other => other.to_string().into_bytes(),
            };
        }
        if records.rows.len() == ROWS_MAX {
            return Err(too_many());
        }
        records.rows.push((index + 1, row));
    }
    let count = records.names.len();
    records.rows.iter_mut().for_each(|(_, row)| row.resize(count, Vec::new()));
    Ok(records)
}

fn csv(mut bytes: &[u8]) -> Result<Records, String> {
    let mut line = 1;
    let mut names: Vec<String> = Vec::new();
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        let at = line;
        let (record, rest, lines) = csv_record(bytes).ok_or_else(|| {
            format!("a quote that begins in the record of line {at} does not end")
        })?;
        bytes = rest;
        line += lines;
        if record.len() == 1 && record[0].is_empty() {
            continue;
        }
        if names.is_empty() {
            let text = |name: &Vec<u8>| String::from_utf8_lossy(name).trim().to_owned();
            names = record.iter().map(text).collect();
            if names.iter().any(String::is_empty) {
                return Err(format!("line {at} is the line of names, and one of them is empty"));
            }
            continue;
        }
        if record.len() != names.len() {
            return Err(format!(
                "line {at} has {} fields, but the line of names has {}",
                record.len(),
                names.len()
            ));
        }
        if rows.len() == ROWS_MAX {
            return Err(too_many());
        }
        rows.push((at, record));
    }
    match names.is_empty() {
        true => Err("it has no line of names, such as: host,owner".to_owned()),
        false => Ok(Records { names, rows }),
    }
}

/// The values of a record.
type Values = Vec<Vec<u8>>;

/// A record, the text behind it, and how many lines it took; none if a quote does not end.
fn csv_record(bytes: &[u8]) -> Option<(Values, &[u8], usize)> {
    let (mut fields, mut field) = (Vec::new(), Vec::new());
    let (mut at, mut lines) = (0, 1);
    loop {
        if bytes.get(at) == Some(&b'"') && field.is_empty() {
            at += 1;
            loop {
                let quote = at + memchr::memchr(b'"', &bytes[at..])?;
                let part = &bytes[at..quote];
                lines += memchr::memchr_iter(b'\n', part).count();
                field.extend_from_slice(part);
                at = quote + 1;
                if bytes.get(at) != Some(&b'"') {
                    break;
                }
                field.push(b'"');
                at += 1;
            }
        }
        let end = memchr::memchr2(b',', b'\n', &bytes[at..]);
        let end = end.map_or(bytes.len(), |end| at + end);
        field.extend_from_slice(&bytes[at..end]);
        if bytes.get(end) == Some(&b',') {
            fields.push(std::mem::take(&mut field));
            at = end + 1;
            continue;
        }
        if field.last() == Some(&b'\r') {
            field.pop();
        }
        fields.push(field);
        return Some((fields, &bytes[(end + 1).min(bytes.len())..], lines));
    }
}

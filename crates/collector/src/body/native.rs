//! Rows in the native format of VictoriaLogs, as `vlagent` sends them.
//!
//! ```text
//! row     account: u32, project: u32, bytes of [stream], time in ns: u64, count of fields, fields
//! stream  count of tags, then name and value of each
//! field   name, value
//! ```
//!
//! Numbers of a fixed length are big-endian; counts and lengths are varints. A text is its length
//! and its bytes. A field without name is `_msg`. The tags of a stream are fields of the row too,
//! so only their names are read: they name the stream. Source: `InsertRow.Marshal` in
//! `lib/logstorage/log_rows.go` of VictoriaLogs 1.52, protocol version `v1`.
//!
//! [`Rows::read`] finds all rows first, so that a body that cannot be read is refused before a line
//! is kept; memory beside the body is 4 bytes a row. Rows with the same names of tags are written
//! together.

use record::Tenant;
use record::frame::LINE_BYTES_MAX;
use text::json::write_text;
use text::time::write_time;

/// Fields of a row, as in VictoriaLogs.
const FIELDS_MAX: u64 = 2_000;
/// Different sets of names of tags in a body that are told apart. Streams of rows with further sets
/// are named by all their names.
const GROUPS_MAX: usize = 64;
/// Names of tags of a row that name its stream. Further ones are fields only.
const TAGS_MAX: usize = 64;
/// The same in bytes, because names are stored with each frame.
const TAGS_BYTES_MAX: usize = 8 << 10;

/// Why a body cannot be read. The text is for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NativeError {
    /// It ends within a row, or is something else.
    #[error("row {0} of the body is not in the native format of VictoriaLogs")]
    Broken(u64),
    /// It has lines of another tenant.
    #[error(
        "row {row} is of the tenant {account}:{project}, which is not that of the request; let vlagent \
         send to /insert/native, with a token or AccountID and ProjectID for each tenant"
    )]
    Tenant {
        /// Its row, from 0.
        row: u64,
        /// `AccountID`
        account: u32,
        /// `ProjectID`
        project: u32,
    },
}

/// The rows of a body.
pub struct Rows<'b> {
    content: &'b [u8],
    groups: Vec<Group<'b>>,
    /// The next group, and the next row within.
    at: (usize, usize),
    too_long: (u64, u64),
}

/// Rows whose streams are named by the same tags.
#[derive(Default)]
struct Group<'b> {
    tags: Vec<&'b [u8]>,
    /// Where the times of its rows are.
    rows: Vec<u32>,
}

impl<'b> Rows<'b> {
    /// Finds the rows of a body, which has less than 4 GiB. With `tenant`, rows of other tenants
    /// are an error; otherwise the request says whose they are.
    pub fn read(content: &'b [u8], tenant: Option<Tenant>) -> Result<Rows<'b>, NativeError> {
        let mut groups: Vec<Group<'b>> = Vec::new();
        let mut last: (&[u8], usize) = (b"", usize::MAX);
        let mut rest = content;
        let mut row = 0;
        while !rest.is_empty() {
            let broken = || NativeError::Broken(row);
            let account = u32::from_be_bytes(take_array(&mut rest).ok_or_else(broken)?);
            let project = u32::from_be_bytes(take_array(&mut rest).ok_or_else(broken)?);
            if tenant.is_some_and(|tenant| tenant != Tenant { account, project }) {
                return Err(NativeError::Tenant { row, account, project });
            }
            let stream = take_text(&mut rest).ok_or_else(broken)?;
            // Most rows have the stream of the row before them.
            if last.0 != stream || last.1 == usize::MAX {
                let tags = tags_of(stream).ok_or_else(broken)?;
                last = (stream, group_of(&mut groups, tags));
            }
            groups[last.1].rows.push((content.len() - rest.len()) as u32);
            skip_fields(&mut rest).ok_or_else(broken)?;
            row += 1;
        }
        Ok(Rows { content, groups, at: (0, 0), too_long: (0, 0) })
    }

    /// Rows in the body.
    pub fn count(&self) -> usize {
        self.groups.iter().map(|group| group.rows.len()).sum()
    }

    /// Enters the next group of rows: the fields that name their streams.
    pub fn next_group(&mut self) -> Option<Vec<String>> {
        let group = self.groups.get(self.at.0)?;
        Some(group.tags.iter().map(|tag| String::from_utf8_lossy(tag).into_owned()).collect())
    }

    /// Appends the next row of the group as a line; false behind the last one, which leaves the
    /// group.
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(row) = self.groups.get(self.at.0).and_then(|group| group.rows.get(self.at.1))
        else {
            self.at = (self.at.0 + 1, 0);
            return false;
        };
        self.at.1 += 1;
        let begin = out.len();
        let row = &self.content[*row as usize..];
        write_row(row, out).expect("it was read before");
        if out.len() - begin > LINE_BYTES_MAX {
            self.too_long.0 += 1;
            self.too_long.1 += (out.len() - begin) as u64;
            out.truncate(begin);
        }
        true
    }

    /// Rows that were not written, because they would be cut in their middle, and their bytes.
    pub fn too_long(&self) -> (u64, u64) {
        self.too_long
    }
}

/// The index of the group of rows with these tags.
fn group_of<'b>(groups: &mut Vec<Group<'b>>, tags: Vec<&'b [u8]>) -> usize {
    if let Some(index) = groups.iter().position(|group| group.tags == tags) {
        return index;
    }
    if groups.len() <= GROUPS_MAX {
        groups.push(Group { tags, rows: Vec::new() });
        return groups.len() - 1;
    }
    let others = &mut groups[GROUPS_MAX].tags;
    let fresh = tags.into_iter().filter(|tag| !others.contains(tag)).collect::<Vec<_>>();
    others.extend(fresh);
    bound(others);
    GROUPS_MAX
}

fn bound(tags: &mut Vec<&[u8]>) {
    let mut bytes = 0;
    let fits = |tag: &&&[u8]| {
        bytes += tag.len();
        bytes <= TAGS_BYTES_MAX
    };
    let kept = tags.iter().take(TAGS_MAX).take_while(fits).count();
    tags.truncate(kept);
}

/// The names of the tags of a stream.
fn tags_of(mut stream: &[u8]) -> Option<Vec<&[u8]>> {
    let mut tags = Vec::new();
    if stream.is_empty() {
        return Some(tags);
    }
    for _ in 0..take_varint(&mut stream)? {
        let name = take_text(&mut stream)?;
        take_text(&mut stream)?;
        if tags.len() < TAGS_MAX {
            tags.push(name);
        }
    }
    bound(&mut tags);
    stream.is_empty().then_some(tags)
}

fn skip_fields(rest: &mut &[u8]) -> Option<()> {
    take_array::<8>(rest)?;
    let fields = take_varint(rest).filter(|&fields| fields <= FIELDS_MAX)?;
    for _ in 0..2 * fields {
        take_text(rest)?;
    }
    Some(())
}

fn write_row(mut row: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let time = u64::from_be_bytes(take_array(&mut row)?);
    out.extend_from_slice(b"{\"_time\":\"");
    write_time(time as i64, out);
    out.push(b'"');
    for _ in 0..take_varint(&mut row)? {
        let (name, value) = (take_text(&mut row)?, take_text(&mut row)?);
        if value.is_empty() || name == b"_time" {
            continue;
        }
        out.push(b',');
        write_text(if name.is_empty() { b"_msg" } else { name }, out);
        out.push(b':');
        write_text(value, out);
    }
    out.extend_from_slice(b"}\n");
    Some(())
}

fn take_array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*taken)
}

fn take_text<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let bytes = usize::try_from(take_varint(rest)?).ok()?;
    let (taken, behind) = rest.split_at_checked(bytes)?;
    *rest = behind;
    Some(taken)
}

fn take_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (index, &byte) in rest.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *rest = &rest[index + 1..];
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Vec<u8> {
        let mut out = Vec::new();
        let mut length = text.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        [&out[..], text.as_bytes()].concat()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<u8> {
        let mut out = vec![pairs.len() as u8];
        pairs.iter().for_each(|(name, value)| out.extend([text(name), text(value)].concat()));
        out
    }

    fn row(account: u8, tags: &[(&str, &str)], time: u64, fields: &[(&str, &str)]) -> Vec<u8> {
        let tags = String::from_utf8(pairs(tags)).unwrap();
        let tenant = [0, 0, 0, account, 0, 0, 0, 0];
        [&tenant[..], &text(&tags), &time.to_be_bytes(), &pairs(fields)].concat()
    }

    /// The names of tags of each group, and its lines.
    fn groups(content: &[u8]) -> Vec<(String, String)> {
        let mut rows = Rows::read(content, None).unwrap();
        let mut groups = Vec::new();
        while let Some(tags) = rows.next_group() {
            let mut out = Vec::new();
            while rows.write_next(&mut out) {}
            groups.push((tags.join(","), String::from_utf8(out).unwrap()));
        }
        groups
    }

    #[test]
    fn rows_become_lines_by_the_names_of_their_tags() {
        let web = [("app", "web"), ("host", "a")];
        let long = "x".repeat(300);
        let content = [
            row(0, &web, 1_769_860_800_250_000_001, &[("app", "web"), ("", "one \"1\"\n")]),
            row(0, &[], 0, &[("_msg", "two"), ("empty", ""), ("_time", "7")]),
            row(3, &[("app", "db"), ("host", "a")], 1, &[("_msg", &long)]),
        ]
        .concat();
        assert_eq!(Rows::read(&content, None).unwrap().count(), 3);
        let long =
            format!("{{\"_time\":\"1970-01-01T00:00:00.000000001Z\",\"_msg\":\"{long}\"}}\n");
        let first = "{\"_time\":\"2026-01-31T12:00:00.250000001Z\",\"app\":\"web\",\"_msg\":\"one \\\"1\\\"\\n\"}\n";
        let expected = [
            ("app,host".to_owned(), format!("{first}{long}")),
            (String::new(), "{\"_time\":\"1970-01-01T00:00:00Z\",\"_msg\":\"two\"}\n".to_owned()),
        ];
        assert_eq!(groups(&content), expected);
        let tenant = NativeError::Tenant { row: 2, account: 3, project: 0 };
        assert_eq!(Rows::read(&content, Some(Tenant::DEFAULT)).err(), Some(tenant));
    }

    #[test]
    fn damage_is_an_error_that_names_the_row() {
        let whole = row(0, &[("app", "web")], 1, &[("app", "web"), ("_msg", "x")]);
        for cut in 1..whole.len() {
            let content = [&whole[..], &whole[..cut]].concat();
            assert_eq!(Rows::read(&content, None).err(), Some(NativeError::Broken(1)), "{cut}");
        }
        for wrong in [
            // Too many fields, a count of tags beyond their bytes, and what follows the tags.
            [&row(0, &[], 1, &[])[..18], &[0xd1, 0x0f]].concat(),
            [&[0; 8][..], &text("\u{2}a"), &[0; 9]].concat(),
            [&[0; 8][..], &text("\0a"), &[0; 9]].concat(),
            b"{\"_msg\":\"x\"}".to_vec(),
        ] {
            assert_eq!(Rows::read(&wrong, None).err(), Some(NativeError::Broken(0)), "{wrong:?}");
        }
        assert_eq!(Rows::read(b"", Some(Tenant::DEFAULT)).unwrap().count(), 0);
    }

    #[test]
    fn sets_of_tags_are_bounded() {
        let name = |index: usize| format!("tag{index}");
        let content: Vec<u8> =
            (0..500).flat_map(|index| row(0, &[(&name(index), "a")], 1, &[("", "x")])).collect();
        let groups = groups(&content);
        assert_eq!(groups.len(), GROUPS_MAX + 1);
        assert_eq!(groups[GROUPS_MAX].0.split(',').count(), TAGS_MAX);
        let lines: usize = groups.iter().map(|(_, lines)| lines.lines().count()).sum();
        assert_eq!(lines, 500);
    }

    #[test]
    fn a_row_that_would_be_cut_is_counted() {
        let long = "\u{1}".repeat(LINE_BYTES_MAX / 6);
        let content = [row(0, &[], 1, &[("", &long)]), row(0, &[], 1, &[("", "short")])].concat();
        let mut rows = Rows::read(&content, None).unwrap();
        let mut out = Vec::new();
        while rows.write_next(&mut out) {}
        assert_eq!(out, b"{\"_time\":\"1970-01-01T00:00:00.000000001Z\",\"_msg\":\"short\"}\n");
        assert_eq!(rows.too_long().0, 1);
    }
}

//! A batch without some of its fields.

use super::{Batch, Field, FieldId, IN_ARENA, PLACE, RowHead, SHARED, STREAM};

impl Batch {
    /// The same rows as if their lines had never had the fields that `hides` names. The lines as
    /// they were sent are empty, because they hold all values; so the values that are left move to
    /// the arena. A stream that a line names itself is left out if it has a hidden label; the
    /// fields of the line then say its stream.
    pub fn without(mut self, hides: &dyn Fn(&str) -> bool) -> Batch {
        let mut left =
            Left { hides, stream: self.field_id(STREAM), ids: Vec::new(), fields: Vec::new() };
        let mut names = Vec::with_capacity(self.names.len());
        for name in &self.names {
            left.ids.push((!hides(name)).then(|| {
                names.push(name.clone());
                FieldId((names.len() - 1) as u16)
            }));
        }
        let mut arena = std::mem::take(&mut self.arena);
        // The rows of a stem have the same values in its fields, so any of them tells these.
        let mut of_stems: Vec<Option<RowHead>> = vec![None; self.stems.len()];
        for row in &self.rows {
            of_stems[usize::from(row.stem.0)].get_or_insert(*row);
        }
        for (stem, row) in self.stems.iter_mut().zip(of_stems) {
            let own = &self.fields[stem.fields_at as usize..][..usize::from(stem.fields)];
            let own = if row.is_some() { own } else { &[] };
            let line_at = row.map_or(0, |row| row.line_at);
            (stem.fields_at, stem.fields) =
                left.add(own, self.text.bytes(), line_at, SHARED, &mut arena);
        }
        for row in &mut self.rows {
            let own = &self.fields[row.fields_at as usize..][..usize::from(row.fields)];
            (row.fields_at, row.fields) =
                left.add(own, self.text.bytes(), row.line_at, 0, &mut arena);
            row.line_length = 0;
        }
        let ids = names.iter().enumerate().map(|(id, name)| (name.clone(), FieldId(id as u16)));
        Batch { fields: left.fields, name_ids: ids.collect(), arena, names, ..self }
    }
}

/// What is left of the fields of a batch.
struct Left<'a> {
    hides: &'a dyn Fn(&str) -> bool,
    /// The field with the stream that a line names itself.
    stream: Option<FieldId>,
    /// The new number of each name; none if it is hidden.
    ids: Vec<Option<FieldId>>,
    fields: Vec<Field>,
}

impl Left<'_> {
    /// Adds those of some fields that are left, with their values in the arena. Returns where they
    /// are, and how many.
    fn add(
        &mut self,
        own: &[Field],
        text: &[u8],
        line_at: u32,
        shared: u32,
        arena: &mut Vec<u8>,
    ) -> (u32, u16) {
        let begins = self.fields.len();
        for field in own {
            let Some(name) = self.ids[usize::from(field.name.0)] else { continue };
            let at = (field.at & PLACE) as usize;
            let is_made = field.at & IN_ARENA != 0;
            let value = match is_made {
                true => &arena[at..][..field.length as usize],
                false => &text[line_at as usize + at..][..field.length as usize],
            };
            if Some(field.name) == self.stream && has_hidden_label(value, self.hides) {
                continue;
            }
            let mut at = field.at;
            if !is_made {
                // A block holds far less. A value that had no place would not be shown.
                if arena.len() + field.length as usize > PLACE as usize {
                    continue;
                }
                at = arena.len() as u32 | IN_ARENA | shared;
                let from = line_at as usize + (field.at & PLACE) as usize;
                arena.extend_from_slice(&text[from..][..field.length as usize]);
            }
            self.fields.push(Field { name, at, length: field.length });
        }
        (begins as u32, (self.fields.len() - begins) as u16)
    }
}

/// Whether a stream as text, `{a="b",c="d"}`, has a label that is hidden. One that cannot be read
/// may have it.
fn has_hidden_label(stream: &[u8], hides: &dyn Fn(&str) -> bool) -> bool {
    let Ok(text) = std::str::from_utf8(stream) else { return true };
    let Some(mut rest) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) else {
        return !text.is_empty();
    };
    while !rest.is_empty() {
        let Some((name, value)) = rest.split_once("=\"") else { return true };
        if hides(name.trim_start_matches([',', ' '])) {
            return true;
        }
        let mut escaped = false;
        let end = value.bytes().position(|byte| {
            let ends = byte == b'"' && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        });
        let Some(end) = end else { return true };
        rest = &value[end + 1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::frame::{Format, FrameBuilder, Origin, Transport};
    use crate::{RowsWriter, read_rows};

    fn parsed(lines: &[u8]) -> Batch {
        let mut frame = FrameBuilder::new();
        frame.push_lines(&Origin::new(Transport::Http, Format::Auto, None), 7, lines);
        crate::parse::Parser::new(&Default::default())
            .unwrap()
            .parse(Arc::new(frame.finish(1, 5).unwrap()))
    }

    fn shown(batch: &Batch) -> Vec<Vec<(String, String)>> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields = |row: crate::Row<'_>| {
            row.fields().map(|(id, value)| (batch.name(id).to_owned(), text(value))).collect()
        };
        batch.rows().map(fields).collect()
    }

    #[test]
    fn the_other_fields_stay_as_they_are() {
        let lines = b"{\"_time\":\"2026-01-01T00:00:00Z\",\"_msg\":\"a\",\"ip\":\"1.2.3.4\",\"b\":\"c\"}\n\
            {\"_time\":\"2026-01-01T00:00:01Z\",\"ip\":\"1.2.3.4\",\"_stream\":\"{x=\\\"y\\\",ip=\\\"1\\\"}\",\"x\":\"y\"}\n";
        let whole = shown(&parsed(lines));
        let batch = parsed(lines).without(&|name| name == "ip");
        let left = shown(&batch);
        for (whole, left) in whole.iter().zip(&left) {
            let of_ip = |(name, value): &&(String, String)| {
                name == "ip" || name == "_stream" && value.contains("ip=")
            };
            let expected: Vec<_> = whole.iter().filter(|field| !of_ip(field)).cloned().collect();
            assert_eq!(left, &expected);
        }
        assert!(
            batch.field_id("ip").is_none() && !batch.names().iter().any(|name| &**name == "ip")
        );
        assert!(batch.rows().all(|row| row.raw().is_empty()));
        assert_eq!(batch.row(1).id().to_string(), "00000001-5-1");
        let mut writer = RowsWriter::default();
        batch.rows().for_each(|row| assert!(writer.push(&batch, &row)));
        assert_eq!(shown(&read_rows(&writer.take()).unwrap()), left);
    }

    #[test]
    fn labels_of_streams() {
        let hides = |name: &str| name == "ip";
        for (stream, hidden) in [
            ("{}", false),
            ("", false),
            (r#"{a="b"}"#, false),
            (r#"{a="ip=\"x",ip2="y"}"#, false),
            (r#"{a="b\\",ip="x"}"#, true),
            (r#"{ip="x"}"#, true),
            (r#"{a="b", ip="x"}"#, true),
            (r#"{a=b}"#, true),
            ("ip", true),
        ] {
            assert_eq!(has_hidden_label(stream.as_bytes(), &hides), hidden, "{stream}");
        }
    }
}

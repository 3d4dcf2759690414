//! Groups the lines of one batch that can be counted together.
//!
//! Rows of one stem have the same values in most fields. Rows of one stem and bucket without own
//! counted fields are grouped: their lines and bytes are added up here, and looked up in the tables
//! of values once. Other rows, such as those of access logs with a status each, are counted one by
//! one.

use record::{Batch, FieldId, Row};

use crate::summary::program::{Program, counted_fields};
use crate::summary::time::bucket_start;

/// Lines of one type and bucket that have the same values in all counted fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alike<'a> {
    /// One of these lines.
    pub(crate) row: Row<'a>,
    /// Start of their bucket, nanoseconds since 1970 UTC.
    pub(crate) start_ns: i64,
    pub(crate) lines: u64,
    pub(crate) bytes: u64,
}

/// State for counting the rows of a batch.
pub(crate) struct Counting<'a> {
    pub(crate) batch: &'a Batch,
    width_ns: i64,
    type_id: Option<FieldId>,
    /// By field number, whether the field is counted.
    is_counted: Vec<bool>,
    /// By stem number, the rows that were not returned yet.
    stems: Vec<Option<Alike<'a>>>,
    /// By type number.
    fields: Vec<Option<Fields>>,
}

impl<'a> Counting<'a> {
    pub(crate) fn new(batch: &'a Batch, width_ns: i64) -> Self {
        let mut is_counted = vec![false; batch.names().len()];
        let type_id = batch.field_id("_type");
        let ids = counted_fields().filter_map(|name| batch.field_id(name));
        ids.chain(type_id).for_each(|id| is_counted[usize::from(id.0)] = true);
        let stems = vec![None; batch.stems()];
        Counting { batch, width_ns, type_id, is_counted, stems, fields: Vec::new() }
    }

    /// Takes a row; returns lines that must be counted now.
    #[inline]
    pub(crate) fn take(&mut self, row: &Row<'a>) -> Option<Alike<'a>> {
        let (time_ns, bytes) = (row.time_ns(), row.raw_bytes() as u64);
        let is_own = row.own_places().any(|(id, ..)| self.is_counted[usize::from(id.0)]);
        let stem = &mut self.stems[usize::from(row.stem().0)];
        if let Some(alike) = stem
            && !is_own
            && alike.start_ns > i64::MIN
            && (0..self.width_ns).contains(&time_ns.wrapping_sub(alike.start_ns))
        {
            alike.lines += 1;
            alike.bytes += bytes;
            return None;
        }
        let start_ns = bucket_start(time_ns, self.width_ns);
        let new = Alike { row: *row, start_ns, lines: 1, bytes };
        if is_own { Some(new) } else { stem.replace(new) }
    }

    /// The remaining lines of a stem.
    pub(crate) fn end(&mut self, stem: usize) -> Option<Alike<'a>> {
        self.stems[stem].take()
    }

    pub(crate) fn log_type(&self, row: &Row<'a>) -> &'a [u8] {
        self.type_id.and_then(|id| row.get(id)).unwrap_or_default()
    }

    /// The counted fields of a type's lines.
    pub(crate) fn fields(&mut self, of_type: u32, programs: &[&Program]) -> &Fields {
        let index = of_type as usize;
        if self.fields.len() <= index {
            self.fields.resize_with(index + 1, || None);
        }
        self.fields[index].get_or_insert_with(|| Fields::resolve(programs, self.batch))
    }
}

/// Dimensions and sums of a type, with the numbers of their fields in one batch.
pub(crate) struct Fields {
    pub(crate) dimensions: Vec<(&'static str, Option<FieldId>)>,
    pub(crate) sums: Vec<Option<FieldId>>,
}

impl Fields {
    pub(crate) fn resolve(programs: &[&Program], batch: &Batch) -> Self {
        let dimensions = programs.iter().flat_map(|p| p.dimensions);
        let sums = programs.iter().flat_map(|p| p.sums);
        Fields {
            dimensions: dimensions.map(|d| (d.name, batch.field_id(d.field))).collect(),
            sums: sums.map(|sum| batch.field_id(sum.field)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

    use super::*;

    /// Lines of some hosts, applications and seconds, including access lines and lines in no known
    /// format.
    fn batch() -> Batch {
        let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
        let mut builder = FrameBuilder::new();
        for i in 0..2_000u64 {
            let line = match i % 7 {
                0 => format!(
                    r#"1.2.3.4 - - [17/May/2015:10:0{}:03 +0000] "GET /{i} HTTP/1.1" {} {i}"#,
                    i % 10,
                    200 + i % 3
                ),
                1 => format!("no head {i}"),
                _ => format!(
                    "<30>Nov 21 11:{:02}:59 db{} hdfs[{}]: block {i}",
                    i / 100,
                    i % 3,
                    i % 5
                ),
            };
            builder.push_line(
                &origin,
                1_790_000_000_000_000_000 + i as i64,
                line.as_bytes(),
                false,
            );
        }
        let frame = Arc::new(builder.finish(1, 1).unwrap());
        Parser::new(&ParserConfig::default()).unwrap().parse(frame)
    }

    #[test]
    fn each_row_is_returned_once_grouped_by_values_and_bucket() {
        let (batch, width_ns) = (batch(), 10_000_000_000);
        let key = |row: &Row<'_>| {
            let value = |name| row.get_by_name(name).map(<[u8]>::to_vec);
            let counted: Vec<_> = counted_fields().chain(["_type"]).map(value).collect();
            (counted, bucket_start(row.time_ns(), width_ns))
        };
        let mut expected: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        for row in batch.rows() {
            let sum = expected.entry(key(&row)).or_default();
            *sum = (sum.0 + 1, sum.1 + row.raw_bytes() as u64);
        }
        let mut counting = Counting::new(&batch, width_ns);
        let mut found: BTreeMap<_, (u64, u64)> = BTreeMap::new();
        let mut steps = 0;
        let mut count = |alike: Alike<'_>| {
            let sum = found.entry(key(&alike.row)).or_default();
            *sum = (sum.0 + alike.lines, sum.1 + alike.bytes);
            steps += 1;
        };
        batch.rows().filter_map(|row| counting.take(&row)).for_each(&mut count);
        (0..batch.stems()).filter_map(|stem| counting.end(stem)).for_each(&mut count);
        assert_eq!(found, expected);
        assert!(steps < batch.len(), "{steps} steps for {} rows", batch.len());
    }
}

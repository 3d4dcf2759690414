//! Verifies a block: compares its content, as a reader would get it, with the rows it was made of.
//!
//! Two rows are the same record if line, id, times, origin and every field (name, and value byte
//! for byte) are equal. The lines are compared part by part as they would be restored, from columns
//! decoded from the block's own bytes; only the batch that a reader would build is not built. A
//! value at the same offset of the same line needs no second comparison.
//!
//! Rows of one layout and origin have the same values in the shared fields of the layout, and rows
//! of one stem in the fields of the stem. So layout and stem are compared once, and after that only
//! the other fields of each row.

use std::sync::Arc;

use record::{Batch, FieldId, Place, Row, StemId};

use super::block::RowRef;
use super::bytes::Read;
use super::pack::Kind;
use super::plan::{Plan, Straight};
use super::restore::{LineHeads, Opened};

/// Bytes of lines that are gathered for one update of their checksum.
const GATHERED_BYTES: usize = 16 << 10;

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Compared {
    /// All rows are the same records; contains the checksum over their lines.
    Alike(u32),
    /// The index of the first row that differs.
    Different(usize),
}

/// Compares the block in `chunks` (decompressed) with its rows.
pub(crate) fn compare(
    chunks: &[Vec<u8>],
    batches: &[Arc<Batch>],
    rows: &[RowRef],
) -> Read<Compared> {
    let mut block = Opened::read(chunks, rows.len())?;
    let mut spans = block.spans();
    let mut sources: Vec<Option<Source>> = Vec::new();
    sources.resize_with(batches.len(), || None);
    let mut heads = LineHeads::with_capacity(rows.len());
    let (mut crc, mut gathered) = (0, Vec::with_capacity(GATHERED_BYTES));
    for (index, at) in rows.iter().enumerate() {
        let batch = &*batches[at.batch as usize];
        let row = batch.row(at.row as usize);
        let source =
            sources[at.batch as usize].get_or_insert_with(|| Source::new(batch, &block.names));
        if !source.alike(&mut block, index, &row, &mut spans) {
            return Ok(Compared::Different(index));
        }
        let raw = row.raw();
        if gathered.len() + raw.len() > GATHERED_BYTES {
            crc = crc32c::crc32c_append(crc, &gathered);
            gathered.clear();
        }
        gathered.extend_from_slice(raw);
        heads.add(&row);
    }
    crc = crc32c::crc32c_append(crc, &gathered);
    Ok(Compared::Alike(heads.finish(crc)))
}

/// Name, position and length of a field of a row.
type Part = (FieldId, Place, u32);

/// What is known about a source batch.
struct Source<'a> {
    batch: &'a Batch,
    /// For each field name of the block, its number in the source.
    names: Vec<Option<FieldId>>,
    /// For each stem of the source, the layouts and origins of the block that match it; the last
    /// match comes first.
    alike: Vec<Vec<(u32, i64)>>,
    /// Stem, layout and origin of the previous row, and whether the fields shared in one of them
    /// are shared in both.
    last: Option<((StemId, u32, i64), bool)>,
}

impl<'a> Source<'a> {
    fn new(batch: &'a Batch, names: &[&str]) -> Self {
        let names = names.iter().map(|name| batch.field_id(name)).collect();
        Source { batch, names, alike: vec![Vec::new(); batch.stems()], last: None }
    }

    /// Whether the next line of the block, number `index`, is the same record as `row`.
    #[inline]
    fn alike(
        &mut self,
        block: &mut Opened<'_>,
        index: usize,
        row: &Row<'_>,
        spans: &mut [(u32, u32)],
    ) -> bool {
        let (time_ns, id) = (block.times[index], row.id());
        let key = (row.stem(), block.layout_indexes[index], block.origin_indexes[index]);
        let plan = &block.plans[key.1 as usize];
        let same_head = time_ns == row.time_ns()
            && block.received[index] == row.received_ns()
            && block.sequences[index] as u64 == row.sequence()
            && block.names_of_lines.id(index, block.sequences[index]) == Ok(id);
        if let (Some(last), Some(straight)) = (self.last, &plan.straight)
            && last == (key, true)
            && self.is_straight(plan, straight, row)
        {
            let readers = &mut block.readers;
            return same_head && plan.compare_straight(straight, time_ns, readers, row.raw());
        }
        same_head
            && plan.compare_line(time_ns, &mut block.readers, row.raw(), spans)
            && self.fields_alike(block, key, index, row, spans)
    }

    /// Whether the only own field of a row extends from there to the end of the line.
    #[inline]
    fn is_straight(&self, plan: &Plan, straight: &Straight, row: &Row<'_>) -> bool {
        let mut own = row.own_places();
        own.len() == 1
            && own.next().is_some_and(|(id, source, length)| {
                source == Place::Line(straight.at)
                    && (straight.at + length) as usize == row.raw_bytes()
                    && self.names[usize::from(plan.own[0].0.0)] == Some(id)
            })
    }

    /// Whether the rows have the same origin and fields.
    #[inline]
    fn fields_alike(
        &mut self,
        block: &mut Opened<'_>,
        key: (StemId, u32, i64),
        index: usize,
        row: &Row<'_>,
        spans: &[(u32, u32)],
    ) -> bool {
        let plan = &block.plans[key.1 as usize];
        let stored = row.own_places();
        if let Some((last, true)) = self.last
            && last == key
            && plan.own.len() == stored.len()
        {
            let mut own = plan.own.iter().zip(spans);
            if stored.zip(&mut own).all(|(part, (own, span))| self.is_in_place(part, own, span)) {
                return true;
            }
        }
        if plan.own.len() + plan.shared.len() != row.fields_count()
            || !self.stem_alike(block, index, row)
        {
            return false;
        }
        let plan = &block.plans[key.1 as usize];
        self.last = Some((key, plan.shared.len() == row.stem_fields()));
        self.own_alike(block, index, row, spans)
    }

    /// Whether a field is at the same position of the same line.
    #[inline]
    fn is_in_place(
        &self,
        (id, source, length): Part,
        (name, kind): &(FieldId, Kind),
        &(from, to): &(u32, u32),
    ) -> bool {
        matches!(kind, Kind::InLine)
            && source == Place::Line(from)
            && to.wrapping_sub(from) == length
            && self.names[usize::from(name.0)] == Some(id)
    }

    /// Whether the rows have the same origin, and the same values or positions in the last fields:
    /// as many fields as are shared both in the layout and in the stem.
    #[inline]
    fn stem_alike(&mut self, block: &Opened<'_>, index: usize, row: &Row<'_>) -> bool {
        let (layout, origin) = (block.layout_indexes[index], block.origin_indexes[index]);
        let known = &mut self.alike[usize::from(row.stem().0)];
        match known.iter().position(|pair| *pair == (layout, origin)) {
            Some(0) => true,
            Some(at) => {
                known.swap(0, at);
                true
            }
            None => self.new_stem_alike(block, layout, origin, row),
        }
    }

    #[cold]
    fn new_stem_alike(
        &mut self,
        block: &Opened<'_>,
        layout: u32,
        origin: i64,
        row: &Row<'_>,
    ) -> bool {
        let plan = &block.plans[layout as usize];
        let both = plan.shared.len().min(row.stem_fields());
        let fields = row.fields_count();
        let expected = &self.batch.origins()[usize::from(row.origin_index())];
        let alike = block.origins[origin as usize] == *expected
            && (fields - both..fields).all(|at| self.same_shared(block, plan, row, at));
        if alike {
            self.alike[usize::from(row.stem().0)].push((layout, origin));
        }
        alike
    }

    /// Compares the fields that are not shared in both.
    #[inline]
    fn own_alike(
        &self,
        block: &mut Opened<'_>,
        index: usize,
        row: &Row<'_>,
        spans: &[(u32, u32)],
    ) -> bool {
        let plan = &block.plans[block.layout_indexes[index] as usize];
        let (own, stored) = (plan.own.len(), row.own_places());
        let (shared, readers, time_ns) = (&block.shared, &mut block.readers, block.times[index]);
        let mut same = |at: usize, (id, source, length): (FieldId, Place, u32)| {
            let (name, kind) = plan.own[at];
            let value = || row.field_at(at).expect("a row has its fields");
            let same_value = match kind {
                Kind::InLine => {
                    let (from, to) = spans[at];
                    to - from == length
                        && match source {
                            Place::Line(begin) => begin == from || length == 0,
                            _ => row.raw()[from as usize..to as usize] == *value(),
                        }
                }
                Kind::Shared { at, length, .. } => {
                    shared[at as usize..][..length as usize] == *value()
                }
                Kind::Made(column) => {
                    let value = value();
                    readers[column].matches(time_ns, value) == Some(value.len())
                }
                Kind::Empty => length == 0,
            };
            same_value && self.names[usize::from(name.0)] == Some(id)
        };
        let alike = if stored.len() >= own {
            stored.take(own).enumerate().all(|(at, part)| same(at, part))
        } else {
            row.places().take(own).enumerate().all(|(at, part)| same(at, part))
        };
        let plan = &block.plans[block.layout_indexes[index] as usize];
        let both = plan.shared.len().min(row.stem_fields());
        alike && (own..row.fields_count() - both).all(|at| self.same_shared(block, plan, row, at))
    }

    /// Whether the field at this index, a shared one of the layout, is the same.
    fn same_shared(&self, block: &Opened<'_>, plan: &Plan, row: &Row<'_>, at: usize) -> bool {
        let (name, found, length) = plan.shared[at - plan.own.len()];
        let (id, source, source_length) = row.place_at(at);
        let value = || row.field_at(at).expect("a row has its fields");
        let same_value = match (found, source) {
            (Place::Line(a), Place::Line(b)) => a == b || length == 0,
            (Place::Line(from), _) => row.raw()[from as usize..][..length as usize] == *value(),
            (Place::Made(from) | Place::Shared(from), _) => {
                block.shared[from as usize..][..length as usize] == *value()
            }
        };
        self.names[usize::from(name.0)] == Some(id) && length == source_length && same_value
    }
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Hints, Origin, Parser, ParserConfig, Transport};

    use super::super::block::{BlockWriter, EncodedBlock};
    use super::super::compress::{Compressor, Decompressor};
    use super::super::footer::Effort;
    use super::super::layout::{BatchShapes, Layouts};
    use super::super::restore::{lines_crc, restore};
    use super::super::{Clustering, SealOptions};
    use super::*;

    const ROWS: usize = 60;

    struct Line {
        text: String,
        received_ns: i64,
        origin: Origin,
    }

    fn lines() -> Vec<Line> {
        let line = |i: usize| {
            let text = match i % 5 {
                0 => format!(r#"{{"level":"warn","n":{i},"s":"a\u0041{i}","msg":"JSON"}}"#),
                1 => {
                    format!(r#"1.2.3.4 - - [17/May/2015:10:05:03 +0000] "GET /{i} HTTP/1.1" 200 7"#)
                }
                2 => format!("text without a head, {i}"),
                _ => format!("<30>Nov 21 11:59:{i:02} db2 hdfs[27896]: block {i}"),
            };
            let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
            Line { text, received_ns: 1_790_000_000_000_000_000, origin }
        };
        (0..ROWS).map(line).collect()
    }

    fn batch(lines: &[Line], sequence: u64) -> Arc<Batch> {
        let mut builder = FrameBuilder::new();
        for line in lines {
            builder.push_line(&line.origin, line.received_ns, line.text.as_bytes(), false);
        }
        let frame = Arc::new(builder.finish(1, sequence).unwrap());
        Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame))
    }

    fn rows() -> Vec<RowRef> {
        (0..ROWS as u32).map(|row| RowRef { batch: 0, row }).collect()
    }

    /// The decompressed chunks of a block of these rows.
    fn chunks(batch: &Arc<Batch>, effort: Effort) -> Vec<Vec<u8>> {
        let mut counts = vec![0; batch.stems()];
        batch.rows().for_each(|row| counts[usize::from(row.stem().0)] += 1);
        let options = SealOptions { clustering: Clustering::Arrival, ..SealOptions::new(effort) };
        let (EncodedBlock { bytes, entry }, taken) = BlockWriter::default().encode(
            &[Arc::clone(batch)],
            &mut [BatchShapes::new(counts.into_iter())],
            &rows(),
            &mut Layouts::default(),
            &options,
            &mut Compressor::default(),
        );
        assert_eq!(taken, ROWS);
        let mut rest = &bytes[..];
        let mut decompressor = Decompressor::default();
        let chunk = |chunk: &super::super::Chunk| {
            let (stored, behind) = rest.split_at(chunk.bytes_disk as usize);
            rest = behind;
            decompressor.decompress(stored, chunk.bytes as usize).unwrap()
        };
        entry.chunks.iter().map(chunk).collect()
    }

    #[test]
    fn a_block_equals_only_the_rows_it_was_made_of() {
        let source = batch(&lines(), 7);
        for effort in [Effort::Fast, Effort::Best] {
            let chunks = chunks(&source, effort);
            let crc = lines_crc(&restore(&chunks, ROWS).unwrap());
            let same = compare(&chunks, &[Arc::clone(&source)], &rows());
            assert_eq!(same, Ok(Compared::Alike(crc)));
            let other_sequence = batch(&lines(), 8);
            assert_eq!(compare(&chunks, &[other_sequence], &rows()), Ok(Compared::Different(0)));
            let mut order = rows();
            order.swap(ROWS - 2, ROWS - 1);
            let swapped = compare(&chunks, &[Arc::clone(&source)], &order);
            assert_eq!(swapped, Ok(Compared::Different(ROWS - 2)));
            for index in 0..ROWS {
                let changes: [&dyn Fn(&mut Line); 7] = [
                    &|line| line.received_ns += 1,
                    &|line| line.text.push('x'),
                    &|line| _ = line.text.pop(),
                    &|line| line.text = line.text.replacen('1', "2", 1) + "3",
                    &|line| line.origin.sender = Some(([10, 0, 0, 1], 514).into()),
                    &|line| line.origin.format = Format::Json,
                    &|line| {
                        let extra_fields = vec![("rack".into(), "r".into())];
                        let hints = Hints { extra_fields, ..Hints::default() };
                        line.origin.hints = Arc::new(hints);
                    },
                ];
                for (kind, change) in changes.iter().enumerate() {
                    let mut lines = lines();
                    change(&mut lines[index]);
                    let other = batch(&lines, 7);
                    let found = compare(&chunks, &[other], &rows());
                    assert_eq!(found, Ok(Compared::Different(index)), "{kind}");
                }
            }
        }
    }

    #[test]
    fn every_changed_byte_of_a_chunk_is_noticed() {
        let source = batch(&lines(), 7);
        for effort in [Effort::Fast, Effort::Best] {
            let chunks = chunks(&source, effort);
            for chunk in 0..chunks.len() {
                for at in 0..chunks[chunk].len() {
                    let mut other = chunks.clone();
                    other[chunk][at] ^= 1 << (at % 8);
                    let compared = compare(&other, &[Arc::clone(&source)], &rows());
                    let Ok(Compared::Alike(_)) = compared else { continue };
                    // Some changed bytes may encode the same lines: then the lines must be equal.
                    let batch = restore(&other, ROWS).unwrap();
                    for (found, expected) in batch.rows().zip(source.rows()) {
                        assert_eq!((found.raw(), found.id()), (expected.raw(), expected.id()));
                        assert_eq!(found.time_ns(), expected.time_ns());
                        assert_eq!(found.received_ns(), expected.received_ns());
                        let named = |batch: &Batch, row: &Row<'_>| -> Vec<(String, Vec<u8>)> {
                            let named = |(id, value): (FieldId, &[u8])| {
                                (batch.name(id).to_owned(), value.to_vec())
                            };
                            row.fields().map(named).collect()
                        };
                        assert_eq!(named(&batch, &found), named(&source, &expected));
                    }
                }
            }
        }
    }
}

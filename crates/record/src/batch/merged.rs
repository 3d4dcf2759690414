//! Merges the batches of small frames into one, so that a query reads one batch instead of
//! hundreds.
//!
//! Rows are in the order of the batches, each with its own id, origin, line and fields. Fields of
//! stems stay shared. The result has copies of everything, and no frame.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::{BATCH_NAMES_MAX, Batch, FieldId, PLACE, Place, RestoredBuilder, StemId};
use crate::frame::Origin;

impl Batch {
    /// Merges all rows of `batches`. `None` if they have more names, origins or text than a batch
    /// may have.
    pub fn merged(batches: &[Arc<Batch>]) -> Option<Batch> {
        let (mut names, mut origins) = (Vec::new(), Vec::<Origin>::new());
        let mut ids: HashMap<&str, FieldId, foldhash::fast::RandomState> = HashMap::default();
        let of_batch = |batch: &Arc<Batch>| (batch.arena.len(), batch.raw_bytes() as usize);
        let (arena_bytes, text_bytes) =
            batches.iter().map(of_batch).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if arena_bytes.max(text_bytes) > PLACE as usize {
            return None;
        }
        for batch in batches {
            for name in &batch.names {
                if let Entry::Vacant(entry) = ids.entry(name) {
                    entry.insert(FieldId(u16::try_from(names.len()).ok()?));
                    names.push(Arc::clone(name));
                }
            }
            for origin in batch.origins() {
                if !origins.contains(origin) {
                    origins.push(origin.clone());
                }
            }
        }
        if names.len() > BATCH_NAMES_MAX || u16::try_from(origins.len()).is_err() {
            return None;
        }
        let rows = batches.iter().map(|batch| batch.len()).sum();
        let fields = batches.iter().map(|batch| batch.fields.len()).sum();
        let origins: Arc<[Origin]> = origins.into();
        let mut builder =
            RestoredBuilder::new(names, Arc::clone(&origins), rows, fields, text_bytes);
        for batch in batches {
            let ids: Vec<FieldId> = batch.names.iter().map(|name| ids[&**name]).collect();
            let place_of = |origin: &Origin| {
                origins.iter().position(|known| known == origin).expect("all were taken") as u16
            };
            let numbers: Vec<u16> = batch.origins().iter().map(place_of).collect();
            append(batch, &ids, &numbers, &mut builder);
        }
        Some(builder.finish())
    }
}

/// Adds the rows of a batch; `ids` and `origins` map its names and origins.
fn append(batch: &Batch, ids: &[FieldId], origins: &[u16], builder: &mut RestoredBuilder) {
    let from = builder.arena().len() as u32;
    builder.arena().extend_from_slice(&batch.arena);
    let push = |builder: &mut RestoredBuilder, (name, position, length): (FieldId, Place, u32)| {
        let position = match position {
            Place::Line(at) => Place::Line(at),
            Place::Made(at) => Place::Made(at + from),
            Place::Shared(at) => Place::Shared(at + from),
        };
        builder.push_field(ids[usize::from(name.0)], position, length);
    };
    // The new stem of each old one; `None` if there are too many.
    let mut stems: HashMap<StemId, Option<StemId>, foldhash::fast::RandomState> =
        HashMap::default();
    for row in batch.rows() {
        let own = row.own_places().len();
        let origin = origins[usize::from(row.origin_index())];
        let stem = *stems.entry(row.stem()).or_insert_with(|| match row.stem_fields() {
            0 => Some(builder.stem_of(origin)),
            _ => {
                row.places().skip(own).for_each(|field| push(builder, field));
                builder.share(origin)
            }
        });
        let fields = if stem.is_some() { own } else { row.fields_count() };
        row.places().take(fields).for_each(|field| push(builder, field));
        builder.line().extend_from_slice(row.raw());
        let stem = stem.unwrap_or_else(|| builder.stem_of(origin));
        builder.end_row((row.id(), row.sequence()), row.time_ns(), row.received_ns(), stem);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::{Format, FrameBuilder, Transport};
    use crate::parse::{Parser, ParserConfig};

    fn parsed(sequence: u64, lines: &[(bool, String)]) -> Arc<Batch> {
        let mut frame = FrameBuilder::new();
        for (index, (is_json, line)) in lines.iter().enumerate() {
            let (transport, format) = match is_json {
                true => (Transport::Http, Format::Json),
                false => (Transport::SyslogTcp, Format::Syslog),
            };
            let origin = Origin::new(transport, format, None);
            frame.push_line(&origin, index as i64, line.as_bytes(), false);
        }
        let frame = frame.finish(1, sequence).expect("it has lines");
        let config = ParserConfig::default();
        let mut parser = Parser::new(&config).expect("no rules");
        Arc::new(parser.parse(Arc::new(frame)))
    }

    fn shown(batch: &Batch) -> Vec<String> {
        let row = |row: crate::Row<'_>| {
            let fields =
                row.fields().map(|(id, value)| (batch.name(id).to_owned(), value.to_vec()));
            let origin = &batch.origins()[usize::from(row.origin_index())];
            let times = (row.time_ns(), row.received_ns());
            let mut stream = String::new();
            row.write_stream(&mut stream);
            format!(
                "{:?}",
                (row.id(), times, origin, row.raw(), fields.collect::<Vec<_>>(), stream)
            )
        };
        batch.rows().map(row).collect()
    }

    proptest! {
        #[test]
        fn merged_rows_are_unchanged(
            frames in prop::collection::vec(
                prop::collection::vec(
                    prop_oneof![
                        "[a-c]{1,3}".prop_map(|v| (true, format!("{{\"{v}\":\"x\\u0041{v}\",\"n\":1}}"))),
                        ("[ab]", "[a-d ]{0,9}").prop_map(|(host, text)| {
                            (false, format!("<14>1 2026-01-31T12:00:00Z {host} app 7 - - {text}"))
                        }),
                    ],
                    1..5,
                ),
                0..6,
            ),
        ) {
            let batches: Vec<Arc<Batch>> =
                (0..).zip(&frames).map(|(sequence, lines)| parsed(sequence, lines)).collect();
            let merged = Batch::merged(&batches).unwrap();
            let expected: Vec<String> = batches.iter().flat_map(|batch| shown(batch)).collect();
            prop_assert_eq!(shown(&merged), expected);
            let oldest = batches.iter().map(|batch| batch.time_range_ns().0).min();
            prop_assert_eq!(merged.time_range_ns().0, oldest.unwrap_or(i64::MAX));
        }
    }
}

//! For every merged pipe and every stats function: rows split over several partial states, which
//! are encoded, decoded and merged, give the answer of a single state. Damaged states and other
//! bytes are refused or give some answer; nothing panics.

use proptest::prelude::*;

use super::{Merges, Pipe, Processor, function_documentation, pipe_documentation};
use crate::base::{Limits, RunError};
use crate::block::{BatchLines, Block, Scratch};
use crate::lang::context::Context;
use crate::lang::pipe::Next;
use crate::testing::{Record, batch, record, with_next};
use crate::{Query, ResultRows};

/// The pipes of both tables' examples that collect and can be merged.
fn merged_pipes() -> Vec<Pipe> {
    let pipes = pipe_documentation().map(|doc| doc.example.to_owned());
    let stats = function_documentation().flat_map(|doc| {
        ["", "by (host)", "by (_time:3ns)", "by (host, num:5)"]
            .map(|by| format!("stats {by} {}", doc.example))
    });
    let all = pipes
        .chain(stats)
        .flat_map(|text| Query::parse(&format!("* | {text}"), 0).unwrap().pipes().to_vec());
    let more = Query::parse("* | sort by (num, _time) | top 3 by (host) | uniq by (host, num)", 0);
    all.chain(more.unwrap().pipes().to_vec())
        .filter(|pipe| pipe.merges() != Merges::Never)
        .collect()
}

/// A record with the fields that the examples use; `number` makes it distinct.
fn record_of(number: usize, (host, n, took): (u8, u8, u16)) -> Record {
    let (host, n, took) = (format!("h{host}"), n.to_string(), took.to_string());
    let user = format!("u{number}");
    let took = if took == "0" { "" } else { &took };
    let fields = [
        ("_msg", "some text"),
        ("host", &host),
        ("hostname", &host),
        ("level", &n),
        ("num", &n),
        ("took", took),
        ("bytes", took),
        ("path", &host),
        ("user", &user),
    ];
    record(number as i64, &fields)
}

/// The lines of a unit; those of the first unit arrived first.
fn block(unit: usize, records: &[Record]) -> Block {
    let batch = batch(1 + unit as u64, records);
    Block::Lines(BatchLines::new(batch, (0..records.len() as u32).collect()))
}

/// A stage that has taken these rows.
fn stage_of(pipe: &Pipe, records: &[Record], next: &mut Next<'_>) -> Box<dyn Processor> {
    let mut stage = pipe.processor(&[]);
    if !records.is_empty() {
        let _ = stage.push(block(next.unit, records), next).unwrap();
    }
    stage
}

/// Rows as texts; numbers with fractions are cut to the digits that do not depend on the order of
/// rounding.
fn shown(blocks: &[ResultRows]) -> Vec<String> {
    let mut scratch = Scratch::default();
    let mut shown = Vec::new();
    for block in blocks {
        for row in 0..block.len() {
            let mut text = String::new();
            block.visit(row, &mut scratch, |name, value| {
                let value = String::from_utf8_lossy(value);
                match value.parse::<f64>() {
                    Ok(number) if value.contains('.') => text += &format!("{name}={number:.6e} "),
                    _ => text += &format!("{name}={value} "),
                }
            });
            shown.push(text);
        }
    }
    shown
}

/// Cuts each operator's state at every length, and changes every byte in two ways. A cut state is
/// refused; a changed state is refused or gives some answer. Neither takes memory beyond the limit
/// of the query.
#[test]
fn cut_and_changed_states_of_every_operator_are_refused_or_give_an_answer() {
    let records: Vec<Record> =
        (0..4).map(|number| record_of(number, (number as u8 % 2, number as u8, 7))).collect();
    let limit_bytes = 1 << 20;
    for pipe in merged_pipes() {
        with_next(|next| {
            // Each state counts its own memory.
            let meter = || {
                let limits = Limits { memory_bytes_max: limit_bytes, ..Limits::default() };
                Context { limits, ..Context::default() }.meter()
            };
            let stage = stage_of(&pipe, &records, next);
            let bytes = pipe.encode(&*stage, &mut meter()).unwrap();
            for length in 0..bytes.len() {
                let mut meter = meter();
                match pipe.decode(&bytes[..length], &[], &mut meter) {
                    Err(RunError::PartialState(why)) => assert!(!why.is_empty()),
                    Err(error) => panic!("{pipe}, cut at {length}: {error}"),
                    Ok(_) => panic!("{pipe}, cut at {length}, is read"),
                }
                assert!(meter.held() <= limit_bytes, "{pipe}, cut at {length}");
            }
            for (place, change) in (0..bytes.len()).flat_map(|at| [(at, 0xff), (at, 1)]) {
                let mut damaged = bytes.clone();
                damaged[place] ^= change;
                let mut meter = meter();
                match pipe.decode(&damaged, &[], &mut meter) {
                    // The damaged state needs more memory than the limit, which is not allocated.
                    Err(RunError::MemoryLimit(_)) => continue,
                    Err(RunError::PartialState(_)) => {}
                    Err(error) => panic!("{pipe}, byte {place} changed: {error}"),
                    Ok(mut read) => {
                        let mut merged = stage_of(&pipe, &records, next);
                        if merged.merge(read.collected().unwrap(), next).is_ok() {
                            let _ = merged.finish(next);
                        }
                    }
                }
                assert!(meter.held() <= limit_bytes, "{pipe}, byte {place} changed");
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn written_and_merged_states_give_the_answer_of_one(
        rows in prop::collection::vec((0u8..3, 0u8..12, 0u16..400), 1..40),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let records: Vec<Record> =
            rows.iter().enumerate().map(|(number, row)| record_of(number, *row)).collect();
        let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(records.len() + 1)).collect();
        places.extend([0, records.len()]);
        places.sort_unstable();
        for pipe in merged_pipes() {
            let (_, expected) = with_next(|next| {
                stage_of(&pipe, &records, next).finish(next).unwrap();
            });
            let (_, found) = with_next(|next| {
                let mut merged = pipe.processor(&[]);
                let mut meter = next.meter().clone();
                for (unit, part) in places.windows(2).enumerate() {
                    // Of rows with equal keys, sort puts those of the first unit first.
                    next.unit = unit;
                    let stage = stage_of(&pipe, &records[part[0]..part[1]], next);
                    let bytes = pipe.encode(&*stage, &mut meter).unwrap();
                    let mut read = pipe.decode(&bytes, &[], &mut meter).unwrap();
                    merged.merge(read.collected().unwrap(), next).unwrap();
                }
                merged.finish(next).unwrap();
            });
            let (found, expected) = (shown(&found), shown(&expected));
            // The number of blocks depends on how rows are split.
            if !pipe.to_string().starts_with("blocks_count") {
                prop_assert_eq!(found, expected, "{}", pipe);
            }
        }
    }

    #[test]
    fn damaged_states_do_not_panic(
        rows in prop::collection::vec((0u8..3, 0u8..12, 0u16..400), 1..12),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
        noise in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let records: Vec<Record> =
            rows.iter().enumerate().map(|(number, row)| record_of(number, *row)).collect();
        for pipe in merged_pipes() {
            with_next(|next| {
                let limits = Limits { memory_bytes_max: 1 << 20, ..Limits::default() };
                let mut meter = Context { limits, ..Context::default() }.meter();
                let stage = stage_of(&pipe, &records, next);
                let bytes = pipe.encode(&*stage, &mut meter).unwrap();
                // Version and fingerprint stay intact, so that the rest is decoded.
                let head = 1 + size_of::<u64>();
                let mut damaged = bytes.clone();
                for (place, byte) in &damage {
                    if damaged.len() > head {
                        let place = head + place.index(damaged.len() - head);
                        damaged[place] = *byte;
                    }
                }
                if let Some(cut) = &cut {
                    damaged.truncate(head + cut.index(damaged.len() - head + 1));
                }
                let mut random = bytes[..head].to_vec();
                random.extend(&noise);
                for bytes in [&damaged, &random, &noise] {
                    let Ok(mut read) = pipe.decode(bytes, &[], &mut meter) else { continue };
                    let mut merged = stage_of(&pipe, &records, next);
                    if merged.merge(read.collected().unwrap(), next).is_ok() {
                        let _ = merged.finish(next);
                    }
                }
            });
        }
    }
}

//! Bytes as partial states of every operator that has one: an error, or rows.
#![no_main]

#[path = "partial_state/operators.rs"]
mod operators;

use std::ops::ControlFlow;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use operators::{Memory, queries};
use query::{Context, Limits, Query, RunError, run_merged};

/// What the merged states may hold: with more, the limit must end the query before the memory is
/// taken.
const MEMORY_BYTES_MAX: u64 = 16 << 20;

// The first byte says which query; states follow, each behind its length in two bytes.
fuzz_target!(|bytes: &[u8]| {
    static QUERIES: OnceLock<Vec<(Query, Vec<u8>)>> = OnceLock::new();
    let queries = QUERIES.get_or_init(queries);
    let Some((&place, mut rest)) = bytes.split_first() else { return };
    let (query, head) = &queries[usize::from(place) % queries.len()];
    let mut states: Vec<Vec<u8>> = Vec::new();
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (state, behind) = behind.split_at(length);
        states.push([head, state].concat());
        rest = behind;
    }
    let limits = Limits { memory_bytes_max: MEMORY_BYTES_MAX, ..Limits::default() };
    let context = Context { limits, ..Context::default() };
    let states = states.iter().map(Vec::as_slice);
    let merged = run_merged(query, states, &Memory::empty(), &context, &mut |_| {
        ControlFlow::Continue(())
    });
    if let Err(error) = merged {
        let is_expected = matches!(
            error,
            RunError::PartialState(_)
                | RunError::MemoryLimit(_)
                | RunError::ValueLimit(_)
                | RunError::RowBytesLimit(_)
        );
        assert!(is_expected, "{error}");
    }
});

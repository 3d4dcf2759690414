//! `len(a) as b`, `json_array_len(a) as b`, `hash(a) as b`: a number about the value of a field.
//!
//! `len` counts bytes. `json_array_len` counts the items of a JSON array, and gives 0 for any other
//! value. `hash` is, as in VictoriaLogs, the lower 53 bits of XXH64 with seed 0 of the bytes, in
//! decimal, so that a 64-bit float holds it exactly. Without `as` the result is in `_msg`.

use std::fmt;

use record::parse::json_items;

use super::compute::{Compute, ComputePipe, Output, needs_for, write_field};
use super::operator::{Documentation, Registration, one};
use crate::base::bitmap::Bitmap;
use crate::base::names::MSG;
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Scratch};
use crate::lang::syntax::cursor::{Cursor, quote_name};
use crate::lang::syntax::error::ParseError;

/// The `len`, `json_array_len` and `hash` pipes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueNumber {
    /// The number to compute.
    pub what: Measure,
    /// The field of the value.
    pub field: String,
    /// Field for the number.
    pub result: String,
}

/// A number about a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Bytes.
    Len,
    /// Items of a JSON array.
    JsonArrayLen,
    /// The lower 53 bits of XXH64.
    Hash,
}

impl Measure {
    fn name(self) -> &'static str {
        match self {
            Measure::Len => "len",
            Measure::JsonArrayLen => "json_array_len",
            Measure::Hash => "hash",
        }
    }

    fn of(self, value: &[u8]) -> u64 {
        match self {
            Measure::Len => value.len() as u64,
            Measure::JsonArrayLen => {
                let mut items = 0;
                let whole = json_items(value, |_, _| items += 1);
                if whole.is_some() { items } else { 0 }
            }
            Measure::Hash => xxh64(value) & HASH_MASK,
        }
    }
}

pub(super) static LEN: Registration = Registration {
    doc: Documentation {
        name: "len",
        aliases: &[],
        syntax: "len(<field>) [as <name>]",
        summary: "computes the length of a value in bytes",
        example: "len(_msg) as n",
    },
    parse: |cursor| parse(cursor, Measure::Len).map(one),
};

pub(super) static JSON_ARRAY_LEN: Registration = Registration {
    doc: Documentation {
        name: "json_array_len",
        aliases: &[],
        syntax: "json_array_len(<field>) [as <name>]",
        summary: "counts the items of a JSON array",
        example: "json_array_len(tags) as n",
    },
    parse: |cursor| parse(cursor, Measure::JsonArrayLen).map(one),
};

pub(super) static HASH: Registration = Registration {
    doc: Documentation {
        name: "hash",
        aliases: &[],
        syntax: "hash(<field>) [as <name>]",
        summary: "computes a hash of a value: the lower 53 bits of XXH64",
        example: "hash(user) as h",
    },
    parse: |cursor| parse(cursor, Measure::Hash).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>, what: Measure) -> Result<ValueNumber, ParseError> {
    let parentheses = cursor.eat('(');
    let field = cursor.expect_string(false, "a field name")?.text;
    if parentheses {
        cursor.expect(')', what.name())?;
    }
    cursor.eat_keyword("as");
    let result = cursor.string(false)?.map_or(MSG.to_owned(), |name| name.text);
    Ok(ValueNumber { what, field, result })
}

impl fmt::Display for ValueNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.what.name(), quote_name(&self.field))?;
        write_field("as", &self.result, MSG, f)
    }
}

impl ComputePipe for ValueNumber {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        needs_for(wanted, &self.results(), true, [self.field.as_str()]);
    }

    fn results(&self) -> Vec<&str> {
        vec![&self.result]
    }
}

impl Compute for ValueNumber {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        use std::io::Write;
        let (from, to) = (block.column(&self.field), out.column(&self.result));
        rows.iter().try_for_each(|row| {
            let number = self.what.of(block.value(from, row, scratch));
            out.set_with(to, row, |out| write!(out, "{number}").expect("writing to memory"))
        })
    }
}

/// The bits of a hash that a 64-bit float holds exactly.
const HASH_MASK: u64 = (1 << 53) - 1;

const PRIMES: [u64; 5] = [
    0x9e37_79b1_85eb_ca87,
    0xc2b2_ae3d_27d4_eb4f,
    0x1656_67b1_9e37_79f9,
    0x85eb_ca77_c2b2_ae63,
    0x27d4_eb2f_1656_67c5,
];

/// XXH64 with seed 0 (<https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md>).
pub(crate) fn xxh64(bytes: &[u8]) -> u64 {
    let [p1, p2, p3, p4, p5] = PRIMES;
    let round = |acc: u64, lane: u64| {
        acc.wrapping_add(lane.wrapping_mul(p2)).rotate_left(31).wrapping_mul(p1)
    };
    let merge = |acc: u64, lane: u64| (acc ^ round(0, lane)).wrapping_mul(p1).wrapping_add(p4);
    let (stripes, mut rest) = bytes.as_chunks::<32>();
    let mut hash = if stripes.is_empty() {
        p5
    } else {
        let mut lanes = [p1.wrapping_add(p2), p2, 0, 0u64.wrapping_sub(p1)];
        for stripe in stripes {
            for (lane, eight) in lanes.iter_mut().zip(stripe.as_chunks::<8>().0) {
                *lane = round(*lane, u64::from_le_bytes(*eight));
            }
        }
        let turns = [1, 7, 12, 18];
        let sum = lanes
            .iter()
            .zip(turns)
            .fold(0u64, |sum, (lane, turn)| sum.wrapping_add(lane.rotate_left(turn)));
        lanes.into_iter().fold(sum, merge)
    };
    hash = hash.wrapping_add(bytes.len() as u64);
    while let Some((eight, behind)) = rest.split_first_chunk::<8>() {
        hash ^= round(0, u64::from_le_bytes(*eight));
        hash = hash.rotate_left(27).wrapping_mul(p1).wrapping_add(p4);
        rest = behind;
    }
    if let Some((four, behind)) = rest.split_first_chunk::<4>() {
        hash ^= u64::from(u32::from_le_bytes(*four)).wrapping_mul(p1);
        hash = hash.rotate_left(23).wrapping_mul(p2).wrapping_add(p3);
        rest = behind;
    }
    for byte in rest {
        hash ^= u64::from(*byte).wrapping_mul(p5);
        hash = hash.rotate_left(11).wrapping_mul(p1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(p2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(p3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{check_pipe, record};

    #[test]
    fn hashes_are_those_of_the_reference() {
        // Expected values from `xxhsum -H1`.
        assert_eq!(xxh64(b""), 0xef46_db37_51d8_e999);
        assert_eq!(xxh64(b"a"), 0xd24e_c4f1_a98c_6e5b);
        assert_eq!(xxh64(b"abc"), 0x44bc_2cf5_ad77_0999);
        let long = b"The quick brown fox jumps over the lazy dog";
        assert_eq!(xxh64(long), 0x0b24_2d36_1fda_71bc);
    }

    #[test]
    fn numbers_about_values() {
        let records = [record(1, &[("_msg", "x"), ("a", "héé"), ("b", "[1,\"x\",[2]]")])];
        check_pipe(&records, "len(a) as n | fields n, _msg", &["n=5 _msg=x"]);
        check_pipe(&records, "len(none) | fields _msg", &["_msg=0"]);
        check_pipe(&records, "json_array_len(b) n | fields n", &["n=3"]);
        check_pipe(&records, "json_array_len (a) as n | fields n", &["n=0"]);
        check_pipe(&records, "hash(none) as h | fields h", &["h=1929880503118233"]);
    }
}

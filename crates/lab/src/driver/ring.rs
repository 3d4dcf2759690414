//! Consistent hashing by the client: maps a key to one of several servers that know nothing of each
//! other.
//!
//! Each server has [`POINTS`] points on a ring of 64-bit hashes, and a key belongs to the next
//! point after its own hash: an additional server takes its share from all others and moves no
//! other keys. Shares differ by about 8% (one divided by the square root of the points), like with
//! the client of the 2012 study, which noted it. The position of a point depends only on the number
//! of its server, so the servers have to be given in the same order as long as their data is used.

use crate::row::{Row, Value};

/// Points of each server: as many as in Jedis, the study's client.
const POINTS: u32 = 160;

/// A ring of servers.
#[derive(Debug)]
pub(crate) struct Ring {
    points: Vec<(u64, usize)>,
    shards: usize,
}

impl Ring {
    /// For servers 0 to `shards` - 1.
    pub fn new(shards: usize) -> Ring {
        assert!(shards > 0, "a ring has a server");
        let mut points = Vec::with_capacity(shards * POINTS as usize);
        for shard in 0..shards {
            for point in 0..POINTS {
                points.push((hash(format!("shard {shard} point {point}").as_bytes()), shard));
            }
        }
        points.sort_unstable();
        Ring { points, shards }
    }

    /// The server of this key.
    pub fn shard(&self, key: &Value) -> usize {
        if self.shards == 1 {
            return 0;
        }
        let hash = match key {
            Value::Integer(number) => hash(&number.to_le_bytes()),
            Value::Text(text) => hash(text.as_bytes()),
        };
        let at = self.points.partition_point(|(point, _)| *point < hash);
        // The first point follows the last.
        self.points.get(at).unwrap_or(&self.points[0]).1
    }

    /// Splits rows by server.
    pub fn split<'a>(&self, rows: &'a [Row]) -> Vec<Vec<&'a Row>> {
        let mut split = vec![Vec::new(); self.shards];
        for row in rows {
            split[self.shard(&row.key)].push(row);
        }
        split
    }
}

/// FNV-1a with the finaliser of MurmurHash3, so that all bits depend on all bytes. It must stay the
/// same on every machine and in every version, because existing data depends on it.
fn hash(bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> impl Iterator<Item = Value> {
        let texts = (0..20_000).map(|n| Value::Text(format!("user{n}")));
        texts.chain((0..20_000).map(Value::Integer))
    }

    #[test]
    fn shares_are_near_each_other() {
        for shards in [1, 2, 3, 4, 12] {
            let ring = Ring::new(shards);
            let mut counts = vec![0usize; shards];
            keys().for_each(|key| counts[ring.shard(&key)] += 1);
            let fair = 40_000 / shards;
            let near = |n: &usize| (fair * 7 / 10..=fair * 13 / 10).contains(n);
            assert!(counts.iter().all(near), "{counts:?}");
        }
    }

    #[test]
    fn one_server_more_moves_keys_to_itself_only() {
        for shards in 1..8 {
            let (before, after) = (Ring::new(shards), Ring::new(shards + 1));
            for key in keys() {
                let (old, new) = (before.shard(&key), after.shard(&key));
                assert!(new == old || new == shards, "{key} went from {old} to {new}");
            }
        }
    }

    #[test]
    fn keys_stay_where_earlier_versions_put_them() {
        let ring = Ring::new(4);
        let shards: Vec<usize> =
            (0..12).map(|n| ring.shard(&Value::Text(format!("user{n}")))).collect();
        assert_eq!(shards, [3, 1, 3, 2, 0, 1, 2, 2, 2, 3, 0, 2]);
    }

    #[test]
    fn rows_are_split_as_keys_are_found() {
        let ring = Ring::new(3);
        let rows: Vec<Row> =
            (0..100).map(|n| Row { key: Value::Integer(n), values: vec![] }).collect();
        let split = ring.split(&rows);
        assert_eq!(split.iter().map(Vec::len).sum::<usize>(), 100);
        for (shard, rows) in split.iter().enumerate() {
            assert!(rows.iter().all(|row| ring.shard(&row.key) == shard));
        }
    }
}

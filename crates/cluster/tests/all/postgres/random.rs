//! Random calls to both catalogs, which must answer the same: the simulated one is the reference
//! model of the real one.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use cluster::deletions::DeletionRow;
use cluster::sim::SimCatalog;
use cluster::{
    Catalog, CatalogError, DueRules, FrameRange, Lease, NodeId, ObjectInfo, Publication, Resource,
    Seen, SegmentRow, TimeRange, Unsearched,
};
use fastrand::Rng;
use platform::RealClock;

use super::contract::{HOUR, info, segment};
use super::server::Server;

const CALLS: usize = 4000;

struct Pair<'a> {
    real: &'a dyn Catalog,
    simulated: &'a dyn Catalog,
    random: Rng,
    leases: Vec<Lease>,
    names: Vec<String>,
    seed: u64,
}

impl Pair<'_> {
    /// Makes one call to both.
    fn call<T: PartialEq + Debug>(
        &self,
        what: &str,
        call: impl Fn(&dyn Catalog) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let (real, simulated) = (call(self.real), call(self.simulated));
        assert_eq!(real, simulated, "{what}, seed {}", self.seed);
        real
    }

    fn resource(&mut self) -> Resource {
        match self.random.u32(..6) {
            0 => Resource::Retention,
            1 => Resource::Merge(self.random.u32(..2)),
            _ => Resource::Partition(self.random.u32(..3)),
        }
    }

    fn duration(&mut self) -> Duration {
        if self.random.u32(..4) == 0 { Duration::ZERO } else { HOUR }
    }

    fn time_ns(&mut self) -> i64 {
        match self.random.u32(..10) {
            0 => i64::MIN,
            1 => i64::MAX,
            2 => i64::MAX - 1,
            _ => self.random.i64(-500..500),
        }
    }

    fn times(&mut self) -> TimeRange {
        let (a, b) = (self.time_ns(), self.time_ns());
        TimeRange { first_ns: a.min(b), last_ns: a.max(b) }
    }

    /// A lease that was given, mostly one of the last.
    fn lease(&mut self) -> Lease {
        let unknown = Lease { resource: Resource::Sweep, owner: NodeId(9), epoch: 1 };
        let recent = self.leases.len().saturating_sub(8);
        self.random.choice(&self.leases[recent..]).copied().unwrap_or(unknown)
    }

    fn some_names(&mut self) -> Vec<String> {
        let count = self.random.usize(..3);
        (0..count).filter_map(|_| self.random.choice(&self.names).cloned()).collect()
    }

    fn row(&mut self, partition: u32, start: u64) -> SegmentRow {
        let is_new = self.names.is_empty() || self.random.u32(..10) > 0;
        let old = self.random.choice(&self.names).cloned();
        let name = old.filter(|_| !is_new).unwrap_or_else(|| format!("n{}", self.names.len()));
        if is_new {
            self.names.push(name.clone());
        }
        let received_last_ns = self.random.i64(0..1000);
        SegmentRow {
            times: self.times(),
            received_last_ns,
            searched: self.random.u64(..4),
            rules: self.random.u64(..3),
            frames: vec![self.frames(1), self.frames(2)],
            ..segment(&name, partition, start..start + 3)
        }
    }

    fn frames(&mut self, node: u32) -> FrameRange {
        let first = self.random.u64(..20);
        FrameRange { node: NodeId(node), first, last: first + self.random.u64(..20) }
    }

    /// Calls about deletions; of times, only that they are there.
    fn step_deletions(&mut self) {
        let (lease, id) = (self.lease(), self.random.u64(1..30));
        match self.random.u32(..6) {
            0 => {
                let ends: Vec<u64> = (0..2).map(|_| self.random.u64(..20)).collect();
                let _ = self
                    .call("delete", |catalog| catalog.delete("a filter", &ends).map(without_times));
            }
            1 => drop(self.call("cancel_deletion", |catalog| catalog.cancel_deletion(id))),
            2 | 3 => drop(self.call("end_deletions", |catalog| catalog.end_deletions(&lease))),
            4 => {
                let (names, rules) = (self.names.clone(), self.random.u64(..3));
                let _ = self.call("note_searched", |catalog| {
                    catalog.note_searched(&lease, &names, id, rules)
                });
            }
            _ => {
                let Some(replaced) = self.random.choice(&self.names).cloned() else { return };
                let row = self.row(0, 0);
                let by = Some(row).filter(|_| self.random.bool());
                let deleted = [(id, self.random.u64(..9))];
                let _ = self.call("rewrite", |catalog| {
                    catalog.rewrite(&lease, &replaced, by.as_ref(), &deleted)
                });
            }
        }
        let _ = self.call("deletions", |catalog| {
            let all = catalog.deletions()?;
            let rows: Vec<_> = all.rows.into_iter().map(without_times).collect();
            Ok((all.last_id, rows))
        });
        let (below, partition, from) =
            (self.random.u64(..30), self.random.u32(..3), self.random.u64(..20));
        let due: Vec<DueRules> = (0..self.random.i64(..3))
            .map(|band| DueRules {
                received_ns: band * 300..(band + 1) * 300,
                rules: self.random.u64(..3),
            })
            .collect();
        let (wanted, max) = (Unsearched { below, due }, self.random.usize(1..9));
        let _ = self.call("unsearched", |catalog| {
            let mut rows = catalog.unsearched(partition, &wanted, from, usize::MAX)?;
            rows.sort_by(|a, b| a.name.cmp(&b.name));
            let some = catalog.unsearched(partition, &wanted, from, max)?;
            Ok((rows, some.len()))
        });
        let (node, number) = (NodeId(self.random.u32(1..3)), self.random.u64(..40));
        let _ = self.call("holding", |catalog| {
            let mut rows = catalog.holding(node, number, usize::MAX)?;
            rows.sort_by(|a, b| a.name.cmp(&b.name));
            Ok(rows)
        });
    }

    fn step(&mut self) {
        if self.random.u32(..10) == 0 {
            self.step_deletions();
        }
        let node = NodeId(self.random.u32(1..4));
        match self.random.u32(..12) {
            0 | 1 => {
                let (resource, ttl) = (self.resource(), self.duration());
                let lease = self.call("acquire", |catalog| catalog.acquire(resource, node, ttl));
                self.leases.extend(lease.ok().flatten());
            }
            2 => {
                let (leases, ttl) = ([self.lease(), self.lease()], self.duration());
                let _ = self.call("heartbeat", |catalog| {
                    let mut view = catalog.heartbeat(&info(node), &leases, ttl)?;
                    view.leases.sort_by_key(|row| row.resource);
                    view.nodes.iter_mut().for_each(|row| row.silent = Duration::ZERO);
                    view.deleted_ns = view.deleted_ns.map(|_| 0);
                    Ok(view)
                });
            }
            3 if self.random.bool() => {
                let lease = self.lease();
                let _ = self.call("release", |catalog| catalog.release(&lease));
            }
            3..7 => {
                let lease = self.lease();
                let state = self.call("partition", |catalog| catalog.partition(&lease));
                let start = state.map_or(0, |state| state.offset) + self.random.u64(..12) / 11;
                let Resource::Partition(partition) = lease.resource else { return };
                let row = self.row(partition, start);
                let publication = Publication {
                    offsets: start..start + 3,
                    segment: Some(row).filter(|_| self.random.u32(..5) > 0),
                    producers: vec![(
                        node,
                        Seen { last: self.random.u64(..), before: self.random.u64(..) },
                    )],
                    lost: self.random.u64(..2),
                };
                let _ = self.call("publish", |catalog| catalog.publish(&lease, &publication));
            }
            7 => {
                let (lease, replaced) = (self.lease(), self.some_names());
                let row = self.row(0, 0);
                let by = Some(row).filter(|_| self.random.bool());
                let _ =
                    self.call("replace", |catalog| catalog.replace(&lease, &replaced, by.as_ref()));
            }
            8 => {
                let (times, max) = (self.times(), self.random.usize(..200));
                let _ = self.call("snapshot", |catalog| {
                    let mut snapshot = catalog.snapshot(times, max)?;
                    snapshot.segments.sort_by(|a, b| a.name.cmp(&b.name));
                    snapshot.tombstones.iter_mut().for_each(|one| one.created_ns = 0);
                    Ok(snapshot)
                });
            }
            9 => {
                let (partition, from) = (self.random.u32(..3), self.random.u64(..100));
                let _ = self.call("segments_of", |catalog| {
                    // Two with the same first offset, by a merge of this test, have no order.
                    let mut rows = catalog.segments_of(partition, from, usize::MAX)?;
                    rows.sort_by(|a, b| a.name.cmp(&b.name));
                    Ok(rows)
                });
                let _ = self.call("totals", |catalog| catalog.totals());
                let _ = self.call("older_than", |catalog| catalog.older_than(HOUR, 10));
                let lease = self.lease();
                let (name, body) = (self.random.u32(..5).to_string(), [self.random.u8(..)]);
                let body = Some(&body[..]).filter(|_| from % 3 > 0);
                let _ = self.call("put_mark", |catalog| catalog.put_mark(&lease, &name, body));
                let _ = self.call("marks", |catalog| catalog.marks(""));
            }
            10 => {
                let names = self.some_names();
                let grace = self.duration();
                let _ = self.call("retired", |catalog| {
                    let mut names = catalog.retired(grace, usize::MAX)?;
                    names.sort();
                    Ok(names)
                });
                let _ = self.call("forget", |catalog| catalog.forget(&names));
            }
            _ => {
                let lease = self.lease();
                let name = cluster::ObjectName { lease, counter: self.random.u64(..3) };
                let info = ObjectInfo { name: name.to_string(), bytes: 1, written_ns: 0 };
                let objects = [info];
                let _ = self.call("orphans", |catalog| catalog.orphans(&objects, HOUR));
            }
        }
    }
}

fn without_times(mut row: DeletionRow) -> DeletionRow {
    row.tombstone.created_ns = 0;
    row.finished_ns = row.finished_ns.map(|_| 0);
    row
}

#[test]
fn both_catalogs_answer_the_same() {
    let server = Server::start();
    let seed = std::env::var("SEED").map_or_else(|_| fastrand::u64(..), |s| s.parse().unwrap());
    let real = server.catalog();
    let simulated = SimCatalog::new(Arc::new(RealClock::new()));
    let random = Rng::with_seed(seed);
    let mut pair = Pair {
        real: &real,
        simulated: &simulated,
        random,
        leases: Vec::new(),
        names: Vec::new(),
        seed,
    };
    // Segments are counted with their partition, which is there once it had an owner.
    let resource = Resource::Partition(0);
    let lease = pair.call("acquire", |catalog| catalog.acquire(resource, NodeId(1), HOUR));
    let lease = lease.unwrap().unwrap();
    pair.call("partition", |catalog| catalog.partition(&lease)).unwrap();
    (0..CALLS).for_each(|_| pair.step());
    assert!(pair.names.len() > 300, "{}", pair.names.len());
    assert!(real.totals().unwrap().segments > 50, "{:?}", real.totals());
}

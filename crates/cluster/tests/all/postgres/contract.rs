//! What every catalog does, said once for both.

use std::sync::Arc;
use std::time::Duration;

use cluster::deletions::{
    DELETIONS_MAX, DeletionState, FILTER_BYTES_MAX, IN_FORCE_BYTES_MAX, IN_FORCE_MAX,
};
use cluster::sim::SimCatalog;
use cluster::{
    Catalog, CatalogError, DueRules, Failure, FrameRange, Lease, NodeId, NodeInfo, ObjectInfo,
    Owner, PartitionState, Publication, Resource, Role, Seen, SegmentRow, TimeRange, Totals,
    Unsearched,
};
use platform::RealClock;

use super::server::Server;

pub const HOUR: Duration = Duration::from_secs(3600);
const A: NodeId = NodeId(1);
const B: NodeId = NodeId(u32::MAX);

pub fn info(node: NodeId) -> NodeInfo {
    NodeInfo {
        node,
        name: format!("store {node}"),
        address: format!("host-{node}:9516"),
        roles: vec![Role::Store, Role::Query],
        version: "1.2.3".to_owned(),
        accepting: true,
    }
}

pub fn segment(name: &str, partition: u32, offsets: std::ops::Range<u64>) -> SegmentRow {
    let times =
        TimeRange { first_ns: offsets.start as i64 * 100, last_ns: offsets.end as i64 * 100 - 1 };
    SegmentRow {
        name: name.to_owned(),
        partition,
        times,
        received_last_ns: times.last_ns,
        lines: offsets.end - offsets.start,
        bytes: 10,
        offsets,
        searched: 0,
        rules: 0,
        frames: Vec::new(),
    }
}

fn publication(offsets: std::ops::Range<u64>, segment: Option<SegmentRow>) -> Publication {
    Publication { offsets, segment, producers: Vec::new(), lost: 0 }
}

fn names(mut rows: Vec<SegmentRow>) -> Vec<String> {
    rows.sort_by_key(|row| (row.partition, row.offsets.start));
    rows.into_iter().map(|row| row.name).collect()
}

fn leases(catalog: &dyn Catalog) {
    let resource = Resource::Partition(3);
    let first = catalog.acquire(resource, A, HOUR).unwrap().unwrap();
    assert_eq!(first, Lease { resource, owner: A, epoch: 1 });
    assert_eq!(catalog.acquire(resource, B, HOUR), Ok(None));
    // The owner itself gets a new epoch, which ends the former.
    let second = catalog.acquire(resource, A, HOUR).unwrap().unwrap();
    assert_eq!(second.epoch, 2);
    assert!(matches!(catalog.partition(&first), Err(CatalogError::LeaseOver { epoch: 1, .. })));
    assert_eq!(catalog.partition(&second), Ok(PartitionState::default()));

    // A lease that expired and that nobody took still holds, and can be extended.
    let expired = catalog.acquire(resource, A, Duration::ZERO).unwrap().unwrap();
    let row = |lease: &Lease| {
        let view = catalog.heartbeat(&info(lease.owner), &[], HOUR).unwrap();
        view.leases.into_iter().find(|row| row.resource == lease.resource).unwrap()
    };
    assert!(!row(&expired).live);
    assert!(catalog.partition(&expired).is_ok());
    let view = catalog.heartbeat(&info(A), &[expired], HOUR).unwrap();
    assert!(view.leases.iter().any(|row| row.resource == resource && row.live));
    assert_eq!(catalog.acquire(resource, B, HOUR), Ok(None));

    // One that expired can be taken; then the former owner cannot extend it.
    let expired = catalog.acquire(resource, A, Duration::ZERO).unwrap().unwrap();
    let taken = catalog.acquire(resource, B, HOUR).unwrap().unwrap();
    assert_eq!(taken.epoch, expired.epoch + 1);
    catalog.heartbeat(&info(A), &[expired, first], HOUR).unwrap();
    assert_eq!((row(&taken).owner, row(&taken).epoch), (Some(B), taken.epoch));
    let over = catalog.publish(&expired, &publication(0..1, None)).unwrap_err();
    assert_eq!(over.failure(), Failure::Refused);
    assert!(matches!(over, CatalogError::LeaseOver { .. }));

    // A release ends the epoch; one of a former lease does nothing.
    catalog.release(&expired).unwrap();
    assert!(catalog.partition(&taken).is_ok());
    catalog.release(&taken).unwrap();
    catalog.release(&taken).unwrap();
    assert!(catalog.partition(&taken).is_err());
    assert_eq!((row(&taken).owner, row(&taken).live), (None, false));
    let again = catalog.acquire(resource, A, HOUR).unwrap().unwrap();
    assert_eq!(again.epoch, taken.epoch + 2);
}

fn nodes(catalog: &dyn Catalog) {
    catalog.heartbeat(&info(B), &[], HOUR).unwrap();
    let mut changed = info(A);
    changed.accepting = false;
    changed.roles = vec![Role::Collector];
    let view = catalog.heartbeat(&changed, &[], HOUR).unwrap();
    let infos: Vec<NodeInfo> = view.nodes.iter().map(|row| row.info.clone()).collect();
    assert_eq!(infos, [changed, info(B)]);
    assert!(view.nodes.iter().all(|row| row.silent < HOUR));
}

fn publishing(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Partition(0), A, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    let mut first = publication(0..10, Some(segment("a", 0, 0..10)));
    let seen = |last, before| Seen { last, before };
    first.producers = vec![(NodeId(7), seen(3, 0b10)), (NodeId(8), seen(u64::MAX, u64::MAX))];
    catalog.publish(&lease, &first).unwrap();
    let producers = first.producers.clone();
    assert_eq!(catalog.partition(&lease), Ok(PartitionState { offset: 10, producers }));
    // The same again, and others that do not begin where it ended.
    for offsets in [0..10, 0..12, 9..12, 11..12] {
        let error = catalog.publish(&lease, &publication(offsets.clone(), None)).unwrap_err();
        let expected = offsets.start;
        assert_eq!(error, CatalogError::OffsetMoved { partition: 0, expected, found: 10 });
    }
    // A name is taken once, and nothing of a failed publication stays.
    let taken = catalog.publish(&lease, &publication(10..12, Some(segment("a", 0, 10..12))));
    assert_eq!(taken, Err(CatalogError::NameTaken("a".to_owned())));
    assert_eq!(catalog.partition(&lease).unwrap().offset, 10);
    let mut second = publication(10..12, None);
    second.producers = vec![(NodeId(7), seen(5, 0b1010))];
    catalog.publish(&lease, &second).unwrap();
    let all = seen(u64::MAX, u64::MAX);
    let producers = vec![(NodeId(7), seen(5, 0b1010)), (NodeId(8), all)];
    assert_eq!(catalog.partition(&lease), Ok(PartitionState { offset: 12, producers }));
    // A lease of something else is refused.
    let other = catalog.acquire(Resource::Sweep, A, HOUR).unwrap().unwrap();
    let refused = catalog.publish(&other, &publication(12..13, None)).unwrap_err();
    assert_eq!(refused.failure(), Failure::Refused);
}

fn replacing(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Partition(0), A, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    for (name, start) in [("a", 0), ("b", 10), ("c", 20)] {
        let offsets = start..start + 10;
        let publication = publication(offsets.clone(), Some(segment(name, 0, offsets)));
        catalog.publish(&lease, &publication).unwrap();
    }
    let live = || names(catalog.snapshot(TimeRange::ALL, 100).unwrap().segments);
    let merge = catalog.acquire(Resource::Merge(0), B, HOUR).unwrap().unwrap();
    let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let merged = segment("ab", 0, 0..20);
    catalog.replace(&merge, &of(&["a", "b"]), Some(&merged)).unwrap();
    assert_eq!(live(), ["ab", "c"]);
    // What is replaced cannot be replaced again, and nothing of the failed transaction stays.
    for replaced in [&["b", "c"][..], &["c", "x"], &["c", "c"]] {
        let again = segment("again", 0, 10..30);
        let error = catalog.replace(&merge, &of(replaced), Some(&again)).unwrap_err();
        assert_eq!(error, CatalogError::SegmentGone);
    }
    assert_eq!(live(), ["ab", "c"]);
    assert_eq!(
        catalog.replace(&merge, &of(&["c"]), Some(&merged)),
        Err(CatalogError::NameTaken("ab".to_owned()))
    );
    let retention = catalog.acquire(Resource::Retention, A, HOUR).unwrap().unwrap();
    catalog.release(&merge).unwrap();
    assert!(catalog.replace(&merge, &of(&["c"]), None).is_err());
    catalog.replace(&retention, &of(&["c"]), None).unwrap();
    assert_eq!(live(), ["ab"]);
    assert_eq!(catalog.totals(), Ok(Totals { segments: 1, bytes: 10 }));

    // Retired segments wait for their time, then can be forgotten; live ones cannot.
    assert_eq!(catalog.retired(HOUR, 10), Ok(Vec::new()));
    let mut retired = catalog.retired(Duration::ZERO, 10).unwrap();
    retired.sort();
    assert_eq!(retired, ["a", "b", "c"]);
    assert_eq!(catalog.retired(Duration::ZERO, 2).unwrap().len(), 2);
    catalog.forget(&of(&["a", "ab", "c"])).unwrap();
    assert_eq!(catalog.retired(Duration::ZERO, 10), Ok(of(&["b"])));
    assert_eq!(live(), ["ab"]);
}

fn reading(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Partition(1), A, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    for (name, start, end) in [("a", 0, 10), ("b", 10, 20), ("c", 20, 30)] {
        let publication = publication(start..end, Some(segment(name, 1, start..end)));
        catalog.publish(&lease, &publication).unwrap();
    }
    let mut always = segment("d", 1, 30..40);
    always.times = TimeRange::ALL;
    always.received_last_ns = i64::MAX;
    catalog.publish(&lease, &publication(30..40, Some(always.clone()))).unwrap();
    let mut last = segment("e", 1, 40..50);
    last.times = TimeRange { first_ns: i64::MAX, last_ns: i64::MAX };
    last.received_last_ns = i64::MAX;
    catalog.publish(&lease, &publication(40..50, Some(last))).unwrap();

    let overlapping = |first_ns, last_ns| {
        names(catalog.snapshot(TimeRange { first_ns, last_ns }, 100).unwrap().segments)
    };
    assert_eq!(overlapping(0, i64::MAX), ["a", "b", "c", "d", "e"]);
    assert_eq!(overlapping(i64::MIN, -1), ["d"]);
    assert_eq!(overlapping(999, 999), ["a", "d"]);
    assert_eq!(overlapping(1000, 1000), ["b", "d"]);
    assert_eq!(overlapping(999, 2000), ["a", "b", "c", "d"]);
    assert_eq!(overlapping(3000, i64::MAX - 1), ["d"]);
    assert_eq!(overlapping(i64::MAX, i64::MAX), ["d", "e"]);
    assert_eq!(overlapping(5, 4), [""; 0]);
    let found = catalog.snapshot(TimeRange::ALL, 5).unwrap();
    assert!(found.segments.contains(&always));
    assert_eq!(catalog.snapshot(TimeRange::ALL, 4), Err(CatalogError::TooMany { segments_max: 4 }));

    // The owner is there once the node is known, and while its lease lasts.
    assert_eq!(found.partitions.len(), 1);
    assert_eq!((found.partitions[0].partition, found.partitions[0].offset), (1, 50));
    assert_eq!(found.partitions[0].owner, None);
    catalog.heartbeat(&info(A), &[], HOUR).unwrap();
    let owner = || catalog.snapshot(TimeRange::ALL, 5).unwrap().partitions[0].owner.clone();
    let expected = Owner { node: A, address: info(A).address, epoch: lease.epoch };
    assert_eq!(owner(), Some(expected));
    catalog.acquire(Resource::Partition(1), A, Duration::ZERO).unwrap();
    assert_eq!(owner(), None);

    let page = |from, max| names(catalog.segments_of(1, from, max).unwrap());
    assert_eq!(page(0, 2), ["a", "b"]);
    assert_eq!(page(9, 2), ["a", "b"]);
    assert_eq!(page(10, 2), ["b", "c"]);
    assert_eq!(page(20, 9), ["c", "d", "e"]);
    assert_eq!(catalog.segments_of(0, 0, 9), Ok(Vec::new()));
    assert!(catalog.now_ns().unwrap() > 1_600_000_000_000_000_000);
    // Arrivals in 1970 are old; one at the end of time is not.
    assert_eq!(names(catalog.older_than(HOUR, 9).unwrap()), ["a", "b", "c"]);
    assert_eq!(names(catalog.older_than(Duration::ZERO, 9).unwrap()), ["a", "b", "c", "d", "e"]);
    assert_eq!(names(catalog.older_than(HOUR, 2).unwrap()), ["a", "b"]);
}

fn orphans(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Partition(0), A, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    let object = |epoch: u64, counter: u64| ObjectInfo {
        name: format!("segments/partition-0/{epoch}-00000001-{counter}"),
        bytes: 1,
        written_ns: 0,
    };
    let published = object(1, 0);
    let row = segment(&published.name, 0, 0..10);
    catalog.publish(&lease, &publication(0..10, Some(row))).unwrap();
    let objects = [published.clone(), object(1, 1), object(2, 0)];
    // The lease of epoch 1 holds: what it wrote may be published yet.
    assert_eq!(catalog.orphans(&objects, HOUR), Ok(Vec::new()));
    catalog.acquire(Resource::Partition(0), A, HOUR).unwrap();
    assert_eq!(catalog.orphans(&objects, HOUR), Ok(vec![object(1, 1).name]));
    // Those of a retired segment are none.
    let retention = catalog.acquire(Resource::Retention, A, HOUR).unwrap().unwrap();
    catalog.replace(&retention, std::slice::from_ref(&published.name), None).unwrap();
    assert_eq!(catalog.orphans(&objects, HOUR), Ok(vec![object(1, 1).name]));
    // Nor are young ones, those of resources that nobody had, and what is not ours.
    let young = ObjectInfo { written_ns: i64::MAX, ..object(1, 1) };
    let unknown = ObjectInfo { name: "segments/merge-7/1-00000001-0".to_owned(), ..young.clone() };
    let other = ObjectInfo { name: "backup/1".to_owned(), written_ns: 0, bytes: 1 };
    assert_eq!(catalog.orphans(&[young, unknown, other], HOUR), Ok(Vec::new()));
}

fn marks(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Programs, A, HOUR).unwrap().unwrap();
    let names = |prefix| {
        let marks = catalog.marks(prefix).unwrap().into_iter();
        marks.map(|(name, body)| format!("{name}={}", String::from_utf8_lossy(&body))).collect()
    };
    let empty: Vec<String> = names("");
    assert_eq!(empty, [""; 0]);
    for (name, body) in [("a/2", "x"), ("a/_", "y"), ("b", "z"), ("a/2", "w")] {
        catalog.put_mark(&lease, name, Some(body.as_bytes())).unwrap();
    }
    assert_eq!(names("a/"), ["a/2=w", "a/_=y"]);
    // A prefix is no pattern.
    assert_eq!(names("a/_"), ["a/_=y"]);
    catalog.put_mark(&lease, "a/2", None).unwrap();
    catalog.put_mark(&lease, "a/2", None).unwrap();
    assert_eq!(names(""), ["a/_=y", "b=z"]);
    // The next one to have the lease finds them; the one before cannot change them.
    let next = catalog.acquire(Resource::Programs, A, HOUR).unwrap().unwrap();
    for body in [Some(&b"late"[..]), None] {
        let error = catalog.put_mark(&lease, "b", body).unwrap_err();
        assert!(matches!(error, CatalogError::LeaseOver { .. }), "{error}");
    }
    assert_eq!(names("b"), ["b=z"]);
    catalog.put_mark(&next, "b", Some(b"")).unwrap();
    assert_eq!(names("b"), ["b="]);
}

fn deletions(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Partition(0), A, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    assert_eq!(catalog.deletions().map(|all| (all.last_id, all.rows)), Ok((0, Vec::new())));
    let publish = |name: &str, offsets: std::ops::Range<u64>, searched| {
        let row = SegmentRow { searched, ..segment(name, 0, offsets.clone()) };
        catalog.publish(&lease, &publication(offsets, Some(row))).unwrap();
    };
    publish("a", 0..10, 0);
    // The log goes on behind what is published.
    let first = catalog.delete("x", &[20]).unwrap();
    assert_eq!((first.tombstone.id, first.segments_left, first.bytes_left), (1, 1, 10));
    assert_eq!((first.state, first.lines), (DeletionState::Running, 0));
    let tombstones = || catalog.snapshot(TimeRange::ALL, 9).unwrap().tombstones;
    assert_eq!(tombstones(), std::slice::from_ref(&first.tombstone));
    let view = catalog.heartbeat(&info(A), &[], HOUR).unwrap();
    assert_eq!(view.deleted_ns, Some(first.tombstone.created_ns));
    publish("b", 10..15, 1);

    // Searching needs the lease; what is not live any more is passed over.
    let merge = catalog.acquire(Resource::Merge(0), B, HOUR).unwrap().unwrap();
    let old = Lease { epoch: 9, ..merge };
    let names = ["a".to_owned(), "gone".to_owned()];
    assert!(catalog.note_searched(&old, &names, 1, 7).is_err());
    catalog.note_searched(&merge, &names, 1, 7).unwrap();
    let found = catalog.segments_of(0, 0, 1).unwrap();
    assert_eq!((found[0].searched, found[0].rules), (1, 7));

    // It is done once the log is published up to where it was, and all segments are searched.
    let retention = catalog.acquire(Resource::Retention, A, HOUR).unwrap().unwrap();
    assert_eq!(catalog.end_deletions(&retention), Ok(0));
    publish("c", 15..25, 0);
    assert_eq!(catalog.end_deletions(&retention), Ok(0));
    let by = SegmentRow { searched: 1, lines: 4, ..segment("c2", 0, 15..25) };
    catalog.rewrite(&merge, "c", Some(&by), &[(1, 6), (99, 1)]).unwrap();
    let again = catalog.rewrite(&merge, "c", None, &[(1, 6)]);
    assert_eq!(again, Err(CatalogError::SegmentGone));
    assert_eq!(catalog.end_deletions(&retention), Ok(1));
    assert_eq!(catalog.end_deletions(&retention), Ok(0));
    assert!(catalog.end_deletions(&old).is_err());
    let row = |id: u64| {
        let rows = catalog.deletions().unwrap().rows;
        rows.into_iter().find(|row| row.tombstone.id == id).unwrap()
    };
    assert_eq!((row(1).state, row(1).lines, row(1).segments_left), (DeletionState::Done, 6, 0));
    assert!(row(1).finished_ns >= Some(row(1).tombstone.created_ns));
    // It hides lines that come late.
    assert_eq!(tombstones().len(), 1);

    let second = catalog.delete("y", &[]).unwrap();
    assert_eq!((second.tombstone.id, tombstones().len()), (2, 2));
    assert_eq!(catalog.cancel_deletion(2), Ok(true));
    assert_eq!(catalog.cancel_deletion(2), Ok(false));
    assert_eq!(catalog.cancel_deletion(77), Ok(false));
    assert_eq!((row(2).state, row(2).tombstone.filter.as_str()), (DeletionState::Cancelled, ""));
    assert_eq!(tombstones().len(), 1);

    for _ in 0..DELETIONS_MAX {
        catalog.delete("z", &[]).unwrap();
    }
    let refused = catalog.delete("z", &[]).unwrap_err();
    assert_eq!(refused.failure(), Failure::Refused);
    assert!(refused.to_string().contains("100 deletions run"), "{refused}");
    // Those without a filter are forgotten, the oldest first; one in force is not.
    for id in 3..3 + DELETIONS_MAX as u64 {
        assert_eq!(catalog.cancel_deletion(id), Ok(true));
    }
    catalog.end_deletions(&retention).unwrap();
    let all = catalog.deletions().unwrap();
    let ids: Vec<u64> = all.rows.iter().map(|row| row.tombstone.id).collect();
    assert_eq!((ids[0], ids[1], ids.len(), all.last_id), (1, 3, 101, 102));
    // One that is done leaves its force early, and stays done.
    assert_eq!(catalog.cancel_deletion(1), Ok(true));
    assert_eq!((row(1).state, row(1).tombstone.filter.as_str()), (DeletionState::Done, ""));
    assert_eq!((tombstones(), catalog.cancel_deletion(1)), (Vec::new(), Ok(false)));
}

/// Deletions that are done count until they are not in force any more.
fn limits_of_deletions(catalog: &dyn Catalog) {
    let retention = catalog.acquire(Resource::Retention, A, HOUR).unwrap().unwrap();
    let large = "x".repeat(FILTER_BYTES_MAX);
    let fits = IN_FORCE_BYTES_MAX / FILTER_BYTES_MAX;
    for _ in 0..fits {
        catalog.delete(&large, &[]).unwrap();
    }
    assert_eq!(catalog.end_deletions(&retention), Ok(fits as u64));
    let refused = catalog.delete("a", &[]).unwrap_err();
    assert_eq!(refused.failure(), Failure::Refused);
    assert!(refused.to_string().contains("more than 1048576 bytes"), "{refused}");
    for id in 1..=fits as u64 {
        assert_eq!(catalog.cancel_deletion(id), Ok(true));
    }
    // Nothing is to be searched, so each is done at once.
    for number in 0..IN_FORCE_MAX {
        catalog.delete("a", &[]).unwrap();
        if (number + 1) % DELETIONS_MAX == 0 {
            assert_eq!(catalog.end_deletions(&retention), Ok(DELETIONS_MAX as u64));
        }
    }
    let refused = catalog.delete("a", &[]).unwrap_err();
    assert!(refused.to_string().contains("1000 deletions are in force"), "{refused}");
    assert_eq!(catalog.snapshot(TimeRange::ALL, 9).unwrap().tombstones.len(), IN_FORCE_MAX);
    assert_eq!(catalog.cancel_deletion(fits as u64 + 1), Ok(true));
    assert!(catalog.delete("a", &[]).is_ok());
}

fn unsearched(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Partition(0), A, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    // The latest arrivals are 999, 1999 and so on.
    for (name, start, searched, rules) in
        [("a", 0, 2, 0), ("b", 10, 1, 5), ("c", 20, 2, 5), ("d", 30, 0, 7), ("e", 40, 2, 7)]
    {
        let row = SegmentRow { searched, rules, ..segment(name, 0, start..start + 10) };
        catalog.publish(&lease, &publication(start..start + 10, Some(row))).unwrap();
    }
    let due = |received_ns, rules| DueRules { received_ns, rules };
    let found = |below, due: &[DueRules], from, max| {
        let wanted = Unsearched { below, due: due.to_vec() };
        names(catalog.unsearched(0, &wanted, from, max).unwrap())
    };
    assert_eq!(found(0, &[], 0, 9), [""; 0]);
    assert_eq!(found(1, &[], 0, 9), ["d"]);
    assert_eq!(found(2, &[], 0, 9), ["b", "d"]);
    assert_eq!(found(2, &[], 20, 9), ["d"]);
    assert_eq!(found(3, &[], 0, 2), ["a", "b"]);
    // Rules: those up to 2000 are to have the rules 5, the next ones 7, the last ones any.
    let bands = [due(i64::MIN..2000, 5), due(2000..4000, 7)];
    assert_eq!(found(0, &bands, 0, 9), ["a", "c"]);
    assert_eq!(found(1, &bands, 0, 9), ["a", "c", "d"]);
    assert_eq!(found(1, &bands, 10, 1), ["c"]);
    let other = Unsearched { below: 9, due: bands.to_vec() };
    assert_eq!(catalog.unsearched(1, &other, 0, 9), Ok(Vec::new()));
    catalog.replace(&lease, &["c".to_owned()], None).unwrap();
    assert_eq!(found(0, &bands, 0, 9), ["a"]);
}

fn holding(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Partition(0), A, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    let of = |node, first, last| FrameRange { node, first, last };
    for (name, start, frames) in [
        ("a", 0, vec![of(A, 1, 5), of(B, 7, 7)]),
        ("b", 10, vec![of(A, 6, u64::MAX - 1)]),
        ("c", 20, vec![of(A, 4, 8)]),
        ("d", 30, Vec::new()),
    ] {
        let row = SegmentRow { frames, ..segment(name, 0, start..start + 10) };
        catalog.publish(&lease, &publication(start..start + 10, Some(row))).unwrap();
    }
    let found = |node, number, max| names(catalog.holding(node, number, max).unwrap());
    assert_eq!(found(A, 0, 9), [""; 0]);
    assert_eq!(found(A, 1, 9), ["a"]);
    assert_eq!(found(A, 5, 9), ["a", "c"]);
    assert_eq!(found(A, 5, 1), ["a"]);
    assert_eq!(found(A, 7, 9), ["b", "c"]);
    assert_eq!(found(A, u64::MAX - 1, 9), ["b"]);
    assert_eq!(found(A, u64::MAX, 9), [""; 0]);
    assert_eq!(found(B, 7, 9), ["a"]);
    // What is retired holds nothing; what replaces it does.
    let merge = catalog.acquire(Resource::Merge(0), A, HOUR).unwrap().unwrap();
    let by = SegmentRow { frames: vec![of(A, 1, 5)], ..segment("e", 0, 0..10) };
    catalog.replace(&merge, &["a".to_owned()], Some(&by)).unwrap();
    assert_eq!((found(A, 1, 9), found(B, 7, 9)), (vec!["e".to_owned()], Vec::new()));
    catalog.forget(&["a".to_owned()]).unwrap();
    assert_eq!(found(A, 1, 9), ["e"]);
}

fn holds(catalog: &dyn Catalog) {
    let lease = catalog.acquire(Resource::Partition(0), A, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    for (name, start) in [("a", 0), ("b", 10), ("c", 20)] {
        let row = segment(name, 0, start..start + 10);
        catalog.publish(&lease, &publication(start..start + 10, Some(row))).unwrap();
    }
    let retire = |name: &str| catalog.replace(&lease, &[name.to_owned()], None).unwrap();
    let retired = || {
        let mut names = catalog.retired(Duration::ZERO, 9).unwrap();
        names.sort();
        names
    };
    retire("a");
    catalog.hold("backup", HOUR).unwrap();
    // What was retired before is not of the backup.
    retire("b");
    assert_eq!(retired(), ["a"]);
    // A hold that is prolonged keeps its beginning.
    catalog.hold("backup", HOUR).unwrap();
    catalog.hold("other", Duration::ZERO).unwrap();
    retire("c");
    assert_eq!(retired(), ["a"]);
    catalog.let_go("nobody").unwrap();
    catalog.let_go("backup").unwrap();
    assert_eq!(retired(), ["a", "b", "c"]);
}

type Part = fn(&dyn Catalog);
const PARTS: [Part; 12] = [
    leases,
    nodes,
    publishing,
    replacing,
    reading,
    orphans,
    marks,
    deletions,
    limits_of_deletions,
    unsearched,
    holding,
    holds,
];

#[test]
fn the_simulated_catalog_keeps_the_contract() {
    for part in PARTS {
        part(&SimCatalog::new(Arc::new(RealClock::new())));
    }
}

#[test]
fn postgresql_keeps_the_contract() {
    let server = Server::start();
    for part in PARTS {
        part(&server.catalog());
    }
}

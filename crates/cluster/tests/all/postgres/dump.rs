//! A catalog that is made of the dump of another one is the same catalog.

use cluster::deletions::DeletionState;
use cluster::{
    Catalog, CatalogError, FrameRange, NodeId, PartitionState, Publication, Resource, Seen,
    SegmentRow, TimeRange,
};

use super::contract::{HOUR, info, segment};
use super::server::Server;

const NODE: NodeId = NodeId(7);

#[test]
fn a_restored_catalog_goes_on_where_the_dump_was_made() {
    let server = Server::start();
    let from = server.catalog();
    let resource = Resource::Partition(0);
    let lease = from.acquire(resource, NODE, HOUR).unwrap().unwrap();
    from.partition(&lease).unwrap();
    let frames = vec![FrameRange { node: NODE, first: 1, last: u64::MAX }];
    for (name, start) in [("a", 0), ("b", 10), ("it's \\ \"quoted\"", 20)] {
        let row = SegmentRow { frames: frames.clone(), ..segment(name, 0, start..start + 10) };
        let publication = Publication {
            offsets: start..start + 10,
            segment: Some(row),
            producers: vec![(NODE, Seen::first(u64::MAX - start))],
            lost: 1,
        };
        from.publish(&lease, &publication).unwrap();
    }
    from.replace(&lease, &["b".to_owned()], None).unwrap();
    let deletion = from.delete("user:=4711", &[30]).unwrap();
    let programs = from.acquire(Resource::Programs, NODE, HOUR).unwrap().unwrap();
    from.put_mark(&programs, "program/x", Some(&[0, 255, 10, 39])).unwrap();

    let dump = from.dump().unwrap();
    assert!(dump.cluster > 0 && dump.created_ns >= deletion.tombstone.created_ns - 1_000);
    let names: Vec<&str> = dump.segments.iter().map(|segment| segment.name.as_str()).collect();
    assert_eq!(names, ["a", "it's \\ \"quoted\""]);
    assert!(!from.is_new().unwrap());

    let to = server.catalog();
    assert!(to.is_new().unwrap());
    // Wrong rows change nothing.
    let wrong = [("pg_class".to_owned(), "{}".to_owned())];
    assert!(matches!(to.restore(&wrong), Err(CatalogError::Refused(_))));
    assert!(to.is_new().unwrap());
    to.restore(&dump.rows).unwrap();
    let again = to.restore(&dump.rows).unwrap_err();
    assert!(again.to_string().contains("not new"), "{again}");

    let segments = |catalog: &dyn Catalog| {
        let mut rows = catalog.snapshot(TimeRange::ALL, 9).unwrap().segments;
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    };
    assert_eq!(segments(&to), segments(&from));
    assert_eq!(to.holding(NODE, 5, 9).unwrap().len(), 2);
    assert_eq!(to.marks("").unwrap(), from.marks("").unwrap());
    let rows = to.deletions().unwrap().rows;
    assert_eq!((rows.len(), &rows[0].tombstone), (1, &deletion.tombstone));
    assert_eq!(rows[0].state, DeletionState::Running);
    assert_eq!(to.delete("next", &[]).unwrap().tombstone.id, 2);
    // Nobody has a lease of before; the next owner goes on at the offset.
    assert!(matches!(to.partition(&lease), Err(CatalogError::LeaseOver { .. })));
    let next = to.acquire(resource, NodeId(8), HOUR).unwrap().unwrap();
    assert!(next.epoch > lease.epoch);
    let producers = vec![(NODE, Seen::first(u64::MAX - 20))];
    assert_eq!(to.partition(&next), Ok(PartitionState { offset: 30, producers }));
    to.heartbeat(&info(NODE), &[], HOUR).unwrap();
    assert_eq!(to.dump().unwrap().cluster, dump.cluster);
}

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

/// What a release before had in a dump: no counts of segments, and no column that came since.
#[test]
fn a_dump_of_an_earlier_release_gets_what_it_lacks() {
    let server = Server::start();
    let from = server.catalog();
    let lease = from.acquire(Resource::Partition(0), NODE, HOUR).unwrap().unwrap();
    from.partition(&lease).unwrap();
    for (name, start) in [("a", 0), ("b", 10)] {
        let publication = Publication {
            offsets: start..start + 10,
            segment: Some(segment(name, 0, start..start + 10)),
            producers: Vec::new(),
            lost: 0,
        };
        from.publish(&lease, &publication).unwrap();
    }
    let dump = from.dump().unwrap();
    let without = |row: &str, column: &str| {
        let mut row: serde_json::Value = serde_json::from_str(row).unwrap();
        assert!(row.as_object_mut().unwrap().remove(column).is_some(), "{row} has {column}");
        row.to_string()
    };
    let older = |(table, row): &(String, String)| {
        let row = match table.as_str() {
            "partitions" => without(&without(row, "live_segments"), "live_bytes"),
            "segments" => without(&without(row, "searched"), "rules"),
            _ => row.clone(),
        };
        (table.clone(), row)
    };
    let rows: Vec<(String, String)> = dump.rows.iter().map(older).collect();
    let to = server.catalog();
    to.restore(&rows).unwrap();
    assert_eq!(to.totals(), from.totals());
    assert_eq!(to.totals().unwrap().segments, 2);
    let found = to.segments_of(0, 0, 9).unwrap();
    assert_eq!(found, from.segments_of(0, 0, 9).unwrap());
    // A column of a later release is not left out silently.
    let newer: Vec<(String, String)> = dump
        .rows
        .iter()
        .map(|(table, row)| (table.clone(), row.replacen('{', "{\"it\\\"s new\":1,", 1)))
        .collect();
    let refused = server.catalog().restore(&newer).unwrap_err().to_string();
    assert!(refused.contains("a later release made it"), "{refused}");
}

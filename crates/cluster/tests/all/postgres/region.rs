//! A catalog that follows another one, on a server of its own.

use cluster::{
    Catalog, CatalogError, FrameRange, NodeId, Publication, Resource, Seen, SegmentRow, TimeRange,
};

use super::contract::{HOUR, info, segment};
use super::server::Server;
use cluster::engines::postgres::PgCatalog;

const NODE: NodeId = NodeId(7);

fn publish(catalog: &PgCatalog, name: &str, start: u64) {
    let lease = catalog.acquire(Resource::Partition(0), NODE, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    let frames = vec![FrameRange { node: NODE, first: start, last: start + 9 }];
    let publication = Publication {
        offsets: start..start + 10,
        segment: Some(SegmentRow { frames, ..segment(name, 0, start..start + 10) }),
        producers: vec![(NODE, Seen::first(start + 9))],
        lost: 0,
    };
    catalog.publish(&lease, &publication).unwrap();
}

/// Live segments, by name.
fn live(catalog: &PgCatalog) -> Vec<SegmentRow> {
    let mut rows = catalog.snapshot(TimeRange::ALL, 99).unwrap().segments;
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    rows
}

fn follow(first: &PgCatalog, own: &PgCatalog) -> Vec<String> {
    let moment = first.moment(&own.live_names().unwrap()).unwrap();
    own.follow(&moment, &[]).unwrap();
    moment.new.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn a_catalog_becomes_what_the_other_one_is_and_goes_on_when_it_is_promoted() {
    let (there, here) = (Server::start(), Server::start());
    let (first, own) = (there.catalog(), here.catalog());
    publish(&first, "a", 0);
    publish(&first, "b", 10);
    let programs = first.acquire(Resource::Programs, NODE, HOUR).unwrap().unwrap();
    first.put_mark(&programs, "program/x", Some(b"one")).unwrap();
    first.put_mark(&programs, "program/y", Some(b"two")).unwrap();
    first.delete("user:=4711", &[20]).unwrap();
    assert_eq!(own.follows(), Ok(None));
    let mut new = follow(&first, &own);
    new.sort();
    assert_eq!(new, ["a", "b"]);
    let same = || {
        assert_eq!(live(&own), live(&first));
        let snapshot = |catalog: &PgCatalog| {
            let mut snapshot = catalog.snapshot(TimeRange::ALL, 99).unwrap();
            snapshot.partitions.iter_mut().for_each(|row| row.owner = None);
            (snapshot.partitions, snapshot.tombstones)
        };
        assert_eq!(snapshot(&own), snapshot(&first));
        assert_eq!(own.totals(), first.totals());
        let marks = |catalog: &PgCatalog| {
            let mut marks = catalog.marks("").unwrap();
            marks.retain(|(name, _)| !name.starts_with("region/"));
            marks
        };
        assert_eq!(marks(&own), marks(&first));
        assert_eq!(own.holding(NODE, 5, 9), first.holding(NODE, 5, 9));
    };
    same();

    // Segments are merged, dropped and published; a mark goes, and another one changes.
    let merge = first.acquire(Resource::Merge(0), NODE, HOUR).unwrap().unwrap();
    let merged = segment("c", 0, 0..20);
    first.replace(&merge, &["a".to_owned(), "b".to_owned()], Some(&merged)).unwrap();
    publish(&first, "d", 20);
    publish(&first, "e", 30);
    first.replace(&merge, &["d".to_owned()], None).unwrap();
    first.put_mark(&programs, "program/x", None).unwrap();
    first.put_mark(&programs, "program/y", Some(b"three")).unwrap();
    let mut new = follow(&first, &own);
    new.sort();
    assert_eq!(new, ["c", "e"]);
    same();
    // Nothing new.
    assert_eq!(follow(&first, &own), [""; 0]);
    same();
    // Objects of what went stay for a while.
    assert_eq!(own.retired(HOUR, 9).unwrap(), [""; 0]);
    let mut retired = own.retired(std::time::Duration::ZERO, 9).unwrap();
    retired.sort();
    assert_eq!(retired, ["a", "b"]);

    // It is read alone.
    assert!(own.follows().unwrap().is_some_and(|follows| follows.at_ns > 0));
    for refused in [
        own.delete("x", &[]).map(drop),
        own.cancel_deletion(1).map(drop),
        own.publish(
            &merge,
            &Publication { offsets: 0..1, segment: None, producers: Vec::new(), lost: 0 },
        ),
        own.replace(&merge, &["c".to_owned()], None),
    ] {
        assert!(matches!(&refused, Err(CatalogError::Refused(why)) if why.contains("promote")));
    }
    assert_eq!(own.acquire(Resource::Partition(0), NODE, HOUR), Ok(None));
    own.heartbeat(&info(NODE), &[], HOUR).unwrap();
    // Neither another cluster, nor a catalog of its own, is followed or overwritten.
    let other = there.catalog();
    publish(&other, "z", 0);
    let moment = other.moment(&own.live_names().unwrap()).unwrap();
    let error = own.follow(&moment, &[]).unwrap_err().to_string();
    assert!(error.contains("this region follows the cluster"), "{error}");
    let moment = first.moment(&Default::default()).unwrap();
    let error = other.follow(&moment, &[]).unwrap_err().to_string();
    assert!(error.contains("cluster of its own"), "{error}");

    // The first one is left: who has a lease there cannot publish, and gets no other.
    let lease = first.acquire(Resource::Partition(0), NODE, HOUR).unwrap().unwrap();
    assert_eq!(first.left(), Ok(None));
    first.leave("it moved").unwrap();
    assert_eq!(first.left(), Ok(Some("it moved".to_owned())));
    assert!(matches!(first.partition(&lease), Err(CatalogError::LeaseOver { .. })));
    assert_eq!(first.acquire(Resource::Partition(0), NODE, HOUR), Ok(None));
    follow(&first, &own);
    assert_eq!(own.left(), Ok(None));

    // From now on it is one of its own, with offsets of another log.
    assert!(other.promote(None).unwrap_err().to_string().contains("nothing to promote"));
    own.promote(Some(&[33, -4])).unwrap();
    assert_eq!(own.log_bases(), Ok(vec![33, -4]));
    assert_eq!(own.follows(), Ok(None));
    let next = own.acquire(Resource::Partition(0), NODE, HOUR).unwrap().unwrap();
    assert!(next.epoch > lease.epoch, "{} {}", next.epoch, lease.epoch);
    assert_eq!(own.partition(&next).unwrap().offset, 40);
    publish(&own, "f", 40);
    assert!(own.delete("y", &[]).unwrap().tombstone.id > 1);
    // A dump of it has its bases, and restores them.
    let again = here.catalog();
    again.restore(&own.dump().unwrap().rows).unwrap();
    assert_eq!(again.log_bases(), Ok(vec![33, -4]));
}

#[test]
fn a_segment_without_an_object_is_noted_until_it_has_one() {
    let (there, here) = (Server::start(), Server::start());
    let (first, own) = (there.catalog(), here.catalog());
    publish(&first, "a", 0);
    publish(&first, "b", 10);
    assert_eq!(own.missing(), Ok(None));
    for missing in [&["b".to_owned()][..], &["b".to_owned()], &[]] {
        let mut known = own.live_names().unwrap();
        known.remove("b");
        let moment = first.moment(&known).unwrap();
        assert!(moment.new.iter().any(|(name, _)| name == "b"));
        own.follow(&moment, missing).unwrap();
        assert_eq!(own.missing(), Ok(Some(missing.to_vec())));
        let noted = own.follows().unwrap().map(|follows| follows.missing);
        assert_eq!(noted, Some(missing.len() as u64));
        assert_eq!(live(&own), live(&first));
        // It is not there twice, and its frames are not either.
        let frames = |catalog: &PgCatalog| {
            let rows = catalog.dump().unwrap().rows;
            rows.iter().filter(|(table, _)| table == "frames").count()
        };
        assert_eq!((frames(&own), frames(&first)), (2, 2));
    }
    // Neither a backup nor a region of its own has the note.
    own.follow(&first.moment(&own.live_names().unwrap()).unwrap(), &["b".to_owned()]).unwrap();
    assert!(own.dump().unwrap().rows.iter().all(|(_, row)| !row.contains("region/missing")));
    own.promote(None).unwrap();
    assert_eq!(own.missing(), Ok(None));
}

//! A catalog and the topic that it goes with.

use std::time::Duration;

use cluster::{Catalog, CatalogError, NodeId, NodeInfo, Publication, Resource, Role};

use super::contract::{HOUR, info};
use super::server::Server;

const NODE: NodeId = NodeId(7);

#[test]
fn a_catalog_goes_with_one_topic_until_that_is_replaced() {
    let server = Server::start();
    let catalog = server.catalog();
    assert_eq!(catalog.log_topic(), Ok(None));
    assert_eq!(catalog.adopt_log("one"), Ok("one".to_owned()));
    assert_eq!(catalog.adopt_log("two"), Ok("one".to_owned()));
    assert_eq!(catalog.log_topic(), Ok(Some("one".to_owned())));

    // A log goes on behind what is published, and behind what a deletion covers.
    assert_eq!(catalog.log_next(2), Ok(vec![0, 0]));
    let lease = catalog.acquire(Resource::Partition(0), NODE, HOUR).unwrap().unwrap();
    catalog.partition(&lease).unwrap();
    let publication = Publication { offsets: 0..10, segment: None, producers: Vec::new(), lost: 0 };
    catalog.publish(&lease, &publication).unwrap();
    catalog.delete("user:=4711", &[4, 25]).unwrap();
    catalog.delete("user:=4712", &[12]).unwrap();
    assert_eq!(catalog.log_next(3), Ok(vec![12, 25, 0]));
    assert_eq!(catalog.log_next(0), Ok(vec![]));

    // Nodes that read it have to end before; a collector does not read it.
    let collector = NodeInfo { roles: vec![Role::Collector], ..info(NodeId(8)) };
    catalog.heartbeat(&collector, &[], HOUR).unwrap();
    for role in [Role::Store, Role::Query] {
        let node = NodeInfo { roles: vec![role], ..info(NODE) };
        catalog.heartbeat(&node, &[], HOUR).unwrap();
        let refused = catalog.replace_log("two", &[3, -1], HOUR);
        let is_named = |why: &str| why.contains("these nodes run") && why.contains(&node.name);
        assert!(
            matches!(&refused, Err(CatalogError::Refused(why)) if is_named(why)),
            "{refused:?}"
        );
    }
    assert_eq!(
        (catalog.log_bases(), catalog.log_topic()),
        (Ok(vec![]), Ok(Some("one".to_owned())))
    );
    // Nobody can be silent for less than that.
    catalog.replace_log("two", &[3, -1], Duration::ZERO).unwrap();
    assert_eq!(
        (catalog.log_bases(), catalog.log_topic()),
        (Ok(vec![3, -1]), Ok(Some("two".to_owned())))
    );
    assert!(matches!(catalog.publish(&lease, &publication), Err(CatalogError::LeaseOver { .. })));

    // A dump has both, so that what is restored is not read beside another log unnoticed.
    let other = Server::start();
    let restored = other.catalog();
    restored.restore(&catalog.dump().unwrap().rows).unwrap();
    assert_eq!(restored.log_topic(), Ok(Some("two".to_owned())));
    assert_eq!(restored.log_bases(), Ok(vec![3, -1]));
}

//! The nodes of a cluster on real engines are upgraded one after the other: builds that pretend to
//! be of the next release work beside this one, and one that is two releases apart is refused by
//! name.

use crate::cluster_state::wait_until_published;
use crate::common::Server;
use crate::engines::Engines;
use crate::shop::{compare, send};

/// The next release: it upgrades the catalog, and speaks this release's protocol too.
const NEXT: [(&str, &str); 2] =
    [("LOGINSON_TEST_SCHEMA_NEXT", "1"), ("LOGINSON_TEST_SHARES", "2-3")];

#[test]
fn nodes_one_release_apart_answer_as_one_store_does() {
    let Some(engines) = Engines::start("upgrade") else { return };
    let all = Server::start();
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, variables: &[(&str, &str)]| {
        let config = engines.config("'collector', 'store', 'query'");
        Server::start_with_variables(dirs[index].path(), &config, variables)
    };
    let first = start(0, &[]);
    let mut second = start(1, &[]);
    send(&[&first, &second], Some(&all), 0..600);
    compare(&all, &first);

    // The second one is upgraded, and the first one restarted as it was.
    assert_eq!(second.terminate(), Some(0));
    let second = start(1, &NEXT);
    send(&[&first, &second], Some(&all), 600..900);
    compare(&all, &first);
    compare(&all, &second);
    let mut first = first;
    assert_eq!(first.terminate(), Some(0));
    let mut first = start(0, &[]);
    send(&[&first, &second], Some(&all), 900..1_200);
    compare(&all, &first);
    compare(&all, &second);

    // All of the next release.
    assert_eq!(first.terminate(), Some(0));
    let mut first = start(0, &NEXT);
    send(&[&first, &second], Some(&all), 1_200..1_500);
    compare(&all, &first);

    // One that does not speak the protocol of this release any more names both. What the other one
    // published, it reads itself.
    assert_eq!(first.terminate(), Some(0));
    let first = start(0, &[("LOGINSON_TEST_SCHEMA_NEXT", "1"), ("LOGINSON_TEST_SHARES", "4-4")]);
    wait_until_published(&second);
    compare(&all, &first);
    first.wait_for_log("this node speaks version 4");
    first.wait_for_log("versions 2 to 3; upgrade nodes by one version");
}

//! A cache of a bucket on a real server, which answers while the server is away.

use std::time::{Duration, Instant};

use cluster::engines::cache::{Options, RangeCache};
use cluster::engines::objects::{Bucket, Config};

use super::kafka::noise;
use super::objects::{PATIENCE, config};
use super::server::Server;

#[test]
fn what_was_read_is_there_without_the_server() {
    let Some(server) = Server::s3() else { return };
    server.run("start");
    let folder = tempfile::tempdir().unwrap();
    let open = |call_time_max| {
        let bucket = Bucket::new(Config { call_time_max, ..config(&server) }).unwrap();
        RangeCache::open(bucket, Options::new(folder.path())).unwrap()
    };
    let bytes = noise(1, 3_500_000);
    Bucket::new(config(&server)).unwrap().put_new("segment", &bytes).unwrap();
    let mut buffer = vec![0; 100_000];
    let cache = open(PATIENCE);
    assert_eq!(cache.read_range("segment", 1_000_000, &mut buffer).unwrap(), 100_000);
    assert!(buffer == bytes[1_000_000..1_100_000]);
    assert_eq!(cache.counts().fetches, 2);
    drop(cache);
    server.run("kill");
    // Calls give up soon, since nobody answers.
    let cache = open(Duration::from_millis(300));
    assert_eq!(cache.read_range("segment", 1_000_000, &mut buffer).unwrap(), 100_000);
    assert!(buffer == bytes[1_000_000..1_100_000]);
    assert!(cache.read_range("segment", 3_000_000, &mut buffer).unwrap_err().may_pass());
    server.run("start");
    let begun = Instant::now();
    let read = loop {
        match cache.read_range("segment", 3_450_000, &mut buffer) {
            Ok(read) => break read,
            Err(error) => assert!(error.may_pass() && begun.elapsed() < PATIENCE, "{error}"),
        }
    };
    assert_eq!(read, 50_000);
    assert!(buffer[..50_000] == bytes[3_450_000..]);
}

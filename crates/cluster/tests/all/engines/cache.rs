//! A cache of a bucket on a real server, which answers while the server is away.

use cluster::engines::cache::{Options, RangeCache};
use cluster::engines::objects::Bucket;

use super::kafka::noise;
use super::objects::config;
use super::server::Server;

#[test]
fn what_was_read_is_there_without_the_server() {
    let Some(server) = Server::s3() else { return };
    server.run("start");
    let folder = tempfile::tempdir().unwrap();
    let open = || {
        let mut config = config(&server);
        config.call_time_max = std::time::Duration::from_millis(300);
        let bucket = Bucket::new(config).unwrap();
        RangeCache::open(bucket, Options::new(folder.path())).unwrap()
    };
    let bytes = noise(1, 3_500_000);
    Bucket::new(config(&server)).unwrap().put_new("segment", &bytes).unwrap();
    let mut buffer = vec![0; 100_000];
    let cache = open();
    assert_eq!(cache.read_range("segment", 1_000_000, &mut buffer).unwrap(), 100_000);
    assert!(buffer == bytes[1_000_000..1_100_000]);
    assert_eq!(cache.counts().fetches, 2);
    drop(cache);
    server.run("kill");
    let cache = open();
    assert_eq!(cache.read_range("segment", 1_000_000, &mut buffer).unwrap(), 100_000);
    assert!(buffer == bytes[1_000_000..1_100_000]);
    assert!(cache.read_range("segment", 3_000_000, &mut buffer).unwrap_err().may_pass());
    server.run("start");
    assert_eq!(cache.read_range("segment", 3_450_000, &mut buffer).unwrap(), 50_000);
    assert!(buffer[..50_000] == bytes[3_450_000..]);
}

//! What a bucket promises, on a real server of S3.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cluster::engines::objects::{Bucket, Config, Credentials, FileBody, Keys, ObjectBody};
use cluster::engines::{ErrorKind, Secret};
use object_store::aws::AmazonS3ConfigKey;

use super::kafka::noise;
use super::server::{Server, StopWhenDropped};

fn keys(key: &str, secret: &str) -> Credentials {
    let secret = Secret::new(secret);
    Credentials::Keys(Keys { key: key.to_owned(), secret, token: None })
}

pub fn config(server: &Server) -> Config {
    let credentials = keys("loginson", "loginson-secret");
    let endpoint = format!("http://127.0.0.1:{}", server.port);
    Config {
        connect_time_max: PATIENCE,
        request_time_max: PATIENCE,
        call_time_max: PATIENCE,
        // So that uploads in parts need not be large.
        part_bytes: 8 << 20,
        ..Config::new(Some(endpoint), "loginson", credentials)
    }
}

fn put(bucket: &Bucket, name: &str, bytes: &[u8]) -> Result<(), cluster::engines::Error> {
    bucket.put_new(name, &bytes.to_vec())
}

fn get(bucket: &Bucket, name: &str, size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size + 1];
    let read = bucket.read_range(name, 0, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

#[test]
fn a_bucket() {
    let Some(server) = Server::s3() else { return };
    server.run("start");
    let bucket = Bucket::new(config(&server)).unwrap();
    objects_come_back(&bucket);
    names_are_never_taken_twice(&bucket);
    an_object_is_made_of_others(&bucket);
    objects_are_listed(&bucket);
    assert_eq!(bucket.check_conditions("probes/1").unwrap(), None);
    assert_eq!(bucket.size("probes/1").unwrap_err().kind, ErrorKind::NotFound);
    errors_name_the_remedy(&server, &bucket);
}

/// A server that answers each request, of this method and path, by a status and a body.
fn http_server(answer: fn(&str, &str) -> (&'static str, &'static str)) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                if std::io::Read::read(&mut stream, &mut byte).unwrap_or(0) == 0 {
                    break;
                }
                head.push(byte[0]);
            }
            let head = String::from_utf8(head).unwrap();
            let length = head.to_ascii_lowercase();
            let length = length.lines().find_map(|line| line.strip_prefix("content-length:"));
            let mut body = vec![0; length.map_or(0, |length| length.trim().parse().unwrap())];
            std::io::Read::read_exact(&mut stream, &mut body).unwrap();
            let mut words = head.split(' ');
            let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            let (status, body) = answer(method, path);
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\netag: \"1\"\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

/// The machine of a cloud, as far as it tells the keys of its role.
fn machine_with_a_role() -> String {
    http_server(|_, path| match path {
        "/latest/api/token" => ("200 OK", "session"),
        "/latest/meta-data/iam/security-credentials/" => ("200 OK", "the-role"),
        "/latest/meta-data/iam/security-credentials/the-role" => (
            "200 OK",
            r#"{"AccessKeyId":"loginson","SecretAccessKey":"loginson-secret","Token":"t0ken","Expiration":"2099-01-01T00:00:00Z"}"#,
        ),
        _ => ("404 Not Found", ""),
    })
}

#[test]
fn a_storage_that_ignores_conditions_is_told() {
    let endpoint = Some(http_server(|_, _| ("200 OK", "")));
    let credentials = keys("a", "b");
    let bucket = Bucket::new(Config::new(endpoint, "loginson", credentials)).unwrap();
    let unfit = bucket.check_conditions("probes/1").unwrap().unwrap();
    assert!(unfit.contains("ignores If-None-Match for uploads in one request"), "{unfit}");
}

#[test]
fn the_role_of_a_machine_signs() {
    let Some(server) = Server::s3() else { return };
    server.run("start");
    let role = vec![(AmazonS3ConfigKey::MetadataEndpoint, machine_with_a_role())];
    let of_role = Config { credentials: Credentials::Platform(role), ..config(&server) };
    // This storage gives no roles: it knows the key, and refuses the token that came with it.
    let refused = put(&Bucket::new(of_role).unwrap(), "by/role", b"signed").unwrap_err();
    assert!(refused.what.contains("InvalidToken"), "{refused}");
    assert!(!refused.to_string().contains("t0ken"), "{refused}");
    // A class that every storage knows.
    let of_class = Config { storage_class: Some("STANDARD".into()), ..config(&server) };
    let bucket = Bucket::new(of_class).unwrap();
    put(&bucket, "by/class", b"kept").unwrap();
    assert_eq!(get(&bucket, "by/class", 4), b"kept");
    let nobody = vec![(AmazonS3ConfigKey::MetadataEndpoint, "http://127.0.0.1:9".to_owned())];
    let without = Config {
        credentials: Credentials::Platform(nobody),
        call_time_max: Duration::from_secs(10),
        ..config(&server)
    };
    let error = put(&Bucket::new(without).unwrap(), "by/nobody", b"x").unwrap_err();
    assert!(error.to_string().contains("role"), "{error}");
}

fn objects_come_back(bucket: &Bucket) {
    // Whole, in one part and a bit, and in many parts of a file.
    let part = bucket.config().part_bytes;
    for (name, size) in [("e", 0), ("s", 1), ("p", part), ("q", part + 1), ("f", 5 * part + 7)] {
        let bytes = noise(size as u64, size);
        if name == "f" {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&bytes).unwrap();
            bucket.put_new(name, &FileBody::new(file).unwrap()).unwrap();
        } else {
            put(bucket, name, &bytes).unwrap();
        }
        assert_eq!(bucket.size(name).unwrap(), size as u64);
        assert!(get(bucket, name, size) == bytes, "{name}");
        // Ranges within, across and behind the end.
        for (offset, count) in
            [(0, 1), (size / 2, 100), (size, 1), (size + 5, 10), (size / 3, size)]
        {
            let mut buffer = vec![0; count];
            let read = bucket.read_range(name, offset as u64, &mut buffer).unwrap();
            let expected: Vec<u8> = bytes.iter().copied().skip(offset).take(count).collect();
            assert!(buffer[..read] == expected, "{name} {offset} {count}");
        }
        if size > part {
            let ranges =
                [5..10, 100..100, 0..3, 3_000_000..3_000_100, size as u64 - 1..size as u64];
            let found = bucket.read_ranges(name, &ranges).unwrap();
            for (range, found) in ranges.iter().zip(found) {
                assert!(found == bytes[range.start as usize..range.end as usize]);
            }
            let error =
                bucket.read_ranges(name, &[0..1, size as u64 - 1..size as u64 + 1]).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        }
        bucket.delete(name).unwrap();
        bucket.delete(name).unwrap();
        assert_eq!(bucket.size(name).unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(bucket.read_range(name, 0, &mut [0]).unwrap_err().kind, ErrorKind::NotFound);
    }
}

/// The bytes of objects of the bucket, one behind the other, which break off somewhere.
struct OfOthers<'b> {
    bucket: &'b Bucket,
    bytes_each: u64,
    names: Vec<String>,
    breaks_at: AtomicUsize,
}

impl ObjectBody for OfOthers<'_> {
    fn size(&self) -> u64 {
        self.bytes_each * self.names.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<()> {
        let breaks_at = self.breaks_at.load(Ordering::SeqCst) as u64;
        if offset + buffer.len() as u64 > breaks_at {
            return Err(std::io::Error::other("a source is gone"));
        }
        let mut filled = 0;
        while filled < buffer.len() {
            let at = offset + filled as u64;
            let (number, within) = ((at / self.bytes_each) as usize, at % self.bytes_each);
            let count = (buffer.len() - filled).min((self.bytes_each - within) as usize);
            let part = &mut buffer[filled..filled + count];
            let read = self.bucket.read_range(&self.names[number], within, part);
            assert_eq!(read.unwrap(), count);
            filled += count;
        }
        Ok(())
    }
}

/// A merge reads its sources while it uploads, from the same bucket.
fn an_object_is_made_of_others(bucket: &Bucket) {
    let part = bucket.config().part_bytes;
    for (folder, bytes_each) in [("small", part / 8), ("large", part + 13)] {
        let name = |number: usize| format!("{folder}/{number}");
        let mut expected = Vec::new();
        for number in 0..3 {
            let bytes = noise(number as u64, bytes_each);
            put(bucket, &name(number), &bytes).unwrap();
            expected.extend(bytes);
        }
        let names = (0..3).map(name).collect();
        let breaks_at = AtomicUsize::new(2 * bytes_each);
        let body = OfOthers { bucket, bytes_each: bytes_each as u64, names, breaks_at };
        let whole = format!("{folder}/whole");
        let error = bucket.put_new(&whole, &body).unwrap_err();
        assert!(error.to_string().contains("a source is gone"), "{error}");
        assert_eq!(bucket.size(&whole).unwrap_err().kind, ErrorKind::NotFound);
        body.breaks_at.store(usize::MAX, Ordering::SeqCst);
        let before = bucket.requests().put;
        bucket.put_new(&whole, &body).unwrap();
        let parts = expected.len().div_ceil(part) as u64;
        let requests = if parts == 1 { 1 } else { parts + 2 };
        assert_eq!(bucket.requests().put - before, requests, "{folder}");
        assert!(get(bucket, &whole, expected.len()) == expected, "{folder}");
    }
}

fn names_are_never_taken_twice(bucket: &Bucket) {
    let part = bucket.config().part_bytes;
    for (name, first, second) in
        [("taken/a", 10, 20), ("taken/b", part * 2, 20), ("taken/c", 20, part * 2)]
    {
        put(bucket, name, &noise(1, first)).unwrap();
        let error = put(bucket, name, &noise(2, second)).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Exists, "{error}");
        assert!(get(bucket, name, first) == noise(1, first));
    }
    // Of many that write at the same time, one wins.
    for (name, size) in [("raced/small", 100), ("raced/large", part + 1)] {
        let winners = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for number in 0..8 {
                let winners = &winners;
                scope.spawn(move || match put(bucket, name, &noise(number, size)) {
                    Ok(()) => winners.fetch_add(1, Ordering::SeqCst),
                    Err(error) => {
                        assert_eq!(error.kind, ErrorKind::Exists, "{error}");
                        0
                    }
                });
            }
        });
        assert_eq!(winners.load(Ordering::SeqCst), 1, "{name}");
        let found = get(bucket, name, size);
        assert!((0..8).any(|number| found == noise(number, size)));
    }
}

fn objects_are_listed(bucket: &Bucket) {
    let names: Vec<String> = (0..25).map(|n| format!("listed/{n:03}")).collect();
    let begun = std::time::SystemTime::now() - Duration::from_secs(5);
    for name in &names {
        put(bucket, name, name.as_bytes()).unwrap();
    }
    put(bucket, "listed-not", b"").unwrap();
    let list = |after: Option<&str>, max| {
        let listed = bucket.list("listed/", after, max).unwrap();
        listed.into_iter().map(|info| info.name).collect::<Vec<_>>()
    };
    assert_eq!(list(None, 100), names);
    assert_eq!(list(None, 10), names[..10]);
    assert_eq!(list(Some("listed/009"), 10), names[10..20]);
    assert_eq!(list(Some("listed/0095"), 2), names[10..12]);
    assert_eq!(list(Some("listed/024"), 10), names[..0]);
    assert_eq!(list(None, 0), names[..0]);
    let first = bucket.list("listed/", None, 1).unwrap().remove(0);
    assert_eq!(first.bytes, 10);
    let since = begun.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    assert!(first.written_ns > since, "{first:?}");
    assert!(bucket.list("", None, 1000).unwrap().len() > 25);
    assert_eq!(bucket.list("nothing", None, 10).unwrap(), []);
}

fn errors_name_the_remedy(server: &Server, bucket: &Bucket) {
    let with = |change: fn(&mut Config)| {
        let mut config = config(server);
        change(&mut config);
        let bucket = Bucket::new(config).unwrap();
        let errors = [bucket.put_new("x", &Vec::new()), bucket.list("", None, 1).map(drop)];
        errors.map(|outcome| outcome.unwrap_err())
    };
    for error in with(|config| config.credentials = keys("loginson", "another-secret")) {
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.remedy.contains("check the secret key"), "{error}");
        assert!(!error.to_string().contains("another-secret"), "{error}");
    }
    for error in with(|config| config.credentials = keys("nobody", "loginson-secret")) {
        assert!(error.remedy.contains("check the access key"), "{error}");
    }
    for error in with(|config| config.bucket = "absent".to_owned()) {
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.what.contains("there is no bucket absent"), "{error}");
    }
    for error in with(|config| {
        config.endpoint = Some("http://127.0.0.1:1".to_owned());
        config.call_time_max = Duration::from_secs(10);
    }) {
        assert_eq!(error.kind, ErrorKind::Retriable, "{error}");
        assert!(error.what.starts_with("no storage answers at http://127.0.0.1:1"), "{error}");
    }
    let error = put(bucket, "a//b", b"").unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused, "{error}");
}

/// A body that cannot be read.
struct Broken;

impl ObjectBody for Broken {
    fn size(&self) -> u64 {
        100 << 20
    }

    fn read_exact_at(&self, offset: u64, _: &mut [u8]) -> std::io::Result<()> {
        match offset > 50 << 20 {
            true => Err(std::io::Error::other("broken")),
            false => Ok(()),
        }
    }
}

/// The longest wait for a server.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// The server is killed and started again while objects are written and read. What was written is
/// there; each name has the content that was written to it.
#[test]
fn the_server_goes_and_comes_back() {
    let Some(server) = Server::s3() else { return };
    server.run("start");
    let bucket = Bucket::new(config(&server)).unwrap();
    // Every tenth has two parts.
    let large = bucket.config().part_bytes + 7;
    let size = |number: usize| if number.is_multiple_of(10) { large } else { 50_000 };
    let (stop, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    let (bucket, stop, done) = (&bucket, &stop, &done);
    std::thread::scope(|scope| {
        let _stop = StopWhenDropped(stop);
        let writer = scope.spawn(move || {
            let mut number = 0;
            while !stop.load(Ordering::SeqCst) {
                let name = format!("kept/{number}");
                let bytes = noise(number as u64, size(number));
                let begun = Instant::now();
                while let Err(error) = put(bucket, &name, &bytes) {
                    if error.kind == ErrorKind::Exists {
                        break;
                    }
                    assert!(error.may_pass(), "{error}");
                    assert!(begun.elapsed() < PATIENCE, "{error}");
                }
                number += 1;
                done.store(number, Ordering::SeqCst);
            }
            number
        });
        let reader = scope.spawn(move || {
            let mut random = fastrand::Rng::with_seed(1);
            while !stop.load(Ordering::SeqCst) {
                let known = done.load(Ordering::SeqCst);
                if known > 0 {
                    let number = random.usize(..known);
                    let mut buffer = vec![0; 1000];
                    let name = format!("kept/{number}");
                    let read = bucket.read_range(&name, 10_000, &mut buffer).unwrap();
                    assert!(buffer[..read] == noise(number as u64, 11_000)[10_000..]);
                }
            }
        });
        for _ in 0..3 {
            let before = done.load(Ordering::SeqCst);
            let begun = Instant::now();
            while done.load(Ordering::SeqCst) < before + 25 {
                assert!(begun.elapsed() < PATIENCE, "nothing is written");
                std::thread::sleep(Duration::from_millis(1));
            }
            server.run("kill");
            std::thread::sleep(Duration::from_millis(500));
            server.run("start");
        }
        stop.store(true, Ordering::SeqCst);
        reader.join().unwrap();
        for number in 0..writer.join().unwrap() {
            let bytes = noise(number as u64, size(number));
            assert!(get(bucket, &format!("kept/{number}"), bytes.len()) == bytes, "{number}");
        }
    });
    let error = bucket.put_new("broken", &Broken).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Body, "{error}");
    assert!(error.what.contains("cannot be read: broken"), "{error}");
    assert_eq!(bucket.size("broken").unwrap_err().kind, ErrorKind::NotFound);
}

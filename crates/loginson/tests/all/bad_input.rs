//! Whatever arrives, the server responds as designed, and continues.

use std::io::Write;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{Server, loginson, read_until_closed, serve_command};
use serde_json::json;

const LINE_BYTES_MAX: usize = 8 << 20;

/// The server still accepts and returns lines.
fn lives(server: &Server) {
    let line = format!("alive {}", fastrand::u64(..));
    assert_eq!(server.post("/insert/lines", line.as_bytes()).status, 200);
    assert_eq!(server.count(&format!("\"{line}\"")), 1);
}

#[test]
fn random_bytes_everywhere() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut noise = |bytes: usize| (0..bytes).map(|_| random.u8(..)).collect::<Vec<u8>>();
    let server = Server::start();
    let mut tcp = TcpStream::connect(server.syslog_tcp()).unwrap();
    tcp.write_all(&noise(1 << 20)).unwrap();
    drop(tcp);
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..100 {
        udp.send_to(&noise(1000), server.syslog_udp()).unwrap();
    }
    for path in ["/insert/lines", "/insert/jsonline"] {
        let mut body = noise(1 << 20);
        // A body that begins with a bracket is an array, whose elements are lines.
        body[0] = b'x';
        let answer = server.post(path, &body);
        let lines = body
            .split(|&b| b == b'\n')
            .filter(|line| path.ends_with("lines") || !line.trim_ascii().is_empty());
        assert_eq!(
            (answer.status, answer.json()["lines"].as_u64()),
            (200, Some(lines.count() as u64)),
            "{path}"
        );
    }
    for path in ["/insert/lines", "/insert/jsonline"] {
        for encoding in ["gzip", "zstd"] {
            let answer =
                server.request("POST", path, &[("Content-Encoding", encoding)], &noise(10_000));
            assert_eq!(answer.status, 400);
        }
    }
    let mut http = server.connect();
    http.write_all(&noise(100_000)).unwrap();
    read_until_closed(&mut http);
    lives(&server);
    server.wait_for("all is accounted for", |server| {
        ["syslog_tcp", "syslog_udp", "http"].iter().all(|source| {
            let counters = server.ingest(source);
            let dropped = counters["dropped"]["bad_request"].as_u64().unwrap();
            counters["lines_received"].as_u64().unwrap()
                == counters["lines_kept"].as_u64().unwrap() + dropped
        })
    });
}

#[test]
fn lines_without_end() {
    let server = Server::start();
    let long = vec![b'x'; 64 << 20];
    let answer = server.post("/insert/lines?type=long", &[&long[..], b"\nshort"].concat());
    assert_eq!((answer.status, &answer.json()["lines"]), (200, &json!(2)), "{}", answer.text());
    let mut tcp = TcpStream::connect(server.syslog_tcp()).unwrap();
    tcp.write_all(&long).unwrap();
    drop(tcp);
    for source in ["http", "syslog_tcp"] {
        server
            .wait_for("it is counted", |server| server.ingest(source)["dropped"]["oversized"] == 1);
    }
    server.wait_for("it is kept", |server| server.count("_note:cut") == 2);
    let mut lengths: Vec<usize> = server.raw("_type:long").iter().map(Vec::len).collect();
    lengths.sort();
    assert_eq!(lengths, [5, LINE_BYTES_MAX]);
    lives(&server);
}

#[test]
fn absurd_times_and_wrong_encodings() {
    let server = Server::start();
    let times = [
        "9999-12-31T23:59:59Z",
        "0000-01-01T00:00:00Z",
        "1677-01-01T00:00:00Z",
        "2262-04-12T00:00:00Z",
        "-1",
        "99999999999999999999999999",
        "2026-02-30T25:61:61Z",
        "never",
        "",
    ];
    for (i, time) in times.iter().enumerate() {
        let line = format!("{{\"_time\":{time:?},\"_msg\":\"absurd {i}\"}}");
        assert_eq!(server.post("/insert/jsonline", line.as_bytes()).json()["lines"], 1);
        let syslog = format!("<13>1 {time} host app - - - absurd syslog {i}");
        assert_eq!(server.post("/insert/lines", syslog.as_bytes()).json()["lines"], 1);
    }
    assert_eq!(server.count("absurd"), 2 * times.len() as u64);
    for path in [
        "/select/logsql/hits?query=*&step=1h",
        "/select/logsql/hits?query=*&step=auto",
        "/select/logsql/facets?query=*",
        "/select/logsql/stats_query_range?query=*|count()&step=1ms",
        "/api/v1/summary/types?start=0001-01-01&end=9999-12-31",
        "/select/logsql/query?query=*&start=0000-01-01T00:00:00Z&end=9999-12-31T00:00:00Z",
        "/api/v1/status",
    ] {
        let answer = server.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    // Charts have a limit on their points, and report it.
    let answer = server.get("/api/v1/summary?type=json&start=0001-01-01&end=9999-12-31&step=10s");
    assert!(answer.status == 400 && answer.text().contains("step"), "{}", answer.status);
    let invalid = b"caf\xe9 \xff\xfe \xed\xa0\x80";
    assert_eq!(server.post("/insert/lines", invalid).status, 200);
    assert_eq!(server.raw("caf*"), [invalid]);
    // Many fields in one line.
    let many: Vec<String> = (0..100_000).map(|i| format!("\"k{i}\":{i}")).collect();
    let many = format!("{{\"_msg\":\"many\",{}}}", many.join(","));
    assert_eq!(server.post("/insert/jsonline", many.as_bytes()).status, 200);
    assert_eq!(server.query("many", "")[0]["k1"], "1");
    assert_eq!(server.raw("many"), [many.as_bytes()]);
    lives(&server);
}

#[test]
fn half_open_and_slow_connections() {
    let server = Server::start();
    let address = server.syslog_tcp();
    // More than there are threads of any kind.
    let idle: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(address).unwrap()).collect();
    let half: Vec<TcpStream> = (0..200)
        .map(|i| {
            let mut stream = server.connect();
            let path = ["/insert/lines", "/select/logsql/query"][i % 2];
            write!(
                stream,
                "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Length: 100\r\n\r\nhalf a bo",
                server.http
            )
            .unwrap();
            stream
        })
        .collect();
    let heads: Vec<TcpStream> = (0..200)
        .map(|_| {
            let mut stream = server.connect();
            stream.write_all(b"GET / HT").unwrap();
            stream
        })
        .collect();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.set_nodelay(true).unwrap();
    for byte in b"<13>1 - host app - - - byte by byte\n" {
        slow.write_all(&[*byte]).unwrap();
    }
    server.wait_for("the slow line", |server| server.count("\"byte by byte\"") == 1);
    // Hanging bodies occupy the slots of ingest requests; queries are answered nevertheless.
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(server.count("nothing"), 0);
    drop((half, heads, idle));
    lives(&server);
}

#[test]
fn a_disk_without_room() {
    let server = Server::start_with(&[], "[store]\ndisk_free_bytes_min = '8000TiB'\n");
    let answer = server.post("/insert/lines", b"no room");
    assert_eq!((answer.status, &answer.json()["lines"]), (507, &json!(0)), "{}", answer.text());
    assert!(answer.text().contains("the disk is full"));
    server.wait_for("it says so", |server| server.status()["store"]["state"] == "disk_full");
    let again = server.post("/insert/lines", b"no room");
    assert_eq!(again.status, 507);
    assert_eq!((server.get("/ready").status, server.get("/health").status), (503, 200));
    assert_eq!(server.count("*"), 0, "queries are answered");
    assert!(server.get("/metrics").text().contains("\nloginson_store_writable 0\n"));
    let counters = server.ingest("http");
    assert_eq!(counters["lines_received"], counters["dropped"]["disk_full"], "{counters}");
}

/// A small file system of its own, if the machine permits it.
pub struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn mount() -> Option<SmallDisk> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=48m", "tmpfs"])
            .arg(directory.path())
            .stderr(Stdio::null())
            .status();
        mounted.is_ok_and(|status| status.success()).then_some(SmallDisk(directory))
    }

    fn grow(&self) {
        let grown =
            Command::new("mount").args(["-o", "remount,size=256m"]).arg(self.0.path()).status();
        assert!(grown.unwrap().success());
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// A disk full of compressible lines accepts more, because they are sealed.
#[test]
fn a_full_disk_is_sealed_before_lines_are_refused() {
    let Some(disk) = SmallDisk::mount() else { return };
    // Several segments may wait to be sealed at once: the reserve has room for all.
    let config = "[store]\ndisk_free_bytes_min = '8MiB'\n[summary]\nflush_interval = '1s'\nflush_delay = '0s'\n";
    let server = Server::start_in(disk.0.path(), &[], config);
    let lines: String = (0..10_000).map(|i| format!("line {i} {}\n", "y".repeat(90))).collect();
    let (mut kept, mut refusals) = (0, 0);
    while kept < 500_000 {
        let answer = server.post("/insert/lines", lines.as_bytes());
        kept += answer.json()["lines"].as_u64().unwrap();
        match answer.status {
            200 => {}
            // A slow machine may not seal 30 MB in the ten seconds that a request waits.
            507 if refusals < 60 => {
                refusals += 1;
                server
                    .wait_for("there is room", |server| server.status()["store"]["state"] == "ok");
            }
            other => panic!("{other}: {}", answer.text()),
        }
    }
    assert!(server.count("line") >= kept);
    let metrics = server.get("/metrics").text();
    assert!(metrics.contains("\nloginson_store_writable 1\n"));
}

#[test]
fn a_disk_that_fills_up_and_gets_room_again() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!(
            "no file system may be mounted here; a disk without room is tested by its limit alone"
        );
        return;
    };
    let config = "[store]\ndisk_free_bytes_min = '1MiB'\n";
    let mut server = Server::start_in(disk.0.path(), &[], config);
    let mut kept = 0;
    let mut rng = fastrand::Rng::with_seed(1);
    let full = loop {
        // Lines that sealing cannot compress.
        let mut noise = || (0..100).map(|_| rng.alphanumeric()).collect::<String>();
        let lines: String = (0..10_000).map(|i| format!("line {i} {}\n", noise())).collect();
        let answer = server.post("/insert/lines", lines.as_bytes());
        kept += answer.json()["lines"].as_u64().unwrap();
        match answer.status {
            200 if kept < 1_000_000 => {}
            507 => break answer,
            other => panic!("{other}: {}", answer.text()),
        }
    };
    assert!(kept >= 10_000 && full.text().contains("the disk is full"));
    let found = server.count("line");
    assert!(found >= kept, "{found} found, {kept} acknowledged");
    // A start needs no space.
    server.kill();
    let mut server = Server::start_in(disk.0.path(), &[], config);
    // Refused lines may have found space since.
    let again = server.count("line");
    assert!(again >= found, "{again} of {found}");
    disk.grow();
    server.wait_for("lines are taken again", |server| {
        server.post("/insert/lines", b"room again").status == 200
    });
    assert_eq!(server.get("/ready").status, 200);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn a_failed_start_says_why() {
    let server = Server::start();
    let refused = |command: &mut Command, what: &[&str]| {
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        for what in what {
            assert!(said.contains(what), "{what} is not in: {said}");
        }
    };
    refused(
        &mut serve_command(server.data_dir()),
        &["in use by", &server.pid().to_string(), "--data-dir"],
    );

    let other = tempfile::tempdir().unwrap();
    let serve = |arguments: &[&str]| {
        let mut command = loginson(&["--data-dir", other.path().to_str().unwrap()]);
        command.args([
            "--http-listen",
            "127.0.0.1:0",
            "--syslog-udp-listen",
            "off",
            "--syslog-tcp-listen",
            "off",
        ]);
        // A flag given twice would be an error, so the arguments of the caller replace those above.
        for pair in arguments.chunks(2) {
            let mut replaced = loginson(&[]);
            let mut old = command.get_args().map(|a| a.to_os_string()).collect::<Vec<_>>();
            match old.iter().position(|a| a == pair[0]) {
                Some(at) => old[at + 1] = pair[1].into(),
                None => old.extend(pair.iter().map(Into::into)),
            }
            replaced.args(old);
            command = replaced;
        }
        command
    };
    let http = server.http.as_str();
    refused(
        &mut serve(&["--http-listen", http]),
        &["cannot listen for HTTP", http, "--http-listen"],
    );
    let tcp = server.syslog_tcp().to_string();
    refused(&mut serve(&["--syslog-tcp-listen", &tcp]), &["in use", &tcp, "--syslog-tcp-listen"]);
    let udp = server.syslog_udp().to_string();
    refused(&mut serve(&["--syslog-udp-listen", &udp]), &["in use", &udp, "--syslog-udp-listen"]);
    refused(&mut serve(&["--http-listen", "nonsense"]), &["http_listen", "is not an address"]);

    let file = other.path().join("bad.toml");
    let path = file.to_str().unwrap();
    for (text, what) in [
        (
            "[retention]\nage = '30d'\nbites = '1GiB'\n",
            "bad.toml: line 3: unknown key 'bites'; did you mean 'bytes'?",
        ),
        ("[query]\nrun_max = 'long'\n", "query.run_max: 'long' is not a duration"),
        ("[retention]\nage = '30 moons'\n", "retention.age: '30 moons' is not a duration"),
        ("[[types]]\nname = 'x'\nregex = '('\n", "regex cannot be used"),
    ] {
        std::fs::write(&file, text).unwrap();
        refused(&mut serve(&["--config", path]), &[what]);
    }
    refused(
        &mut serve(&["--config", "/nowhere.toml"]),
        &["cannot read the configuration file /nowhere.toml"],
    );
    lives(&server);
}

#[test]
fn a_port_that_is_taken_only_by_another_program() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let directory = tempfile::tempdir().unwrap();
    let output =
        loginson(&["--http-listen", &address, "--data-dir", directory.path().to_str().unwrap()])
            .output()
            .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains(&address), "{said}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing was begun");
}

//! A cluster on a real Kafka, S3 server and PostgreSQL: the answers of a single store with all
//! lines, also while a node is away and engines come back.

mod common;
mod shop;

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use common::{Server, loginson};
use serde_json::Value;
use shop::{compare, send};

/// The engines, in processes of their own.
struct Engines {
    data: PathBuf,
    kafka: u16,
    s3: u16,
    postgresql: u16,
}

impl Engines {
    /// Starts them. None where the S3 server cannot be built because Go is missing: the test is
    /// left out then, and says so.
    fn start() -> Option<Engines> {
        let [kafka, s3, postgresql] = free_ports();
        let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cluster");
        let engines = Engines { data, kafka, s3, postgresql };
        engines.wipe();
        let installed = engines.script("s3", "install").output().unwrap();
        let why = String::from_utf8_lossy(&installed.stderr);
        if why.contains("the command go is missing") {
            eprintln!("LEFT OUT: {why}");
            return None;
        }
        for engine in ["postgresql", "s3", "kafka"] {
            engines.run(engine, "start");
        }
        Some(engines)
    }

    fn script(&self, engine: &str, command: &str) -> Command {
        let mut script = Command::new(format!("../../scripts/servers/{engine}.sh"));
        script
            .arg(command)
            .env("LOGINSON_SERVERS_DATA", &self.data)
            .env("KAFKA_PORT", self.kafka.to_string())
            .env("S3_PORT", self.s3.to_string())
            .env("POSTGRESQL_PORT", self.postgresql.to_string());
        script
    }

    fn run(&self, engine: &str, command: &str) {
        let done = self.script(engine, command).status().unwrap();
        assert!(done.success(), "{engine} {command}");
    }

    fn wipe(&self) {
        ["postgresql", "s3", "kafka"].into_iter().for_each(|engine| self.run(engine, "wipe"));
    }

    /// The configuration of a node.
    fn config(&self, roles: &str) -> String {
        let keys = ["loginson", "loginson-secret"].map(|key| {
            let file = self.data.join(key);
            std::fs::write(&file, key).unwrap();
            file.display().to_string()
        });
        let (kafka, s3, postgresql) = (self.kafka, self.s3, self.postgresql);
        format!(
            "[cluster]\nroles = [{roles}]\nlease = '3s'\nsegment_age = '2s'\n\
             [cluster.kafka]\nbrokers = ['127.0.0.1:{kafka}']\npartitions = 3\nreplicas = 1\n\
             replicas_min = 1\n\
             [cluster.objects]\nendpoint = 'http://127.0.0.1:{s3}'\nbucket = 'loginson'\n\
             access_key_file = '{}'\nsecret_key_file = '{}'\n\
             [cluster.postgresql]\n\
             connection = 'host=127.0.0.1 port={postgresql} user=postgres dbname=postgres'\n",
            keys[0], keys[1]
        )
    }
}

impl Drop for Engines {
    fn drop(&mut self) {
        for engine in ["postgresql", "s3", "kafka"] {
            if !self.script(engine, "wipe").status().is_ok_and(|status| status.success()) {
                eprintln!("{engine} wipe failed");
            }
        }
    }
}

fn free_ports() -> [u16; 3] {
    // The controller of Kafka is 100 above its broker.
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    let first = (20_100..30_000)
        .step_by(7)
        .find(|port| [0, 1, 2, 100].into_iter().all(|distance| is_free(port + distance)));
    let first = first.expect("there are free ports");
    [first, first + 1, first + 2]
}

/// Sends lines in small batches, to each node in turn and to `all`.
fn send_to(nodes: &[&Server], all: &Server, numbers: std::ops::Range<usize>) {
    send(nodes, Some(all), numbers);
}

fn status(node: &Server) -> Value {
    node.get("/api/v1/cluster").json()
}

/// Waits until all partitions have an owner, and nothing is unpublished.
fn wait_until_published(node: &Server) {
    node.wait_for("segments of everything", |node| {
        let status = status(node);
        status["partitions_unowned"] == 0
            && status["partitions"].as_array().unwrap().iter().all(|p| p["unpublished"] == 0)
    });
}

#[test]
fn a_cluster_answers_as_one_store_does_whatever_is_killed() {
    let Some(engines) = Engines::start() else { return };
    let all = Server::start();
    let dirs = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let start = |index: usize, roles: &str| {
        Server::start_in(dirs[index].path(), &[], &engines.config(roles))
    };
    let mut first = start(0, "'collector', 'store'");
    let second = start(1, "'store', 'query'");
    let third = start(2, "'query'");

    // Lines that are in no segment yet, and then those that are.
    send_to(&[&first, &second, &third], &all, 0..3_000);
    assert_eq!(third.count("*"), 3_000);
    compare(&all, &third);
    wait_until_published(&third);
    compare(&all, &third);
    compare(&all, &first);
    let segments = status(&third)["segments"].as_u64().unwrap();
    assert!(segments >= 3, "{segments}");

    // A line by its id, and those around it.
    let id = &third.query("order:=300", "include=_line_id")[0]["_line_id"];
    let path = format!("/api/v1/context?id={}&before=2&after=2", id.as_str().unwrap());
    let orders = |answer: &Value| -> Vec<String> {
        let rows = answer["rows"].as_array().unwrap().iter();
        rows.map(|row| row["order"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(orders(&third.get(&path).json()), ["294", "297", "300", "303", "306"]);

    // A store dies with the newest frames: the next query waits for the other store.
    send_to(&[&second, &third], &all, 3_000..3_300);
    first.kill();
    send_to(&[&second, &third], &all, 3_300..3_600);
    let begun = Instant::now();
    assert_eq!(third.count("*"), 3_600);
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
    compare(&all, &third);
    let shown = loginson(&["cluster", "status", "--server", &format!("http://{}", third.http)])
        .output()
        .unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.status.success(), "{text}");
    assert!(text.contains("away") && text.contains("PARTITION"), "{text}");

    // It comes back with what it had on its disk, and takes lines again.
    let first = start(0, "'collector', 'store'");
    send_to(&[&first, &second], &all, 3_600..3_900);
    assert_eq!(third.count("*"), 3_900);

    // Kafka is away: lines are acknowledged by the spool, and come later. Queries say what is away.
    engines.run("kafka", "stop");
    send_to(&[&first], &all, 3_900..4_000);
    let answer = third.get("/select/logsql/query?query=*|stats+count()n&timeout=5s");
    assert_eq!(answer.status, 503, "{}", answer.text());
    engines.run("kafka", "start");
    third.wait_for("what waited in the spool", |node| {
        let answer = node.get("/select/logsql/query?query=*|stats+count()n");
        answer.status == 200 && answer.rows()[0]["n"] == "4000"
    });
    compare(&all, &third);

    // What the cluster does not do is said, not silently left out.
    for (path, why) in [
        ("/api/v1/deletions?filter=error", "retention"),
        ("/api/v1/summary/rerun?type=json&start=1h&end=now", "stored with the lines"),
    ] {
        let answer = third.post(path, b"");
        assert_eq!(answer.status, 501, "{path}: {}", answer.text());
        assert!(answer.text().contains(why), "{path}: {}", answer.text());
    }
}

//! Measures the engines on real servers of this machine, beside the tools of these servers, in
//! turn. Prints tables.
//!
//! ```sh
//! loginson-bench engine_speed
//! ```

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cluster::engines::cache::{Options, RangeCache};
use cluster::engines::kafka::{Config, Log, TopicSettings};
use cluster::engines::objects::{self, Bucket, Credentials, FileBody, Keys};
use cluster::engines::{Error, Secret};

/// Rounds of which the median is printed.
const ROUNDS: usize = 3;
const FRAME_BYTES: usize = 1 << 20;
const FRAMES: usize = 500;
const OBJECT_BYTES: usize = 64 << 20;
const RANGE_BYTES: usize = 64 << 10;
const RANGES: usize = 500;
const KAFKA_PORT: u16 = 19_560;
const S3_PORT: u16 = 19_570;

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let kafka =
        Server { script: "kafka.sh", port: ("KAFKA_PORT", KAFKA_PORT), data: folder.path() };
    let s3 = Server { script: "s3.sh", port: ("S3_PORT", S3_PORT), data: folder.path() };
    kafka.run(&["start"])?;
    measure_kafka(&kafka)?;
    kafka.run(&["wipe"])?;
    s3.run(&["start"])?;
    measure_s3(folder.path())?;
    s3.run(&["wipe"])?;
    Ok(())
}

struct Server<'a> {
    script: &'static str,
    port: (&'static str, u16),
    data: &'a Path,
}

impl Server<'_> {
    fn run(&self, arguments: &[&str]) -> Result<String, Box<dyn std::error::Error>> {
        let scripts = std::env::current_dir()?;
        let scripts = scripts.join("scripts/servers");
        let done = Command::new(scripts.join(self.script))
            .args(arguments)
            .env(self.port.0, self.port.1.to_string())
            .env("LOGINSON_SERVERS_DATA", self.data)
            .output()?;
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        match done.status.success() {
            true => Ok(text),
            false => Err(format!("{text}{}", String::from_utf8_lossy(&done.stderr)).into()),
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // After a failure, the server must not be left running.
        let _ = self.run(&["wipe"]);
    }
}

/// The median of rounds.
fn median(mut rounds: Vec<f64>) -> f64 {
    rounds.sort_by(f64::total_cmp);
    rounds[rounds.len() / 2]
}

fn megabytes_per_s(bytes: usize, time: Duration) -> f64 {
    bytes as f64 / 1e6 / time.as_secs_f64()
}

fn measure_kafka(server: &Server<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let broker = format!("127.0.0.1:{KAFKA_PORT}");
    let frame: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(FRAME_BYTES).collect();
    let (mut one, mut many, mut tool) = (Vec::new(), Vec::new(), Vec::new());
    let (mut read, mut read_tool) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let topic = format!("round-{round}");
        let log = Log::connect(Config::new([broker.as_str()], &topic))?;
        log.create_topic(&TopicSettings {
            partitions: 4,
            copies: 1,
            copies_min: 1,
            message_bytes_max: 2 << 20,
            // What was measured makes room for what is measured next.
            others: vec![("retention.bytes".to_owned(), (1_u64 << 30).to_string())],
        })?;
        let begun = Instant::now();
        for _ in 0..FRAMES {
            log.append(0, &[&frame])?;
        }
        one.push(megabytes_per_s(FRAMES * FRAME_BYTES, begun.elapsed()));
        // One thread keeps four partitions busy.
        let begun = Instant::now();
        let pending: Vec<_> = (0..FRAMES as u32)
            .map(|n| log.submit(n % 4, &[&frame]))
            .collect::<Result<_, Error>>()?;
        for pending in pending {
            pending.wait()?;
        }
        many.push(megabytes_per_s(FRAMES * FRAME_BYTES, begun.elapsed()));
        let begun = Instant::now();
        let mut next = 0;
        while next < FRAMES as u64 {
            for message in log.read(0, next, 8 << 20, Duration::from_secs(10))? {
                assert!(message.offset == next && message.bytes == frame.as_slice());
                next += 1;
            }
        }
        read.push(megabytes_per_s(FRAMES * FRAME_BYTES, begun.elapsed()));
        let (sent, got) = measure_tools(server, &broker, &topic)?;
        tool.push(sent);
        read_tool.push(got);
    }
    println!("| frames of 1 MiB, acks=all, one broker | MB/s |\n|---|---|");
    for (what, rounds) in [
        ("`append`, one after the other, one partition", one),
        ("`submit`, four partitions", many),
        ("ProducerPerformance of Kafka, four partitions", tool),
        ("`read`, one partition, content compared", read),
        ("ConsumerPerformance of Kafka, four partitions", read_tool),
    ] {
        println!("| {what} | {:.0} |", median(rounds));
    }
    println!();
    Ok(())
}

/// What Kafka's own tools send and receive, in MB/s.
fn measure_tools(
    server: &Server<'_>,
    broker: &str,
    topic: &str,
) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let (frames, bytes) = (FRAMES.to_string(), FRAME_BYTES.to_string());
    let servers = format!("bootstrap.servers={broker}");
    let sent = server.run(&[
        "tool",
        "org.apache.kafka.tools.ProducerPerformance",
        "--topic",
        topic,
        "--num-records",
        &frames,
        "--record-size",
        &bytes,
        "--throughput",
        "-1",
        "--producer-props",
        &servers,
        "acks=all",
        "max.request.size=4194304",
        "batch.size=1048576",
        "buffer.memory=33554432",
    ])?;
    // "500 records sent, 300.0 records/sec (300.00 MB/sec), …", where MB are MiB.
    let last = sent.lines().last().unwrap_or_default();
    let sent = last.split_once('(').and_then(|(_, rest)| rest.split_once(" MB/sec"));
    let sent = sent.ok_or_else(|| last.to_owned())?.0.parse::<f64>()? * 1.048_576;
    let got = server.run(&[
        "tool",
        "org.apache.kafka.tools.ConsumerPerformance",
        "--bootstrap-server",
        broker,
        "--topic",
        topic,
        "--messages",
        &frames,
        "--hide-header",
    ])?;
    // Start, end, MiB, MiB/s, messages, messages/s, time of joining the group, of fetching in ms, …
    let last = got.lines().last().unwrap_or_default();
    let columns: Vec<&str> = last.split(", ").collect();
    let column = |at: usize| columns.get(at).and_then(|text| text.parse::<f64>().ok());
    let (Some(mib), Some(ms)) = (column(2), column(7)) else { return Err(got.into()) };
    Ok((sent, mib * 1.048_576 / (ms / 1000.0)))
}

fn measure_s3(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = format!("http://127.0.0.1:{S3_PORT}");
    let secret = Secret::new("loginson-secret");
    let keys = Keys { key: "loginson".to_owned(), secret, token: None };
    let credentials = Credentials::Keys(keys);
    let bucket =
        Bucket::new(objects::Config::new(Some(endpoint.clone()), "loginson", credentials.clone()))?;
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(OBJECT_BYTES).collect();
    let file = folder.join("object");
    std::fs::File::create(&file)?.write_all(&bytes)?;
    let (mut put, mut put_curl, mut get, mut get_curl) = (vec![], vec![], vec![], vec![]);
    let (mut ours, mut plain, mut cached) = (Vec::new(), Vec::new(), Vec::new());
    let cache = RangeCache::open(
        Bucket::new(objects::Config::new(Some(endpoint.clone()), "loginson", credentials))?,
        Options::new(folder.join("cache")),
    )?;
    for round in 0..ROUNDS {
        let (name, other) = (format!("object-{round}"), format!("curl-{round}"));
        let begun = Instant::now();
        bucket.put_new(&name, &FileBody::new(std::fs::File::open(&file)?)?)?;
        put.push(megabytes_per_s(OBJECT_BYTES, begun.elapsed()));
        let time =
            curl(&["-T", &file.display().to_string(), &format!("{endpoint}/loginson/{other}")])?;
        put_curl.push(megabytes_per_s(OBJECT_BYTES, Duration::from_secs_f64(time[0])));
        let mut found = vec![0; OBJECT_BYTES];
        let begun = Instant::now();
        assert_eq!(bucket.read_range(&name, 0, &mut found)?, OBJECT_BYTES);
        get.push(megabytes_per_s(OBJECT_BYTES, begun.elapsed()));
        assert!(found == bytes);
        let url = format!("{endpoint}/loginson/{name}");
        let time = curl(&["-o", "/dev/null", &url])?;
        get_curl.push(megabytes_per_s(OBJECT_BYTES, Duration::from_secs_f64(time[0])));

        let mut buffer = vec![0; RANGE_BYTES];
        let starts: Vec<usize> =
            (0..RANGES).map(|_| fastrand::usize(..OBJECT_BYTES - RANGE_BYTES)).collect();
        for start in &starts {
            let begun = Instant::now();
            bucket.read_range(&name, *start as u64, &mut buffer)?;
            ours.push(begun.elapsed().as_secs_f64());
            assert!(buffer == bytes[*start..start + RANGE_BYTES]);
        }
        let arguments: Vec<String> = starts
            .iter()
            .flat_map(|start| {
                let range = format!("{start}-{}", start + RANGE_BYTES - 1);
                ["--next".to_owned(), "-r".to_owned(), range, "-o".to_owned()]
                    .into_iter()
                    .chain(["/dev/null".to_owned(), url.clone()])
            })
            .collect();
        plain.extend(curl(&arguments.iter().map(String::as_str).collect::<Vec<_>>())?);
        // The first pass fetches, the second is measured.
        for pass in 0..2 {
            for start in &starts {
                let begun = Instant::now();
                cache.read_range(&name, *start as u64, &mut buffer)?;
                if pass == 1 {
                    cached.push(begun.elapsed().as_secs_f64());
                }
            }
        }
    }
    println!("| object of 64 MiB | MB/s |\n|---|---|");
    for (what, rounds) in [
        ("`put_new`, parts of 8 MiB, contents signed", put),
        ("curl, one request, contents not signed", put_curl),
        ("`read_range` of all", get),
        ("curl", get_curl),
    ] {
        println!("| {what} | {:.0} |", median(rounds));
    }
    println!("\n| range of 64 KiB | median, µs | 99 %, µs |\n|---|---|---|");
    for (what, mut times) in
        [("`read_range`", ours), ("curl, one connection", plain), ("`RangeCache`, kept", cached)]
    {
        times.sort_by(f64::total_cmp);
        let at = |share: f64| times[(times.len() as f64 * share) as usize] * 1e6;
        println!("| {what} | {:.0} | {:.0} |", at(0.5), at(0.99));
    }
    Ok(())
}

/// Runs curl, which signs requests; returns how long each of them took, in seconds.
fn curl(arguments: &[&str]) -> Result<Vec<f64>, Box<dyn std::error::Error>> {
    // Options end with `--next`, so each request has them.
    let common = [
        "-sS",
        "--fail",
        "--aws-sigv4",
        "aws:amz:us-east-1:s3",
        "--user",
        "loginson:loginson-secret",
        "-H",
        "x-amz-content-sha256: UNSIGNED-PAYLOAD",
        "-w",
        "%{time_total}\n",
    ];
    let mut all: Vec<&str> = Vec::new();
    for request in arguments.split(|argument| *argument == "--next") {
        if !request.is_empty() {
            if !all.is_empty() {
                all.push("--next");
            }
            all.extend(common);
            all.extend(request);
        }
    }
    let done = Command::new("curl").args(all).output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into_owned().into());
    }
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    Ok(text.lines().map(str::parse).collect::<Result<_, _>>()?)
}

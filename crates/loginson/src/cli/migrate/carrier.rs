//! Brings the lines of a slice to the target, each once, and compares what arrived.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use indicatif::ProgressBar;
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::cli::client::{Client, Refusal};
use crate::cli::import::dump::Unpacked;
use crate::cli::terminal::escaped;

/// Bytes of a batch, from which on it is sent; with a rate, it has lines for a second at most.
const BATCH_BYTES: usize = 4 << 20;
/// Fields that name the streams of a slice; the server takes no more.
const STREAM_FIELDS_MAX: usize = 64;
/// Attempts at a batch, with pauses that double up to a minute.
const ATTEMPTS_MAX: u32 = 10;
/// After a broken connection the target may still take in what it had received. When the number of
/// lines has not changed for so long, that is over: frames of HTTP are closed within milliseconds.
const SETTLED_AFTER: Duration = Duration::from_secs(5);

/// The lines of a slice on the disk. It is complete once its description is there.
#[derive(Debug)]
pub struct Spool {
    path: PathBuf,
    writer: Option<BufWriter<File>>,
    about: About,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct About {
    tag: String,
    lines: u64,
    bytes: u64,
    /// The sum of the hashes of all lines, in whatever order.
    sum: Sum,
    stream_fields: BTreeSet<String>,
}

/// A sum of hashes, which does not depend on the order of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Sum(String);

#[derive(Default)]
struct Summing(u128);

impl Summing {
    fn add(&mut self, line: &[u8]) {
        let hash = digest(&SHA256, line);
        let first = hash.as_ref()[..16].try_into().expect("16 of 32 bytes");
        self.0 = self.0.wrapping_add(u128::from_le_bytes(first));
    }

    fn sum(&self) -> Sum {
        Sum(format!("{:032x}", self.0))
    }
}

const LINES_FILE: &str = "slice.lines";
const ABOUT_FILE: &str = "slice.json";

impl Spool {
    /// The lines of this slice, if all were read before.
    pub fn complete(directory: &Path, tag: &str) -> Result<Option<Spool>> {
        let Ok(text) = fs::read(directory.join(ABOUT_FILE)) else { return Ok(None) };
        let Ok(about) = serde_json::from_slice::<About>(&text) else { return Ok(None) };
        let path = directory.join(LINES_FILE);
        let length = fs::metadata(&path).map_or(0, |file| file.len());
        let is_whole = about.tag == tag && length == about.bytes + about.lines;
        Ok(is_whole.then_some(Spool { path, writer: None, about }))
    }

    /// An empty one.
    pub fn begin(directory: &Path, tag: &str) -> Result<Spool> {
        let path = directory.join(LINES_FILE);
        let cannot = || format!("cannot write {}", path.display());
        match fs::remove_file(directory.join(ABOUT_FILE)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(cannot);
            }
            _ => {}
        }
        let file = File::create(&path).with_context(cannot)?;
        let about = About { tag: tag.to_owned(), ..About::default() };
        Ok(Spool { path, writer: Some(BufWriter::with_capacity(1 << 20, file)), about })
    }

    /// Adds a line.
    pub fn add(&mut self, record: Unpacked) -> Result<()> {
        self.about.stream_fields.extend(record.stream_fields);
        self.add_line(&record.line)
    }

    /// Adds lines that end in newlines.
    pub fn add_lines(&mut self, body: &[u8], stream_fields: &BTreeSet<String>) -> Result<()> {
        self.about.stream_fields.extend(stream_fields.iter().cloned());
        let body = body.strip_suffix(b"\n").unwrap_or(body);
        body.split(|byte| *byte == b'\n').try_for_each(|line| self.add_line(line))
    }

    fn add_line(&mut self, line: &[u8]) -> Result<()> {
        ensure!(!line.contains(&b'\n'), "a line of the source has a newline in it");
        let writer = self.writer.as_mut().expect("it is being written");
        let written = writer.write_all(line).and_then(|()| writer.write_all(b"\n"));
        written.with_context(|| {
            format!("cannot write {}; give --state on a larger disk", self.path.display())
        })?;
        self.about.lines += 1;
        self.about.bytes += line.len() as u64;
        Ok(())
    }

    /// Makes it durable.
    pub fn finish(mut self) -> Result<Spool> {
        let cannot = || format!("cannot write {}", self.path.display());
        let file = self.writer.take().expect("it is being written").into_inner();
        let file = file.map_err(std::io::IntoInnerError::into_error).with_context(cannot)?;
        file.sync_all().with_context(cannot)?;
        let mut summing = Summing::default();
        for_each_line(&self.path, |line| {
            summing.add(line);
            Ok(())
        })?;
        self.about.sum = summing.sum();
        let about = self.path.with_file_name(ABOUT_FILE);
        let text = serde_json::to_vec(&self.about).expect("plain values");
        let folder =
            node::data_dir::DocumentFolder::new(self.path.parent().expect("in a directory"));
        let kept = node::data_dir::Documents::replace(&folder, ABOUT_FILE, &text);
        kept.with_context(|| format!("cannot write {}", about.display()))?;
        Ok(self)
    }

    /// Its lines.
    pub fn lines(&self) -> u64 {
        self.about.lines
    }

    /// Bytes of its lines, without newlines.
    pub fn bytes(&self) -> u64 {
        self.about.bytes
    }

    /// Deletes it.
    pub fn delete(self) -> Result<()> {
        for path in [self.path.with_file_name(ABOUT_FILE), self.path] {
            fs::remove_file(&path).with_context(|| format!("cannot delete {}", path.display()))?;
        }
        Ok(())
    }
}

fn for_each_line(path: &Path, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let cannot = || format!("cannot read {}", path.display());
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path).with_context(cannot)?);
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).with_context(cannot)? == 0 {
            return Ok(());
        }
        each(line.strip_suffix(b"\n").unwrap_or(&line))?;
    }
}

/// What the target has of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compared {
    /// Lines as it counts them.
    pub arrived: u64,
    /// Whether their bytes are those that were sent; none if that was not looked at.
    pub equal: Option<bool>,
}

/// Sends slices.
pub struct Carrier {
    client: Client,
    rate: Option<u64>,
    compares: bool,
    /// When the next batch may be sent.
    next_at: Instant,
}

/// Whether a batch was kept.
enum Outcome {
    Kept,
    /// The first lines of it were; the rest may be sent again.
    Refused(u64, Refusal),
    /// It is not known.
    Unknown(anyhow::Error),
}

impl Carrier {
    /// Sends to this server, at most so many lines a second.
    pub fn new(client: Client, rate: Option<u64>, compares: bool) -> Carrier {
        Carrier { client, rate, compares, next_at: Instant::now() }
    }

    /// Sends what the target does not have of a slice, of which `is_begun` says that some may have
    /// been sent by a process that was killed.
    pub fn carry(
        &mut self,
        spool: &Spool,
        is_begun: bool,
        params: &[(&'static str, String)],
        bar: &ProgressBar,
    ) -> Result<()> {
        let mut done = match is_begun {
            true => self.settled(&spool.about.tag, spool.lines())?,
            false => 0,
        };
        bar.inc(done.min(spool.lines()));
        let mut attempt = 1;
        while done < spool.lines() {
            match self.send_from(spool, done, params, bar)? {
                (sent, Outcome::Kept) => {
                    done += sent;
                    attempt = 1;
                }
                (sent, Outcome::Refused(kept, refusal)) => {
                    done += sent + kept;
                    bar.inc(kept);
                    let error = anyhow!(escaped(&refusal.message()));
                    if !matches!(refusal.status, 408 | 429 | 503 | 507) || attempt >= ATTEMPTS_MAX {
                        return Err(error.context(
                            "the target refuses lines; give the same command again to resume",
                        ));
                    }
                    pause(attempt, &error);
                }
                (sent, Outcome::Unknown(error)) => {
                    if attempt >= ATTEMPTS_MAX {
                        return Err(error.context(
                            "the target does not answer; give the same command again to resume",
                        ));
                    }
                    pause(attempt, &error);
                    let before = done + sent;
                    // It may not answer yet.
                    match self.settled(&spool.about.tag, spool.lines()) {
                        Ok(now) => {
                            done = now;
                            bar.inc(done.saturating_sub(before));
                        }
                        Err(_) => done = before,
                    }
                }
            }
            attempt += 1;
        }
        Ok(())
    }

    /// Sends the lines behind the first `done`, until a batch is not kept; returns the lines of
    /// batches that were.
    fn send_from(
        &mut self,
        spool: &Spool,
        done: u64,
        params: &[(&'static str, String)],
        bar: &ProgressBar,
    ) -> Result<(u64, Outcome)> {
        let (mut at, mut sent, mut lines, mut batch) = (0, 0, 0, Vec::new());
        let mut failed = None;
        for_each_line(&spool.path, |line| {
            at += 1;
            if at <= done || failed.is_some() {
                return Ok(());
            }
            batch.extend_from_slice(line);
            batch.push(b'\n');
            lines += 1;
            let is_full = batch.len() >= BATCH_BYTES || self.rate.is_some_and(|rate| lines >= rate);
            if is_full || at == spool.lines() {
                match self.post(spool, &batch, lines, params)? {
                    Outcome::Kept => {
                        sent += lines;
                        bar.inc(lines);
                    }
                    outcome => failed = Some(outcome),
                }
                batch.clear();
                lines = 0;
            }
            Ok(())
        })?;
        Ok((sent, failed.unwrap_or(Outcome::Kept)))
    }

    fn post(
        &mut self,
        spool: &Spool,
        batch: &[u8],
        lines: u64,
        params: &[(&'static str, String)],
    ) -> Result<Outcome> {
        if let Some(rate) = self.rate {
            thread::sleep(self.next_at.saturating_duration_since(Instant::now()));
            let takes = Duration::from_secs_f64(lines as f64 / rate as f64);
            self.next_at = Instant::now() + takes;
        }
        let streams: Vec<&str> =
            spool.about.stream_fields.iter().take(STREAM_FIELDS_MAX).map(String::as_str).collect();
        let streams = streams.join(",");
        let mut query = vec![("file", spool.about.tag.as_str())];
        query.extend(params.iter().map(|(name, value)| (*name, value.as_str())));
        if !streams.is_empty() {
            query.push(("_stream_fields", &streams));
        }
        let answer = match self.client.post_bytes("/insert/lines", &query, batch) {
            Ok(Ok(mut response)) => response.body_mut().read_to_string(),
            Ok(Err(refusal)) => {
                let kept = refusal.body["lines"].as_u64().unwrap_or(0).min(lines);
                return Ok(Outcome::Refused(kept, refusal));
            }
            Err(error) => return Ok(Outcome::Unknown(error)),
        };
        let Ok(answer) = answer else {
            return Ok(Outcome::Unknown(anyhow!("the answer of the target was cut off")));
        };
        let counts: Value = serde_json::from_str(&answer).unwrap_or_default();
        match counts["lines"].as_u64() {
            Some(counted) if counted == lines => Ok(Outcome::Kept),
            counted => bail!(
                "the target counted {} lines in a batch of {lines}; its version may differ",
                counted.map_or("no".to_owned(), |counted| counted.to_string())
            ),
        }
    }

    /// How many lines of a slice the target has, once that does not change any more.
    fn settled(&self, tag: &str, lines: u64) -> Result<u64> {
        let (mut found, mut since) = (self.count(tag)?, Instant::now());
        while found < lines && since.elapsed() < SETTLED_AFTER {
            thread::sleep(Duration::from_millis(500));
            let now = self.count(tag)?;
            if now != found {
                (found, since) = (now, Instant::now());
            }
        }
        Ok(found)
    }

    fn count(&self, tag: &str) -> Result<u64> {
        let query = format!("_file:={} | stats count() n", Value::from(tag));
        let answer = self.client.post_form("/select/logsql/query", &[("query", query)])?;
        let mut response = answer.map_err(|refusal| anyhow!(escaped(&refusal.message())))?;
        let text = response.body_mut().read_to_string()?;
        let row: Value = serde_json::from_str(text.trim()).context("the target does not count")?;
        let count = row["n"].as_str().and_then(|n| n.parse().ok());
        count.with_context(|| format!("the target does not count: {}", escaped(&text)))
    }

    /// Reads a slice back.
    pub fn compare(&self, spool: &Spool) -> Result<Compared> {
        let counted = self.count(&spool.about.tag)?;
        if !self.compares {
            return Ok(Compared { arrived: counted, equal: None });
        }
        let query = format!("_file:={}", Value::from(spool.about.tag.as_str()));
        let form = [("query", query), ("format", "raw".to_owned())];
        let answer = self.client.post_form("/api/v1/export", &form)?;
        let mut response = answer.map_err(|refusal| anyhow!(escaped(&refusal.message())))?;
        let mut reader = BufReader::with_capacity(1 << 20, response.body_mut().as_reader());
        let (mut summing, mut lines, mut line) = (Summing::default(), 0, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            if read.context("reading back was cut off; give the same command again to resume")? == 0
            {
                break;
            }
            summing.add(line.strip_suffix(b"\n").unwrap_or(&line));
            lines += 1;
        }
        let equal = lines == spool.lines() && summing.sum() == spool.about.sum;
        Ok(Compared { arrived: counted, equal: Some(equal) })
    }
}

/// Tells why an attempt failed, and waits: a second, then twice as long each time, up to a minute.
pub fn pause(attempt: u32, error: &anyhow::Error) {
    let seconds = 1_u64 << attempt.saturating_sub(1).min(6);
    let seconds = seconds.min(60);
    eprintln!(
        "loginson: {}; trying again in {seconds} s",
        escaped(&node::process::log::one_line(error))
    );
    thread::sleep(Duration::from_secs(seconds));
}

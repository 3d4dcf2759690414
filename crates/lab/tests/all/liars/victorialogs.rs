//! A server with as much of VictoriaLogs' API as rows and counts need, that may lie.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    None,
    /// Counts every line twice.
    CountsTwice,
    /// Acknowledges every hundredth line and drops it.
    DropsLines,
    /// The same, and counts a line in an empty table before the first one comes, after it was seen
    /// to be empty.
    DropsLinesOfAFullTable,
    /// Answers a query as it answered the same text before.
    RemembersAnswers,
    /// Loses a line after a table was loaded, counted and read again.
    LosesALoadedLine,
    /// Counts a line once it is taken, and finds it once it is asked to flush.
    CountsBeforeItFinds,
}

/// A part of the queries of the table with which the lab looks for remembered answers.
const PROBE: &str = "lab_probe";

type Line = BTreeMap<String, String>;

#[derive(Default)]
struct Lines {
    lines: Vec<Line>,
    /// Lines that are counted, and not found.
    waiting: Vec<Line>,
    taken: u64,
    /// Lines of syslog, which are counted and dropped.
    dropped: u64,
    answers: HashMap<String, String>,
    /// Whether a row was read since rows were counted.
    is_read: bool,
    /// How often rows of an empty table were counted.
    counts_of_none: u64,
}

/// The count that [`Lie::DropsLinesOfAFullTable`] answers wrongly: the table is made, seen to be
/// empty, and counted before the trial.
const WRONG_COUNT: u64 = 3;

/// Starts a server that runs until the test ends; its address.
pub fn start(lie: Lie) -> String {
    let lines = Arc::new(Mutex::new(Lines::default()));
    listen(lines, move |stream, lines| serve(stream, lie, lines))
}

/// Starts a server that says how many lines of syslog it took, and has none of them; its address,
/// and that of syslog.
pub fn start_dropping_syslog() -> (String, String) {
    let lines = Arc::new(Mutex::new(Lines::default()));
    let http = listen(lines.clone(), |stream, lines| serve(stream, Lie::None, lines));
    let count = |stream: TcpStream, lines: &Mutex<Lines>| {
        let mut input = BufReader::new(stream);
        let mut line = Vec::new();
        while input.read_until(b'\n', &mut line).ok()? > 0 {
            lines.lock().unwrap().dropped += 1;
            line.clear();
        }
        Some(())
    };
    (http, listen(lines, count))
}

/// Hands each connection to a thread of its own; the address for connections.
fn listen(
    lines: Arc<Mutex<Lines>>,
    serve: impl Fn(TcpStream, &Mutex<Lines>) -> Option<()> + Copy + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let lines = lines.clone();
            std::thread::spawn(move || serve(stream, &lines));
        }
    });
    endpoint
}

/// Answers requests until the client is gone.
fn serve(stream: TcpStream, lie: Lie, lines: &Mutex<Lines>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut out = stream.try_clone().ok()?;
    let mut input = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if input.read_line(&mut line).ok()? == 0 {
                return None;
            }
            match line.trim_end() {
                "" => break,
                line => head.push(line.to_lowercase()),
            }
        }
        let length = head.iter().find_map(|line| line.strip_prefix("content-length:"));
        let length = length.map_or(0, |length| length.trim().parse().unwrap());
        let mut body = vec![0; length];
        input.read_exact(&mut body).ok()?;
        let path = head[0].split(' ').nth(1)?.split('?').next()?.to_owned();
        let body = String::from_utf8(body).ok()?;
        let answer = lines.lock().unwrap().answer(lie, &path, &body);
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", answer.len());
        out.write_all((head + &answer).as_bytes()).ok()?;
    }
}

/// The value of a field of a form, decoded.
fn field(form: &str, name: &str) -> Option<String> {
    let (_, encoded) =
        form.split('&').filter_map(|one| one.split_once('=')).find(|one| one.0 == name)?;
    let mut decoded = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        decoded.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(decoded).ok()
}

/// The fields that a filter wants, with their values.
fn wanted(filter: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut rest = filter;
    while let Some((before, after)) = rest.split_once("=\"") {
        let name = before.trim_end_matches(':').rsplit([' ', ',', '{', '}']).next().unwrap();
        let after = format!("\"{after}");
        let mut values = serde_json::Deserializer::from_str(&after).into_iter::<String>();
        let value = values.next().unwrap().unwrap();
        all.push((name.trim_matches('"').to_owned(), value));
        rest = &rest[rest.len() - (after.len() - values.byte_offset())..];
    }
    all
}

impl Lines {
    fn answer(&mut self, lie: Lie, path: &str, body: &str) -> String {
        match path {
            "/metrics" => format!(
                "vl_data_size_bytes 1000\nvl_storage_rows{{type=\"storage/inmemory\"}} 0\n\
                 vl_active_force_merges 0\nvm_app_version{{short_version=\"v1.52.1\"}} 1\n\
                 vl_rows_ingested_total{{type=\"syslog_tcp\"}} {}\n",
                self.dropped
            ),
            "/insert/jsonline" => {
                for line in body.lines() {
                    self.taken += 1;
                    let line: Line = serde_json::from_str(line).unwrap();
                    let is_of_probe = line.get("Table").is_some_and(|table| table == PROBE);
                    let drops = matches!(lie, Lie::DropsLines | Lie::DropsLinesOfAFullTable);
                    match lie {
                        _ if drops && self.taken.is_multiple_of(100) => {}
                        Lie::CountsBeforeItFinds if !is_of_probe => self.waiting.push(line),
                        _ => self.lines.push(line),
                    }
                }
                String::new()
            }
            "/internal/force_flush" => {
                self.lines.append(&mut self.waiting);
                String::new()
            }
            "/delete/run_task" => {
                let filter = wanted(&field(body, "filter").unwrap());
                self.lines.retain(|line| !has(line, &filter));
                "{\"task_id\":\"1\"}".to_owned()
            }
            "/delete/active_tasks" => "[]".to_owned(),
            "/select/logsql/query" => {
                let query = field(body, "query").unwrap();
                if lie == Lie::LosesALoadedLine && !query.contains(PROBE) {
                    self.loses(&query);
                }
                let answer = self.found(lie, &query);
                let is_none = answer == "{\"n\":\"0\"}\n" && !query.contains(PROBE);
                self.counts_of_none += u64::from(is_none);
                let is_wrong = is_none && self.counts_of_none == WRONG_COUNT;
                match lie {
                    Lie::DropsLinesOfAFullTable if is_wrong => "{\"n\":\"1\"}\n".to_owned(),
                    Lie::RemembersAnswers => self.answers.entry(query).or_insert(answer).clone(),
                    _ => answer,
                }
            }
            _ => String::new(),
        }
    }

    /// Loses a line when rows are counted that were read before.
    fn loses(&mut self, query: &str) {
        let (filter, pipe) = query.split_once(" | ").unwrap();
        let filter = wanted(filter);
        let counts = pipe.starts_with("stats count()");
        let place = self.lines.iter().position(|line| has(line, &filter));
        if let Some(place) = place.filter(|_| counts && self.is_read) {
            self.lines.remove(place);
        }
        self.is_read = !counts;
    }

    fn found(&self, lie: Lie, query: &str) -> String {
        let (filter, pipe) = query.split_once(" | ").unwrap();
        let filter = wanted(filter);
        let counts = pipe.starts_with("stats count()");
        let waiting = self.waiting.iter().filter(|_| counts);
        let all = self.lines.iter().chain(waiting);
        let mut found: Vec<&Line> = all.filter(|line| has(line, &filter)).collect();
        let json = |line: &Line| serde_json::to_string(line).unwrap() + "\n";
        if let Some(pipe) = pipe.strip_prefix("sort by (_time desc) limit ") {
            let limit = pipe.split(' ').next().unwrap().parse().unwrap();
            let time = |line: &Line| line["_time"].parse::<jiff::Timestamp>().unwrap();
            found.sort_by_key(|line| std::cmp::Reverse(time(line)));
            return found.into_iter().take(limit).map(json).collect();
        }
        if let Some((by, _)) = pipe.strip_prefix("stats by (").and_then(|by| by.split_once(')')) {
            // Bars of a second: the time without its fraction.
            let (field, is_bar) =
                by.split_once(':').map_or((by, false), |(field, _)| (field, true));
            let value = |line: &Line| match is_bar {
                true => line[field].split(['.', 'Z']).next().unwrap().to_owned() + "Z",
                false => line[field].clone(),
            };
            let mut groups: BTreeMap<String, u64> = BTreeMap::new();
            found.into_iter().for_each(|line| *groups.entry(value(line)).or_default() += 1);
            let group = |(value, count): (String, u64)| {
                json(&BTreeMap::from([
                    (field.to_owned(), value),
                    ("n".to_owned(), count.to_string()),
                ]))
            };
            return groups.into_iter().map(group).collect();
        }
        if !counts {
            return found.first().map(|line| json(line)).unwrap_or_default();
        }
        let count = found.len() * if lie == Lie::CountsTwice { 2 } else { 1 };
        format!("{{\"n\":\"{count}\"}}\n")
    }
}

fn has(line: &Line, filter: &[(String, String)]) -> bool {
    filter.iter().all(|(name, value)| line.get(name) == Some(value))
}

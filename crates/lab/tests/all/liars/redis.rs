//! A server with as much of Redis' protocol as the driver uses, that may lie.

use std::collections::{BTreeSet, HashMap};
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What the server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lie {
    None,
    /// Acknowledges an update and drops it.
    DropsUpdates,
    /// Returns a row as it was before its last update.
    AnswersStale,
    /// Keeps updates until somebody connects for the second time.
    ForgetsUpdatesLater,
    /// Keeps updates until they were read again by [`READERS`] connections.
    ForgetsUpdatesAfterwards,
    /// Acknowledges updates, and has them once somebody connects for the second time.
    AppliesUpdatesLater,
    /// A row of a table that was emptied is as it was there when it is inserted again.
    RestoresEmptiedRows,
    /// A scan has one row.
    OneRowPerScan,
    /// A scan leaves out its third row.
    SkipsRowsInScans,
    /// A scan has its last row first.
    ScansOutOfOrder,
    /// A scan has its second row once more in the place of the third one.
    DoublesRowsInScans,
    /// A scan has rows as they were inserted; a read has them as they are.
    ScansRowsAsInserted,
    /// Acknowledges every second new row and drops it.
    DropsEverySecondRow,
    /// The same, beginning when the table is loaded and was read.
    DropsEverySecondInsert,
    /// Loses a row of a loaded table after others were inserted, once nobody asks for it any more.
    LosesALoadedRow,
    /// Leaves a row out of scans that was inserted into a loaded table, once nobody scans any more.
    LosesAnInsertedRowInScans,
    /// Answers a read as it answered the same read on this connection before, unless the connection
    /// changed the row itself.
    CachesByConnection,
    /// Changes a row once it is asked to save.
    ChangesRowsLater,
    /// Answers a command as it answered the same command before.
    RemembersAnswers,
    /// Acknowledges rows, and has them once it is asked to save.
    AppliesRowsLater,
    /// Lets the first read wait that follows new rows.
    CatchesUpWhenAsked,
    /// Keeps the rows of a table that is emptied.
    KeepsRowsOfEmptiedTables,
    /// Leaves the last letter of each value out.
    TruncatesValues,
    /// Answers one read with a changed row, after the table was loaded and read again.
    AnswersWronglyOnce,
}

/// The read that [`Lie::AnswersWronglyOnce`] answers wrongly: 500 rows are loaded, looked for and
/// read again before a trial.
const WRONG_READ: u64 = 800;

/// Connections of the lab between two trials of eight threads: one that looks right after the
/// first of them, and one for each thread to read rows again.
const READERS: u32 = 9;

/// The time for which [`Lie::CatchesUpWhenAsked`] works after it was asked.
const BACKLOG: Duration = Duration::from_millis(1_500);

/// The beginning of the keys of the table with which the lab looks for remembered answers. All
/// other lies spare it, so that trials have to find them.
const PROBE: &[u8] = b"lab_probe";

type Fields = HashMap<Vec<u8>, Vec<u8>>;

#[derive(Default)]
struct Rows {
    rows: HashMap<Vec<u8>, Fields>,
    /// Rows as they were before their last update.
    before: HashMap<Vec<u8>, Fields>,
    /// Rows as they were inserted.
    inserted: HashMap<Vec<u8>, Fields>,
    members: HashMap<Vec<u8>, BTreeSet<Vec<u8>>>,
    new_rows: u64,
    is_loaded: bool,
    reads: u64,
    /// Acknowledged rows and updates that are not there yet.
    waiting: Vec<(Vec<u8>, Vec<Vec<u8>>)>,
    /// Connections since the last update.
    connections: u32,
    /// Rows of tables that were emptied.
    emptied: HashMap<Vec<u8>, Fields>,
    answers: HashMap<Vec<Vec<u8>>, Vec<u8>>,
    /// Whether rows came since the last read.
    is_behind: bool,
    /// Rows of the last scan.
    scanned: usize,
    /// The first row of a table that was loaded.
    oldest: Option<Vec<u8>>,
    /// The table and the key of the last row that was entered for scans.
    newest: Option<(Vec<u8>, Vec<u8>)>,
}

/// A server that runs until the test ends.
pub struct Redis {
    endpoint: String,
    rows: Arc<Mutex<Rows>>,
}

impl Redis {
    pub fn start(lie: Lie) -> Redis {
        Redis::waiting(lie, Duration::ZERO)
    }

    /// One that waits before it sends answers.
    pub fn waiting(lie: Lie, pause: Duration) -> Redis {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let rows = Arc::new(Mutex::new(Rows::default()));
        let all = rows.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let rows = all.clone();
                std::thread::spawn(move || serve(stream, lie, pause, &rows));
            }
        });
        Redis { endpoint, rows }
    }

    /// Rows of tables whose names have this part.
    pub fn rows_of(&self, part: &str) -> usize {
        let rows = self.rows.lock().unwrap();
        let of = |key: &&Vec<u8>| String::from_utf8_lossy(key).contains(part);
        rows.rows.keys().filter(of).count()
    }

    pub fn endpoint(&self) -> String {
        self.endpoint.clone()
    }
}

/// Answers commands until the client is gone.
fn serve(stream: TcpStream, lie: Lie, pause: Duration, rows: &Mutex<Rows>) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    rows.lock().unwrap().connected(lie);
    let mut out = stream.try_clone().ok()?;
    let mut input = BufReader::with_capacity(1 << 20, stream);
    let mut answers = Vec::new();
    // Rows of a scan of this connection that are read next.
    let mut scanned = 0;
    let mut cached: HashMap<Vec<Vec<u8>>, Vec<u8>> = HashMap::new();
    loop {
        let command = read_command(&mut input)?;
        let is_of_scan = scanned > 0 && command[0] == b"HMGET";
        scanned -= usize::from(is_of_scan);
        let lie = match lie {
            Lie::ScansRowsAsInserted if !is_of_scan => Lie::None,
            lie => lie,
        };
        let begin = answers.len();
        let mut rows = rows.lock().unwrap();
        rows.answer(lie, &command, &mut answers);
        if command[0] == b"ZRANGEBYLEX" {
            scanned = rows.scanned;
        }
        drop(rows);
        if lie == Lie::CachesByConnection {
            match &command[0][..] {
                b"HMGET" if !command[1].starts_with(PROBE) => {
                    let answer = || answers[begin..].to_vec();
                    let known = cached.entry(command.clone()).or_insert_with(answer);
                    answers.truncate(begin);
                    answers.extend_from_slice(known);
                }
                b"HSET" => cached.retain(|asked, _| asked[1] != command[1]),
                _ => {}
            }
        }
        if input.buffer().is_empty() {
            std::thread::sleep(pause);
            out.write_all(&answers).ok()?;
            answers.clear();
        }
    }
}

fn read_command(input: &mut impl BufRead) -> Option<Vec<Vec<u8>>> {
    let mut number = || {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        line.get(1..)?.trim().parse::<usize>().ok()
    };
    let parts = number()?;
    let mut command = Vec::with_capacity(parts);
    for _ in 0..parts {
        let mut line = String::new();
        input.read_line(&mut line).ok()?;
        let mut part = vec![0; line.get(1..)?.trim().parse::<usize>().ok()? + 2];
        input.read_exact(&mut part).ok()?;
        part.truncate(part.len() - 2);
        command.push(part);
    }
    Some(command)
}

fn bulk(out: &mut Vec<u8>, text: Option<&[u8]>) {
    match text {
        None => out.extend(b"$-1\r\n"),
        Some(text) => {
            out.extend(format!("${}\r\n", text.len()).bytes());
            out.extend(text);
            out.extend(b"\r\n");
        }
    }
}

fn array(out: &mut Vec<u8>, length: usize) {
    out.extend(format!("*{length}\r\n").bytes());
}

impl Rows {
    fn answer(&mut self, lie: Lie, command: &[Vec<u8>], out: &mut Vec<u8>) {
        let asks = [&b"HMGET"[..], b"ZRANGEBYLEX"].contains(&&command[0][..]);
        if lie != Lie::RemembersAnswers || !asks {
            let of_probe = command.get(1).is_some_and(|key| key.starts_with(PROBE));
            return self.answer_now(if of_probe { Lie::None } else { lie }, command, out);
        }
        if !self.answers.contains_key(command) {
            let mut answer = Vec::new();
            self.answer_now(Lie::None, command, &mut answer);
            self.answers.insert(command.to_vec(), answer);
        }
        out.extend(&self.answers[command]);
    }

    fn answer_now(&mut self, lie: Lie, command: &[Vec<u8>], out: &mut Vec<u8>) {
        match &command[0][..] {
            b"HSET" => {
                self.set(lie, &command[1], &command[2..]);
                out.extend(b":1\r\n");
            }
            b"HMGET" => {
                self.is_loaded = true;
                if lie == Lie::CatchesUpWhenAsked && std::mem::take(&mut self.is_behind) {
                    std::thread::sleep(BACKLOG);
                }
                let rows = match lie {
                    Lie::AnswersStale => &self.before,
                    Lie::ScansRowsAsInserted => &self.inserted,
                    _ => &self.rows,
                };
                let row = rows.get(&command[1]).or_else(|| self.rows.get(&command[1]));
                self.reads += 1;
                let is_wrong = lie == Lie::AnswersWronglyOnce && self.reads == WRONG_READ;
                let cut = usize::from(lie == Lie::TruncatesValues);
                array(out, command.len() - 2);
                for field in &command[2..] {
                    let value = row.and_then(|row| row.get(field));
                    let value = value.map(|value| &value[usize::from(is_wrong)..value.len() - cut]);
                    bulk(out, value);
                }
            }
            b"ZADD" => {
                self.newest = Some((command[1].clone(), command[3].clone()));
                self.members.entry(command[1].clone()).or_default().insert(command[3].clone());
                out.extend(b":1\r\n");
            }
            b"ZRANGEBYLEX" => self.scanned = self.scan(lie, command, out),
            b"SCAN" => {
                let table = command[3].strip_suffix(b"*").unwrap();
                let keys: Vec<&Vec<u8>> =
                    self.rows.keys().filter(|key| key.starts_with(table)).collect();
                array(out, 2);
                bulk(out, Some(b"0"));
                array(out, keys.len());
                keys.into_iter().for_each(|key| bulk(out, Some(key)));
            }
            b"UNLINK" if lie == Lie::KeepsRowsOfEmptiedTables => out.extend(b":1\r\n"),
            b"UNLINK" => {
                for key in &command[1..] {
                    let row = self.rows.remove(key);
                    if lie == Lie::RestoresEmptiedRows {
                        self.emptied.extend(row.map(|row| (key.clone(), row)));
                    }
                    self.before.remove(key);
                    self.inserted.remove(key);
                    self.members.remove(key);
                }
                (self.is_loaded, self.oldest) = (false, None);
                out.extend(b":1\r\n");
            }
            b"INFO" => {
                bulk(out, Some(b"redis_version:7.0.15\r\nused_memory_dataset:1000\r\n"));
            }
            b"SAVE" => {
                self.saves(lie);
                out.extend(b"+OK\r\n");
            }
            b"HELLO" => out.extend(b"-ERR unknown command\r\n"),
            _ => out.extend(b"+OK\r\n"),
        }
    }

    fn set(&mut self, lie: Lie, key: &[u8], fields: &[Vec<u8>]) {
        if lie == Lie::AppliesRowsLater {
            self.waiting.push((key.to_vec(), fields.to_vec()));
            return;
        }
        let is_new = !self.rows.contains_key(key);
        let counts =
            [Lie::ForgetsUpdatesLater, Lie::ForgetsUpdatesAfterwards, Lie::AppliesUpdatesLater];
        if !is_new && counts.contains(&lie) {
            self.connections = 0;
        }
        let loses = [Lie::LosesALoadedRow, Lie::LosesAnInsertedRowInScans].contains(&lie);
        if is_new && loses {
            match self.is_loaded {
                true => self.connections = 0,
                false => {
                    self.oldest.get_or_insert_with(|| key.to_vec());
                }
            }
        }
        if !is_new && lie == Lie::AppliesUpdatesLater {
            self.waiting.push((key.to_vec(), fields.to_vec()));
            return;
        }
        if lie == Lie::RestoresEmptiedRows
            && let Some(row) = self.emptied.remove(key)
        {
            self.rows.insert(key.to_vec(), row);
            return;
        }
        self.new_rows += u64::from(is_new);
        self.is_behind = true;
        let drops = match lie {
            Lie::DropsUpdates => !is_new,
            Lie::DropsEverySecondRow => is_new && self.new_rows.is_multiple_of(2),
            Lie::DropsEverySecondInsert => {
                is_new && self.is_loaded && self.new_rows.is_multiple_of(2)
            }
            _ => false,
        };
        if drops {
            return;
        }
        let row = self.rows.entry(key.to_vec()).or_default();
        if !is_new {
            self.before.insert(key.to_vec(), row.clone());
        }
        for pair in fields.chunks(2) {
            row.insert(pair[0].clone(), pair[1].clone());
        }
        if is_new {
            self.inserted.insert(key.to_vec(), row.clone());
        }
    }

    /// Answers with the members of a scan, and returns their number.
    fn scan(&self, lie: Lie, command: &[Vec<u8>], out: &mut Vec<u8>) -> usize {
        let (from, rows_max) = (&command[2][1..], &command[6]);
        let rows_max: usize = std::str::from_utf8(rows_max).unwrap().parse().unwrap();
        let none = BTreeSet::new();
        let members = self.members.get(&command[1]).unwrap_or(&none);
        let after = members.range(from.to_vec()..);
        let mut found: Vec<Vec<u8>> = match lie {
            Lie::OneRowPerScan => after.take(1).cloned().collect(),
            Lie::SkipsRowsInScans => {
                let kept = after.enumerate().filter(|(place, _)| *place != 2);
                kept.map(|(_, member)| member.clone()).take(rows_max).collect()
            }
            _ => after.take(rows_max).cloned().collect(),
        };
        if lie == Lie::ScansOutOfOrder && found.len() > 2 {
            let last = found.len() - 1;
            found.swap(1, last);
        }
        if lie == Lie::DoublesRowsInScans && found.len() > 2 {
            found[2] = found[1].clone();
        }
        array(out, found.len());
        found.iter().for_each(|member| bulk(out, Some(member)));
        found.len()
    }

    fn connected(&mut self, lie: Lie) {
        self.connections += 1;
        // The first connection after a trial looks right then, the second one reads rows again.
        match lie {
            Lie::ForgetsUpdatesLater if self.connections == 2 => {
                self.rows.clone_from(&self.inserted);
            }
            Lie::ForgetsUpdatesAfterwards if self.connections == READERS + 1 => {
                self.rows.clone_from(&self.inserted);
            }
            Lie::LosesALoadedRow if self.connections == 2 => {
                if let Some(key) = self.oldest.take() {
                    self.rows.remove(&key);
                }
            }
            Lie::LosesAnInsertedRowInScans if self.connections == 2 => {
                let newest = self.newest.take();
                if let Some((table, member)) = newest.filter(|_| self.oldest.is_some()) {
                    self.members.entry(table).or_default().remove(&member);
                }
            }
            Lie::AppliesUpdatesLater if self.connections == 2 => self.applies(),
            _ => {}
        }
    }

    fn applies(&mut self) {
        for (key, fields) in std::mem::take(&mut self.waiting) {
            self.set(Lie::None, &key, &fields);
        }
    }

    fn saves(&mut self, lie: Lie) {
        self.applies();
        let values = self.rows.values_mut().next().map(|row| row.values_mut());
        if let Some(value) = values.and_then(|mut values| values.next())
            && lie == Lie::ChangesRowsLater
        {
            // Not back to what it was when a server is asked to save twice.
            value.rotate_left(1);
        }
    }
}

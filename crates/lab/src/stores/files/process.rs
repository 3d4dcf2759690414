//! The process behind the store `files`: it appends lines to files, and runs `rg` and `awk` on
//! them.
//!
//! Like the daemon of a log it is a process of its own, so that its resources are measured apart
//! from the generator, and it can be killed. A table is a directory; a file of it ends at
//! [`FILE_BYTES_MAX`], as files of logs are rotated.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::protocol::{Reply, Request};
use super::script::{Script, script};
use crate::driver::json_lines::LINE_BYTES_MAX;

/// Size of a file at which the next one begins.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// The tables, each with its open file.
#[derive(Debug)]
pub struct Tables {
    data: PathBuf,
    open: Mutex<BTreeMap<String, Open>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    number: u32,
    bytes: u64,
}

impl Tables {
    /// Tables below `data`.
    pub fn new(data: &Path) -> Tables {
        Tables { data: data.to_owned(), open: Mutex::default() }
    }

    fn folder(&self, table: &str) -> Result<PathBuf, String> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        match !table.is_empty() && table.bytes().all(plain) {
            true => Ok(self.data.join(table)),
            false => Err(format!("`{table}` is no name of a table")),
        }
    }

    fn create(&self, table: &str) -> Result<(), String> {
        let folder = self.folder(table)?;
        let mut open = self.open.lock().map_err(|_| "an append failed before".to_owned())?;
        open.remove(table);
        match std::fs::remove_dir_all(&folder) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e.to_string()),
            _ => {}
        }
        let first = Open::new(&folder, 1).map_err(|e| e.to_string())?;
        open.insert(table.to_owned(), first);
        Ok(())
    }

    fn append(&self, table: &str, text: &str, sync: bool) -> Result<(), String> {
        let folder = self.folder(table)?;
        let mut all = self.open.lock().map_err(|_| "an append failed before".to_owned())?;
        let mut work = || -> std::io::Result<()> {
            let open = match all.remove(table) {
                Some(open) if open.bytes < FILE_BYTES_MAX => open,
                Some(full) => Open::new(&folder, full.number + 1)?,
                None => Open::new(&folder, last(&folder))?,
            };
            let open = all.entry(table.to_owned()).or_insert(open);
            open.file.write_all(text.as_bytes())?;
            open.bytes += text.len() as u64;
            if sync { open.file.sync_data() } else { Ok(()) }
        };
        work().map_err(|e| e.to_string())
    }

    /// The size of a table that is on disk.
    fn sync(&self, table: &str) -> Result<u64, String> {
        let sync = |folder: &Path| -> std::io::Result<u64> {
            let mut bytes = 0;
            for entry in std::fs::read_dir(folder)? {
                let file = File::open(entry?.path())?;
                file.sync_all()?;
                bytes += file.metadata()?.len();
            }
            Ok(bytes)
        };
        sync(&self.folder(table)?).map_err(|e| format!("{table}: {e}"))
    }
}

impl Open {
    fn new(folder: &Path, number: u32) -> std::io::Result<Open> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{number:06}.log"));
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = file.metadata()?.len();
        Ok(Open { file, number, bytes })
    }
}

/// The number of the last file of a table.
fn last(folder: &Path) -> u32 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |name: std::ffi::OsString| name.to_str()?.strip_suffix(".log")?.parse().ok();
    entries.filter_map(|entry| number(entry.file_name())).max().unwrap_or(1)
}

/// Serves until the process is killed.
pub async fn serve(listener: TcpListener, tables: Arc<Tables>) -> std::io::Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let tables = tables.clone();
        tokio::spawn(async move {
            // The driver sees that the connection is gone.
            let _ = connection(stream, tables).await;
        });
    }
}

async fn connection(stream: TcpStream, tables: Arc<Tables>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    loop {
        line.clear();
        (&mut read).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
        if line.last() != Some(&b'\n') {
            return Ok(());
        }
        let done = match serde_json::from_slice(&line) {
            Ok(request) => perform(request, &tables).await,
            Err(error) => Err(format!("not a request: {error}")),
        };
        let reply = done.map_or_else(Reply::Failed, Reply::Done);
        let mut answer = serde_json::to_vec(&reply)?;
        answer.push(b'\n');
        write.write_all(&answer).await?;
    }
}

async fn perform(request: Request, tables: &Arc<Tables>) -> Result<String, String> {
    match request {
        Request::Version => {
            // `sed` reads to the end: `rg` complains when nobody reads the rest of its version.
            let text = "rg --version | sed -n 1p; awk -W version 2>&1 </dev/null | sed -n 1p";
            run(&Script { text: text.to_owned(), environment: Vec::new() }, Path::new("/")).await
        }
        Request::Find(find) => run(&script(&find), &tables.folder(&find.table)?).await,
        Request::Create { table } => {
            blocking(tables, move |tables| tables.create(&table).map(|()| String::new())).await
        }
        Request::Append { table, text, sync } => {
            let append =
                move |tables: &Tables| tables.append(&table, &text, sync).map(|()| String::new());
            blocking(tables, append).await
        }
        Request::Sync { table } => {
            blocking(tables, move |tables| tables.sync(&table).map(|bytes| bytes.to_string())).await
        }
    }
}

async fn blocking(
    tables: &Arc<Tables>,
    work: impl FnOnce(&Tables) -> Result<String, String> + Send + 'static,
) -> Result<String, String> {
    let tables = tables.clone();
    let done = tokio::task::spawn_blocking(move || work(&tables)).await;
    done.unwrap_or_else(|error| Err(error.to_string()))
}

/// Runs a script and returns its output. `rg` says with its status that it found nothing, so only
/// output on its standard error is a failure.
async fn run(script: &Script, folder: &Path) -> Result<String, String> {
    let mut command = tokio::process::Command::new("sh");
    command.arg("-c").arg(&script.text).current_dir(folder);
    command.envs(script.environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await.map_err(|e| format!("sh: {e}"))?;
    match output.stderr.is_empty() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

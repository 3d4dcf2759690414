//! Collectors that write their input into files of this machine: rsyslog, syslog-ng and Flume.
//!
//! Collectors answer nothing, so a line has arrived when it is in a file. The table is everything
//! that was written since the table was created. A collector keeps its files open, so earlier lines
//! are removed by punching holes into the files, which keep their sizes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rustix::fs::FallocateFlags;

use super::sender::{Connection, Sender, Unit};
use super::stream::Sum;
use super::{
    Ability, Answer, Driver, OpenError, Operation, Session, Settle, StoreError, StoreSpec, TIMEOUT,
};
use crate::options::Known;
use crate::row::Schema;

/// Time without growth after which nothing is on its way any more.
const QUIET: Duration = Duration::from_millis(300);

/// Bytes of a file that are read at once.
const READ_BYTES: usize = 1 << 20;

/// The option for the version, which these programs do not tell by network.
pub(crate) const VERSION: &str = "version";

/// The option for the directories of output.
pub(crate) const OUTPUT: &str = "output";

pub(crate) const OPTIONS: &[Known] = &[
    TIMEOUT,
    Known {
        name: OUTPUT,
        default: "",
        help: "the directory of the output of each node, with `:` between; the lab's servers name it",
    },
    Known { name: VERSION, default: "unknown", help: "the version; the lab's servers name it" },
];

struct Collector {
    store: String,
    version: String,
    versions_tested: &'static [&'static str],
    sender: Sender,
    output: Vec<PathBuf>,
}

/// The options for a driver of servers with these directories.
pub(crate) fn options_for(output: &[PathBuf], version: String) -> Vec<(&'static str, String)> {
    let paths: Vec<String> = output.iter().map(|path| path.display().to_string()).collect();
    vec![(OUTPUT, paths.join(":")), (VERSION, version)]
}

/// The driver of a collector that is tested with these versions.
pub(crate) fn open(
    spec: &StoreSpec,
    versions_tested: &'static [&'static str],
) -> Result<Arc<dyn Driver>, OpenError> {
    let options = super::options(spec, OPTIONS)?;
    super::hosts(spec)?;
    let timeout = super::timeout(&options)?;
    let output = options.text(OUTPUT).split(':').filter(|path| !path.is_empty());
    Ok(Arc::new(Collector {
        store: spec.name.clone(),
        version: options.text(VERSION).to_owned(),
        versions_tested,
        sender: Sender::new(&spec.name, &spec.endpoints, timeout, Unit::Bytes),
        output: output.map(PathBuf::from).collect(),
    }))
}

#[async_trait]
impl Driver for Collector {
    fn abilities(&self) -> &'static [Ability] {
        &[Ability::Stream]
    }

    async fn version(&self) -> Result<String, StoreError> {
        // A collector has no other answer than accepting a connection.
        self.sender.reach().await?;
        Ok(self.version.clone())
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        self.versions_tested
    }

    async fn create(&self, _: &Schema) -> Result<(), StoreError> {
        let mut size = self.size().await?;
        loop {
            tokio::time::sleep(QUIET).await;
            let now = self.size().await?;
            if now == size {
                break;
            }
            size = now;
        }
        self.each(begin).await?;
        self.sender.begin(size);
        Ok(())
    }

    async fn settle(&self, _: &Schema, _: Settle) -> Result<(), StoreError> {
        let Some(mut waiting) = self.sender.waiting() else { return Ok(()) };
        while !waiting.is_over(self.size().await?).await? {}
        Ok(())
    }

    async fn table_bytes(&self, _: &Schema) -> Result<Option<u64>, StoreError> {
        Ok(Some(self.each(used).await?.into_iter().sum()))
    }

    async fn arrived(&self, _: &Schema) -> Result<Option<Sum>, StoreError> {
        let mut all = Sum::default();
        for sum in self.each(sum).await? {
            all += sum;
        }
        Ok(Some(all))
    }

    async fn connect(&self, _: &Schema) -> Result<Box<dyn Session>, StoreError> {
        let connection = self.sender.connect(self.size().await?).await?;
        Ok(Box::new(Streaming { store: self.store.clone(), connection }))
    }
}

impl Collector {
    /// Bytes of all files since the beginning.
    async fn size(&self) -> Result<u64, StoreError> {
        Ok(self.each(size).await?.into_iter().sum())
    }

    /// Does something with each directory, off the threads that send.
    async fn each<T: Send + 'static>(
        &self,
        work: fn(&Path) -> std::io::Result<T>,
    ) -> Result<Vec<T>, StoreError> {
        let refused = |reason: String| StoreError::Refused { store: self.store.clone(), reason };
        if self.output.is_empty() {
            let reason = format!("the option `{OUTPUT}` has to name its directory of output");
            return Err(refused(reason));
        }
        let output = self.output.clone();
        let works = move || {
            let each = output
                .iter()
                .map(|path| work(path).map_err(|e| format!("{}: {e}", path.display())));
            each.collect::<Result<Vec<T>, String>>()
        };
        let done = tokio::task::spawn_blocking(works).await;
        done.unwrap_or_else(|e| Err(e.to_string())).map_err(refused)
    }
}

/// A connection for lines, and nothing else.
pub(crate) struct Streaming {
    pub store: String,
    pub connection: Connection,
}

#[async_trait]
impl Session for Streaming {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        match operation {
            Operation::Stream(block) => {
                self.connection.send(block).await?;
                Ok(Answer::Done)
            }
            _ => {
                let (store, ability) = (self.store.clone(), operation.ability());
                Err(StoreError::NotSupported { store, ability })
            }
        }
    }
}

/// The files of a directory; none before the first line.
fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.push(entry.path());
        }
    }
    Ok(files)
}

fn size(folder: &Path) -> std::io::Result<u64> {
    let sizes = files(folder)?.into_iter().map(|path| Ok(std::fs::metadata(path)?.len()));
    sizes.sum()
}

/// Bytes that files take on disk: holes take none.
fn used(folder: &Path) -> std::io::Result<u64> {
    let used = files(folder)?.into_iter().map(|path| Ok(std::fs::metadata(path)?.blocks() * 512));
    used.sum()
}

/// The file beside a directory of output that says where the table begins in each file.
fn beginnings(folder: &Path) -> PathBuf {
    folder.with_extension("json")
}

/// Begins a table behind everything that is there, and frees its space.
fn begin(folder: &Path) -> std::io::Result<()> {
    let mut from = BTreeMap::new();
    for path in files(folder)? {
        let file = File::options().write(true).open(&path)?;
        let bytes = file.metadata()?.len();
        if bytes > 0 {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&file, hole, 0, bytes)?;
        }
        from.insert(path, bytes);
    }
    std::fs::write(beginnings(folder), serde_json::to_string(&from)?)
}

/// The lines since [`begin`].
fn sum(folder: &Path) -> std::io::Result<Sum> {
    let from: BTreeMap<PathBuf, u64> = match std::fs::read(beginnings(folder)) {
        Ok(text) => serde_json::from_slice(&text)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
        Err(e) => return Err(e),
    };
    let mut sum = Sum::default();
    for path in files(folder)? {
        let mut file = File::open(&path)?;
        file.seek(SeekFrom::Start(from.get(&path).copied().unwrap_or(0)))?;
        sum.add_lines(BufReader::with_capacity(READ_BYTES, file))?;
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_table_is_what_was_written_since_it_was_created() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("output");
        std::fs::create_dir(&output).unwrap();
        let open = |name: &str| {
            let path = output.join(name);
            File::options().create(true).append(true).open(path).unwrap()
        };
        let mut one = open("one");
        assert_eq!(sum(&output).unwrap(), Sum::default());
        one.write_all(&b"before\n".repeat(100_000)).unwrap();
        assert_eq!((size(&output).unwrap(), sum(&output).unwrap().lines), (700_000, 100_000));
        assert!(used(&output).unwrap() >= 700_000);

        begin(&output).unwrap();
        assert_eq!((size(&output).unwrap(), sum(&output).unwrap()), (700_000, Sum::default()));
        assert!(used(&output).unwrap() < 100_000, "{}", used(&output).unwrap());
        one.write_all(b"a\n").unwrap();
        open("two").write_all(b"b\n").unwrap();
        let mut expected = Sum::default();
        expected.add_lines(&b"b\na\n"[..]).unwrap();
        assert_eq!((size(&output).unwrap(), sum(&output).unwrap()), (700_004, expected));
    }
}

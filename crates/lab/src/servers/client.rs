//! Clients of stores whose own library is for another language: a process of the lab's for each
//! library, which the drivers reach by lines of JSON over loopback (`stores/own/protocol.rs`).
//!
//! A client is fetched and compiled when it is first used, below `NAME-client` in the directory of
//! all stores, and runs until the lab ends: its standard input ends with the lab, however that
//! ends. All drivers of a kind of store share it, so that it is warm once the store is. Its
//! processor time and memory count as those of the generator, of which it is a part. It is not in
//! the process group of the lab, so that Ctrl-C does not end it before a trial has ended.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use super::{Home, Launch, Say, ServerError, Site, debian, home, io, maven};

/// What all clients have: the lab's side of the protocol.
const PROTOCOL: (&str, &str) = ("Store", include_str!("../stores/own/Store.java"));

/// What reads and writes JSON in a client.
const JSON: &str = "com.google.code.gson:gson:2.11.0";

/// Lines of a client's log that are quoted in an error.
const TAIL_LINES: usize = 10;

/// A client.
#[derive(Debug)]
pub(crate) struct Client {
    /// The name of the store, or of the protocol of several stores.
    pub name: &'static str,
    /// The class with its `main`, and its text.
    pub source: (&'static str, &'static str),
    /// The library, as `group:name:version`.
    pub artifacts: &'static [&'static str],
    /// Arguments of Java.
    pub java: &'static [&'static str],
    /// Its process.
    pub running: Mutex<Option<Running>>,
    /// See [`Client::detour`].
    pub detour: Mutex<Option<String>>,
}

/// A process of a client.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    address: String,
    /// Open, so that the client may print.
    _output: BufReader<ChildStdout>,
}

/// The directory of all stores.
static HOME: Mutex<Option<Home>> = Mutex::new(None);

/// Clients that are started from now on are kept in `home`.
pub(super) fn keep_in(home: &Home) {
    *HOME.lock().unwrap_or_else(PoisonError::into_inner) = Some(home.clone());
}

/// While it lives, sessions of all stores of a client are made with another address.
pub(crate) struct Detour(&'static Client);

impl Drop for Detour {
    fn drop(&mut self) {
        *self.0.detour.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Client {
    /// Leads new sessions to `address`, where something stands before the client, or in its place.
    pub fn detour(&'static self, address: String) -> Detour {
        *self.detour.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        Detour(self)
    }

    /// The address at which sessions reach it. Blocks.
    pub fn reached(&self) -> Result<String, ServerError> {
        let detour = self.detour.lock().unwrap_or_else(PoisonError::into_inner).clone();
        detour.map_or_else(|| self.address(), Ok)
    }

    /// The address at which it answers, `host:port`. It is installed and started if need be, also
    /// where an earlier process of it has ended. Blocks.
    pub fn address(&self) -> Result<String, ServerError> {
        let mut place = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &mut *place {
            if matches!(running.child.try_wait(), Ok(None)) {
                return Ok(running.address.clone());
            }
            crate::proc::client_ended(running.child.id());
        }
        let running = self.start()?;
        crate::proc::client_began(running.child.id());
        let address = running.address.clone();
        *place = Some(running);
        Ok(address)
    }

    /// Fetches and compiles it, for the first operation not to wait for that. Fast if it is there.
    /// Blocks.
    pub fn install(&self, say: &Say) -> Result<(), ServerError> {
        self.installed(&self.site()?, say).map(|_| ())
    }

    fn site(&self) -> Result<Site, ServerError> {
        let chosen = HOME.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let home = chosen.or_else(Home::usual).ok_or_else(|| ServerError::Missing {
            what: "there is no home directory, in which clients are kept".to_owned(),
            remedy: "name a directory with --home DIRECTORY".to_owned(),
        })?;
        Ok(home.site(&format!("{}-client", self.name)))
    }

    fn start(&self) -> Result<Running, ServerError> {
        let site = self.site()?;
        let [jars, classes] = self.installed(&site, &(Arc::new(|_: &str| {}) as Say))?;
        let log = site.log_of("client");
        let errors = File::options().create(true).append(true).open(&log).map_err(io(&log))?;
        let path = format!("{}:{}/*", classes.display(), jars.display());
        let mut command = Command::new(tool("java")?);
        command.args(self.java).args(["-Xmx512m", "-cp", &path, self.source.0]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors).process_group(0);
        let mut child = command.spawn().map_err(io(&classes))?;
        let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        output.read_line(&mut line).map_err(io(&log))?;
        match line.trim().parse::<u16>() {
            Ok(port) => {
                Ok(Running { child, address: format!("127.0.0.1:{port}"), _output: output })
            }
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                Err(ServerError::Ended {
                    node: format!("the client of {}", self.name),
                    log: log.display().to_string(),
                    tail: home::tail(&log, TAIL_LINES),
                })
            }
        }
    }

    /// The directories of the library and of the compiled client.
    fn installed(&self, site: &Site, say: &Say) -> Result<[PathBuf; 2], ServerError> {
        let _lock = site.lock(say)?;
        std::fs::create_dir_all(&site.log).map_err(io(&site.log))?;
        let artifacts: Vec<&str> = self.artifacts.iter().copied().chain([JSON]).collect();
        let sources = [PROTOCOL, self.source];
        let jars = site.software.join(named("jars", &artifacts));
        home::once(&jars, |part| maven::copy_with_dependencies(site, part, &artifacts, say))?;
        let texts = sources.map(|(_, text)| text);
        let classes = site.software.join(named("classes", &[&artifacts[..], &texts].concat()));
        home::once(&classes, |part| {
            let mut arguments = ["-nowarn", "-proc:none", "-cp"].map(str::to_owned).to_vec();
            arguments.extend([format!("{}/*", jars.display()), "-d".to_owned()]);
            arguments.push(part.display().to_string());
            for (name, text) in sources {
                let path = part.join(format!("{name}.java"));
                std::fs::write(&path, text).map_err(io(&path))?;
                arguments.push(path.display().to_string());
            }
            Launch::new(tool("javac")?, arguments).run(&site.log.join("javac.log"), part)
        })?;
        Ok([jars, classes])
    }
}

/// A program of Java's development kit.
fn tool(name: &str) -> Result<PathBuf, ServerError> {
    debian::program(name).ok_or_else(|| ServerError::Missing {
        what: format!("the command {name} is not there, and this client is in Java"),
        remedy: "install a JDK: sudo apt-get install openjdk-17-jdk-headless".to_owned(),
    })
}

/// A directory name for these texts: FNV-1a of all of them.
fn named(kind: &str, texts: &[&str]) -> String {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{kind}-{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_text_has_another_directory() {
        let name = named("jars", &["a", "b"]);
        assert_eq!(name, named("jars", &["a", "b"]));
        assert_ne!(name, named("jars", &["ab"]));
        assert_ne!(name, named("jars", &["a", "c"]));
    }
}

//! A PostgreSQL server for one test.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use cluster::engines::postgres::{PgCatalog, PgSettings};

/// How long a call may take on a machine that is slow.
const PATIENCE: Duration = Duration::from_secs(600);

/// PostgreSQL does not run as root: then it runs as this user, which needs no name.
const USER: &str = "65534";

/// A running server; killed when dropped.
pub struct Server {
    directory: tempfile::TempDir,
    port: u16,
    process: Option<Child>,
    databases: AtomicU32,
}

impl Server {
    pub fn start() -> Server {
        let directory = tempfile::tempdir().unwrap();
        let data = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        if is_root() {
            let owner = format!("{USER}:{USER}");
            let paths = [directory.path(), &data];
            assert!(Command::new("chown").arg(owner).args(paths).status().unwrap().success());
        }
        let initdb = command("initdb")
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(initdb.status.success(), "{}", String::from_utf8_lossy(&initdb.stderr));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut server = Server { directory, port, process: None, databases: AtomicU32::new(0) };
        server.run();
        server
    }

    /// Gives the server a certificate for the name `localhost`; returns the file to verify it with.
    pub fn encrypt(&mut self) -> PathBuf {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let roots = self.directory.path().join("roots.pem");
        std::fs::write(&roots, made.cert.pem()).unwrap();
        let (certificate, key) = (self.data().join("server.crt"), self.data().join("server.key"));
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
        if is_root() {
            let owner = format!("{USER}:{USER}");
            let status = Command::new("chown").arg(owner).args([&certificate, &key]).status();
            assert!(status.unwrap().success());
        }
        let hosts = "hostssl all all 127.0.0.1/32 trust\nhost postgres all 127.0.0.1/32 trust\n";
        std::fs::write(self.data().join("pg_hba.conf"), hosts).unwrap();
        self.sql("postgres", "ALTER SYSTEM SET ssl = on");
        self.sql("postgres", "SELECT pg_reload_conf()");
        roots
    }

    fn spawn(&self) -> Child {
        command("postgres")
            .arg("-D")
            .arg(self.data())
            .args(["-p", &self.port.to_string()])
            .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
            // What is written survives a kill without it, though no power cut.
            .args(["-c", "fsync=off", "-c", "max_wal_size=4GB"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    }

    /// Starts the server again after [`kill`](Self::kill). While processes of the killed one still
    /// have its shared memory, it ends at once, and is started once more.
    pub fn run(&mut self) {
        self.process = Some(self.spawn());
        let deadline = Instant::now() + Duration::from_secs(300);
        while !self.is_ready() {
            assert!(Instant::now() < deadline, "PostgreSQL does not start");
            let process = self.process.as_mut().expect("it was started");
            if process.try_wait().expect("it is a child").is_some() {
                self.process = Some(self.spawn());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Kills the server and its processes.
    pub fn kill(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        // The children end by themselves when the parent is gone, after what they are doing.
        for child in children(process.id()) {
            let _ = Command::new("kill").args(["-9", &child]).stderr(Stdio::null()).status();
        }
        let _ = process.kill();
        let _ = process.wait();
        let _ = std::fs::remove_file(self.data().join("postmaster.pid"));
    }

    /// The settings of a new, empty database, for a server that may be slow.
    pub fn database(&self) -> PgSettings {
        let name = format!("test_{}", self.databases.fetch_add(1, Relaxed));
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        let connection = format!("host=127.0.0.1 port={} user=postgres dbname={name}", self.port);
        PgSettings {
            connect_timeout: PATIENCE,
            statement_timeout: PATIENCE,
            call_timeout: PATIENCE,
            ..PgSettings::new(connection)
        }
    }

    /// The catalog in a new database.
    pub fn catalog(&self) -> PgCatalog {
        PgCatalog::open(self.database()).unwrap()
    }

    /// A `psql` that reads SQL from its standard input.
    pub fn psql(&self, database: &str) -> Child {
        Command::new(programs().join("psql"))
            .args(["-h", "127.0.0.1", "-U", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1"])
            .args(["-p", &self.port.to_string(), "-d", database])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Runs SQL by `psql` and returns what it prints.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        let output = Command::new(programs().join("psql"))
            .args(["-h", "127.0.0.1", "-U", "postgres", "-qAt", "-v", "ON_ERROR_STOP=1"])
            .args(["-p", &self.port.to_string(), "-d", database, "-c", sql])
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn is_ready(&self) -> bool {
        let mut command = Command::new(programs().join("psql"));
        command.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()]);
        let status = command.args(["-c", "SELECT 1"]).output();
        status.is_ok_and(|output| output.status.success())
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The programs of the newest installed version.
fn programs() -> PathBuf {
    let entries = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = entries.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        programs.join("postgres").exists().then_some((version, programs))
    });
    versions.max().expect("PostgreSQL is installed: scripts/test-deps.sh").1
}

/// A program of the server, as a user that is not root.
fn command(program: &str) -> Command {
    let program = programs().join(program);
    if !is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "--"]).arg(program);
    command
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn children(parent: u32) -> Vec<String> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(Path::new(&path)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

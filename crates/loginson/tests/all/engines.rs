//! A real Kafka, S3 server and PostgreSQL for a cluster.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

/// How long a node is not heard of until others take its partitions. A test with a dead node waits
/// this long; on a slow machine a node that lives is silent for some seconds.
const LEASE: &str = "8s";

/// The engines, in processes of their own.
pub struct Engines {
    /// The directory of their data.
    pub data: PathBuf,
    kafka: u16,
    s3: u16,
    postgresql: u16,
    _reserved: Vec<File>,
}

impl Engines {
    /// Starts them for the test `name`. None where the S3 server cannot be built because Go is
    /// missing: the test is left out then, and says so.
    pub fn start(name: &str) -> Option<Engines> {
        let ([kafka, s3, postgresql], reserved) = free_ports(name);
        let data = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let engines = Engines { data, kafka, s3, postgresql, _reserved: reserved };
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

    pub fn run(&self, engine: &str, command: &str) {
        let done = self.script(engine, command).status().unwrap();
        assert!(done.success(), "{engine} {command}");
    }

    fn wipe(&self) {
        ["postgresql", "s3", "kafka"].into_iter().for_each(|engine| self.run(engine, "wipe"));
    }

    /// Deletes the object of the newest segment, which is merged with no other one yet; returns its
    /// name.
    pub fn lose_a_segment(&self) -> String {
        let bucket = self.data.join("s3/objects/loginson");
        let mut folders = vec![bucket.join("segments")];
        let mut files = Vec::new();
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => files.push((path.metadata().unwrap().modified().unwrap(), path)),
                }
            }
        }
        let (_, newest) = files.into_iter().max().expect("there are segments");
        std::fs::remove_file(&newest).unwrap();
        newest.strip_prefix(&bucket).unwrap().display().to_string()
    }

    /// The names of the live segments in the catalog.
    pub fn segments(&self) -> Vec<String> {
        let names = self.asked("SELECT name FROM segments WHERE retired IS NULL ORDER BY name");
        names.lines().map(str::to_owned).collect()
    }

    /// Where an object of the bucket is.
    pub fn object(&self, name: &str) -> PathBuf {
        self.data.join("s3/objects/loginson").join(name)
    }

    /// Gives the topic more partitions, as an operator does.
    pub fn add_partitions(&self, partitions: u32) {
        let done = self
            .script("kafka", "tool")
            .arg("org.apache.kafka.tools.TopicCommand")
            .args(["--bootstrap-server", &format!("127.0.0.1:{}", self.kafka)])
            .args(["--alter", "--topic", "loginson-lines", "--partitions", &partitions.to_string()])
            .status()
            .unwrap();
        assert!(done.success());
    }

    /// The bodies of the marks in the catalog whose names begin with a prefix.
    pub fn marks(&self, prefix: &str) -> String {
        self.asked(&format!(
            "SELECT convert_from(body, 'UTF8') FROM marks WHERE starts_with(name, '{prefix}')"
        ))
    }

    /// What the catalog answers, a line for each row.
    fn asked(&self, select: &str) -> String {
        let asked = Command::new("psql")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.postgresql.to_string()])
            .args(["-d", "postgres", "-A", "-t", "-c", select])
            .output()
            .unwrap();
        assert!(asked.status.success(), "{}", String::from_utf8_lossy(&asked.stderr));
        String::from_utf8(asked.stdout).unwrap()
    }

    /// The configuration of a node.
    pub fn config(&self, roles: &str) -> String {
        self.config_of(roles, "loginson", "postgres")
    }

    /// Has an engine lose everything, and start again.
    pub fn empty(&self, engine: &str) {
        self.run(engine, "wipe");
        self.run(engine, "start");
    }

    /// Makes an empty bucket and an empty database of a name.
    pub fn make_empty(&self, name: &str) {
        std::fs::create_dir_all(self.data.join("s3/objects").join(name)).unwrap();
        let made = Command::new("psql")
            .args(["-h", "127.0.0.1", "-U", "postgres", "-p", &self.postgresql.to_string(), "-c"])
            .arg(format!("CREATE DATABASE {name}"))
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }

    /// What another region writes that follows this one.
    pub fn followed(&self) -> String {
        let (s3, postgresql) = (self.s3, self.postgresql);
        let keys = ["loginson", "loginson-secret"].map(|key| self.data.join(key));
        format!(
            "[cluster.follows.objects]\nendpoint = 'http://127.0.0.1:{s3}'\nbucket = 'loginson'\n\
             access_key_file = '{}'\nsecret_key_file = '{}'\n\
             [cluster.follows.postgresql]\n\
             connection = 'host=127.0.0.1 port={postgresql} user=postgres dbname=postgres'\n",
            keys[0].display(),
            keys[1].display()
        )
    }

    /// The configuration of a node with another bucket and database.
    pub fn config_of(&self, roles: &str, bucket: &str, database: &str) -> String {
        let keys = ["loginson", "loginson-secret"].map(|key| {
            let file = self.data.join(key);
            std::fs::write(&file, key).unwrap();
            file.display().to_string()
        });
        let (kafka, s3, postgresql) = (self.kafka, self.s3, self.postgresql);
        format!(
            "[cluster]\nroles = [{roles}]\nlease = '{LEASE}'\nsegment_age = '2s'\n\
             [cluster.kafka]\nbrokers = ['127.0.0.1:{kafka}']\npartitions = 3\nreplicas = 1\n\
             replicas_min = 1\n\
             [cluster.objects]\nendpoint = 'http://127.0.0.1:{s3}'\nbucket = '{bucket}'\n\
             access_key_file = '{}'\nsecret_key_file = '{}'\n\
             [cluster.postgresql]\n\
             connection = 'host=127.0.0.1 port={postgresql} user=postgres dbname={database}'\n",
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

/// Three ports, and the files whose locks reserve them: between the choice of a port and the start
/// of its server, a test beside this one would find it free, too.
fn free_ports(test: &str) -> ([u16; 3], Vec<File>) {
    let locks = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ports");
    std::fs::create_dir_all(&locks).unwrap();
    let reserve = |port: u16| {
        let lock = File::create(locks.join(port.to_string())).unwrap();
        lock.try_lock().ok()?;
        TcpListener::bind(("127.0.0.1", port)).ok()?;
        Some(lock)
    };
    let begin = 20_100 + 100 * test.bytes().map(u16::from).sum::<u16>().rem_euclid(80);
    // The controller of Kafka is 100 above its broker.
    let all = |first: u16| -> Option<Vec<File>> {
        [0, 1, 2, 100].into_iter().map(|distance| reserve(first + distance)).collect()
    };
    let found = (begin..30_000).step_by(7).find_map(|first| Some((first, all(first)?)));
    let (first, reserved) = found.expect("there are free ports");
    ([first, first + 1, first + 2], reserved)
}

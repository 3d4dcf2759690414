//! Tables that rules and queries look values up in: files of the user's, read as a whole.
//!
//! A table is read at the start, and again when the settings are read again or when its file is
//! another one ([`Lookups::refresh`]). A query sees one version of a table. If a new version cannot
//! be read, the one before stays, and status and log say why.
//!
//! Tables can be uploaded too (`uploads.rs`). Queries know them beside those of the configuration,
//! which hide them; rules at ingest do not, because a table that was deleted would keep the next
//! start from compiling them.
//!
//! Limits: [`FILE_BYTES_MAX`], [`ROWS_MAX`], [`PATTERNS_MAX`]; a file beyond them is refused.
//!
//! Left out: names of addresses (reverse DNS), because a line would wait for the network.

mod mmdb;
mod read;
mod table;
mod uploads;

use std::fmt;
use std::fs;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread;
use std::time::{Duration, SystemTime};

use query::source::{Table, Tables};
use serde::{Deserialize, Serialize};

use mmdb::Mmdb;
use table::Rows;
use uploads::Uploads;

pub use uploads::{UPLOAD_BYTES_MAX, UPLOADS_MAX, UploadError};

/// The largest file of a table. A larger one is refused.
///
/// limits.md, Queries: the file of a lookup | {} | it is refused; the version before stays
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// The most rows of a table. A file with more is refused.
///
/// limits.md, Queries: rows of a lookup | {} | its file is refused; the version before stays
pub const ROWS_MAX: usize = 2_000_000;
/// The most rows of a table whose keys are patterns, which are tried one after another.
///
/// limits.md, Queries: rows of a lookup with `match = "wildcard"` | {} | its file is refused; the
/// version before stays
pub const PATTERNS_MAX: usize = 10_000;
/// How often it is looked whether files are others.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Length of a table's name.
const NAME_BYTES_MAX: usize = 64;

/// `[[lookups]]`, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupSpec {
    /// The name of the table.
    pub name: String,
    /// Its file: CSV with a line of names, JSON lines, or a database in MaxMind's format.
    pub file: PathBuf,
    /// The fields that make up the key; the first field if there are none.
    #[serde(default)]
    pub keys: Vec<String>,
    /// How a key is found.
    #[serde(default, rename = "match")]
    pub matching: Matching,
    /// Of a database in MaxMind's format: the fields that the table has.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// How the key of a row is compared with a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Matching {
    /// They are equal.
    #[default]
    Equal,
    /// The key is a network, or an address; the smallest network that holds the value counts.
    Cidr,
    /// The value begins with the key; the longest key counts.
    Prefix,
    /// The key is a pattern with `*` and `?`; the first that fits counts.
    Wildcard,
    /// The file is a database in MaxMind's format, and the key an address.
    Mmdb,
}

/// Tells one version of a file from another.
type Version = (Option<SystemTime>, u64);

/// What is known about a table.
pub struct LookupState {
    /// Its name.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// Rows of the version that is used; none of a database in MaxMind's format.
    pub rows: Option<usize>,
    /// Memory of the version that is used.
    pub bytes: usize,
    /// Why the newest version of the file is not used.
    pub error: Option<String>,
    /// How a key is found in it.
    pub matching: Matching,
    /// The fields that make up the key, and the others.
    pub fields: (Vec<String>, Vec<String>),
    /// When the version that is used was written, if the system tells.
    pub written: Option<SystemTime>,
    /// It was uploaded, and is not of the configuration.
    pub is_uploaded: bool,
}

struct Lookup {
    spec: LookupSpec,
    table: RwLock<Arc<Loaded>>,
    seen: Mutex<(Version, Option<String>)>,
}

/// A version of a table.
#[derive(Debug)]
enum Loaded {
    Rows(Rows),
    Mmdb(Mmdb),
}

impl Loaded {
    /// The number of rows; none of a database, which has networks.
    fn rows(&self) -> Option<usize> {
        match self {
            Loaded::Rows(rows) => Some(rows.len()),
            Loaded::Mmdb(_) => None,
        }
    }

    fn memory_bytes(&self) -> usize {
        match self {
            Loaded::Rows(rows) => rows.memory_bytes(),
            Loaded::Mmdb(database) => database.memory_bytes(),
        }
    }

    fn table(&self) -> &dyn Table {
        match self {
            Loaded::Rows(rows) => rows,
            Loaded::Mmdb(database) => database,
        }
    }
}

impl Table for Loaded {
    fn keys(&self) -> &[String] {
        self.table().keys()
    }

    fn fields(&self) -> &[String] {
        self.table().fields()
    }

    fn find(&self, key: &[&[u8]], each: &mut dyn FnMut(usize, &[u8])) {
        self.table().find(key, each);
    }
}

/// The tables of a configuration.
#[derive(Default)]
pub struct Lookups {
    tables: RwLock<Arc<Vec<Arc<Lookup>>>>,
    uploads: Uploads,
}

impl Lookups {
    /// Reads all tables; an error names the file that cannot be used.
    pub fn open(specs: &[LookupSpec]) -> Result<Lookups, String> {
        let lookups = Lookups::default();
        lookups.set(lookups.read(specs)?);
        Ok(lookups)
    }

    /// Reads the tables of another configuration. Nothing changes before [`Lookups::set`].
    pub fn read(&self, specs: &[LookupSpec]) -> Result<ReadLookups, String> {
        let before = self.now();
        let mut tables: Vec<Arc<Lookup>> = Vec::with_capacity(specs.len());
        for spec in specs {
            if tables.iter().any(|table| table.spec.name == spec.name) {
                return Err(format!("lookup '{}' is there twice", spec.name));
            }
            let same = before.iter().find(|table| table.spec == *spec);
            // A table that is used already stays, also if its file is gone by now.
            tables.push(match same {
                Some(same) => {
                    same.refresh();
                    Arc::clone(same)
                }
                None => Arc::new(Lookup::open(spec.clone())?),
            });
        }
        Ok(ReadLookups(tables))
    }

    /// From now on, these are the tables.
    pub fn set(&self, read: ReadLookups) {
        *self.tables.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(read.0);
    }

    /// Reads the tables again whose files changed.
    pub fn refresh(&self) {
        self.now().iter().for_each(|table| table.refresh());
    }

    /// Refreshes the tables every few seconds, for as long as they exist.
    pub fn watch(self: &Arc<Self>) -> io::Result<()> {
        let watched = Arc::downgrade(self);
        let watch = move || {
            loop {
                thread::sleep(CHECK_INTERVAL);
                match watched.upgrade() {
                    Some(lookups) => lookups.refresh(),
                    None => return,
                }
            }
        };
        thread::Builder::new().name("lookups".to_owned()).spawn(watch).map(drop)
    }

    /// The tables of the configuration for rules, which see each later version of a table.
    pub fn for_rules(&self) -> ReadLookups {
        ReadLookups(self.now().to_vec())
    }

    /// What is known about each table that queries know.
    pub fn states(&self) -> Vec<LookupState> {
        let configured = self.now();
        let state = |lookup: &Arc<Lookup>| {
            let table = lookup.now();
            let seen = lookup.seen();
            LookupState {
                name: lookup.spec.name.clone(),
                file: lookup.spec.file.clone(),
                rows: table.rows(),
                bytes: table.memory_bytes(),
                error: seen.1.clone(),
                matching: lookup.spec.matching,
                fields: (table.keys().to_vec(), table.fields().to_vec()),
                written: seen.0.0,
                is_uploaded: !configured.iter().any(|other| Arc::ptr_eq(other, lookup)),
            }
        };
        self.all().iter().map(state).collect()
    }

    /// The tables of the configuration, and the uploaded ones that these do not hide.
    fn all(&self) -> Vec<Arc<Lookup>> {
        let mut tables = self.now().to_vec();
        for uploaded in self.uploads.now() {
            if !tables.iter().any(|table| table.spec.name == uploaded.spec.name) {
                tables.push(uploaded);
            }
        }
        tables
    }

    fn now(&self) -> Arc<Vec<Arc<Lookup>>> {
        Arc::clone(&self.tables.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Tables for rules, and those that were read and are not used yet.
pub struct ReadLookups(Vec<Arc<Lookup>>);

impl fmt::Debug for ReadLookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl fmt::Debug for Lookups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

impl Tables for ReadLookups {
    fn table(&self, name: &str) -> Option<Arc<dyn Table>> {
        let lookup = self.0.iter().find(|lookup| lookup.spec.name == name)?;
        Some(Arc::new(Current { lookup: Arc::clone(lookup), first: lookup.now() }))
    }

    fn names(&self) -> Vec<String> {
        self.0.iter().map(|lookup| lookup.spec.name.clone()).collect()
    }
}

impl Tables for Lookups {
    fn table(&self, name: &str) -> Option<Arc<dyn Table>> {
        let tables = self.all();
        let lookup = tables.iter().find(|lookup| lookup.spec.name == name)?;
        Some(lookup.now() as _)
    }

    fn names(&self) -> Vec<String> {
        self.all().iter().map(|lookup| lookup.spec.name.clone()).collect()
    }
}

/// A table as rules use it: they are compiled once, and see each later version that has the same
/// fields. A version with others is seen once the settings are read again.
struct Current {
    lookup: Arc<Lookup>,
    first: Arc<Loaded>,
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.lookup.spec.name)
    }
}

impl Table for Current {
    fn keys(&self) -> &[String] {
        self.first.keys()
    }

    fn fields(&self) -> &[String] {
        self.first.fields()
    }

    fn find(&self, key: &[&[u8]], each: &mut dyn FnMut(usize, &[u8])) {
        let now = self.lookup.now();
        match now.keys() == self.first.keys() && now.fields() == self.first.fields() {
            true => now.find(key, each),
            false => self.first.find(key, each),
        }
    }
}

impl Lookup {
    fn open(spec: LookupSpec) -> Result<Lookup, String> {
        check_name(&spec.name)?;
        let version = version(&spec.file);
        let table = read(&spec)?;
        let (table, seen) = (RwLock::new(Arc::new(table)), Mutex::new((version, None)));
        Ok(Lookup { spec, table, seen })
    }

    fn now(&self) -> Arc<Loaded> {
        Arc::clone(&self.table.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, (Version, Option<String>)> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refresh(&self) {
        let mut seen = self.seen();
        let version = version(&self.spec.file);
        if version == seen.0 {
            return;
        }
        match read(&self.spec) {
            Ok(table) => {
                tracing::info!("lookup '{}' was read again", self.spec.name);
                *self.table.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(table);
                *seen = (version, None);
            }
            Err(why) => {
                tracing::warn!("{why}; the version before stays in use");
                *seen = (version, Some(why));
            }
        }
    }
}

fn check_name(name: &str) -> Result<(), String> {
    let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_letter) {
        true => Err(format!(
            "lookup '{name}': its name has 1 to {NAME_BYTES_MAX} letters, digits, '.', '_' or '-'"
        )),
        false => Ok(()),
    }
}

fn version(file: &Path) -> Version {
    let metadata = fs::metadata(file);
    metadata.map_or((None, 0), |metadata| (metadata.modified().ok(), metadata.len()))
}

fn read(spec: &LookupSpec) -> Result<Loaded, String> {
    let refused = |why: String| {
        format!("lookup '{}': {} cannot be used: {why}", spec.name, spec.file.display())
    };
    let metadata = fs::metadata(&spec.file).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_file() {
        return Err(refused("it is no file".to_owned()));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(refused(format!("it is larger than {} MiB", FILE_BYTES_MAX >> 20)));
    }
    let bytes = fs::read(&spec.file).map_err(|error| refused(error.to_string()))?;
    unless_it_panics(|| load(spec, bytes)).map_err(refused)
}

/// Turns a panic into a reason like others: the thread that looks for new versions goes on with the
/// other tables.
fn unless_it_panics<T>(read: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| {
        Err("reading it ended in a bug, which the log of the process names; report it".to_owned())
    })
}

/// The table that the content of a file makes up.
fn load(spec: &LookupSpec, bytes: Vec<u8>) -> Result<Loaded, String> {
    if spec.matching == Matching::Mmdb {
        return Mmdb::new(bytes, &spec.keys, &spec.fields).map(Loaded::Mmdb);
    }
    if !spec.fields.is_empty() {
        return Err("'fields' is for match = \"mmdb\"".to_owned());
    }
    let read = read::records(&bytes)?;
    Rows::new(read, &spec.keys, spec.matching).map(Loaded::Rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(tables: &dyn Tables, name: &str, key: &[&str]) -> String {
        let table = tables.table(name).unwrap();
        let key: Vec<&[u8]> = key.iter().map(|part| part.as_bytes()).collect();
        let mut values = Vec::new();
        table.find(&key, &mut |place, value| {
            values.push(format!("{}={}", table.fields()[place], String::from_utf8_lossy(value)));
        });
        values.join(" ")
    }

    fn spec(file: &Path, keys: &[&str], matching: Matching) -> LookupSpec {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        LookupSpec { name: "t".into(), file: file.to_owned(), keys, matching, fields: Vec::new() }
    }

    fn check(text: &str, keys: &[&str], matching: Matching, rows: &[(&[&str], &str)]) {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t");
        fs::write(&file, text).unwrap();
        let lookups = Lookups::open(&[spec(&file, keys, matching)]).unwrap();
        for (key, expected) in rows {
            assert_eq!(found(&lookups, "t", key), *expected, "{key:?} in {text}");
        }
    }

    #[test]
    fn rows_are_found_by_equal_keys_of_csv_and_json() {
        let csv = "\u{feff}host,owner,note\r\nweb1,ann,\"a, \"\"b\"\"\nc\"\r\n\nweb2,bob,\n";
        let rows: &[(&[&str], &str)] = &[
            (&["web1"], "owner=ann note=a, \"b\"\nc"),
            (&["web2"], "owner=bob note="),
            (&["w"], ""),
        ];
        check(csv, &[], Matching::Equal, rows);
        let json = "{\"host\":\"web1\",\"rack\":7,\"tags\":[\"a\"]}\n\n{\"dc\":\"eu\",\"host\":\"web2\"}\n";
        let rows: &[(&[&str], &str)] =
            &[(&["web1"], "rack=7 tags=[\"a\"] dc="), (&["web2"], "rack= tags= dc=eu")];
        check(json, &["host"], Matching::Equal, rows);
        let two = "a,b,c\n1,x,one\n1,y,two\n11,,three\n";
        let rows: &[(&[&str], &str)] =
            &[(&["1", "y"], "c=two"), (&["11", ""], "c=three"), (&["1", ""], "")];
        check(two, &["a", "b"], Matching::Equal, rows);
    }

    #[test]
    fn rows_are_found_by_networks_prefixes_and_patterns() {
        let csv = "net,site\n10.0.0.0/8,all\n10.1.0.0/16,eu\n10.1.2.3,one\nfd00::/8,six\n0.0.0.0/0,world\n";
        let rows: &[(&[&str], &str)] = &[
            (&["10.2.0.1"], "site=all"),
            (&["10.1.9.9"], "site=eu"),
            (&["10.1.2.3"], "site=one"),
            (&["::ffff:10.1.2.3"], "site=one"),
            (&["fd00::1"], "site=six"),
            (&["8.8.8.8"], "site=world"),
            (&["fe80::1"], ""),
            (&["x"], ""),
        ];
        check(csv, &[], Matching::Cidr, rows);
        let csv = "path,team\n/a,x\n/a/b,y\n";
        let rows: &[(&[&str], &str)] =
            &[(&["/a/c"], "team=x"), (&["/a/b/c"], "team=y"), (&["/"], "")];
        check(csv, &[], Matching::Prefix, rows);
        let csv = "host,team\nweb?,x\nweb*,y\n*,z\n";
        let rows: &[(&[&str], &str)] =
            &[(&["web1"], "team=x"), (&["web12"], "team=y"), (&["a"], "team=z")];
        check(csv, &[], Matching::Wildcard, rows);
    }

    #[test]
    fn a_broken_version_is_told_and_the_one_before_stays() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t.csv");
        fs::write(&file, "k,v\n1,one\n").unwrap();
        let specs = [spec(&file, &["k"], Matching::Equal)];
        let lookups = Lookups::open(&specs).unwrap();
        let of_rules = lookups.read(&specs).unwrap();
        fs::write(&file, "k,v\n1,\"one\n").unwrap();
        lookups.refresh();
        assert_eq!(found(&lookups, "t", &["1"]), "v=one");
        assert!(lookups.states()[0].error.as_ref().unwrap().contains("line 2"));
        fs::write(&file, "k,v\n1,eins\n2,zwei\n").unwrap();
        lookups.refresh();
        assert_eq!(found(&lookups, "t", &["1"]), "v=eins");
        assert_eq!(found(&of_rules, "t", &["2"]), "v=zwei");
        assert!(lookups.states()[0].error.is_none());
        assert_eq!(lookups.states()[0].rows, Some(2));
    }

    #[test]
    fn a_panic_is_a_reason_like_others() {
        assert_eq!(unless_it_panics(|| Ok(7)), Ok(7));
        let broken: Result<(), String> = unless_it_panics(|| Err("line 2".to_owned()));
        assert_eq!(broken, Err("line 2".to_owned()));
        let panics = || -> Result<(), String> { panic!("a test of what happens then") };
        assert!(unless_it_panics(panics).unwrap_err().contains("ended in a bug"));
    }

    #[test]
    fn addresses_are_found_in_a_database() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t.mmdb");
        fs::write(&file, mmdb::sample()).unwrap();
        let open = |fields: &[&str]| {
            let fields = fields.iter().map(|field| (*field).to_owned()).collect();
            Lookups::open(&[LookupSpec { fields, ..spec(&file, &[], Matching::Mmdb) }])
        };
        let lookups = open(&[]).unwrap();
        assert_eq!(found(&lookups, "t", &["9.9.9.9"]), "country.iso_code=DE");
        assert_eq!(found(&lookups, "t", &["::ffff:9.9.9.9"]), "country.iso_code=DE");
        for other in ["200.0.0.1", "fd00::1", "x", ""] {
            assert_eq!(found(&lookups, "t", &[other]), "", "{other}");
        }
        let lookups = open(&["country", "none"]).unwrap();
        assert_eq!(found(&lookups, "t", &["9.9.9.9"]), "country={\"iso_code\":\"DE\"}");
        let mut damaged = mmdb::sample();
        damaged.truncate(60);
        fs::write(&file, damaged).unwrap();
        assert!(open(&[]).is_err());
    }

    #[test]
    fn files_that_cannot_be_used_are_named_with_the_reason() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("t");
        for (text, keys, matching, part) in [
            ("", &[][..], Matching::Equal, "no line of names"),
            ("a,a\n", &[], Matching::Equal, "'a' twice"),
            ("a,b\n1\n", &[], Matching::Equal, "line 2"),
            ("a,b\n1,2\n1,3\n", &[], Matching::Equal, "twice"),
            ("a,b\n1,2\n", &["c"], Matching::Equal, "no field 'c'"),
            ("a,b\nx,2\n", &[], Matching::Cidr, "is no network"),
            ("a,b\nx,2\n", &["a", "b"], Matching::Prefix, "one key"),
            ("{\"a\":1}\n{\n", &[], Matching::Equal, "line 2"),
        ] {
            fs::write(&file, text).unwrap();
            let error = Lookups::open(&[spec(&file, keys, matching)]).err().unwrap_or_default();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(
            Lookups::open(&[spec(&directory.path().join("none"), &[], Matching::Equal)]).is_err()
        );
    }
}

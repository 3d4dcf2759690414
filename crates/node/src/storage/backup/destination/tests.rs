//! What a destination promises: over storage in memory that is killed at every call, and over
//! directories.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};

use cluster::sim::SimObjects;
use cluster::{ObjectBody, ObjectError, ObjectInfo, Objects};
use platform::RealClock;
use tempfile::TempDir;

use super::lock::Busy;
use super::*;
use crate::storage::backup::{Manifest, ManifestFile};

const DAY: i64 = text::duration::DAY_NS;
/// 2026-11-22.
const FIRST_NS: i64 = 1_795_305_600_000_000_000;

/// Storage that does a number of calls, and then none: so a killed process looks to it.
struct Killed {
    objects: Arc<dyn Objects>,
    calls_left: AtomicI64,
    writes: AtomicU64,
}

impl Killed {
    fn call(&self) -> Result<(), ObjectError> {
        match self.calls_left.fetch_sub(1, SeqCst) > 0 {
            true => Ok(()),
            false => Err(ObjectError::Refused("killed".to_owned())),
        }
    }
}

impl Objects for Killed {
    fn put_new(&self, name: &str, body: &dyn ObjectBody) -> Result<(), ObjectError> {
        self.call()?;
        self.writes.fetch_add(1, SeqCst);
        self.objects.put_new(name, body)
    }

    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, ObjectError> {
        self.call()?;
        self.objects.read_range(name, offset, buffer)
    }

    fn size(&self, name: &str) -> Result<u64, ObjectError> {
        self.call()?;
        self.objects.size(name)
    }

    fn delete(&self, name: &str) -> Result<(), ObjectError> {
        self.call()?;
        self.objects.delete(name)
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, ObjectError> {
        self.call()?;
        self.objects.list(prefix, after, max)
    }
}

/// What is called before a call, with the kind of the call and the name of the object.
type Look = Box<dyn Fn(&str, &str) + Send + Sync>;

/// Storage with somebody else at work between the calls.
struct Watched {
    objects: Arc<dyn Objects>,
    before: Look,
}

impl Watched {
    fn at(objects: &Arc<dyn Objects>, before: Look) -> Destination {
        let watched = Watched { objects: Arc::clone(objects), before };
        Destination::of(Arc::new(watched), "here/".into(), "sim".into())
    }
}

impl Objects for Watched {
    fn put_new(&self, name: &str, body: &dyn ObjectBody) -> Result<(), ObjectError> {
        (self.before)("put", name);
        self.objects.put_new(name, body)
    }

    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, ObjectError> {
        (self.before)("read", name);
        self.objects.read_range(name, offset, buffer)
    }

    fn size(&self, name: &str) -> Result<u64, ObjectError> {
        (self.before)("size", name);
        self.objects.size(name)
    }

    fn delete(&self, name: &str) -> Result<(), ObjectError> {
        (self.before)("delete", name);
        self.objects.delete(name)
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, ObjectError> {
        (self.before)("list", prefix);
        self.objects.list(prefix, after, max)
    }
}

/// A data directory that is only files, and a place for its backups.
struct World {
    dir: TempDir,
    objects: Arc<dyn Objects>,
}

type Files<'f> = &'f [(&'f str, &'f [u8])];

impl World {
    fn new() -> World {
        let objects = Arc::new(SimObjects::new(Arc::new(RealClock::new())));
        World { dir: tempfile::tempdir().unwrap(), objects }
    }

    fn at(&self) -> Destination {
        Destination::of(Arc::clone(&self.objects), "here/".into(), "sim".into())
    }

    /// Writes the files of the store, as a backup of them. Files that are there stay the same.
    fn snapshot(&self, name: &str, day: i64, files: Files) -> Snapshot {
        let source = self.dir.path().join("source");
        Snapshot::take(&self.dir.path().join("backups"), name, |folder| {
            let mut listed = Vec::new();
            for (file, bytes) in files {
                let from = source.join(file);
                fs::create_dir_all(from.parent().unwrap())?;
                if fs::read(&from).ok().as_deref() != Some(bytes) {
                    fs::write(&from, bytes)?;
                }
                let to = folder.join(name).join(file);
                fs::create_dir_all(to.parent().unwrap())?;
                fs::hard_link(&from, &to)?;
                listed.push(ManifestFile { file: (*file).into(), bytes: None, lines: Some(1) });
            }
            Ok(Manifest::new(name, FIRST_NS + day * DAY, listed, 0, 0))
        })
        .unwrap()
    }

    fn send_to(&self, to: &Destination, name: &str, day: i64, files: Files) -> Result<Sent> {
        let snapshot = self.snapshot(name, day, files);
        send(to, &snapshot, "test", &self.dir.path().join("backups"), &Progress::default())
    }

    fn send(&self, name: &str, day: i64, files: Files) -> Sent {
        self.send_to(&self.at(), name, day, files).unwrap()
    }

    fn faults(&self, name: Option<&str>) -> Vec<String> {
        let mut faults = Vec::new();
        let to = self.at();
        verify(&to, name, &Progress::default(), |fault| faults.push(fault)).unwrap();
        faults
    }

    /// The backup as it comes back.
    fn check_restored(&self, name: &str, files: Files) {
        let folder = tempfile::tempdir().unwrap();
        let to = self.at();
        let contents = chosen(&to, Some(name), None).unwrap();
        fetch(&to, &contents, folder.path(), &Progress::default()).unwrap();
        for (file, bytes) in files {
            assert!(fs::read(folder.path().join(file)).unwrap() == *bytes, "{name}: {file}");
        }
        assert_eq!(Manifest::read(folder.path()).unwrap().files.len(), files.len());
    }
}

fn noise(seed: u64, bytes: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..bytes).map(|_| random.u8(..)).collect()
}

const A: (&str, &[u8]) = ("segments/1.sealed", b"the first segment");
const B: (&str, &[u8]) = ("segments/2.sealed", b"the second one");
const HOT: (&str, &[u8]) = ("segments/3.hot", b"lines");
const MORE: (&str, &[u8]) = ("segments/3.hot", b"lines and lines");
const PAGE: (&str, &[u8]) = ("dashboards/web.json", b"{}");

#[test]
fn what_is_there_is_not_sent_again() {
    let world = World::new();
    let first = world.send("one", 0, &[A, B, HOT, PAGE]);
    assert_eq!((first.bytes, first.bytes_sent, first.lines), (38, 38, 4));
    let second = world.send("two", 1, &[A, B, MORE, PAGE]);
    assert_eq!((second.bytes, second.bytes_sent), (48, 15));
    let third = world.send("three", 2, &[A, B, MORE, PAGE]);
    assert_eq!(third.bytes_sent, 0);
    // Without the sums, segments are read again, and still not sent.
    fs::remove_file(world.dir.path().join("backups/.sums.json")).unwrap();
    assert_eq!(world.send("four", 3, &[A, B]).bytes_sent, 0);
    assert_eq!(world.faults(None), [""; 0]);
    world.check_restored("one", &[A, B, HOT, PAGE]);
    world.check_restored("two", &[A, B, MORE, PAGE]);
    world.check_restored("four", &[A, B]);
    let error = world.send_to(&world.at(), "one", 4, &[A]).unwrap_err().to_string();
    assert!(error.contains("choose another name"), "{error}");
    assert!(!world.dir.path().join("backups/.sending").exists());
}

#[test]
fn long_files_are_pieces_of_which_the_new_ones_are_sent() {
    let world = World::new();
    for (at, bytes) in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1].into_iter().enumerate()
    {
        let noise = noise(at as u64, bytes);
        let file: (&str, &[u8]) = ("segments/1.hot", &noise);
        let name = format!("n{at}");
        assert_eq!(world.send(&name, 0, &[file]).bytes_sent, bytes);
        world.check_restored(&name, &[file]);
    }
    let mut grown = noise(9, PIECE_BYTES);
    world.send("short", 1, &[("segments/1.hot", &grown)]);
    grown.extend(noise(10, 1000));
    assert_eq!(world.send("long", 2, &[("segments/1.hot", &grown)]).bytes_sent, 1000);
}

#[test]
fn a_backup_is_chosen_by_name_or_time() {
    let world = World::new();
    for (day, name) in ["one", "two", "three"].into_iter().enumerate() {
        world.send(name, day as i64, &[A]);
    }
    let to = world.at();
    for (name, day, expected) in [
        (None, None, "three"),
        (Some("one"), None, "one"),
        (None, Some(0.0), "one"),
        (None, Some(0.9), "one"),
        (None, Some(1.0), "two"),
        (None, Some(100.0), "three"),
    ] {
        let at = day.map(|day: f64| FIRST_NS + (day * DAY as f64) as i64);
        assert_eq!(chosen(&to, name, at).unwrap().name, expected);
    }
    let error = chosen(&to, None, Some(FIRST_NS - 1)).unwrap_err().to_string();
    assert!(error.contains("the first is of 2026-11-22T00:00:00Z"), "{error}");
    for name in ["four", "../one", ""] {
        assert!(chosen(&to, Some(name), None).is_err());
    }
    let empty = Destination::of(Arc::clone(&world.objects), "nowhere/".into(), "sim".into());
    assert!(chosen(&empty, None, None).unwrap_err().to_string().contains("check its name"));
}

/// Sends a backup and deletes the one before it; killed at each call, and then done again.
#[test]
fn a_kill_at_any_step_leaves_whole_backups_and_work_that_resumes() {
    let mut calls = 0;
    loop {
        let world = World::new();
        world.send("old", 0, &[A, HOT]);
        let killed = Arc::new(Killed {
            objects: Arc::clone(&world.objects),
            calls_left: AtomicI64::new(calls),
            writes: AtomicU64::new(0),
        });
        let dying = Destination::of(Arc::clone(&killed) as _, "here/".into(), "sim".into());
        let keep: Keep = "1d".parse().unwrap();
        let attempt = world
            .send_to(&dying, "new", 1, &[A, B, MORE])
            .and_then(|_| prune(&dying, "test", Some((&keep, i64::MAX)), &[], false));
        // What has a list is whole, at every moment.
        assert_eq!(world.faults(None), [""; 0], "after {calls} calls");
        let names: Vec<_> = world.at().backups().unwrap().into_iter().map(|b| b.name).collect();
        assert!(!names.is_empty(), "after {calls} calls");
        if names.contains(&"new".to_owned()) {
            world.check_restored("new", &[A, B, MORE]);
        }
        if names.contains(&"old".to_owned()) {
            world.check_restored("old", &[A, HOT]);
        }
        // The next one goes on: pieces that were sent are not sent again, and what the killed one
        // left is deleted.
        world.send("later", 2, &[A, B, MORE]);
        let pruned = prune(&world.at(), "test", Some((&keep, i64::MAX)), &[], false).unwrap();
        assert_eq!(pruned.kept, ["later"], "after {calls} calls");
        world.check_restored("later", &[A, B, MORE]);
        let left = world.objects.list("here/", None, 100).unwrap();
        let left: Vec<_> = left.iter().map(|info| info.name.as_str()).collect();
        assert_eq!(left.len(), 5, "a place, a list and three pieces: {left:?}");
        if attempt.is_ok() {
            break;
        }
        calls += 1;
    }
    assert!(calls > 15, "{calls} calls are too few to be all");
}

#[test]
fn a_fetch_resumes() {
    let world = World::new();
    world.send("one", 0, &[A, B, HOT]);
    let folder = tempfile::tempdir().unwrap();
    let contents = chosen(&world.at(), None, None).unwrap();
    let mut calls = 0;
    loop {
        let killed = Arc::new(Killed {
            objects: Arc::clone(&world.objects),
            calls_left: AtomicI64::new(calls),
            writes: AtomicU64::new(0),
        });
        let dying = Destination::of(killed, "here/".into(), "sim".into());
        let progress = Progress::default();
        match fetch(&dying, &contents, folder.path(), &progress) {
            Ok(()) => break,
            Err(error) => assert!(format!("{error:#}").contains("killed"), "{error:#}"),
        }
        assert!(Manifest::read(folder.path()).is_err(), "it must not look complete");
        calls = 2;
    }
    for (file, bytes) in [A, B, HOT] {
        assert!(fs::read(folder.path().join(file)).unwrap() == bytes);
    }
}

#[test]
fn damage_is_named() {
    let world = World::new();
    world.send("one", 0, &[A, B]);
    world.send("two", 1, &[B, HOT]);
    let [a, b, hot] = [A, B, HOT].map(|(_, bytes)| format!("here/{}", sum_of(bytes).object()));
    world.objects.delete(&a).unwrap();
    let mut flipped = B.1.to_vec();
    flipped[3] ^= 1;
    world.objects.delete(&b).unwrap();
    world.objects.put_new(&b, &flipped).unwrap();
    let faults = world.faults(None);
    assert_eq!(faults.len(), 2, "{faults:?}");
    assert!(faults[0].contains(&a[5..]) && faults[0].contains("does not exist"), "{faults:?}");
    assert!(faults[0].ends_with("a piece of segments/1.sealed in one"), "{faults:?}");
    assert!(faults[1].contains("it is damaged: expected 14 bytes"), "{faults:?}");
    assert!(faults[1].ends_with("a piece of segments/2.sealed in one, two"), "{faults:?}");
    assert_eq!(world.faults(Some("two")).len(), 1);
    let folder = tempfile::tempdir().unwrap();
    let contents = chosen(&world.at(), Some("two"), None).unwrap();
    let error = fetch(&world.at(), &contents, folder.path(), &Progress::default()).unwrap_err();
    assert!(format!("{error:#}").contains("cannot fetch segments/2.sealed"), "{error:#}");
    // A piece of another length is sent again by the next backup.
    world.objects.delete(&hot).unwrap();
    world.objects.put_new(&hot, &b"li".to_vec()).unwrap();
    world.objects.delete(&b).unwrap();
    assert_eq!(world.send("three", 2, &[B, HOT]).bytes_sent, 19);
    world.check_restored("two", &[B, HOT]);
    // A list that is damaged, or belongs elsewhere: nothing may be deleted then.
    let list = "here/backups/two.json";
    let text = world.at().read("backups/two.json", 1 << 20).unwrap();
    for at in 0..text.len() - 1 {
        let mut changed = text.clone();
        changed[at] ^= 1;
        world.objects.delete(list).unwrap();
        world.objects.put_new(list, &changed).unwrap();
        let faults = world.faults(Some("two"));
        assert!(faults[0].contains("the list of the backup is damaged"), "{at}: {faults:?}");
    }
    let error = prune(&world.at(), "x", None, &["one".into()], false).unwrap_err();
    assert!(error.to_string().contains("nothing is deleted"), "{error:#}");
    assert_eq!(world.at().names("pieces/").unwrap().len(), 2);
}

#[test]
fn a_list_that_is_damaged_does_not_end_backups_of_parts() {
    let world = World::new();
    let to = world.at();
    let send_rows = |name: &str, day: i64| {
        let heading = Heading { name, created_ns: FIRST_NS + day * DAY, store: 7, by: "test" };
        let body = Box::new(b"rows".to_vec());
        let part = Part { name: CLUSTER_CATALOG.to_owned(), lines: None, body };
        send_parts(&to, &heading, vec![part], &mut || Ok(()), &Progress::default()).unwrap()
    };
    for (day, name) in ["one", "three", "two"].into_iter().enumerate() {
        send_rows(name, day as i64);
    }
    let list = "here/backups/two.json";
    world.objects.delete(list).unwrap();
    world.objects.put_new(list, &b"damaged".to_vec()).unwrap();
    assert_eq!(send_rows("four", 3).bytes_sent, 0, "the piece is there");
    let (readable, faults) = to.readable().unwrap();
    let names: Vec<_> = readable.into_iter().map(|backup| backup.name).collect();
    assert_eq!(names, ["one", "three", "four"]);
    assert!(faults.len() == 1 && faults[0].contains("backups/two.json"), "{faults:?}");
}

#[test]
fn backups_are_deleted_by_name_and_age() {
    let world = World::new();
    for day in 0..4 {
        let own = format!("line {day}");
        let files: Files = &[A, ("segments/5.hot", own.as_bytes())];
        world.send(&format!("day{day}"), day, files);
    }
    let to = world.at();
    let keep: Keep = "2d".parse().unwrap();
    let planned = prune(&to, "x", Some((&keep, i64::MAX)), &[], true).unwrap();
    assert_eq!((planned.deleted.len(), planned.pieces, planned.bytes), (2, 2, 12));
    assert_eq!(world.at().backups().unwrap().len(), 4);
    assert_eq!(prune(&to, "x", Some((&keep, i64::MAX)), &[], false).unwrap(), planned);
    assert_eq!(prune(&to, "x", None, &["day3".into()], false).unwrap().pieces, 1);
    let error = prune(&to, "x", None, &["day3".into()], false).unwrap_err().to_string();
    assert!(error.contains("no backup 'day3'"), "{error}");
    assert_eq!(world.faults(None), [""; 0]);
    assert_eq!(world.at().backups().unwrap().len(), 1);
}

#[test]
fn one_works_in_a_place_at_a_time() {
    let world = World::new();
    world.send("one", 0, &[A]);
    let to = world.at();
    let held = to.lock("somebody").unwrap();
    let error = world.send_to(&to, "two", 1, &[A]).unwrap_err();
    assert!(error.is::<Busy>() && error.to_string().contains("in use by somebody"), "{error:#}");
    assert!(prune(&to, "x", None, &[], false).unwrap_err().is::<Busy>());
    // Its own lock, which a kill left, is no obstacle.
    std::mem::forget(held);
    drop(to.lock("somebody").unwrap());
    world.send("two", 1, &[A]);
    // Nor is one that is a day old.
    let old = platform::ManualClock::new(FIRST_NS - 400 * DAY);
    let objects = Arc::new(SimObjects::new(Arc::new(old)));
    let to = Destination::of(objects, String::new(), "sim".into());
    std::mem::forget(to.lock("somebody").unwrap());
    drop(to.lock("another").unwrap());
}

/// At each call, somebody takes the lock over and deletes what no list names.
#[test]
fn a_backup_whose_lock_was_taken_over_has_no_list() {
    let mut stolen = 0;
    for call in 0.. {
        let world = World::new();
        world.send("kept", 0, &[PAGE]);
        world.send("old", 0, &[A, B]);
        let (objects, calls) = (Arc::clone(&world.objects), AtomicI64::new(0));
        let to = Watched::at(
            &world.objects,
            Box::new(move |_, _| {
                let thief = Destination::of(Arc::clone(&objects), "here/".into(), "sim".into());
                if calls.fetch_add(1, SeqCst) == call {
                    // As if it were a day old.
                    objects.delete("here/lock.json").unwrap();
                    prune(&thief, "thief", None, &["old".into()], false).unwrap();
                }
            }),
        );
        let sent = world.send_to(&to, "new", 1, &[A, B, MORE]);
        assert_eq!(world.faults(None), [""; 0], "at call {call}: {sent:?}");
        let names: Vec<_> = world.at().backups().unwrap().into_iter().map(|b| b.name).collect();
        assert_eq!(names.contains(&"new".to_owned()), sent.is_ok(), "at call {call}: {sent:?}");
        stolen += i32::from(sent.is_err());
        // Behind the last call nobody was at work.
        if names.contains(&"old".to_owned()) {
            break;
        }
    }
    assert!(stolen > 5, "{stolen}");
}

#[test]
fn who_prunes_without_the_lock_deletes_nothing_more() {
    let world = World::new();
    world.send("one", 0, &[A, B]);
    world.send("two", 1, &[PAGE]);
    let objects = Arc::clone(&world.objects);
    let to = Watched::at(
        &world.objects,
        Box::new(move |call, name| {
            if call == "delete" && name == "here/backups/one.json" {
                objects.delete("here/lock.json").unwrap();
                objects.put_new("here/lock.json", &b"of somebody else".to_vec()).unwrap();
            }
        }),
    );
    let error = prune(&to, "x", None, &["one".into()], false).unwrap_err().to_string();
    assert!(error.contains("was taken over"), "{error}");
    assert_eq!(world.at().names("pieces/").unwrap().len(), 3);
    assert_eq!(world.at().read("lock.json", 99).unwrap(), b"of somebody else");
}

#[test]
fn a_lock_is_renewed_unless_somebody_is_faster() {
    let world = World::new();
    let (objects, is_late) = (Arc::clone(&world.objects), Arc::new(AtomicBool::new(false)));
    let puts = Arc::new(AtomicU64::new(0));
    let (late, counted) = (Arc::clone(&is_late), Arc::clone(&puts));
    let to = Watched::at(
        &world.objects,
        Box::new(move |call, name| {
            if call == "put" && name == "here/lock.json" {
                counted.fetch_add(1, SeqCst);
                if late.load(SeqCst) {
                    objects.put_new(name, &b"of somebody else".to_vec()).unwrap();
                }
            }
        }),
    );
    let held = to.lock("somebody").unwrap();
    held.keep().unwrap();
    held.check().unwrap();
    assert_eq!(puts.load(SeqCst), 1, "it is young");
    held.make_old();
    held.keep().unwrap();
    assert_eq!(puts.load(SeqCst), 2);
    held.make_old();
    is_late.store(true, SeqCst);
    let error = held.keep().unwrap_err().to_string();
    assert!(error.contains("was taken over"), "{error}");
    drop(held);
    assert_eq!(world.at().read("lock.json", 99).unwrap(), b"of somebody else");
}

#[test]
fn each_store_has_its_own_place() {
    let world = World::new();
    world.objects.put_new("here/place.json", &br#"{"format":1,"store":7}"#.to_vec()).unwrap();
    let error = world.send_to(&world.at(), "one", 0, &[A]).unwrap_err().to_string();
    assert!(error.contains("another store (its number is 7"), "{error}");
    world.objects.delete("here/place.json").unwrap();
    world.objects.put_new("here/place.json", &br#"{"format":2,"store":0}"#.to_vec()).unwrap();
    let error = world.send_to(&world.at(), "one", 0, &[A]).unwrap_err().to_string();
    assert!(error.contains("use the release of Loginson"), "{error}");
}

#[test]
fn a_directory_is_a_place() {
    let dir = tempfile::tempdir().unwrap();
    let missing = Address::Directory(dir.path().join("missing"));
    assert!(Destination::open(&missing).unwrap_err().to_string().contains("mount the disk"));
    let address = Address::Directory(dir.path().to_owned());
    let mut world = World::new();
    world.objects = Destination::open(&address).unwrap().objects;
    let put = |name: &str, text: &[u8]| world.objects.put_new(name, &text.to_vec());
    put("a/2", b"two").unwrap();
    put("a/1", b"").unwrap();
    put("a-b", b"x").unwrap();
    assert!(matches!(put("a/2", b"other"), Err(ObjectError::Exists(_))));
    for name in ["", "/x", "a//b", "../x", "a/../x", ".part-1", "a/.b", "a\0"] {
        assert!(matches!(put(name, b"x"), Err(ObjectError::Refused(_))), "{name}");
    }
    // What a kill left is no object.
    fs::write(dir.path().join(".part-12"), "half").unwrap();
    let list = |prefix: &str, after: Option<&str>, max: usize| -> Vec<String> {
        let listed = world.objects.list(prefix, after, max).unwrap();
        listed.into_iter().map(|info| info.name).collect()
    };
    assert_eq!(list("", None, 9), ["a-b", "a/1", "a/2"]);
    assert_eq!(list("a/", None, 9), ["a/1", "a/2"]);
    assert_eq!(list("a", Some("a-b"), 1), ["a/1"]);
    assert_eq!(list("x", None, 9), [""; 0]);
    let mut buffer = [0; 5];
    assert_eq!(world.objects.read_range("a/2", 1, &mut buffer).unwrap(), 2);
    assert_eq!(&buffer[..2], b"wo");
    assert_eq!(world.objects.size("a/2").unwrap(), 3);
    world.objects.delete("a/2").unwrap();
    world.objects.delete("a/2").unwrap();
    assert!(matches!(world.objects.size("a/2"), Err(ObjectError::Missing(_))));
    world.send("one", 0, &[A, PAGE]);
    world.check_restored("one", &[A, PAGE]);
    assert!(!Destination::is_at(dir.path()), "it is below a prefix here");
    assert!(Destination::is_at(&dir.path().join("here")));
}

#[test]
fn addresses_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let key = dir.path().join("key");
    fs::write(&key, "a secret\n").unwrap();
    let s3 = S3Options {
        endpoint: None,
        region: "r".into(),
        path_style: true,
        ca_file: None,
        key_files: Some((key.clone(), key)),
    };
    for (text, shown) in [
        ("/mnt/backups", Some("/mnt/backups")),
        ("backups", Some("backups")),
        ("s3://bucket", Some("s3://bucket/")),
        ("s3://bucket/a/b/", Some("s3://bucket/a/b")),
        ("", None),
        ("s3://", None),
        ("s3:///a", None),
        ("s3://b/a//b", None),
        ("s3://b/../c", None),
        ("s3://user@b", None),
        ("gs://b", None),
    ] {
        let address = Address::parse(text, &s3);
        assert_eq!(address.as_ref().ok().map(ToString::to_string).as_deref(), shown, "{text}");
        assert!(!format!("{address:?}").contains("a secret"));
    }
    assert!(!Path::new("backups/.sending").exists());
}

//! Backups, made while lines arrive and from a directory at rest: complete, verified, restored.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[cfg(feature = "real-servers")]
use crate::common::Port;
use crate::common::{Server, loginson, request_to};

/// Small segments that are sealed soon, so that there are some of each kind.
const SMALL: &str = "[store]\nsegment_bytes_max = \"1MiB\"\ncommit_interval = \"1ms\"\n\
    [summary]\nbucket = \"1s\"\nflush_interval = \"1s\"\nflush_delay = \"0s\"\n";

fn run(arguments: &[&str]) -> Output {
    loginson(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn succeed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", said(&output));
    said(&output)
}

fn fail(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", said(&output));
    said(&output)
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Sends batches of different lines until it is stopped; records the acknowledged ones.
fn sender(
    address: String,
    name: String,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<Mutex<Vec<String>>>,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for batch in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let lines: Vec<String> =
                (0..200).map(|i| format!("{name} {batch} {i} {}", "x".repeat(i))).collect();
            let body = lines.join("\n");
            match request_to(&address, "POST", "/insert/lines", &[], body.as_bytes()) {
                Ok(answer) if answer.status == 200 => acknowledged.lock().unwrap().extend(lines),
                Ok(answer) => panic!("status {}: {}", answer.status, answer.text()),
                // Killed.
                Err(_) => return,
            }
        }
    })
}

/// Whether a data directory or a backup has sealed segments.
fn has_sealed(directory: &Path) -> bool {
    let files = fs::read_dir(directory.join("segments")).unwrap();
    files.flatten().any(|file| file.path().extension().is_some_and(|e| e == "sealed"))
}

/// Every line of `expected` was found, and no line twice.
fn check(server: &Server, expected: &[String]) {
    let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
    server
        .raw("NOT _type:summary")
        .into_iter()
        .for_each(|line| *seen.entry(line).or_default() += 1);
    assert!(seen.values().all(|times| *times == 1), "a line is there twice");
    let lost: Vec<_> = expected.iter().filter(|line| !seen.contains_key(line.as_bytes())).collect();
    assert!(lost.is_empty(), "{} lines are lost, among them {:?}", lost.len(), lost[0]);
}

#[test]
fn lines_acknowledged_before_are_in_the_backup() {
    let directory = tempfile::tempdir().unwrap();
    let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let mut server = Server::start_in(directory.path(), &[], SMALL);
    let senders: Vec<_> = (0..3)
        .map(|i| {
            let (stop, acknowledged) = (Arc::clone(&stop), Arc::clone(&acknowledged));
            sender(server.http.clone(), format!("sender{i}"), stop, acknowledged)
        })
        .collect();
    let acknowledged_lines = || acknowledged.lock().unwrap().len();
    let mut backups = Vec::new();
    for (i, at_least) in [0, 5_000, 20_000].into_iter().enumerate() {
        server.wait_for("some lines", |_| acknowledged_lines() >= at_least);
        server.wait_for("a sealed segment", |_| i < 2 || has_sealed(directory.path()));
        let expected: Vec<String> = acknowledged.lock().unwrap().clone();
        let made = server.post(&format!("/api/v1/backups?name=number{i}"), b"");
        assert_eq!(made.status, 201, "{}", made.text());
        assert!(made.json()["lines"].as_u64().unwrap() >= expected.len() as u64);
        let path = PathBuf::from(made.json()["path"].as_str().unwrap());
        succeed(&["verify", text(&path)]);
        backups.push((path, expected));
    }
    assert!(has_sealed(&backups[2].0));
    let seen = acknowledged_lines();
    server.wait_for("more lines", |_| acknowledged_lines() >= seen + 10_000);
    stop.store(true, Ordering::Relaxed);
    senders.into_iter().for_each(|sender| sender.join().unwrap());
    let listed = server.get("/api/v1/backups").json();
    let names: Vec<_> = listed["backups"].as_array().unwrap().iter().map(|b| &b["name"]).collect();
    assert_eq!(names, ["number0", "number1", "number2"]);
    check(&server, &acknowledged.lock().unwrap());
    assert_eq!(server.terminate(), Some(0));

    for (path, expected) in &backups {
        let restored = directory.path().join("restored");
        // Later work of the store has not changed it.
        succeed(&["restore", text(path), "--data-dir", text(&restored)]);
        succeed(&["verify", text(&restored)]);
        let mut server = Server::start_in(&restored, &[], SMALL);
        assert!(!server.log().contains("WARN"), "{}", server.log());
        check(&server, expected);
        // It is a store like any other.
        assert_eq!(server.post("/insert/lines", b"a new line").status, 200);
        assert_eq!(server.raw("\"a new line\"").len(), 1);
        assert_eq!(server.terminate(), Some(0));
        fs::remove_dir_all(&restored).unwrap();
        // Work of the restored store has not changed the backup.
        succeed(&["verify", text(path)]);
    }
}

#[test]
fn a_kill_leaves_no_backup_that_looks_complete() {
    let seed = fastrand::u64(..);
    eprintln!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let backups = directory.path().join("backups");
    let mut made = 0;
    for round in 0..6 {
        let mut server = Server::start_in(directory.path(), &[], SMALL);
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let sending = sender(
            server.http.clone(),
            format!("{round}"),
            Arc::clone(&stop),
            Arc::clone(&acknowledged),
        );
        let (address, done) = (server.http.clone(), Arc::new(AtomicBool::new(false)));
        let is_done = Arc::clone(&done);
        let asking = thread::spawn(move || {
            for i in 0.. {
                let path = format!("/api/v1/backups?name=r{round}-{i}");
                match request_to(&address, "POST", &path, &[], b"") {
                    Ok(answer) if answer.status == 201 => is_done.store(true, Ordering::Relaxed),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        });
        // On a slow machine the time may be too short for one.
        if round == 0 {
            server.wait_for("a backup", |_| done.load(Ordering::Relaxed));
        }
        thread::sleep(std::time::Duration::from_millis(random.u64(20..250)));
        server.kill();
        stop.store(true, Ordering::Relaxed);
        sending.join().unwrap();
        asking.join().unwrap();
        for entry in fs::read_dir(&backups).into_iter().flatten() {
            let path = entry.unwrap().path();
            if !path.file_name().unwrap().to_str().unwrap().starts_with('.') {
                succeed(&["verify", text(&path)]);
                made += 1;
                fs::remove_dir_all(path).unwrap();
            }
        }
    }
    assert!(made > 0, "no backup was complete");
    let server = Server::start_in(directory.path(), &[], SMALL);
    assert_eq!(server.post("/api/v1/backups?name=last", b"").status, 201);
    let names: Vec<_> =
        fs::read_dir(&backups).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["last"], "what was left of others is removed");
}

#[test]
fn over_http() {
    let server = Server::start();
    assert_eq!(server.post("/insert/lines", b"one\ntwo\n").status, 200);
    let outside = server.data_dir().join("kept");
    fs::create_dir(&outside).unwrap();
    for name in ["../kept", "..%2Fkept", ".", "..", "a%2Fb", "%2Fetc", ".x", "-x", "a%00", "%C3%A4"]
    {
        let made = server.post(&format!("/api/v1/backups?name={name}"), b"");
        assert_eq!(made.status, 400, "{name}: {}", made.text());
        let deleted = server.request("DELETE", &format!("/api/v1/backups/{name}"), &[], b"");
        assert!(matches!(deleted.status, 400 | 404), "{name}: {}", deleted.text());
    }
    assert!(outside.exists());
    assert_eq!(server.get("/api/v1/backups").json()["backups"].as_array().unwrap().len(), 0);
    let cross_site = [("sec-fetch-site", "cross-site")];
    assert_eq!(server.request("POST", "/api/v1/backups", &cross_site, b"").status, 403);
    assert_eq!(server.post("/api/v1/backups?name=a", b"").status, 201);
    let again = server.post("/api/v1/backups?name=a", b"");
    assert_eq!(again.status, 409);
    assert!(again.text().contains("choose another name"), "{}", again.text());
    let unnamed = server.post("/api/v1/backups", b"").json();
    assert!(unnamed["name"].as_str().unwrap().starts_with("20"), "{unnamed}");
    assert_eq!(server.request("DELETE", "/api/v1/backups/a", &[], b"").status, 200);
    assert_eq!(server.request("DELETE", "/api/v1/backups/a", &[], b"").status, 404);

    // The command reports the same.
    let url = format!("http://{}", server.http);
    let command =
        |arguments: &[&str]| succeed(&[&["backup", "--server", &url], arguments].concat());
    let made = command(&["by-command"]);
    assert!(made.contains("backups/by-command") && made.contains("2 lines"), "{made}");
    assert_eq!(command(&["--list"]).lines().count(), 2);
    command(&["--delete", "by-command"]);
    assert_eq!(command(&["--list"]).lines().count(), 1);
    let wrong = fail(&["backup", "--server", &url, "../x"]);
    assert!(wrong.contains("is not a valid name for a backup"), "{wrong}");
    let used = fail(&["verify", text(server.data_dir())]);
    assert!(used.contains("in use by") && used.contains("loginson backup"), "{used}");
}

#[test]
fn copies_need_free_space() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], "");
    assert_eq!(server.post("/insert/lines", b"a line\n").status, 200);
    server.kill();
    let server =
        Server::start_in(directory.path(), &[], "[store]\ndisk_free_bytes_min = \"900TiB\"\n");
    let refused = server.post("/api/v1/backups?name=a", b"");
    if refused.status == 201 {
        // By then the store has closed the segment for lack of space, so there is nothing to copy.
        assert_eq!(refused.json()["bytes_copied"], 0);
        return;
    }
    assert_eq!(refused.status, 507, "{}", refused.text());
    assert!(refused.text().contains("free space"), "{}", refused.text());
    assert_eq!(fs::read_dir(directory.path().join("backups")).unwrap().count(), 0);
}

#[test]
fn what_people_made_is_in_the_backup() {
    let directory = tempfile::tempdir().unwrap();
    let server = Server::start_in(directory.path(), &[], "");
    let dashboard = r#"{"title":"Web","version":0,"panels":[{"query":"error"}]}"#;
    let put = |path: &str, body: &str| {
        let answer = server.request("PUT", path, &[], body.as_bytes());
        assert!((200..300).contains(&answer.status), "{path}: {}", answer.text());
    };
    put("/api/v1/dashboards/web", dashboard);
    // Files that are half written, hidden, or not where they belong are left.
    let folder = directory.path().join("dashboards");
    for name in ["web.json.new", ".hidden"] {
        fs::write(folder.join(name), "x").unwrap();
    }
    fs::create_dir(folder.join("below")).unwrap();
    fs::create_dir_all(directory.path().join("programs")).unwrap();
    fs::write(directory.path().join("programs/counts.logsql"), "* | stats count() n").unwrap();
    let made = server.post("/api/v1/backups?name=all", b"");
    assert_eq!(made.status, 201, "{}", made.text());
    let path = PathBuf::from(made.json()["path"].as_str().unwrap());
    succeed(&["verify", text(&path)]);
    let restored = directory.path().join("restored");
    succeed(&["restore", text(&path), "--data-dir", text(&restored)]);
    let names = |folder: &str| -> Vec<String> {
        let entries = fs::read_dir(restored.join(folder)).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(
        (names("dashboards"), names("programs")),
        (vec!["web.json".to_owned()], vec!["counts.logsql".to_owned()],)
    );
    drop(server);
    let server = Server::start_in(&restored, &[], "");
    assert_eq!(server.get("/api/v1/dashboards/web").json()["title"], "Web");
    drop(server);
    // A list that names a file elsewhere is refused.
    let list = path.join("backup.json");
    let changed =
        fs::read_to_string(&list).unwrap().replace("dashboards/web.json", "dashboards/../x");
    fs::write(&list, changed).unwrap();
    assert!(fail(&["verify", text(&path)]).contains("is not a file of a backup"));
}

#[test]
fn of_a_directory_at_rest() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut server = Server::start_in(&data, &[], SMALL);
    for batch in 0..20 {
        let lines: Vec<String> =
            (0..1000).map(|i| format!("{batch} {i} {}", "y".repeat(150))).collect();
        assert_eq!(server.post("/insert/lines", lines.join("\n").as_bytes()).status, 200);
    }
    server.wait_for("a sealed segment", |_| has_sealed(&data));
    let mut expected = server.raw("NOT _type:summary");
    // The state that a crash leaves.
    server.kill();

    let elsewhere = directory.path().join("elsewhere");
    let of_data = ["backup", "--data-dir", text(&data)];
    succeed(&[&of_data[..], &["inside"]].concat());
    succeed(&[&of_data[..], &["--to", text(&elsewhere), "outside"]].concat());
    assert!(fail(&[&of_data[..], &["inside"]].concat()).contains("already"));
    for backup in [data.join("backups/inside"), elsewhere.join("outside")] {
        succeed(&["verify", text(&backup)]);
        let restored = directory.path().join("restored");
        fs::create_dir(&restored).unwrap();
        succeed(&["restore", text(&backup), "--data-dir", text(&restored)]);
        let full = fail(&["restore", text(&backup), "--data-dir", text(&restored)]);
        assert!(full.contains("is not empty"), "{full}");
        let server = Server::start_in(&restored, &[], "");
        let mut found = server.raw("*");
        found.retain(|line| expected.contains(line));
        found.sort();
        expected.sort();
        assert!(found == expected);
        drop(server);
        fs::remove_dir_all(&restored).unwrap();
    }
}

#[test]
fn a_damaged_backup_is_not_restored_by_itself() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    let server = Server::start_in(&data, &[], SMALL);
    for _ in 0..3 {
        assert_eq!(server.post("/insert/lines", "a line\n".repeat(1000).as_bytes()).status, 200);
    }
    let made = server.post("/api/v1/backups?name=b", b"").json();
    let backup = PathBuf::from(made["path"].as_str().unwrap());
    drop(server);
    let restored = directory.path().join("restored");
    let segments = || fs::read_dir(backup.join("segments")).unwrap().map(|f| f.unwrap().path());
    let check = |what: &str, expected: &str| {
        let message = fail(&["verify", text(&backup)]);
        assert!(message.contains(expected), "{what}: {message}");
        let refused = fail(&["restore", text(&backup), "--data-dir", text(&restored)]);
        assert!(
            refused.contains(expected) && refused.contains("--allow-damage"),
            "{what}: {refused}"
        );
        assert!(!restored.exists(), "{what}");
    };
    let change = |path: &Path, change: &dyn Fn(&mut Vec<u8>)| {
        let before = fs::read(path).unwrap();
        let mut bytes = before.clone();
        change(&mut bytes);
        fs::remove_file(path).unwrap();
        fs::write(path, bytes).unwrap();
        before
    };
    let put_back = |path: &Path, bytes: Vec<u8>| fs::write(path, bytes).unwrap();

    let segment = segments().next().unwrap();
    let before = change(&segment, &|bytes| bytes[6000] ^= 1);
    check("a flipped bit", "at byte ");
    // What can be read can be restored.
    succeed(&["restore", "--allow-damage", text(&backup), "--data-dir", text(&restored)]);
    fs::remove_dir_all(&restored).unwrap();
    put_back(&segment, before);

    let before = change(&segment, &|bytes| bytes.truncate(5000));
    check("a cut file", "compared with backup.json: expected");
    put_back(&segment, before);

    let before = fs::read(&segment).unwrap();
    fs::remove_file(&segment).unwrap();
    check("a lost file", "no file");
    put_back(&segment, before);

    let more = backup.join("segments/99.hot");
    fs::copy(&segment, &more).unwrap();
    check("a foreign file", "99");
    fs::remove_file(&more).unwrap();

    let manifest = backup.join("backup.json");
    let lie = |text: &[u8]| String::from_utf8_lossy(text).replace("\"lines\": ", "\"lines\": 1");
    let before = change(&manifest, &|bytes| *bytes = lie(bytes).into_bytes());
    check("a list that lies", "its lines, compared with backup.json");
    put_back(&manifest, before);

    let escape = |text: &[u8]| String::from_utf8_lossy(text).replace("catalog.sqlite", "../../x");
    let before = change(&manifest, &|bytes| *bytes = escape(bytes).into_bytes());
    let message = fail(&["restore", text(&backup), "--data-dir", text(&restored)]);
    assert!(message.contains("is not a file of a backup"), "{message}");
    put_back(&manifest, before);
    succeed(&["verify", text(&backup)]);
}

/// The settings of backups that are sent to `to`, and files that hold the secrets of S3.
fn destination(to: &str, more: &str) -> String {
    format!("{SMALL}[backup]\nto = '{to}'\n{more}")
}

fn sorted(server: &Server) -> Vec<Vec<u8>> {
    let mut lines = server.raw("NOT _type:summary");
    lines.sort();
    lines
}

/// Fills a store, sends backups of it, deletes lines, restores to points in time. `options` reach
/// the place from the command line.
fn backups_elsewhere(directory: &Path, place: &str, config: &str, options: &[&str]) {
    let data = directory.join("data");
    fs::create_dir(&data).unwrap();
    let mut server = Server::start_in(&data, &[], config);
    let send = |server: &Server, name: &str| {
        let url = format!("http://{}", server.http);
        succeed(&["backup", "send", "--server", &url, name])
    };
    let insert = |server: &Server, what: &str| {
        for batch in 0..10 {
            let lines: Vec<String> =
                (0..500).map(|i| format!("{what} {batch} {i} {}", "z".repeat(150))).collect();
            assert_eq!(server.post("/insert/lines", lines.join("\n").as_bytes()).status, 200);
        }
    };
    insert(&server, "first");
    server.wait_for("a sealed segment", |_| has_sealed(&data));
    let first_lines = sorted(&server);
    assert!(send(&server, "first").contains(&format!("in {place}")));
    let first_time = server.get("/api/v1/backups").json()["destination"]["last"]["created"].clone();
    // A line that was deleted before a backup is not in it.
    insert(&server, "second");
    assert_eq!(server.post("/insert/lines", b"a secret that must go\n").status, 200);
    let url = format!("http://{}", server.http);
    succeed(&["delete", "--server", &url, "--yes", "\"secret that must go\""]);
    let second_lines = sorted(&server);
    assert!(second_lines.len() == 2 * first_lines.len());
    send(&server, "second");
    insert(&server, "third");
    for name in ["first", "second"] {
        let again = run(&["backup", "send", "--server", &url, name]);
        assert!(said(&again).contains("choose another name"), "{}", said(&again));
    }
    let metrics = server.get("/metrics").text();
    for line in ["loginson_backups_sent_total 2", "loginson_backups_failed_total 1"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    assert!(metrics.contains("loginson_backup_age_seconds "));
    let status = said(&run(&["status", "--server", &url]));
    assert!(status.contains(&format!("the newest sent to {place} is of ")), "{status}");
    assert_eq!(server.terminate(), Some(0));

    // At rest, and by another program than the server.
    let at_rest = ["backup", "send", "--data-dir", text(&data), "--to", place, "third"];
    succeed(&[&at_rest[..], options].concat());
    let nothing = succeed(&[&at_rest[..6], &["same"], options].concat());
    assert!(nothing.contains("of which 0 B were sent"), "{nothing}");
    let command = |arguments: &[&str]| succeed(&[&["backup"], arguments, options].concat());
    let listed = command(&["list", place]);
    assert_eq!(listed.lines().count(), 4, "{listed}");
    assert!(listed.starts_with("first  20") && listed.contains(" lines  "), "{listed}");
    assert!(command(&["verify", place]).contains("4 backups"));

    let restored = directory.join("restored");
    let first_time = first_time.as_str().unwrap();
    let before = run(&[
        &["restore", place, "--data-dir", text(&restored), "--at", "2020-01-01T00:00:00Z"],
        options,
    ]
    .concat());
    assert!(said(&before).contains("the first is of"), "{}", said(&before));
    for (choice, expected) in [
        (&["--at", first_time][..], &first_lines),
        (&["--name", "second"], &second_lines),
        (&[], &Vec::new()),
    ] {
        let arguments = [&["restore", place, "--data-dir", text(&restored)], choice, options];
        succeed(&arguments.concat());
        let full = run(&arguments.concat());
        assert!(said(&full).contains("is not empty"), "{}", said(&full));
        succeed(&["verify", text(&restored)]);
        let mut server = Server::start_in(&restored, &[], SMALL);
        match expected.is_empty() {
            true => assert_eq!(sorted(&server).len(), 15_000),
            false => assert!(sorted(&server) == **expected, "{choice:?}"),
        }
        assert_eq!(server.raw("\"secret that must go\"").len(), 0);
        assert_eq!(server.terminate(), Some(0));
        fs::remove_dir_all(&restored).unwrap();
    }
    command(&["prune", place, "--keep", "1y"]);
    assert_eq!(command(&["list", place]).lines().count(), 1);
    assert!(command(&["verify", place]).contains("1 backups"));
}

#[test]
fn backups_go_to_another_disk() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("elsewhere");
    let data = directory.path().join("early");
    let missing = ["backup", "send", "--data-dir", text(&data), "--to", text(&place)];
    assert!(fail(&missing).contains("mount the disk"));
    fs::create_dir(&place).unwrap();
    backups_elsewhere(directory.path(), text(&place), &destination(text(&place), ""), &[]);

    // A flipped bit and a lost object are named, with the files that they are pieces of.
    let pieces = || {
        let folders = fs::read_dir(place.join("pieces")).unwrap();
        let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
        let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    };
    let [flipped, lost] = [pieces()[0].clone(), pieces().pop().unwrap()];
    let mut bytes = fs::read(&flipped).unwrap();
    bytes[0] ^= 1;
    fs::write(&flipped, &bytes).unwrap();
    fs::remove_file(&lost).unwrap();
    let named = fail(&["backup", "verify", text(&place)]);
    for path in [&flipped, &lost] {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(named.lines().any(|line| line.contains(name)), "{named}");
    }
    assert!(named.contains("it is a piece of") && named.contains("2 faults"), "{named}");
    let restored = directory.path().join("restored");
    let refused = fail(&["restore", text(&place), "--data-dir", text(&restored)]);
    assert!(refused.contains("cannot fetch"), "{refused}");

    // A disk that is not mounted any more is not filled again from nothing.
    let data = directory.path().join("data");
    let server = Server::start_in(&data, &[], &destination(text(&place), ""));
    fs::remove_dir_all(&place).unwrap();
    fs::create_dir(&place).unwrap();
    let url = format!("http://{}", server.http);
    let empty = fail(&["backup", "send", "--server", &url]);
    assert!(empty.contains("mount the disk again"), "{empty}");
    let doctor = said(&run(&["doctor", "--data-dir", text(&data), "--server", &url]));
    assert!(doctor.contains("backup"), "{doctor}");
}

#[test]
fn backups_are_sent_by_themselves_and_old_ones_go() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("elsewhere");
    fs::create_dir(&place).unwrap();
    let data = directory.path().join("data");
    fs::create_dir(&data).unwrap();
    let config = destination(text(&place), "every = '1h'\nkeep = '1h'\n");
    let server = Server::start_in(&data, &[], &config);
    let made = |server: &Server| {
        let state = server.get("/api/v1/status").json()["backup"].take();
        state["last"]["name"].as_str().map(str::to_owned)
    };
    server.wait_for("the first backup", |server| made(server).is_some());
    assert_eq!(server.post("/api/v1/backups?send=1&name=asked", b"").status, 202);
    server.wait_for("the second one", |server| made(server).as_deref() == Some("asked"));
    let lists = || fs::read_dir(place.join("backups")).unwrap().count();
    // Both are of one hour, or of two whose change lies between them.
    server.wait_for("the end of the first", |_| lists() <= 2);
    drop(server);
    // The age is known after a start, and no backup is due.
    let server = Server::start_in(&data, &[], &config);
    assert_eq!(made(&server).as_deref(), Some("asked"));
    assert!(server.get("/metrics").text().contains("loginson_backups_sent_total 0"));
    // Without a destination, nothing is sent.
    let other = Server::start();
    let refused = other.post("/api/v1/backups?send=1", b"");
    assert_eq!(refused.status, 501);
    assert!(refused.text().contains("backup.to"), "{}", refused.text());
}

/// A real server of S3, which is wiped when it is dropped.
#[cfg(feature = "real-servers")]
struct S3 {
    data: tempfile::TempDir,
    port: u16,
}

#[cfg(feature = "real-servers")]
impl S3 {
    fn script(&self, command: &str) -> std::process::Command {
        let mut script = std::process::Command::new("../../scripts/servers/s3.sh");
        script
            .arg(command)
            .env("LOGINSON_SERVERS_DATA", self.data.path())
            .env("S3_PORT", self.port.to_string());
        script
    }

    fn run(&self, command: &str) {
        assert!(self.script(command).status().unwrap().success(), "{command}");
    }
}

#[cfg(feature = "real-servers")]
impl Drop for S3 {
    fn drop(&mut self) {
        let _ = self.script("wipe").status();
    }
}

#[cfg(feature = "real-servers")]
#[test]
fn backups_go_to_s3() {
    let held = Port::take();
    let port = held.number;
    let s3 = S3 { data: tempfile::tempdir().unwrap(), port };
    let installed = s3.script("install").output().unwrap();
    let why = said(&installed);
    if why.contains("the command go is missing") {
        eprintln!("LEFT OUT: {why}");
        return;
    }
    s3.run("start");
    let directory = tempfile::tempdir().unwrap();
    let files = ["loginson", "loginson-secret"].map(|key| {
        let file = directory.path().join(key);
        fs::write(&file, key).unwrap();
        file
    });
    let endpoint = format!("http://127.0.0.1:{port}");
    let [key, secret] = [&files[0], &files[1]].map(|file| text(file));
    let more = format!(
        "endpoint = '{endpoint}'\naccess_key_file = '{key}'\nsecret_key_file = '{secret}'\n"
    );
    let place = "s3://loginson/stores/web1";
    let options = ["--endpoint", &endpoint, "--access-key-file", key, "--secret-key-file", secret];
    backups_elsewhere(directory.path(), place, &destination(place, &more), &options);
    let data = directory.path().join("data");
    let server = Server::start_in(&data, &[], &destination(place, &more));
    s3.run("stop");
    // Where nothing answers, nothing is said of the keys.
    let wrong = ["--secret-key-file", key, "--access-key-file", key, "--endpoint", &endpoint];
    let refused = fail(&[&["backup", "list", place], &wrong[..]].concat());
    assert!(!refused.contains("loginson-secret"), "{refused}");
    assert!(refused.contains(&endpoint), "{refused}");
    assert!(!server.log().contains("loginson-secret"));
}

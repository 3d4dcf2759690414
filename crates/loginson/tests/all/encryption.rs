//! Encryption at rest: nothing of a line is in the data directory or a backup, everything can be
//! read with the key, and without it everybody is told which one is missing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::common::{Server, loginson, serve_command};
use crate::nodes::{Collector, Store};

/// Small segments that are sealed soon, so that there are some of each kind.
const SMALL: &str = "[store]\nsegment_bytes_max = \"1MiB\"\ncommit_interval = \"1ms\"\n";
/// What every line has, and no file may have.
const SECRET: &str = "patient 4711 of ward 9";

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(arguments: &[&str], expected: i32) -> String {
    let output = loginson(arguments).output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(output.status.code(), Some(expected), "{arguments:?}: {said}");
    said
}

fn new_key(folder: &Path, name: &str) -> PathBuf {
    let file = folder.join(name);
    let id = run(&["encryption", "new-key", text(&file)], 0);
    assert_eq!(id.lines().next().unwrap().len(), 16, "{id}");
    file
}

fn settings(key: &Path, old: &[&Path]) -> String {
    let old: Vec<String> = old.iter().map(|key| format!("'{}'", key.display())).collect();
    format!(
        "[encryption]\nkey_file = '{}'\nold_key_files = [{}]\n{SMALL}",
        key.display(),
        old.join(", ")
    )
}

fn send(server: &Server, from: usize, lines: usize) {
    let body: Vec<String> = (from..from + lines)
        .map(|number| format!("line {number} {SECRET} {}", "y".repeat(number % 500)))
        .collect();
    let answer = server.post("/insert/lines", body.join("\n").as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
}

fn lines_of(server: &Server) -> usize {
    server.raw("line NOT _type:summary").len()
}

/// Files below a directory that hold the secret.
fn leaks(directory: &Path) -> Vec<PathBuf> {
    holding(directory, SECRET)
}

/// Files below a directory that hold a text.
fn holding(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if let Ok(bytes) = fs::read(&path)
            && memchr::memmem::find(&bytes, text.as_bytes()).is_some()
        {
            found.push(path);
        }
    }
    found
}

fn sealed(directory: &Path) -> usize {
    let files = fs::read_dir(directory.join("segments")).unwrap().flatten();
    files.filter(|file| file.path().extension().is_some_and(|end| end == "sealed")).count()
}

/// What a start without the right key says.
fn refused(data_dir: &Path, settings: &str) -> String {
    let file = data_dir.parent().unwrap().join("refused.toml");
    fs::write(&file, settings).unwrap();
    let mut command = serve_command(data_dir);
    let output = command.arg("--config").arg(&file).stdin(Stdio::null()).output().unwrap();
    assert!(!output.status.success());
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn files_need_the_key_and_nothing_of_a_line_is_in_them() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    fs::create_dir(&data_dir).unwrap();
    let (first, second) = (new_key(folder.path(), "a.key"), new_key(folder.path(), "b.key"));
    // Some lines before it is turned on.
    let mut server = Server::start_in(&data_dir, &[], SMALL);
    send(&server, 0, 1_000);
    assert_eq!(server.terminate(), Some(0));
    assert!(!leaks(&data_dir).is_empty(), "the secret is found where it is");

    let mut server = Server::start_in(&data_dir, &[], &settings(&first, &[]));
    server.wait_for("the log", |server| server.log().contains("new files are encrypted"));
    // The active segment has no encryption, and gets no more lines.
    send(&server, 1_000, 10);
    assert_eq!(holding(&data_dir, "line 1005 patient"), Vec::<PathBuf>::new());
    send(&server, 1_010, 19_990);
    server.wait_for("sealed segments", |_| sealed(&data_dir) >= 2);
    send(&server, 21_000, 10);
    assert_eq!(lines_of(&server), 21_010);
    // A backup of it, with a hot segment that is written to.
    let made = server.post("/api/v1/backups?name=one", b"");
    assert_eq!(made.status, 201, "{}", made.text());
    send(&server, 21_010, 10);
    server.kill();

    // Acknowledged lines are there after a kill.
    let mut server = Server::start_in(&data_dir, &[], &settings(&first, &[]));
    assert_eq!(lines_of(&server), 21_020);
    assert_eq!(server.terminate(), Some(0));
    let key = ["--encryption-key-file", text(&first)];
    let with = |arguments: &[&str]| run(&[arguments, &key[..]].concat(), 0);
    with(&["encryption", "rewrite", text(&data_dir)]);
    // The backup shares files that were written before encryption was turned on.
    let segments = data_dir.join("segments");
    assert_eq!(leaks(&segments), Vec::<PathBuf>::new());
    let shown = with(&["encryption", "show", text(&data_dir)]);
    assert!(shown.contains("not encrypted       0 segments"), "{shown}");
    let verified = with(&["verify", text(&data_dir)]);
    assert!(verified.contains("no fault"), "{verified}");
    let backup = data_dir.join("backups/one");
    assert!(with(&["verify", text(&backup)]).contains("no fault"));

    // Without the key, and with another one.
    let key_id = fs::read_to_string(data_dir.join("encryption.keys")).unwrap();
    let key_id = key_id.lines().nth(1).unwrap().strip_prefix("master ").unwrap().to_owned();
    for directory in [&data_dir, &backup] {
        let said = run(&["verify", text(directory)], 1);
        assert!(said.contains(&key_id) && said.contains("--encryption-key-file"), "{said}");
    }
    let said = refused(&data_dir, SMALL);
    assert!(said.contains("[encryption] key_file") && said.contains(&key_id), "{said}");
    let said = refused(&data_dir, &settings(&second, &[]));
    assert!(said.contains("wrong key") && said.contains(&key_id), "{said}");
    let secret = fs::read_to_string(&first).unwrap();
    assert!(!said.contains(secret.trim()));

    // Another key, by a start, and back, by the command.
    let mut server = Server::start_in(&data_dir, &[], &settings(&second, &[&first]));
    assert_eq!(lines_of(&server), 21_020);
    assert!(!server.log().contains(secret.trim()));
    assert_eq!(server.terminate(), Some(0));
    run(&["verify", text(&data_dir), "--encryption-key-file", text(&first)], 1);
    let (second, first) = (text(&second), text(&first));
    let rotate = ["encryption", "rotate", text(&data_dir), "--encryption-key-file", second];
    run(&[&rotate[..], &["--to", first, "--new-data-key"]].concat(), 0);
    with(&["encryption", "rewrite", text(&data_dir)]);
    let shown = with(&["encryption", "show", text(&data_dir)]);
    assert!(
        shown.contains("data keys           2") && shown.contains("data keys  0 seg"),
        "{shown}"
    );

    // The backup is restored with the key that was in use when it was made.
    let restored = folder.path().join("restored");
    with(&["restore", text(&backup), "--data-dir", text(&restored)]);
    let mut server = Server::start_in(&restored, &[], &settings(Path::new(first), &[]));
    assert_eq!(lines_of(&server), 21_010);
    assert_eq!(server.terminate(), Some(0));
    // And without encryption again.
    with(&["encryption", "rewrite", "--decrypt", text(&restored)]);
    // One of these files in the place of its encrypted form: nothing of it is believed.
    let is_in_both = |path: &PathBuf| segments.join(path.file_name().unwrap()).exists();
    let plain = fs::read_dir(restored.join("segments")).unwrap().flatten();
    let plain = plain.map(|file| file.path()).filter(|path| text(path).ends_with(".sealed"));
    // The oldest: one that was active in the backup has fewer lines there.
    let number =
        |path: &PathBuf| path.file_stem().unwrap().to_str().unwrap().parse::<u64>().unwrap();
    let plain = plain.filter(is_in_both).min_by_key(number).expect("the backup has some of them");
    let planted = segments.join(plain.file_name().unwrap());
    fs::remove_file(&planted).unwrap();
    fs::copy(&plain, &planted).unwrap();
    let shown = with(&["encryption", "show", text(&data_dir)]);
    assert!(shown.contains("plain files         refused"), "{shown}");
    let said = run(&[&["verify", text(&data_dir)][..], &key].concat(), 1);
    assert!(said.contains(text(&planted)), "{said}");
    let said = run(&[&["encryption", "rewrite", text(&data_dir)][..], &key].concat(), 1);
    assert!(said.contains(text(&planted)) && said.contains("--accept-plain"), "{said}");
    with(&["encryption", "rewrite", text(&data_dir), "--accept-plain"]);
    assert!(with(&["verify", text(&data_dir)]).contains("no fault"));
    let mut server = Server::start_in(&restored, &[], SMALL);
    assert_eq!(lines_of(&server), 21_010);
    assert_eq!(server.terminate(), Some(0));
}

#[test]
fn what_waits_on_a_collector_is_encrypted() {
    let folder = tempfile::tempdir().unwrap();
    let key = new_key(folder.path(), "key");
    let config = folder.path().join("collect.toml");
    let spool = folder.path().join("spool");
    // A command, as a service of keys is asked.
    let settings = format!("[encryption]\nkey_command = ['cat', '{}']\n", key.display());
    fs::write(&config, settings).unwrap();
    let config = ["--config", text(&config)];
    // Nobody answers there.
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let away = away.local_addr().unwrap().to_string();
    let collector = Collector::start(&spool, &[&away], &config);
    let body = format!("line 1 {SECRET}\nline 2 {SECRET}\n");
    let post = |body: &str| {
        crate::common::request_to(&collector.http, "POST", "/insert/lines", &[], body.as_bytes())
    };
    // Answered once the lines are on the disk.
    let answer = post(&body).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    drop(collector);
    let is_hot = |path: &PathBuf| path.extension().is_some_and(|end| end == "hot");
    let files = fs::read_dir(&spool).unwrap().flatten().map(|file| file.path());
    assert!(files.filter(is_hot).count() > 0, "lines wait");
    assert_eq!(leaks(&spool), Vec::<PathBuf>::new());

    let mut store = Store::start(&folder.path().join("store"));
    let mut collector = Collector::start(&spool, &[&store.address], &config);
    store.server.wait_for("what waited", |server| lines_of(server) == 2);
    collector.terminate();
    assert_eq!(store.server.terminate(), Some(0));
}

//! What is in the place of a file of the data directory is looked at before it is used: links,
//! pipes, folders and files without end are named, and neither hang a start nor are written
//! through. And a disk without a free byte: a start needs none, and what needs some says so.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::bad_input::SmallDisk;
use crate::common::{Answer, PATIENCE, Server, loginson, serve_command};
use serde_json::json;

/// What a start does when something else is in the place of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Start {
    /// It ends, and names the file.
    Refused,
    /// It reads everything else, and names the file.
    Warned,
    /// It reads everything else. The file is looked at later.
    Served,
}

/// Files of a data directory, what a start does when something else is in the place of each, and
/// what it does with a sparse file.
const FILES: [(&str, Start, Start); 16] = [
    ("LOCK", Start::Refused, Start::Refused),
    ("catalog.sqlite", Start::Refused, Start::Refused),
    // A journal of zeros is one that was truncated.
    ("catalog.sqlite-journal", Start::Refused, Start::Served),
    // Those that there are.
    ("segments/.sealed", Start::Warned, Start::Warned),
    ("segments/.hot", Start::Warned, Start::Warned),
    ("programs.json", Start::Refused, Start::Refused),
    ("program-runs.json", Start::Refused, Start::Refused),
    ("summary-reruns.json", Start::Refused, Start::Refused),
    // The thread of the watch reads it.
    ("watch.json", Start::Served, Start::Served),
    ("programs/counts.logsql", Start::Warned, Start::Served),
    ("alert-rules/web.yml", Start::Refused, Start::Served),
    ("alerts/silences.json", Start::Refused, Start::Refused),
    ("dashboards/web.json", Start::Served, Start::Served),
    ("links/abc.json", Start::Served, Start::Served),
    ("queries/last-id", Start::Refused, Start::Refused),
    ("queries/1.json", Start::Warned, Start::Warned),
];

const THINGS: [(&str, &str); 4] = [
    ("link", "it is a symbolic link and not a regular file"),
    ("pipe", "it is a named pipe and not a regular file"),
    ("folder", "it is a directory and not a regular file"),
    ("sparse", ""),
];

/// Puts a thing in the place of a file.
fn put(thing: &str, place: &Path, victim: &Path) {
    fs::create_dir_all(place.parent().unwrap()).unwrap();
    let _ = fs::remove_file(place);
    match thing {
        "link" => symlink(victim, place).unwrap(),
        "pipe" => mkfifo(place),
        "folder" => fs::create_dir(place).unwrap(),
        _ => File::create(place).unwrap().set_len(1 << 40).unwrap(),
    }
}

fn mkfifo(place: &Path) {
    assert!(Command::new("mkfifo").arg(place).status().unwrap().success());
}

fn is_still(thing: &str, place: &Path) -> bool {
    let found = fs::symlink_metadata(place).unwrap();
    match thing {
        "link" => found.is_symlink(),
        "pipe" => found.file_type().is_fifo(),
        "folder" => found.is_dir(),
        _ => found.is_file(),
    }
}

/// Copies a directory without what a test puts into it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// Starts a server, and returns whether it became ready, and what it said until then. It is ended.
fn start(data_dir: &Path) -> (bool, String) {
    let mut child = serve_command(data_dir).stderr(Stdio::piped()).spawn().unwrap();
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let pid = rustix::process::Pid::from_child(&child);
    let watch = std::thread::spawn(move || {
        // The start that hangs is killed, so that the test says which one it was.
        if end.recv_timeout(PATIENCE).is_err() {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    });
    let (mut said, mut is_ready) = (String::new(), false);
    for line in BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok) {
        said.push_str(&line);
        said.push('\n');
        if line.contains("page and API at http") {
            is_ready = true;
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
    }
    ended.send(()).unwrap();
    watch.join().unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(i32::from(!is_ready)), "{said}");
    (is_ready, said)
}

#[test]
fn a_start_names_what_is_in_the_place_of_a_file() {
    let whole = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(whole.path(), &[], "");
    assert_eq!(server.post("/insert/lines", b"one\ntwo\n").status, 200);
    assert_eq!(server.post("/api/v1/seal", b"").status, 202);
    let segment = |end: &str| {
        let names = fs::read_dir(whole.path().join("segments")).unwrap();
        let mut names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.find(|name| name.ends_with(end)).map(|name| format!("segments/{name}"))
    };
    server.wait_for("it is sealed", |_| segment(".sealed").is_some());
    assert_eq!(server.post("/insert/lines", b"three\n").status, 200);
    let dashboard = br#"{"title":"Web","version":0,"panels":[]}"#;
    server.request("PUT", "/api/v1/dashboards/web", &[], dashboard);
    assert_eq!(server.terminate(), Some(0));
    drop(server);
    for (file, irregular, sparse) in FILES {
        let file = match file.strip_prefix("segments/") {
            Some(end) => segment(end).unwrap(),
            None => file.to_owned(),
        };
        for (thing, what) in THINGS {
            // A segment may be large: it is read, however long that takes.
            if thing == "sparse" && file.ends_with(".hot") {
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let data = dir.path().join("data");
            copy(whole.path(), &data);
            let victim = dir.path().join("victim");
            fs::write(&victim, "precious").unwrap();
            let place = data.join(&file);
            put(thing, &place, &victim);
            let (is_ready, said) = start(&data);
            let expected = if thing == "sparse" { sparse } else { irregular };
            let case = format!("{file} is a {thing}: {said}");
            assert_eq!(is_ready, expected != Start::Refused, "{case}");
            if expected != Start::Served {
                assert!(said.contains(place.to_str().unwrap()) && said.contains(what), "{case}");
            }
            // The end of a server puts what the watch learnt in the place of whatever is no folder.
            assert!(is_still(thing, &place) || file == "watch.json", "{case}");
            assert_eq!(fs::read(&victim).unwrap(), b"precious", "{case}");
            if expected == Start::Refused {
                // The remedy that it names is one.
                assert!(said.contains("move it away"), "{case}");
                match thing {
                    "folder" => fs::remove_dir(&place).unwrap(),
                    _ => fs::remove_file(&place).unwrap(),
                }
                let (is_ready, said) = start(&data);
                assert!(is_ready, "{case}, and moved away: {said}");
            }
        }
    }
}

#[test]
fn what_is_read_later_is_named_then() {
    let dir = tempfile::tempdir().unwrap();
    let victim = dir.path().join("victim");
    fs::write(&victim, r#"{"id":"web","title":"stolen","version":1}"#).unwrap();
    let data = dir.path().join("data");
    let server = Server::start_in(&data, &[], "");
    for (thing, what) in &THINGS[..3] {
        let place = data.join("dashboards/web.json");
        put(thing, &place, &victim);
        let answer = server.get("/api/v1/dashboards/web");
        assert_eq!(answer.status, 500, "{}", answer.text());
        assert!(answer.text().contains(what) && answer.text().contains("dashboards/web.json"));
        assert_eq!(server.get("/api/v1/dashboards").json(), json!({ "dashboards": [] }));
        let backup = server.post(&format!("/api/v1/backups?name={thing}"), b"");
        assert_eq!(backup.status, 201, "{}", backup.text());
        assert!(!data.join(format!("backups/{thing}/dashboards/web.json")).exists());
        match *thing {
            "folder" => fs::remove_dir(&place).unwrap(),
            _ => fs::remove_file(&place).unwrap(),
        }
    }
}

#[test]
fn an_import_waits_for_no_pipe() {
    let server = Server::start();
    let address = format!("http://{}", server.http);
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    mkfifo(&pipe);
    let import = |path: &Path| {
        let mut command = loginson(&["import", "--server", &address]);
        let output = command.arg(path).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for (path, what) in [
        (pipe.as_path(), "a named pipe; give its lines through standard input"),
        (Path::new("/dev/zero"), "a device; give its lines"),
        (dir.path(), "a directory; name the files"),
    ] {
        let (is_done, said) = import(path);
        assert!(!is_done && said.contains(what), "{said}");
        assert!(said.contains(path.to_str().unwrap()), "{said}");
    }
    // A pipe that is open already, as of `<(zcat access.log.gz)`.
    let mut command = loginson(&["import", "--server", &address, "/dev/fd/0"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through a pipe\nand more\n").unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(server.count("*"), 2);
}

/// Takes the last free byte of a file system, also if it was filled before and some were freed.
fn fill(directory: &Path) {
    let mut filler =
        File::options().create(true).append(true).open(directory.join("filler")).unwrap();
    for bytes in [1 << 20, 4096, 1] {
        while filler.write_all(&vec![0; bytes]).is_ok() {}
    }
}

#[test]
fn a_start_needs_not_a_byte_and_what_needs_some_says_so() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("no file system may be mounted here; a full one cannot be tested");
        return;
    };
    let data = disk.path().join("data");
    fs::create_dir(&data).unwrap();
    let lines: String = (0..1000).map(|i| format!("line {i}\n")).collect();
    let config = "[store]\ndisk_free_bytes_min = '1MiB'\n";
    let mut server = Server::start_in(&data, &[], config);
    for _ in 0..3 {
        assert_eq!(server.post("/insert/lines", lines.as_bytes()).status, 200);
        assert_eq!(server.post("/api/v1/seal", b"").status, 202);
    }
    server.kill();
    fs::rename(data.join("loginson.toml"), disk.path().join("loginson.toml")).unwrap();
    fill(disk.path());
    let file = disk.path().join("loginson.toml");
    let mut server = Server::start_in(&data, &["--config", file.to_str().unwrap()], "");
    assert_eq!(server.count("line"), 3000, "all is read");
    let dashboard = br#"{"title":"Web","version":0,"panels":[]}"#;
    let put = |server: &Server, name: &str| {
        server.request("PUT", &format!("/api/v1/dashboards/{name}"), &[], dashboard)
    };
    let program = b"# type: a\nEND { print NR }";
    // What a killed sealing left is removed after the start, and a sealing that finds no room gives
    // back what it had: so the disk is filled again until there is no room for the answer.
    let refused = |what: &str, ask: &dyn Fn(&Server, &str) -> Answer| {
        let mut names = (0..).map(|n| format!("a{n}"));
        server.wait_for(what, |server| {
            fill(disk.path());
            let answer = ask(server, &names.next().unwrap());
            let is_known = answer.status == 507 || (200..300).contains(&answer.status);
            assert!(is_known, "{what}: {} {}", answer.status, answer.text());
            answer.status == 507
        });
    };
    refused("lines", &|server, _| server.post("/insert/lines", b"no room"));
    refused("a dashboard", &put);
    refused("a link", &|server, name| {
        server.post("/api/v1/links", format!("?query={name}").as_bytes())
    });
    refused("a backup", &|server, name| server.post(&format!("/api/v1/backups?name={name}"), b""));
    refused("a program", &|server, name| server.post(&format!("/api/v1/programs/{name}"), program));
    assert_eq!(server.terminate(), Some(0));

    let empty = disk.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let (is_ready, said) = start(&empty);
    assert!(!is_ready && said.contains("is full") && said.contains("free 1.0 MiB"), "{said}");
    assert!(!said.contains("move it away") && said.contains("empty"), "{said}");

    fs::remove_file(disk.path().join("filler")).unwrap();
    let server = Server::start_in(&data, &[], config);
    server.wait_for("lines are taken again", |server| {
        server.post("/insert/lines", b"room again").status == 200
    });
    assert!((200..300).contains(&put(&server, "web").status));
    assert_eq!(server.count("line"), 3000);
}

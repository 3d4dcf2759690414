//! Commands on data directories at rest: verify, inspect, export.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::Arc;

use crate::common::{Server, loginson};
use platform::{Access, Disk, RealDisk};
use record::{Parser, ParserConfig};
use segment::sealed::{SealOptions, SealedHeader, SealedWriter};
use segment::{read_frame, read_segment};
use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    loginson(arguments).output().unwrap()
}

fn succeed(arguments: &[&str]) -> Vec<u8> {
    let output = run(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
    output.stdout
}

/// The output of a command that fails: standard output, and standard error.
fn fail(arguments: &[&str]) -> (String, String) {
    let Output { status, stdout, stderr } = run(arguments);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(status.code(), Some(1), "{arguments:?}: {}{}", text(&stdout), text(&stderr));
    (text(&stdout), text(&stderr))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn sorted(lines: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = lines.split(|&b| b == b'\n').collect();
    lines.sort_unstable();
    lines
}

/// A directory as a server leaves it, with segment 1, and its lines.
fn directory() -> (tempfile::TempDir, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(directory.path(), &[], "");
    let mut lines = Vec::new();
    for batch in 0..4 {
        let mut body = b"bad \xff\xfe bytes\n\nnul \0 and \x1b[31mred\n".to_vec();
        for i in 0..500 {
            let (second, app) = (i % 60, ["sshd", "nginx", "cron"][i % 3]);
            writeln!(
                body,
                "<11>1 2026-01-31T12:0{batch}:{second:02}Z web{} {app} {i} - - request {i} done",
                i % 5
            )
            .unwrap();
            writeln!(
                body,
                r#"{{"_time":"2026-01-31T13:0{batch}:{second:02}Z","level":"info","n":{i}}}"#
            )
            .unwrap();
        }
        assert_eq!(server.post("/insert/lines", &body).status, 200);
        lines.extend(body);
    }
    // A kill leaves it without rows of the summary.
    server.kill();
    (directory, lines)
}

fn segment(directory: &Path, name: &str) -> PathBuf {
    directory.join("segments").join(name)
}

/// Seals segment 1 as segment 2, and leaves both: the update of the catalog is missing.
fn seal(directory: &Path) {
    let disk = RealDisk;
    let source = segment(directory, "1.hot");
    let contents = read_segment(&disk, &source, 1, None).unwrap();
    let hot = contents.header.unwrap();
    let header = SealedHeader {
        node: hot.node,
        segment: 2,
        created_ns: hot.created_ns,
        sequence_next: hot.sequence_next,
    };
    let options = SealOptions { block_bytes: 64 << 10, ..SealOptions::default() };
    let path = segment(directory, "2.sealed");
    let mut writer = SealedWriter::create(&disk, &path, &header, &[1], options).unwrap();
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    let file = disk.open(&source, Access::Read).unwrap();
    for entry in &contents.frames {
        let frame = read_frame(&*file, &source, entry).unwrap();
        writer.push(Arc::new(parser.parse(Arc::new(frame))), None).unwrap();
    }
    writer.finish().unwrap();
}

/// The same queries over a directory of frames, and over one of columns.
fn check_export(directory: &Path, lines: &[u8]) {
    let export = |arguments: &[&str]| {
        succeed(&[&["export", "--data-dir", text(directory)], arguments].concat())
    };
    let users = ["--query", "NOT _type:summary"];
    let raw = export(&[&["--format", "raw"][..], &users].concat());
    assert!(sorted(&raw) == sorted(lines), "byte for byte");
    let found = export(&["--format", "raw", "--query", "app_name:sshd \"request 42 done\""]);
    assert_eq!(found.split(|&b| b == b'\n').count(), 5, "{}", String::from_utf8_lossy(&found));
    let range = ["--start", "2026-01-31T12:01:00Z", "--end", "2026-01-31T12:02:00Z"];
    let rows =
        export(&[&["--format", "jsonl", "--include", "_line_id,_line"][..], &range].concat());
    let rows: Vec<Value> = rows
        .split(|&b| b == b'\n')
        .filter(|row| !row.is_empty())
        .map(|row| serde_json::from_slice(row).unwrap())
        .collect();
    assert_eq!(rows.len(), 500);
    assert!(
        rows.iter().all(|row| row["_line"].as_str().unwrap().starts_with("<11>1 2026-01-31T12:01"))
    );
    let counts = export(&["--format", "jsonl", "--query", "* | stats by (_type) count() n"]);
    assert!(String::from_utf8(counts).unwrap().contains(r#"{"_type":"json","n":"2000"}"#));

    let table = directory.join("table.parquet");
    let written = export(&["--format", "parquet", "-o", text(&table)]);
    assert!(written.is_empty());
    let bytes = fs::read(&table).unwrap();
    assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"));

    let no_line = ["export", "--data-dir", text(directory), "--format", "raw", "-o", text(&table)];
    fs::remove_file(&table).unwrap();
    let (_, message) = fail(&[&no_line[..], &["--query", "* | stats count()"]].concat());
    assert!(message.contains("have no raw form"), "{message}");
    assert!(!table.exists() && !directory.join("table.parquet.part").exists());
    let (_, message) = fail(&[&no_line[..], &["--query", "a |"]].concat());
    assert!(message.contains("expected"), "{message}");
}

#[test]
fn exported_from_frames_and_from_columns() {
    let (directory, lines) = directory();
    let directory = directory.path();
    check_export(directory, &lines);
    seal(directory);
    check_export(directory, &lines);
    fs::remove_file(segment(directory, "1.hot")).unwrap();
    check_export(directory, &lines);
    succeed(&["verify", text(directory)]);

    // Damaged parts are left out and reported; all else is exported.
    let sealed = segment(directory, "2.sealed");
    let mut bytes = fs::read(&sealed).unwrap();
    bytes[200] ^= 1;
    fs::write(&sealed, bytes).unwrap();
    let output = run(&["export", "--data-dir", text(directory), "--format", "raw"]);
    assert_eq!(output.status.code(), Some(1));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(message.contains("left out: ") && message.contains("2.sealed at byte"), "{message}");
    let exported = output.stdout.iter().filter(|&&b| b == b'\n').count();
    assert!(exported > 2_000, "{exported} lines");
}

#[test]
fn each_changed_byte_is_found() {
    let (directory, _) = directory();
    let directory = directory.path();
    seal(directory);
    let check = |name: &str| {
        let path = segment(directory, name);
        succeed(&["verify", text(&path)]);
        let good = fs::read(&path).unwrap();
        let used = good.iter().rposition(|&b| b != 0).unwrap() + 1;
        let places = (0..used).step_by(used / 12).chain([8, 20, used - 1]);
        for at in places {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            let (faults, summary) = fail(&["verify", text(&path)]);
            let first = faults.lines().next().unwrap_or_default();
            assert!(first.starts_with(text(&path)), "byte {at}: {faults}");
            assert!(first.contains("found ") || first.contains("not well formed"), "{first}");
            assert!(summary.contains("fault"), "{summary}");
        }
        // Not between two frames: that would look like a file of a server that was killed.
        fs::write(&path, &good[..used / 2]).unwrap();
        let output = run(&["verify", "--json", text(&path)]);
        let output = String::from_utf8(output.stdout).unwrap();
        let last: Value = serde_json::from_str(output.lines().last().unwrap()).unwrap();
        assert!(last["faults"].as_u64().unwrap() > 0, "{output}");
        let first: Value = serde_json::from_str(output.lines().next().unwrap()).unwrap();
        assert_eq!(first["file"], text(&path), "{first}");
        assert!(first["offset"].is_u64() && first["found"].is_string(), "{first}");
        fs::write(&path, good).unwrap();
    };
    check("1.hot");
    check("2.sealed");
}

#[test]
fn the_catalog_is_compared() {
    let (directory, _) = directory();
    let directory = directory.path();
    seal(directory);
    fs::remove_file(segment(directory, "2.sealed")).unwrap();
    let mut server = Server::start_in(directory, &[], "");
    assert_eq!(server.terminate(), Some(0));
    succeed(&["verify", text(directory)]);
    let hot: Vec<PathBuf> = fs::read_dir(directory.join("segments"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    fs::rename(&hot[0], directory.join("gone")).unwrap();
    let (faults, summary) = fail(&["verify", text(directory)]);
    assert!(faults.contains("as the catalog says, found no file"), "{faults}");
    assert!(summary.contains("1 fault"), "{summary}");
    // So do an export and a backup say.
    let (_, said) = fail(&["export", "--data-dir", text(directory), "--format", "raw"]);
    assert!(said.contains("left out: ") && said.contains("is not there"), "{said}");
    let output = run(&["backup", "one", "--data-dir", text(directory)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("is not in the backup"), "{said}");
    fs::rename(directory.join("gone"), &hot[0]).unwrap();
    let catalog = directory.join("catalog.sqlite");
    let mut bytes = fs::read(&catalog).unwrap();
    bytes[..16].fill(7);
    fs::write(&catalog, bytes).unwrap();
    let (faults, _) = fail(&["verify", text(directory)]);
    assert!(faults.contains("catalog.sqlite: the catalog"), "{faults}");
    for wrong in [directory.join("segments"), directory.join("nowhere"), catalog] {
        fail(&["verify", text(&wrong)]);
    }
}

#[test]
fn inspected() {
    let (directory, lines) = directory();
    let directory = directory.path();
    seal(directory);
    let count = lines.iter().filter(|&&b| b == b'\n').count();
    for (name, kind) in [("1.hot", "hot"), ("2.sealed", "sealed")] {
        let path = segment(directory, name);
        let shown = String::from_utf8(succeed(&["inspect", "--blocks", text(&path)])).unwrap();
        assert!(shown.contains(&format!("{kind} segment ")), "{shown}");
        assert!(shown.contains("sshd") && shown.contains("first event"), "{shown}");
        assert!(!shown.contains('\x1b'), "text of logs does not drive the terminal");
        let json = succeed(&["inspect", "--json", text(&path)]);
        let json: Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&json["kind"], &json["lines"]), (&kind.into(), &count.into()));
        let sum = |name: &str| {
            let blocks = json["blocks"].as_array().unwrap().iter();
            blocks.map(|block| block[name].as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(sum("lines"), count as u64);
        assert_eq!(json["time"][0], "2026-01-31T12:00:00Z");
        let values = json["values"].as_array().unwrap();
        let types = values.iter().find(|values| values["field"] == "_type").unwrap();
        assert_eq!(types["most"][0], serde_json::json!(["json", 2000]));
        assert!(json["columns"].as_array().unwrap().len() > 3, "{json}");
        if kind == "sealed" {
            let stored = json["columns"].as_array().unwrap().iter();
            let stored: u64 = stored.map(|column| column["bytes_disk"].as_u64().unwrap()).sum();
            assert!(stored <= json["bytes_disk"].as_u64().unwrap());
            assert!(json["bytes_disk"].as_u64() < json["bytes_raw"].as_u64());
        }
    }
    let (_, message) = fail(&["inspect", text(&directory.join("LOCK"))]);
    assert!(message.contains("expected that of a hot or sealed segment"), "{message}");
}

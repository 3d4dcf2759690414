//! The chain of sealed segments of a real server: through sealing, merging, deleting and restarts
//! it vouches for every file, and what somebody else does is named.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::common::{Server, loginson};

const KEY: &str = "-----BEGIN PRIVATE KEY-----\n\
    MC4CAQAwBQYDK2VwBCIEIHbB2uMUHGJEwv0DqxsBQkM39nJ0hJc0lVn3ndl6B0Jr\n-----END PRIVATE KEY-----\n";

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

fn verify(data: &Path, copies: &Path) -> Output {
    let arguments =
        ["verify", "--chain", data.to_str().unwrap(), "--copies", copies.to_str().unwrap()];
    loginson(&arguments).output().unwrap()
}

fn sealed(data: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(data.join("segments")).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|e| e == "sealed"));
    files.sort();
    files
}

#[test]
fn the_work_of_the_store_is_no_fault_and_that_of_others_is() {
    let directory = tempfile::tempdir().unwrap();
    let [data, copies] = ["data", "copies"].map(|name| directory.path().join(name));
    [&data, &copies].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    let key = directory.path().join("key");
    fs::write(&key, KEY).unwrap();
    let config = format!(
        "[store]\nsegment_bytes_max = '1MiB'\n[integrity]\nkey_file = '{}'\nsign_every = '5s'\ncopy_to = '{}'\n",
        key.display(),
        copies.display()
    );
    for round in 0..2 {
        let mut server = Server::start_in(&data, &[], &config);
        for batch in 0..8 {
            let lines: Vec<String> =
                (0..2000).map(|i| format!("{round} {batch} {i} {}", "x".repeat(300))).collect();
            assert_eq!(server.post("/insert/lines", lines.join("\n").as_bytes()).status, 200);
        }
        server.post("/api/v1/seal", b"");
        server.wait_for("sealed segments", |server| {
            server.status()["store"]["sealing"]["lag_segments"] == 0
        });
        // A deletion writes segments anew.
        let url = format!("http://{}", server.http);
        let filter = format!("\"{round} 3\"");
        let deleted = loginson(&["delete", "--server", &url, "--yes", &filter]).output().unwrap();
        assert!(deleted.status.success(), "{}", said(&deleted));
        server.wait_for("links", |server| {
            !server.get("/metrics").text().contains("loginson_chain_links_total 0\n")
        });
        let running = verify(&data, &copies);
        assert!(running.status.success(), "while it runs: {}", said(&running));
        assert_eq!(server.terminate(), Some(0));
        let verified = verify(&data, &copies);
        let text = said(&verified);
        assert!(verified.status.success(), "{text}");
        assert!(text.contains("not vouched for yet: 0 links, 0 segments"), "{text}");
        assert!(text.contains(&format!("{} segments as they were sealed", sealed(&data).len())));
    }
    let chain = fs::read_to_string(data.join("chain.jsonl")).unwrap();
    assert!(chain.contains("\"why\":\"rewritten\""), "{chain}");
    assert!(!chain.contains("missing"), "{chain}");

    let names = |expected: &str| {
        let found = verify(&data, &copies);
        assert_eq!(found.status.code(), Some(1), "{}", said(&found));
        assert!(said(&found).contains(expected), "{}", said(&found));
    };
    let segment = sealed(&data).pop().unwrap();
    let number = segment.file_stem().unwrap().to_str().unwrap().to_owned();
    let whole = fs::read(&segment).unwrap();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 1;
    fs::write(&segment, &changed).unwrap();
    names(&format!("segment {number} was changed since link "));
    fs::remove_file(&segment).unwrap();
    names(&format!("segment {number} is missing"));
    fs::write(&segment, &whole).unwrap();
    assert!(verify(&data, &copies).status.success());
    let cut: String = chain.lines().take(2).map(|line| format!("{line}\n")).collect();
    fs::write(data.join("chain.jsonl"), cut).unwrap();
    names("the chain was cut off");
    fs::remove_file(data.join("chain.jsonl")).unwrap();
    names("has no head of this chain");
}

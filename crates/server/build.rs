//! Embeds the page: every file of `web/dist`, or a page that says how to build it when it is not there.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

const PLACEHOLDER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Loginson</title>\
<h1>Loginson is running</h1><p>This binary was built without its page. Run <code>make web</code>, then build again. \
The API answers all the same; see <code>docs/api.md</code>.</p></html>";

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let dist = manifest.join("../../web/dist");
    println!("cargo::rerun-if-changed=build.rs");
    // While the directory is missing cargo runs this on every build, so that a page built later is found.
    println!("cargo::rerun-if-changed={}", dist.display());
    let page = out.join("page");
    if page.exists() {
        fs::remove_dir_all(&page)?;
    }
    fs::create_dir_all(&page)?;
    if dist.join("index.html").is_file() {
        copy(&dist, &page)?;
    } else {
        fs::write(page.join("index.html"), PLACEHOLDER)?;
    }
    let mut files = Vec::new();
    list(&page, &page, &mut files)?;
    files.sort();
    let mut code = String::from("pub static FILES: &[File] = &[\n");
    for file in &files {
        let hash = fnv1a(&fs::read(page.join(file))?);
        writeln!(
            code,
            "    File {{ path: {file:?}, etag: \"\\\"{hash:016x}\\\"\", bytes: include_bytes!({:?}) }},",
            page.join(file)
        )
        .expect("writing to a string");
    }
    code.push_str("];\n");
    fs::write(out.join("page_files.rs"), code)
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn list(root: &Path, directory: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            list(root, &path, files)?;
        } else {
            let relative = path.strip_prefix(root).expect("below the root");
            files.push(relative.to_str().expect("names of web files are UTF-8").replace('\\', "/"));
        }
    }
    Ok(())
}

/// 64-bit FNV-1a: names a version of a file, protects nothing.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

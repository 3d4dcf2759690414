//! Embeds the page, plain and in gzip.
//!
//! `web/dist` is used if it was built from the current sources: its file `page.sources` has their
//! checksum (`web/stamp.ts`). Otherwise the page is built here, with npm, into cargo's output
//! directory, so that `cargo install --path crates/loginson` includes the page. Without npm the
//! build fails and says what to do: a binary whose page is missing or outdated would be noticed too
//! late.
//! For work on Rust alone, `LOGINSON_PAGE=none` builds a binary with a page that says so.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

use flate2::write::GzEncoder;
use flate2::{Compression, Crc};

const PLACEHOLDER: &str = "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">\
<title>Loginson</title><h1>Loginson is running</h1><p>This binary was built without its page \
(<code>LOGINSON_PAGE=none</code>). Build it without that setting, or with <code>make build</code>. \
The API works all the same; see <code>docs/api.md</code>.</p></html>";

/// The sources of the page, below `web`; directories with everything in them. The same list is in
/// `web/stamp.ts`.
const SOURCES: [&str; 8] = [
    "index.html",
    "package-lock.json",
    "package.json",
    "src",
    "stamp.ts",
    "svelte.config.js",
    "tsconfig.json",
    "vite.config.ts",
];
/// Holds the checksum of the sources; not a part of the page.
const STAMP: &str = "page.sources";
/// Lines of npm's output that are shown when it fails; the last ones give the reason.
const OUTPUT_LINES_MAX: usize = 30;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            for line in message.lines() {
                println!("cargo::error={line}");
            }
            // Older versions of cargo show only standard error.
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), String> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=LOGINSON_PAGE");
    let page = out.join("page");
    let made = match env::var("LOGINSON_PAGE").as_deref() {
        Err(env::VarError::NotPresent) | Ok("") => build(&manifest.join("../../web"), &out)?,
        Ok("none") => {
            println!("cargo::warning=LOGINSON_PAGE=none: this binary has no page");
            None
        }
        _ => return Err("LOGINSON_PAGE: the only value is 'none'".into()),
    };
    embed(made.as_deref(), &page, &out).map_err(|error| format!("embedding the page: {error}"))
}

/// The directory of the page, built from the current sources.
fn build(web: &Path, out: &Path) -> Result<Option<PathBuf>, String> {
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", web.join(source).display());
    }
    let dist = web.join("dist");
    if dist.exists() {
        // Only if it exists: for a missing path cargo would run this on every build.
        println!("cargo::rerun-if-changed={}", dist.display());
    }
    let stamp = checksum(web).map_err(|error| format!("reading {}: {error}", web.display()))?;
    if fs::read_to_string(dist.join(STAMP)).is_ok_and(|built| built.trim() == stamp) {
        return Ok(Some(dist));
    }
    let made = out.join("dist");
    if fs::read_to_string(made.join(STAMP)).is_ok_and(|built| built.trim() == stamp) {
        return Ok(Some(made));
    }
    if !web.join("node_modules").exists() {
        npm(web, &["ci", "--no-audit", "--no-fund"])?;
    }
    let target = made.to_str().ok_or("the output directory's path is not UTF-8")?;
    npm(web, &["run", "build", "--", "--outDir", target, "--emptyOutDir"])?;
    match fs::read_to_string(made.join(STAMP)) {
        Ok(built) if built.trim() == stamp => Ok(Some(made)),
        _ => Err(format!(
            "the build of the page left no matching {STAMP} in {target}; do web/stamp.ts and build.rs list the same sources?"
        )),
    }
}

fn npm(web: &Path, arguments: &[&str]) -> Result<(), String> {
    // cargo's DEBUG has another meaning for libraries of Node.
    let run = Command::new("npm").current_dir(web).args(arguments).env_remove("DEBUG").output();
    let remedy = "Install Node 20.19 or newer with npm (https://nodejs.org) and build again, \
                  run `make build`, or set LOGINSON_PAGE=none for a binary without its page.";
    let output = match run {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(format!(
                "The page is not built from the current sources, and npm was not \
                 found.\n{remedy}"
            ));
        }
        Err(error) => return Err(format!("npm cannot be started: {error}\n{remedy}")),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines[lines.len().saturating_sub(OUTPUT_LINES_MAX)..].join("\n");
    Err(format!("npm {} failed in {}:\n{last}\n{remedy}", arguments.join(" "), web.display()))
}

/// CRC-32 of all sources: of each, in the order of their paths, the path, its length and its bytes.
fn checksum(web: &Path) -> io::Result<String> {
    let mut files = Vec::new();
    for source in SOURCES {
        let path = web.join(source);
        match path.is_dir() {
            true => list(web, &path, &mut files)?,
            false => files.push(source.to_owned()),
        }
    }
    files.sort();
    let mut sum = Crc::new();
    for file in files {
        let bytes = fs::read(web.join(&file))?;
        sum.update(format!("{file}\n{}\n", bytes.len()).as_bytes());
        sum.update(&bytes);
    }
    Ok(format!("{:08x}", sum.sum()))
}

fn embed(made: Option<&Path>, page: &Path, out: &Path) -> io::Result<()> {
    if page.exists() {
        fs::remove_dir_all(page)?;
    }
    fs::create_dir_all(page)?;
    match made {
        Some(made) => copy(made, page)?,
        None => fs::write(page.join("index.html"), PLACEHOLDER)?,
    }
    let mut files = Vec::new();
    list(page, page, &mut files)?;
    files.retain(|file| file != STAMP);
    files.sort();
    let mut code = String::from("pub static FILES: &[File] = &[\n");
    for file in &files {
        let path = page.join(file);
        let bytes = fs::read(&path)?;
        let hash = fnv1a(&bytes);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&bytes)?;
        let short = gzip.finish()?;
        let short_path = page.join(format!("{file}.gz"));
        // Images hardly shrink.
        let gzip = match short.len() < bytes.len() / 10 * 9 {
            true => {
                fs::write(&short_path, short)?;
                format!("Some(include_bytes!({short_path:?}))")
            }
            false => "None".to_owned(),
        };
        writeln!(
            code,
            "    File {{ path: {file:?}, etag: \"\\\"{hash:016x}\\\"\", \
             etag_gzip: \"\\\"{hash:016x}-gz\\\"\", bytes: include_bytes!({path:?}), gzip: {gzip} }},",
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

/// 64-bit FNV-1a: identifies a version of a file, protects nothing.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

//! The raw results of a run as one compressed file, small enough to stand beside a published
//! report.
//!
//! The file is a Zstandard stream of JSON lines, so that `zstd -dc` and any tool for JSON read it:
//! each trial begins with a line that has its name, `{"trial":"0001-…"}`, and goes on with the
//! lines of its own file.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{ResultsError, io, limited_lines};

/// Its name in the directory of a run.
pub const NAME: &str = "trials.jsonl.zst";

/// Zstandard's highest level without a large memory for the reader: it is written once.
const LEVEL: i32 = 19;

/// The line before those of a trial.
#[derive(Serialize, Deserialize)]
struct Name {
    trial: String,
}

/// Compresses the trials in the folder `trials` of a run. The folder stays.
pub fn pack(run: &Path) -> Result<(), ResultsError> {
    let folder = run.join("trials");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(io(&folder))? {
        let path = entry.map_err(io(&folder))?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            names.push(path);
        }
    }
    names.sort();
    let (part, path) = (run.join(format!("{NAME}.part")), run.join(NAME));
    let write = || -> std::io::Result<()> {
        let out = BufWriter::new(File::create(&part)?);
        let mut out = zstd::Encoder::new(out, LEVEL)?;
        for file in &names {
            let trial = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            serde_json::to_writer(&mut out, &Name { trial })?;
            out.write_all(b"\n")?;
            std::io::copy(&mut File::open(file)?, &mut out)?;
        }
        out.finish()?.flush()?;
        std::fs::rename(&part, &path)
    };
    write().map_err(io(&path))
}

/// Writes the trials of the compressed file into the folder `trials`, if that is not there.
pub fn unpack(run: &Path) -> Result<(), ResultsError> {
    let (folder, path) = (run.join("trials"), run.join(NAME));
    if folder.exists() || !path.exists() {
        return Ok(());
    }
    // A folder that is complete or not there: a report of half of the trials would look whole.
    let part = run.join("trials.part");
    let wrong = |number: usize, reason: String| ResultsError::Line {
        path: path.display().to_string(),
        number,
        reason,
    };
    match std::fs::remove_dir_all(&part) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(&part)(error)),
        _ => {}
    }
    std::fs::create_dir_all(&part).map_err(io(&part))?;
    let file = File::open(&path).map_err(io(&path))?;
    let lines = limited_lines(BufReader::new(zstd::Decoder::new(file).map_err(io(&path))?));
    let mut out: Option<BufWriter<File>> = None;
    for (at, line) in lines.enumerate() {
        let line = line.map_err(io(&path))?;
        if let Ok(Name { trial }) = serde_json::from_str(&line) {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.';
            if trial.starts_with('.') || !trial.chars().all(plain) {
                return Err(wrong(at + 1, format!("`{trial}` is no name of a trial")));
            }
            let file = part.join(format!("{trial}.jsonl"));
            if let Some(mut before) = out.take() {
                before.flush().map_err(io(&part))?;
            }
            out = Some(BufWriter::new(File::create(&file).map_err(io(&file))?));
            continue;
        }
        let Some(out) = &mut out else {
            return Err(wrong(at + 1, "a line before the name of its trial".to_owned()));
        };
        writeln!(out, "{line}").map_err(io(&part))?;
    }
    if let Some(mut last) = out {
        last.flush().map_err(io(&part))?;
    }
    std::fs::rename(&part, &folder).map_err(io(&folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(trials: &[(&str, &str)]) -> tempfile::TempDir {
        let run = tempfile::tempdir().unwrap();
        std::fs::create_dir(run.path().join("trials")).unwrap();
        for (name, text) in trials {
            std::fs::write(run.path().join("trials").join(name), text).unwrap();
        }
        run
    }

    #[test]
    fn trials_come_back_as_they_were() {
        let trials = [
            ("0001-a.jsonl", "{\"line\":\"end\"}\n"),
            ("0002-b_c.d-n1.jsonl", ""),
            ("0003-long.jsonl", "{\"x\":1}\n{\"trial\":5}\n"),
        ];
        let run = run(&trials);
        std::fs::write(run.path().join("trials/0009-x.jsonl.part"), "half").unwrap();
        pack(run.path()).unwrap();
        std::fs::remove_dir_all(run.path().join("trials")).unwrap();
        unpack(run.path()).unwrap();
        for (name, text) in &trials {
            let path = run.path().join("trials").join(name);
            assert_eq!(std::fs::read_to_string(path).unwrap(), *text, "{name}");
        }
        assert!(!run.path().join("trials/0009-x.jsonl").exists());
    }

    #[test]
    fn a_file_of_somebody_else_is_refused() {
        for (text, reason) in [
            ("{\"line\":\"end\"}\n", "before the name"),
            ("{\"trial\":\"../../etc/x\"}\n", "no name of a trial"),
        ] {
            let run = tempfile::tempdir().unwrap();
            let packed = zstd::encode_all(text.as_bytes(), 1).unwrap();
            std::fs::write(run.path().join(NAME), packed).unwrap();
            let error = unpack(run.path()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
            assert!(!run.path().join("trials").exists());
        }
    }
}

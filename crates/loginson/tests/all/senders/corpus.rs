//! Lines to send: the corpora repeated, each line with a number, distributed over applications.

use std::path::{Path, PathBuf};

/// Lines that each test sends, at least.
pub const LINES: usize = 100_000;

/// An application, as senders are configured to name it.
pub struct App {
    pub name: &'static str,
    pub facility: &'static str,
    pub severity: &'static str,
    /// Facility × 8 + severity (RFC 5424 §6.2.1).
    pub priority: u8,
}

pub const APPS: [App; 3] = [
    App { name: "httpd", facility: "local3", severity: "warning", priority: 19 * 8 + 4 },
    App { name: "sshd", facility: "auth", severity: "err", priority: 4 * 8 + 3 },
    App { name: "spark", facility: "daemon", severity: "info", priority: 3 * 8 + 6 },
];

/// The lines of one application.
pub struct Input {
    pub app: &'static App,
    pub lines: Vec<String>,
    /// A file of these lines.
    pub path: PathBuf,
}

/// Lines for each application, as files in `directory`.
pub fn inputs(directory: &Path) -> Vec<Input> {
    let corpora = Path::new("../../testdata/corpora");
    let mut files: Vec<PathBuf> = std::fs::read_dir(corpora)
        .unwrap_or_else(|error| panic!("{}: {error}", corpora.display()))
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    files.sort();
    let texts: Vec<String> = files.iter().map(|f| std::fs::read_to_string(f).unwrap()).collect();
    let corpus: Vec<&str> = texts.iter().flat_map(|text| text.lines()).collect();
    assert!(corpus.len() > 1000, "the corpora are not there");

    let lines_per_app = LINES.div_ceil(APPS.len());
    APPS.iter()
        .enumerate()
        .map(|(place, app)| {
            let numbers = place * lines_per_app..(place + 1) * lines_per_app;
            // Senders cut trailing blanks, each in its own way; that is not under test.
            let line = |n: usize| format!("#{n:06} {}", corpus[n % corpus.len()].trim_end());
            let lines: Vec<String> = numbers.map(line).collect();
            let path = directory.join(format!("{}.in", app.name));
            std::fs::write(&path, lines.join("\n") + "\n").unwrap();
            Input { app, lines, path }
        })
        .collect()
}

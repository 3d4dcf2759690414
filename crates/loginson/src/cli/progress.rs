//! Shows on the terminal how far long work has come and how long it will take. Without a terminal
//! it shows nothing.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::cli::client::Client;
use crate::cli::queries::duration;

/// How often the server is polled for the progress of a query.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

/// A progress bar over a number of bytes.
pub fn bytes_bar(what: &'static str, bytes: u64) -> ProgressBar {
    let style = "{prefix} {bar:30} {percent:>3}%  {bytes} of {total_bytes}  {eta} left";
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
    bar.set_prefix(what);
    // So that the elapsed time advances even while one large file is read.
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// A progress bar over a number of things.
pub fn count_bar(what: &'static str, count: u64) -> ProgressBar {
    let style = "{prefix} {bar:30} {percent:>3}%  {pos} of {len}  {eta} left";
    let bar = ProgressBar::with_draw_target(Some(count), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
    bar.set_prefix(what);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Shows the progress of a query on the server until this is dropped.
pub struct Watch {
    end: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches the query with that id; does nothing when there is no terminal.
    pub fn start(client: &Client, id: Option<String>) -> Watch {
        let (end, ended) = mpsc::channel();
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let client = (!bar.is_hidden()).then(|| client.clone());
        let thread = client.zip(id).map(|(client, id)| {
            bar.set_style(ProgressStyle::with_template("exporting {msg}").expect("well formed"));
            std::thread::spawn(move || {
                let running = mpsc::RecvTimeoutError::Timeout;
                while ended.recv_timeout(WATCH_INTERVAL) == Err(running) {
                    // Progress is optional; the export itself reports what fails.
                    let Ok(entry) = client.get_json(&format!("/api/v1/queries/{id}")) else {
                        continue;
                    };
                    let percent = entry["progress"].as_f64().unwrap_or(0.0) * 100.0;
                    let left = entry["left_ms"].as_u64().map_or(String::new(), duration);
                    bar.set_message(format!(
                        "{percent:>3.0}%  {} rows  {left} left",
                        entry["rows"]
                    ));
                }
                bar.finish_and_clear();
            })
        });
        Watch { end: Some(end), thread }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.end = None;
        if let Some(thread) = self.thread.take() {
            // The panic handler has already printed a panic of that thread.
            let _ = thread.join();
        }
    }
}

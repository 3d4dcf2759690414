//! What is kept of the watch: the board as a document, findings as rows.
//!
//! ```json
//! {"_time":"2026-01-31T12:00:00Z","stands_out":"silent","state":"begins","watched_field":"service",
//!  "watched_value":"shop","since":"2026-01-31T11:56:00Z","seen":0,"expected":42.5,"reason":"no lines for 4m, …",
//!  "finding":12,"_msg":"stands out: silent"}
//! ```
//!
//! Rows are lines of type `alert`, which only queries that name this type see. `state` is `begins`,
//! `changes` (another kind), `lasts` (every five minutes), or `ends`.

use std::sync::Arc;

use analysis::watch::{Board, Finding, MINUTE_NS, News, What};
use serde_json::json;
use text::time::format_time;

use crate::alerts::rows::{number, origin, portions};
use crate::data_dir::{Documents, WATCH_FILE};
use crate::storage::row_store::RowStore;

/// A board that is older is of no use: hours and weekdays are learnt anew.
const AGE_MAX_NS: i64 = 14 * 24 * 60 * MINUTE_NS;

/// Where the watch keeps what it knows.
pub struct Kept {
    /// Receives rows.
    pub rows: Arc<dyn RowStore>,
    /// Has the document.
    pub state: Arc<dyn Documents>,
}

impl Kept {
    /// The board of the last run, if there is one that can be used.
    pub fn read(&self, now_ns: i64) -> Option<Board> {
        let place = || self.state.place(WATCH_FILE);
        let body = self.state.read(WATCH_FILE).unwrap_or_else(|error| {
            tracing::warn!("what stands out is learnt anew: {}: {error}", place());
            None
        })?;
        match serde_json::from_slice::<Board>(&body) {
            Ok(board) => {
                let is_recent = |until| (0..AGE_MAX_NS).contains(&(now_ns - until));
                Some(board).filter(|board| board.until_ns().is_some_and(is_recent))
            }
            Err(error) => {
                tracing::warn!("what stands out is learnt anew: {} is damaged: {error}", place());
                None
            }
        }
    }

    /// Keeps a board for the next start.
    pub fn keep(&self, body: Vec<u8>) {
        if let Err(error) = self.state.replace(WATCH_FILE, &body) {
            tracing::warn!("what stands out is not kept for the next start: {error}");
        }
    }

    /// Stores rows of news, and of findings that last; returns how many portions were lost.
    pub fn store(&self, now_ns: i64, news: &[News], lasts: &[Finding]) -> u64 {
        let lines = news.iter().map(|news| {
            let state = match news.what {
                What::Begins => "begins",
                What::Changes => "changes",
                What::Ends => "ends",
            };
            row(now_ns, state, &news.finding)
        });
        let lines = lines.chain(lasts.iter().map(|finding| row(now_ns, "lasts", finding)));
        let (portions, mut lost) = portions(lines.collect());
        for lines in portions {
            if let Err(error) = self.rows.store(&origin(), &lines, now_ns) {
                lost += 1;
                tracing::warn!("rows about what stands out were not kept: {error}");
            }
        }
        lost
    }
}

/// The line of a finding.
fn row(now_ns: i64, state: &str, finding: &Finding) -> Vec<u8> {
    let said = &finding.standing;
    let row = json!({
        "_time": format_time(now_ns),
        "stands_out": said.kind.name(),
        "state": state,
        "watched_field": finding.field,
        "watched_value": finding.value,
        "since": format_time(said.since_ns),
        "seen": number(said.seen),
        "expected": number(said.expected),
        "reason": said.reason,
        "finding": finding.id,
        // It names no value: a search for a word should find lines, not findings about them.
        "_msg": format!("stands out: {}", said.kind.name()),
    });
    let mut line = row.to_string().into_bytes();
    line.push(b'\n');
    line
}

//! The numbers of all nodes of a cluster on engines together, as a part of `/api/v1/status`: every
//! node gives the same ones, whichever is asked.
//!
//! Each node is asked for its own status; what segments hold is in the catalog. What is not known
//! is named, and is in no sum. The sums are kept for a second, so that many pages that are open
//! cost as much as one.

use std::sync::PoisonError;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use text::time::format_time;

use crate::app::App;
use node::cluster::Engines;
use node::cluster::engines::OutOfReach;

/// Time for another node to tell its numbers.
///
/// limits.md, Nodes of a cluster: the numbers of another node, for those of all nodes | {} | they
/// are without the node, and name it
const TIME_MAX: Duration = Duration::from_secs(3);
/// How long sums are given again.
const KEPT: Duration = Duration::from_secs(1);
/// A node that has not been heard of for longer is not missed: its partitions are with others.
const MISSED: Duration = Duration::from_secs(900);

/// The sums of all nodes. `own`: the status of this one. Blocks while other nodes answer.
pub fn sums(app: &App, engines: &Engines, own: &Value) -> Value {
    // Further callers wait, and get the same.
    let mut kept = app.sums.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((made, sums)) = &*kept
        && made.elapsed() < KEPT
    {
        return sums.clone();
    }
    let sums = ask_all(engines, own);
    *kept = Some((Instant::now(), sums.clone()));
    sums
}

fn ask_all(engines: &Engines, own: &Value) -> Value {
    let mut sums = Sums::default();
    sums.add(&engines.info.node.to_string(), &engines.info.name, own);
    let answered = engines.ask_others(TIME_MAX, "/api/v1/status");
    for (other, status) in &answered.answers {
        sums.add(&other.id.to_string(), &other.name, status);
    }
    let is_missed = |other: &OutOfReach| other.gone.is_none_or(|gone| gone < MISSED);
    for other in answered.out_of_reach.iter().filter(|other| is_missed(other)) {
        sums.miss(&other.node, &other.error);
    }
    let held = engines.segments_held().map_err(|error| sums.miss("PostgreSQL", &error)).ok();
    let mut shown = sums.shown();
    let times = held.and_then(|held| held.times_ns);
    shown["lines"] = json!(held.map(|held| held.lines + sums.lines_unpublished));
    shown["bytes_objects"] = json!(held.map(|held| held.bytes));
    shown["oldest"] = json!(times.map(|(oldest, _)| format_time(oldest)));
    shown["newest"] = json!(times.map(|(_, newest)| format_time(newest)));
    shown
}

#[derive(Default)]
struct Sums {
    nodes: Vec<Value>,
    lines_received: u64,
    bytes_received: u64,
    lines_dropped: u64,
    lines_unpublished: u64,
    /// The fullest disk, and its share of used space.
    disk: Option<(f64, Value)>,
    missing: Vec<Value>,
}

impl Sums {
    /// Adds the status of a node.
    fn add(&mut self, node: &str, name: &str, status: &Value) {
        for source in status["ingest"].as_array().into_iter().flatten() {
            let number = |key: &str| source[key].as_u64().unwrap_or(0);
            self.lines_received += number("lines_received");
            self.bytes_received += number("bytes_received");
            let dropped = source["dropped"].as_object().into_iter().flatten();
            self.lines_dropped += dropped.filter_map(|(_, lines)| lines.as_u64()).sum::<u64>();
        }
        self.lines_unpublished += status["lines_unpublished"].as_u64().unwrap_or(0);
        let store = &status["store"];
        let of_disk = (store["disk_used_bytes"].as_u64(), store["disk_free_bytes"].as_u64());
        if let (Some(used), Some(free)) = of_disk {
            let share = used as f64 / (used + free).max(1) as f64;
            if self.disk.as_ref().is_none_or(|(fullest, _)| *fullest < share) {
                let disk = json!({ "node": name, "used_bytes": used, "free_bytes": free });
                self.disk = Some((share, disk));
            }
        }
        self.nodes.push(json!({ "node": node, "name": name, "started": status["started"] }));
    }

    fn miss(&mut self, name: &str, why: &str) {
        self.missing.push(json!({ "node": name, "error": why }));
    }

    fn shown(&self) -> Value {
        json!({
            "nodes": self.nodes,
            "lines_received": self.lines_received,
            "bytes_received": self.bytes_received,
            "lines_dropped": self.lines_dropped,
            "lines_unpublished": self.lines_unpublished,
            "disk": self.disk.as_ref().map(|(_, disk)| disk),
            "missing": self.missing,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_added_and_the_fullest_disk_is_shown() {
        let status = |lines: u64, dropped: u64, used: u64| {
            json!({
                "started": "2026-01-31T12:00:00Z",
                "ingest": [
                    {"lines_received": lines, "bytes_received": 10 * lines, "dropped": {"full": dropped, "wrong": 1}},
                    {"lines_received": 1, "bytes_received": 5, "dropped": {}},
                ],
                "lines_unpublished": 3,
                "store": {"disk_used_bytes": used, "disk_free_bytes": 100 - used},
            })
        };
        let mut sums = Sums::default();
        sums.add("00000001", "a", &status(7, 0, 40));
        sums.add("00000002", "b", &status(9, 2, 60));
        // It starts, and knows no store yet.
        sums.add(
            "00000003",
            "c",
            &json!({"started": "2026-01-31T13:00:00Z", "ingest": [], "store": null}),
        );
        sums.miss("d", "it is away");
        let shown = sums.shown();
        for (key, expected) in [
            ("lines_received", json!(18)),
            ("bytes_received", json!(170)),
            ("lines_dropped", json!(4)),
            ("lines_unpublished", json!(6)),
            ("disk", json!({"node": "b", "used_bytes": 60, "free_bytes": 40})),
            ("missing", json!([{"node": "d", "error": "it is away"}])),
        ] {
            assert_eq!(shown[key], expected, "{key}");
        }
        assert_eq!(shown["nodes"].as_array().map(Vec::len), Some(3));
    }
}

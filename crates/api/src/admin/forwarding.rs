//! Frames on their way to stores, as `/api/v1/nodes` and `/metrics` show them.

use collector::node::{CopiesStatus, ForwardStatus, Link, StoreHealth, StoreStatus};
use serde_json::{Value, json};

use crate::wire::metrics::Text;

pub fn copies(copies: &CopiesStatus) -> Value {
    json!({
        "lines_single": copies.lines_single,
        "lines_missing": copies.lines_missing,
        "frames_held_back": copies.frames_held_back,
    })
}

/// The frames that wait on disk.
pub fn spool(status: &ForwardStatus) -> Value {
    json!({
        "bytes": status.spool.bytes,
        "bytes_max": status.spool.bytes_max,
        "lines": status.spool.lines,
        "lines_damaged": status.spool.lines_damaged,
        "full": status.spool.full,
    })
}

/// Where frames are delivered to.
pub fn store(store: &StoreStatus) -> Value {
    let (state, error) = match &store.link {
        Link::Connected => (health(store.health), None),
        Link::Away { error } => ("away", Some(error)),
        Link::Connecting => ("connecting", None),
    };
    json!({
        "address": store.address,
        "copy": store.copy.map(|copy| copy + 1),
        "store": store.store.map(id),
        "state": state,
        "for_s": store.since.elapsed().as_secs(),
        "error": error,
        "connects": store.connects,
        "frames_acknowledged": store.frames_acknowledged,
        "lines_acknowledged": store.lines_acknowledged,
        "bytes_sent": store.bytes_sent,
        "bytes_in_memory": store.bytes_in_memory,
        "bytes_spooled": store.bytes_spooled,
    })
}

fn health(health: StoreHealth) -> &'static str {
    match health {
        StoreHealth::Ok => "connected",
        StoreHealth::DiskFull => "disk_full",
        StoreHealth::Failing => "failing",
    }
}

/// A node's id as it is shown everywhere.
pub fn id(node: u32) -> String {
    format!("{node:08x}")
}

/// Frames that wait, and what became of those that were sent.
pub fn metrics(status: &ForwardStatus, out: &mut Text) {
    let spool = &status.spool;
    let mut one = |name: &str, kind: &str, help: &str, value: u64| {
        out.one(name, kind, help, &[], value);
    };
    one("loginson_spool_bytes", "gauge", "Bytes of frames that wait on disk.", spool.bytes);
    one("loginson_spool_bytes_max", "gauge", "Limit of the spool's bytes.", spool.bytes_max);
    one("loginson_spool_lines", "gauge", "Lines of frames that wait on disk.", spool.lines);
    one(
        "loginson_spool_lines_damaged_total",
        "counter",
        "Lines in the spool that could not be read back.",
        spool.lines_damaged,
    );
    one(
        "loginson_spool_full",
        "gauge",
        "1 when the last frames for the spool found no room.",
        spool.full.into(),
    );
    one(
        "loginson_forward_waiting_bytes",
        "gauge",
        "Bytes in memory that wait for a store or for the spool.",
        status.waiting_bytes,
    );
    one(
        "loginson_forward_threads_failed_total",
        "counter",
        "Threads that send or spool frames and panicked because of a bug; they restart after a second.",
        status.threads_failed,
    );
    if let Some(copies) = &status.copies {
        copying(copies, out);
    }
    let mut each = |name: &str, kind: &str, help: &str, value: fn(&StoreStatus) -> u64| {
        out.head(name, kind, help);
        for store in &status.stores {
            out.sample(name, &[("store", store.address.as_str())], value(store));
        }
    };
    each("loginson_store_connected", "gauge", "1 while the store is connected.", |store| {
        matches!(store.link, Link::Connected).into()
    });
    each(
        "loginson_store_state_seconds",
        "gauge",
        "Time since the store was connected or disconnected.",
        |store| store.since.elapsed().as_secs(),
    );
    each("loginson_store_connects_total", "counter", "Connections to the store.", |s| s.connects);
    each(
        "loginson_store_frames_total",
        "counter",
        "Frames that the store has acknowledged.",
        |s| s.frames_acknowledged,
    );
    each("loginson_store_lines_total", "counter", "Lines that the store has acknowledged.", |s| {
        s.lines_acknowledged
    });
    each(
        "loginson_store_sent_bytes_total",
        "counter",
        "Bytes sent to the store, including repeated ones.",
        |store| store.bytes_sent,
    );
    each(
        "loginson_store_memory_bytes",
        "gauge",
        "Bytes in memory bound to the store: sent and not acknowledged, or about to be sent.",
        |store| store.bytes_in_memory,
    );
    each(
        "loginson_store_spooled_bytes",
        "gauge",
        "Bytes on disk bound to the store: sent, or about to be sent.",
        |store| store.bytes_spooled,
    );
}

fn copying(copies: &CopiesStatus, out: &mut Text) {
    out.one(
        "loginson_copies_lines_single",
        "gauge",
        "Lines that one copy has, and no other one yet.",
        &[],
        copies.lines_single,
    );
    out.one(
        "loginson_copies_frames_held_back_total",
        "counter",
        "Frames whose senders waited because a store of a copy and its spool had no room.",
        &[],
        copies.frames_held_back,
    );
    let name = "loginson_copy_lines_missing";
    out.head(name, "gauge", "Lines that the stores of the copy have not acknowledged yet.");
    for (copy, lines) in (1_u32..).zip(&copies.lines_missing) {
        out.sample(name, &[("copy", copy.to_string().as_str())], *lines);
    }
}

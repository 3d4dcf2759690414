//! The thread `store-ledger`, and the maintenance that it runs every few seconds.

use std::sync::Mutex;
use std::time::Duration;

use crate::config::{CLOSING_INTERVAL_MS, MAINTENANCE_INTERVAL_MS, ns_of_ms};
use crate::ledger::Ledger;
use crate::store_core::StoreCore;
use crate::sync::{lock, read};
use crate::writer::Writer;

/// Runs the ledger until the store is closed.
pub(crate) fn run(core: &StoreCore, writer: &Mutex<Writer>, ledger: &Mutex<Ledger>) {
    let (mut maintain_ns, mut seen) = (0, 0);
    loop {
        turn(core, writer, ledger, &mut maintain_ns);
        let now_ns = core.clock.monotonic_ns();
        let wait = maintain_ns.saturating_sub(now_ns).min(ns_of_ms(CLOSING_INTERVAL_MS));
        let wait = Duration::from_nanos(wait);
        if core.signals.ledger.wait(&mut seen, wait) {
            return;
        }
    }
}

/// Closes the active segment if that is due, and does the work that the writer left to the ledger.
/// When the periodic maintenance is due, at `maintain_ns` (monotonic nanoseconds), runs it, too.
pub(crate) fn turn(
    core: &StoreCore,
    writer: &Mutex<Writer>,
    ledger: &Mutex<Ledger>,
    maintain_ns: &mut u64,
) {
    let now_ns = core.clock.monotonic_ns();
    if now_ns < *maintain_ns {
        lock(writer).roll_old(core.clock.now_ns());
        lock(ledger).catch_up();
        return;
    }
    maintain(writer, ledger, core.clock.now_ns());
    core.segments.cache.drop_idle(now_ns);
    *maintain_ns = now_ns + ns_of_ms(MAINTENANCE_INTERVAL_MS);
}

/// Runs the periodic maintenance at `now_ns`, nanoseconds since 1970 UTC: retention, closing by
/// age, and work that failed before.
pub(crate) fn maintain(writer: &Mutex<Writer>, ledger: &Mutex<Ledger>, now_ns: i64) {
    lock(writer).maintain(now_ns);
    let mut ledger = lock(ledger);
    ledger.retain(now_ns);
    ledger.remove_files();
    for segment in ledger.core.segments.hot() {
        let parsed = read(&segment.index).times_unknown == 0;
        ledger.save_index(&segment, parsed);
    }
    ledger.catch_up();
}

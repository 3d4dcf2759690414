//! The closed loop: each thread sends its next operation when it has the answer to the last, like
//! the clients of the studies. A workload may say when a step is due: its latency then counts from
//! that moment on.

use tokio::time::{Instant, sleep_until};

use super::worker::Worker;

/// Runs one thread from `start` until the end of the trial.
pub async fn run(mut worker: Worker, start: Instant) {
    sleep_until(worker.shared.until.map_or(start, |until| until.min(start))).await;
    let _at_work = super::AtWork::new(worker.shared.clone());
    loop {
        // A driver that answers at once must not starve the other tasks.
        tokio::task::coop::consume_budget().await;
        let due = worker.due();
        if let Some(due) = due {
            sleep_until(worker.shared.until.map_or(due, |until| until.min(due))).await;
        }
        let now = Instant::now();
        let due = due.unwrap_or(now);
        let Some(step) = worker.next(due, now) else { return };
        if worker.perform(step, due).await.is_break() {
            return;
        }
    }
}

//! The closed loop: each thread sends its next operation when it has the answer of the last, as the
//! studies' clients did.

use tokio::time::{Instant, sleep_until};

use super::worker::Worker;

/// Runs one thread from `start` until the trial is at its end.
pub async fn run(mut worker: Worker, start: Instant) {
    sleep_until(worker.shared.until.map_or(start, |until| until.min(start))).await;
    let _at_work = super::AtWork::new(worker.shared.clone());
    loop {
        // A driver that answers at once must not keep the others from their turn.
        tokio::task::coop::consume_budget().await;
        let now = Instant::now();
        let Some(step) = worker.next(now, now) else { return };
        if worker.perform(step, now).await.is_break() {
            return;
        }
    }
}

//! Slots of ingest requests: `insert.requests_max` of them work at a time.
//!
//! A request whose sender pauses, and that holds little of its body, lends its slot to others:
//! senders on slow connections disturb nobody, however many there are, and cost no more than a
//! connection. A request that holds much while it waits (a long incomplete line, a window of zstd)
//! keeps its slot. When a further request finds no slot, the one with the slowest body is ended
//! (408); its complete lines are kept.
//!
//! Left out: shares of slots by address. Connections have those.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use collector::{Accounting, SourceKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::wire::error::{ApiError, ApiResult};
use crate::wire::listen::seat;
use crate::wire::listen::seats::{Seat, slowest};

/// How long a request waits for a slot when all are taken. Beyond it the request is answered with
/// 503.
const SLOT_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long it waits before the slowest of the others is ended, and then before the next one.
const PATIENCE: Duration = Duration::from_millis(500);
/// Seconds after which a request that found no slot should be sent again.
const RETRY_AFTER_S: u32 = 5;
/// The pause of a sender after which its slot is lent. Shorter pauses are normal on any network.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// All slots.
pub struct Slots {
    free: Arc<Semaphore>,
    most: usize,
    /// Connections whose requests have a slot.
    held_by: Mutex<Vec<Arc<Seat>>>,
    accounting: Arc<Accounting>,
}

impl Slots {
    /// Creates `most` slots. A request that has a slot, or has lent it, counts as a connection of
    /// its source.
    pub fn new(most: usize, accounting: Arc<Accounting>) -> Slots {
        let free = Arc::new(Semaphore::new(most));
        Slots { free, most, held_by: Mutex::default(), accounting }
    }

    /// Waits for a free slot.
    async fn permit(&self) -> ApiResult<OwnedSemaphorePermit> {
        let begun = Instant::now();
        let mut waiting = std::pin::pin!(Arc::clone(&self.free).acquire_owned());
        while begun.elapsed() < SLOT_WAIT_MAX {
            if let Ok(permit) = timeout(PATIENCE, waiting.as_mut()).await {
                return Ok(permit.expect("never closed"));
            }
            if let Some(seat) = slowest(self.held_by().iter()) {
                seat.end_body();
            }
        }
        let counters = self.accounting.source(SourceKind::Http);
        counters.connections_refused.fetch_add(1, Relaxed);
        let most = self.most;
        Err(ApiError::unavailable(format!(
            "{most} ingest requests are in progress already; try again, or raise insert.requests_max"
        ))
        .retry_after(RETRY_AFTER_S))
    }

    fn held_by(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.held_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slot of an ingest request.
pub struct Slot {
    slots: Arc<Slots>,
    held: Option<HeldSlot>,
}

impl Slot {
    /// Takes a slot; 503 if none becomes free.
    pub async fn take(slots: &Arc<Slots>) -> ApiResult<Slot> {
        let held = Some(HeldSlot::take(slots).await?);
        let counters = slots.accounting.source(SourceKind::Http);
        counters.connections_total.fetch_add(1, Relaxed);
        counters.connections_open.fetch_add(1, Relaxed);
        Ok(Slot { slots: Arc::clone(slots), held })
    }

    /// Waits for more of the body; releases the slot meanwhile if the wait is long and the request
    /// `holds_little`.
    pub async fn lend<T>(
        &mut self,
        holds_little: bool,
        more: impl Future<Output = T>,
    ) -> ApiResult<T> {
        let mut more = std::pin::pin!(more);
        if !holds_little {
            return Ok(more.await);
        }
        if let Ok(more) = timeout(PAUSE_MIN, more.as_mut()).await {
            return Ok(more);
        }
        self.held = None;
        let more = more.await;
        self.held = Some(HeldSlot::take(&self.slots).await?);
        Ok(more)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let counters = self.slots.accounting.source(SourceKind::Http);
        counters.connections_open.fetch_sub(1, Relaxed);
    }
}

/// A slot that is not lent.
struct HeldSlot {
    slots: Arc<Slots>,
    seat: Option<Arc<Seat>>,
    _permit: OwnedSemaphorePermit,
}

impl HeldSlot {
    async fn take(slots: &Arc<Slots>) -> ApiResult<HeldSlot> {
        let _permit = slots.permit().await?;
        let seat = seat();
        slots.held_by().extend(seat.clone());
        Ok(HeldSlot { slots: Arc::clone(slots), seat, _permit })
    }
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            self.slots.held_by().retain(|other| !Arc::ptr_eq(other, seat));
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[tokio::test]
    async fn slots_are_lent_and_refused() {
        let accounting = Arc::new(Accounting::default());
        let slots = Arc::new(Slots::new(1, Arc::clone(&accounting)));
        let mut slot = Slot::take(&slots).await.unwrap();
        // A request that works keeps its slot.
        let error = Slot::take(&slots).await.err().unwrap();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
        let counts = accounting.source(SourceKind::Http).counts();
        assert_eq!((counts.connections_refused, counts.connections_open), (1, 1));
        // A request that holds much keeps it too; one that holds little lends it until more
        // arrives.
        let other = async {
            let _other = Slot::take(&slots).await.unwrap();
            7
        };
        assert_eq!(slot.lend(true, other).await.unwrap(), 7);
        assert!(slot.held.is_some());
        assert_eq!(slot.lend(false, async { 8 }).await.unwrap(), 8);
        drop(slot);
        assert_eq!(accounting.source(SourceKind::Http).counts().connections_open, 0);
        assert_eq!(slots.free.available_permits(), 1);
    }
}

//! Places of requests that bring lines: as many work at a time as `insert.requests_max` says.
//!
//! A request whose sender pauses, and that holds little of its body, lends its place to others: a
//! sender on a thin line disturbs nobody, however many there are, and needs no more than a
//! connection. One that holds much while it waits (a long line that has not ended, a window of
//! zstd) keeps its place. When a further request finds none, the one of those whose body came most
//! slowly is ended (408), with what was whole kept.
//!
//! Left out: shares of places by address. The connections have those.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use collector::{Accounting, SourceKind};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use crate::http::wire::error::{ApiError, ApiResult};
use crate::http::wire::listen::seat;
use crate::http::wire::listen::seats::{Seat, slowest};

/// How long a request waits for a place while as many as are allowed work. Then it is answered with
/// 503.
const PLACE_WAIT_MAX: Duration = Duration::from_secs(5);
/// How long it waits before the slowest of them is ended, and then the next one.
const PATIENCE: Duration = Duration::from_millis(500);
/// Seconds after which a request that found no place should come again.
const RETRY_AFTER_S: u32 = 5;
/// A pause of a sender after which its place is lent. Shorter ones are those of any network.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// All places.
pub struct Places {
    free: Arc<Semaphore>,
    most: usize,
    /// Connections whose requests have a place.
    held_by: Mutex<Vec<Arc<Seat>>>,
    accounting: Arc<Accounting>,
}

impl Places {
    /// So many. Who has one, or has lent it, is counted as a connection of its source.
    pub fn new(most: usize, accounting: Arc<Accounting>) -> Places {
        let free = Arc::new(Semaphore::new(most));
        Places { free, most, held_by: Mutex::default(), accounting }
    }

    /// Waits for a free place.
    async fn permit(&self) -> ApiResult<OwnedSemaphorePermit> {
        let begun = Instant::now();
        let mut waiting = std::pin::pin!(Arc::clone(&self.free).acquire_owned());
        while begun.elapsed() < PLACE_WAIT_MAX {
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
            "{most} requests bring lines already; try again, or raise insert.requests_max"
        ))
        .retry_after(RETRY_AFTER_S))
    }

    fn held_by(&self) -> MutexGuard<'_, Vec<Arc<Seat>>> {
        self.held_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The place of a request that brings lines.
pub struct Place {
    places: Arc<Places>,
    held: Option<HeldPlace>,
}

impl Place {
    /// A place, or 503 when none becomes free.
    pub async fn take(places: &Arc<Places>) -> ApiResult<Place> {
        let held = Some(HeldPlace::take(places).await?);
        let counters = places.accounting.source(SourceKind::Http);
        counters.connections_total.fetch_add(1, Relaxed);
        counters.connections_open.fetch_add(1, Relaxed);
        Ok(Place { places: Arc::clone(places), held })
    }

    /// Waits for more of the body, without the place when that takes long and the request
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
        self.held = Some(HeldPlace::take(&self.places).await?);
        Ok(more)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let counters = self.places.accounting.source(SourceKind::Http);
        counters.connections_open.fetch_sub(1, Relaxed);
    }
}

/// A place while it is not lent.
struct HeldPlace {
    places: Arc<Places>,
    seat: Option<Arc<Seat>>,
    _permit: OwnedSemaphorePermit,
}

impl HeldPlace {
    async fn take(places: &Arc<Places>) -> ApiResult<HeldPlace> {
        let _permit = places.permit().await?;
        let seat = seat();
        places.held_by().extend(seat.clone());
        Ok(HeldPlace { places: Arc::clone(places), seat, _permit })
    }
}

impl Drop for HeldPlace {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            self.places.held_by().retain(|other| !Arc::ptr_eq(other, seat));
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::StatusCode;

    use super::*;

    #[tokio::test]
    async fn places_are_lent_and_refused() {
        let accounting = Arc::new(Accounting::default());
        let places = Arc::new(Places::new(1, Arc::clone(&accounting)));
        let mut place = Place::take(&places).await.unwrap();
        // Who works keeps it.
        let error = Place::take(&places).await.err().unwrap();
        assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
        let counts = accounting.source(SourceKind::Http).counts();
        assert_eq!((counts.connections_refused, counts.connections_open), (1, 1));
        // Who holds much keeps it too, and who holds little lends it until more comes.
        let other = async {
            let _other = Place::take(&places).await.unwrap();
            7
        };
        assert_eq!(place.lend(true, other).await.unwrap(), 7);
        assert!(place.held.is_some());
        assert_eq!(place.lend(false, async { 8 }).await.unwrap(), 8);
        drop(place);
        assert_eq!(accounting.source(SourceKind::Http).counts().connections_open, 0);
        assert_eq!(places.free.available_permits(), 1);
    }
}

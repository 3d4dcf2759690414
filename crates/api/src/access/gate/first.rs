//! The link with which the first administrator is made.

use std::net::SocketAddr;
use std::sync::{MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use subtle::ConstantTimeEq;

use super::{Gate, Refused};
use crate::access::secrets::{new_token, sha256};
use crate::wire::error::{ApiError, ApiResult};

/// How long the link for the first administrator is valid.
pub(super) const FIRST_TIME_MAX: Duration = Duration::from_secs(3_600);

/// A link that makes the first administrator.
pub(super) struct First {
    /// SHA-256 of its secret.
    digest: [u8; 32],
    begun: Instant,
}

impl Gate {
    /// A secret with which the first administrator can be made, once and within an hour; none if
    /// there are users or tokens, only this machine can reach the server, or changes are not kept.
    pub fn offer_first(&self) -> Option<String> {
        if !self.is_exposed() || self.sources().documents.is_none() {
            return None;
        }
        let (secret, digest) = new_token().ok()?;
        *self.first() = Some(First { digest, begun: Instant::now() });
        Some(secret)
    }

    pub(super) fn first(&self) -> MutexGuard<'_, Option<First>> {
        self.0.first.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the first administrator, if the secret is that of [`Gate::offer_first`]. Blocks.
    ///
    /// # Errors
    /// 403 if the secret is wrong, was used, or is too old, and those of `make`, after which it can
    /// be used again.
    pub fn make_first<T>(
        &self,
        secret: &[u8],
        make: impl FnOnce() -> ApiResult<T>,
    ) -> ApiResult<T> {
        // Held throughout, so that two calls with one secret do not both pass.
        let mut first = self.first();
        self.compare_first(first.as_ref(), secret)?;
        let made = make()?;
        *first = None;
        Ok(made)
    }

    /// An error if [`Gate::make_first`] would refuse the secret.
    pub fn check_first(&self, secret: &[u8]) -> ApiResult<()> {
        self.compare_first(self.first().as_ref(), secret)
    }

    pub(super) fn compare_first(&self, first: Option<&First>, secret: &[u8]) -> ApiResult<()> {
        let is_right = first.is_some_and(|first| {
            first.begun.elapsed() < FIRST_TIME_MAX
                && bool::from(first.digest.ct_eq(&sha256(secret)))
        });
        if !is_right || !self.is_off() {
            self.count(Refused::Wrong);
            return Err(ApiError::new(
                StatusCode::FORBIDDEN,
                "this link was used, is older than an hour, or is of an earlier start; the log of \
                 the last start has a new one, if there are no users yet",
            ));
        }
        Ok(())
    }

    /// Whether a caller at that address may make users while there are none: only at this machine
    /// if others can reach the server.
    pub fn may_make_first(&self, peer: SocketAddr) -> bool {
        !self.is_exposed() || peer.ip().to_canonical().is_loopback()
    }
}

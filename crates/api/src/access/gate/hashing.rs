//! Computes and compares hashes of passwords, few at a time.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};

use argon2::Argon2;
use argon2::password_hash::PasswordVerifier;
use argon2::password_hash::phc::PasswordHash;
use ring::hmac;

use super::changes::Known;
use super::{Gate, Refused};
use crate::access::secrets::{PASSWORD_BYTES_MAX, hash_password};
use crate::access::users::User;
use crate::wire::error::{ApiError, ApiResult};

/// Password hashes that are computed at a time. Each takes the memory that its parameters say: 19
/// MiB for hashes of `loginson hash-password`.
///
/// limits.md, Lines on their way in: hashes of passwords computed at a time | {}; {WAITING_MAX}
/// callers wait | a further login is refused with 503
pub(super) const COMPUTING_MAX: usize = 2;
/// Requests that wait for such a computation. A further request is refused with 503.
pub(super) const WAITING_MAX: usize = 32;

impl Gate {
    /// The hash of a password, computed when it is its turn.
    ///
    /// # Errors
    /// 503 while too many passwords are being checked.
    pub async fn hash(&self, password: String) -> ApiResult<PasswordHash> {
        let computed = self.computed(move || hash_password(&password)).await?;
        computed.map_err(ApiError::internal)
    }

    pub(super) fn was_right(&self, known: &Known, password: &[u8]) -> bool {
        let mark = *known.right.lock().unwrap_or_else(PoisonError::into_inner);
        mark.is_some_and(|mark| {
            hmac::verify(&self.0.key, &marked(known, password), mark.as_ref()).is_ok()
        })
    }

    /// Whether the password has the hash of a user. Waits for its turn to compute.
    pub(super) async fn computes_to(&self, password: &[u8], user: &User) -> ApiResult<bool> {
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return Ok(false);
        }
        let (password, hash) = (password.to_vec(), user.hash.clone());
        self.computed(move || Argon2::default().verify_password(&password, &hash).is_ok()).await
    }

    /// Computes a hash, on a thread that may block, when it is its turn.
    pub(super) async fn computed<T: Send + 'static>(
        &self,
        compute: impl FnOnce() -> T + Send + 'static,
    ) -> ApiResult<T> {
        let busy = || {
            self.count(Refused::Limited);
            let message = "too many passwords are being checked; try again in a moment";
            ApiError::unavailable(message).retry_after(1)
        };
        let _waits = Waiting::enter(&self.0.waiting).ok_or_else(busy)?;
        let permit = Arc::clone(&self.0.computing).acquire_owned().await.map_err(|_| busy())?;
        let computed = tokio::task::spawn_blocking(move || {
            // If the client goes away, the computation continues, and its memory still counts.
            let _permit = permit;
            compute()
        });
        computed.await.map_err(|error| ApiError::internal(error.to_string()))
    }
}

/// A request that waits for the computation of a hash, or computes.
pub(super) struct Waiting<'a>(&'a AtomicUsize);

impl Waiting<'_> {
    pub(super) fn enter(count: &AtomicUsize) -> Option<Waiting<'_>> {
        let waiting = Waiting(count);
        (count.fetch_add(1, Relaxed) < WAITING_MAX).then_some(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// The message of the mark of a password.
pub(super) fn marked(known: &Known, password: &[u8]) -> Vec<u8> {
    [known.user.name.as_bytes(), b"\0", password].concat()
}

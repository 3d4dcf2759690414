//! The places of live tails: in the queue, and among the tails of a tenant.

use std::ops::Deref;
use std::sync::atomic::Ordering::Relaxed;

use node::ingest::tenants::{QueryKind, QueryPlace};
use query::{Permit, TAIL};

use crate::access::principal::Caller;
use crate::access::tenants::OfTenants;
use crate::app::App;
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiResult, queue_refusal};

/// The place of a tail, until it is dropped. What the tail looked at counts for the tenant whose
/// lines alone it showed.
pub struct TailPlace {
    permit: Permit,
    tenants: OfTenants,
    _of_tenant: Option<QueryPlace>,
}

impl TailPlace {
    /// Enters a tail, listed as `text`. Tails have slots of their own and never wait for one, so
    /// this does not block.
    ///
    /// # Errors
    /// 429: there are as many as there may be, of all or of the tenant.
    pub fn take(app: &App, caller: &Caller, text: &str) -> ApiResult<TailPlace> {
        let tenants = caller.principal.tenants.clone();
        let of_tenant = tenants.begin_query(QueryKind::Tail)?;
        let permit = app.queue.submit(TAIL, text, &app.client_in_queue(caller));
        let permit = permit.map_err(queue_refusal)?;
        Ok(TailPlace { permit, tenants, _of_tenant: of_tenant })
    }
}

impl Deref for TailPlace {
    type Target = Permit;

    fn deref(&self) -> &Permit {
        &self.permit
    }
}

impl Drop for TailPlace {
    fn drop(&mut self) {
        let progress = &self.permit.progress;
        let scanned = (&progress.lines_scanned, &progress.bytes_scanned);
        self.tenants.note_query(now_ns(), scanned.0.load(Relaxed), scanned.1.load(Relaxed));
    }
}

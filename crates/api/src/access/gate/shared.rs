//! Users and tokens of a cluster: all nodes share one document in its catalog. A change at any node
//! is in the catalog before it is answered, is made of what the catalog has at that moment, and
//! holds at the other nodes when they look, every [`LOOK_EVERY`].
//!
//! The file in the data directory stays, as what the node knew last: a node that starts while the
//! catalog is away lets the same people in.
//!
//! Left out: sessions, which are those of one node.

use std::sync::Arc;
use std::time::Duration;

use node::data_dir::{Documents, SharedDocument};

use super::Gate;
use super::changes::{Changed, Sources, write};
use crate::access::kept::Kept;
use crate::access::users::AccessOptions;
use crate::wire::error::{ApiError, ApiResult};

/// How often a node looks whether another one changed users and tokens.
pub const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Whether other nodes have the same users and tokens.
#[derive(Clone)]
pub(super) enum Sharing {
    /// This server is no node of a cluster.
    No,
    /// It is, and has not reached the catalog yet.
    NotYet,
    /// The document of the cluster.
    With(Arc<dyn SharedDocument>),
}

impl Gate {
    /// Users and tokens are those of a cluster, and cannot be changed before
    /// [`share`](Self::share).
    pub fn expect_sharing(&self) {
        self.sources().sharing = Sharing::NotYet;
    }

    /// Shares users and tokens from now on. Those of the cluster hold; if it has none yet, it gets
    /// those of this node. Blocks.
    ///
    /// # Errors
    /// The catalog cannot be reached, or its document is damaged.
    pub fn share(&self, document: Arc<dyn SharedDocument>) -> Result<(), String> {
        let mut sources = self.sources();
        let (own, mut found) = (sources.kept.clone(), None);
        let shared = document.change(&mut |present| match present {
            Some(text) => {
                found = Some(text);
                None
            }
            None => Some(encode(&own)),
        });
        shared.map_err(|error| error.to_string())?;
        if let Some(text) = found {
            let kept = Kept::parse(&text)?;
            let users = own.users.iter().map(|user| &user.name);
            let left = users.chain(own.tokens.iter().map(|token| &token.name));
            for name in left.filter(|name| !kept.has_name(name)) {
                tracing::warn!(
                    "{name} is in the data directory of this node alone, and not in the cluster: it has no effect"
                );
            }
            self.take(&mut sources, kept)?;
        }
        sources.sharing = Sharing::With(document);
        Ok(())
    }

    /// Takes over what other nodes changed. Blocks.
    ///
    /// # Errors
    /// The catalog cannot be reached, or its document is damaged: users and tokens stay as before.
    pub fn look_for_changes(&self) -> Result<(), String> {
        // Held throughout, so that what is read is not older than a change of this node.
        let mut sources = self.sources();
        let Sharing::With(document) = sources.sharing.clone() else { return Ok(()) };
        match document.read().map_err(|error| error.to_string())? {
            Some(text) => self.take(&mut sources, Kept::parse(&text)?),
            None => Ok(()),
        }
    }

    fn take(&self, sources: &mut Sources, mut kept: Kept) -> Result<(), String> {
        // These say what the store of this node may hold.
        kept.audited |= sources.kept.audited;
        kept.had_tenants |= sources.kept.had_tenants;
        if kept == sources.kept {
            return Ok(());
        }
        let all = kept.added_to(&sources.configured)?;
        if names(&kept) != names(&sources.kept) {
            tracing::info!(target: "audit", "users and tokens were changed at another node");
        }
        self.replace(&all);
        sources.kept = kept;
        if let Some(documents) = &sources.documents {
            keep_copy(&**documents, &sources.kept);
        }
        Ok(())
    }

    /// As [`changed`](Self::changed), of what the cluster has, and written there.
    pub(super) fn change_shared<T>(
        &self,
        sharing: &Sharing,
        sources: &Sources,
        documents: &dyn Documents,
        change: impl FnOnce(&mut Kept, &AccessOptions) -> ApiResult<T>,
    ) -> ApiResult<Changed<T>> {
        let Sharing::With(document) = sharing else {
            return Err(ApiError::unavailable(
                "the users of the cluster are not known yet, because PostgreSQL or Kafka do not answer; try again in a moment",
            ));
        };
        let (mut change, mut made) = (Some(change), None);
        let written = document.change(&mut |present| {
            let change = change.take()?;
            let before = match present.as_deref().map(Kept::parse).transpose() {
                Ok(before) => before.unwrap_or_else(|| sources.kept.clone()),
                Err(why) => {
                    made = Some(Err(ApiError::internal(why)));
                    return None;
                }
            };
            let changed = self.changed(&before, &sources.configured, change);
            let text = changed.as_ref().ok().map(|changed| encode(&changed.kept));
            made = Some(changed);
            text
        });
        // What the change refuses is known, whether or not the catalog answered later.
        if let Some(Err(error)) = made {
            return Err(error);
        }
        written.map_err(|error| {
            ApiError::unavailable(format!(
                "users and tokens of the cluster cannot be changed, or it is not known whether they were: {error}; look at \
                 them before you try again"
            ))
        })?;
        let changed = made.expect("it was called")?;
        keep_copy(documents, &changed.kept);
        Ok(changed)
    }

    /// Writes when tokens were used last, as far as this node knows.
    pub(super) fn share_uses(&self, sharing: &Sharing) -> Result<(), String> {
        let Sharing::With(document) = sharing else { return Ok(()) };
        let tokens = &self.access().tokens;
        let shared = document.change(&mut |present| {
            let before = Kept::parse(&present?).ok()?;
            let mut kept = before.clone();
            kept.note_uses(tokens);
            (kept != before).then(|| encode(&kept))
        });
        shared.map_err(|error| error.to_string())
    }
}

/// Keeps what the cluster has in the data directory, for a start without it.
fn keep_copy(documents: &dyn Documents, kept: &Kept) {
    if write(documents, kept).is_err() {
        tracing::warn!(
            "the copy of users and tokens in the data directory cannot be written: after a restart without PostgreSQL this node \
             knows those of before"
        );
    }
}

fn encode(kept: &Kept) -> Vec<u8> {
    serde_json::to_vec(kept).expect("it is plain values")
}

/// What says who may do what, without when it was done last.
fn names(kept: &Kept) -> Kept {
    let mut kept = kept.clone();
    kept.tokens.iter_mut().for_each(|token| token.last_used_s = None);
    kept
}

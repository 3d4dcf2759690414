//! Errors of the three engines. Each says what the caller may conclude ([`Failure`]): the protocol
//! branches on that, and never on texts.

/// What a failed call means for whoever made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing happened. The same call may succeed later.
    Retry,
    /// It may have happened, or may still happen: the answer was lost. The caller repeats the same
    /// call, or reads what became of it, before it does anything else.
    Unknown,
    /// Nothing happened, and the same call will never succeed.
    Refused,
}

/// Why a call to the log failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Nothing happened; retry later.
    #[error("the log cannot be reached: {0}; the call is repeated")]
    Unavailable(String),
    /// The messages may have been appended.
    #[error("the log did not answer, so the messages may or may not be in it: {0}")]
    Unknown(String),
    /// The log will never take this call.
    #[error("the log refuses the call: {0}")]
    Refused(String),
    /// A read from an offset that the log has already deleted, or does not have yet.
    #[error(
        "the log has offsets {start} to {end}, and {wanted} was asked for; if messages were deleted unread, raise the log's retention"
    )]
    OutOfRange {
        /// The offset that was asked for.
        wanted: u64,
        /// The first offset that the log has.
        start: u64,
        /// One past the last.
        end: u64,
    },
}

impl LogError {
    /// What the caller may conclude.
    pub fn failure(&self) -> Failure {
        match self {
            LogError::Unavailable(_) => Failure::Retry,
            LogError::Unknown(_) => Failure::Unknown,
            LogError::Refused(_) | LogError::OutOfRange { .. } => Failure::Refused,
        }
    }
}

/// Why a call to the object storage failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// Nothing happened; retry later.
    #[error("the object storage cannot be reached: {0}; the call is repeated")]
    Unavailable(String),
    /// The object may have been written or deleted.
    #[error("the object storage did not answer, so the call may or may not have happened: {0}")]
    Unknown(String),
    /// The storage will never take this call: no rights, no bucket, a bad name.
    #[error("the object storage refuses the call: {0}")]
    Refused(String),
    /// An object of this name exists already.
    #[error("object {0} exists already")]
    Exists(String),
    /// There is no object of this name.
    #[error("object {0} does not exist")]
    Missing(String),
    /// The body of the object could not be read on this machine.
    #[error("the bytes to store could not be read: {0}")]
    Body(String),
}

impl ObjectError {
    /// What the caller may conclude.
    pub fn failure(&self) -> Failure {
        match self {
            ObjectError::Unavailable(_) | ObjectError::Body(_) => Failure::Retry,
            ObjectError::Unknown(_) => Failure::Unknown,
            ObjectError::Refused(_) | ObjectError::Exists(_) | ObjectError::Missing(_) => {
                Failure::Refused
            }
        }
    }
}

/// Why a call to the catalog failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CatalogError {
    /// Nothing happened; retry later.
    #[error("the catalog cannot be reached: {0}; the call is repeated")]
    Unavailable(String),
    /// The transaction may have been committed.
    #[error("the catalog did not answer, so the transaction may or may not be committed: {0}")]
    Unknown(String),
    /// The lease ended: another node has a later epoch, or nobody has the lease.
    #[error("the lease of {resource} in epoch {epoch} is over")]
    LeaseOver {
        /// What the lease was for.
        resource: String,
        /// The epoch that is over.
        epoch: u64,
    },
    /// The partition's offset is not the one that the publication begins at.
    #[error("the offset of partition {partition} is {found}, expected {expected}")]
    OffsetMoved {
        /// The partition.
        partition: u32,
        /// The offset that the caller built on.
        expected: u64,
        /// The offset that the catalog has.
        found: u64,
    },
    /// A segment that was to be replaced is not there any more.
    #[error("a segment that was to be replaced is not there any more; the work is planned again")]
    SegmentGone,
    /// There is a segment of this name already.
    #[error("the catalog has a segment {0} already")]
    NameTaken(String),
    /// The answer would be larger than the caller's limit.
    #[error("more than {segments_max} segments overlap the time range; ask for a shorter one")]
    TooMany {
        /// The limit.
        segments_max: usize,
    },
    /// The catalog will never take this call: no rights, another schema, a bug.
    #[error("the catalog refuses the call: {0}")]
    Refused(String),
}

impl CatalogError {
    /// What the caller may conclude.
    pub fn failure(&self) -> Failure {
        match self {
            CatalogError::Unavailable(_) => Failure::Retry,
            CatalogError::Unknown(_) => Failure::Unknown,
            _ => Failure::Refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_over_too_many_segments_is_told_what_helps() {
        let told = CatalogError::TooMany { segments_max: 50_000 }.to_string();
        let expected = "more than 50000 segments overlap the time range; ask for a shorter one";
        assert_eq!(told, expected);
    }
}

//! The engines as the protocol of a cluster sees them: its traits, and its errors.

use std::ops::Range;
use std::time::Duration;

use crate::{FrameLog, LogError, Message, ObjectBody, ObjectError, ObjectInfo, Objects};

use crate::engines::error::{Error, ErrorKind};
use crate::engines::kafka::Log;
use crate::engines::objects::Bucket;

impl FrameLog for Log {
    fn partitions(&self) -> Result<u32, LogError> {
        Log::partitions(self).map_err(of_query)
    }

    fn append(&self, partition: u32, messages: &[&[u8]]) -> Result<u64, LogError> {
        let appended = Log::append(self, partition, messages);
        appended.map(|offset| self.counted(partition, offset)).map_err(|error| match error.kind {
            ErrorKind::OutcomeUnknown => LogError::Unknown(error.to_string()),
            _ => of_query(error),
        })
    }

    fn read(
        &self,
        partition: u32,
        from: u64,
        bytes_max: usize,
        wait: Duration,
    ) -> Result<Vec<Message>, LogError> {
        let read = Log::read(self, partition, self.stored(partition, from), bytes_max, wait)
            .map_err(|error| match FrameLog::bounds(self, partition) {
                Ok(Range { start, end })
                    if error.kind == ErrorKind::NotFound && !(start..=end).contains(&from) =>
                {
                    LogError::OutOfRange { wanted: from, start, end }
                }
                _ => of_query(error),
            })?;
        let message = |read: crate::engines::kafka::Message| Message {
            offset: self.counted(partition, read.offset),
            bytes: read.bytes.into(),
        };
        Ok(read.into_iter().map(message).collect())
    }

    fn bounds(&self, partition: u32) -> Result<Range<u64>, LogError> {
        let Range { start, end } = Log::bounds(self, partition).map_err(of_query)?;
        Ok(self.counted(partition, start)..self.counted(partition, end))
    }

    fn ends(&self) -> Result<Vec<u64>, LogError> {
        let ends = Log::ends(self).map_err(of_query)?;
        Ok((0..).zip(ends).map(|(partition, end)| self.counted(partition, end)).collect())
    }

    fn renew(&self, partition: u32) {
        self.end_reading(partition);
    }
}

/// The error of a call to the log that changes nothing.
fn of_query(error: Error) -> LogError {
    match error.may_pass() {
        true => LogError::Unavailable(error.to_string()),
        false => LogError::Refused(error.to_string()),
    }
}

impl Objects for Bucket {
    fn put_new(&self, name: &str, body: &dyn ObjectBody) -> Result<(), ObjectError> {
        Bucket::put_new(self, name, body).map_err(|error| of_change(error, name))
    }

    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, ObjectError> {
        Bucket::read_range(self, name, offset, buffer).map_err(|error| of_read(error, name))
    }

    fn size(&self, name: &str) -> Result<u64, ObjectError> {
        Bucket::size(self, name).map_err(|error| of_read(error, name))
    }

    fn delete(&self, name: &str) -> Result<(), ObjectError> {
        Bucket::delete(self, name).map_err(|error| of_change(error, name))
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, ObjectError> {
        Bucket::list(self, prefix, after, max).map_err(|error| of_read(error, prefix))
    }
}

/// The error of a call to object storage that may have changed something.
fn of_change(error: Error, name: &str) -> ObjectError {
    match error.kind {
        ErrorKind::OutcomeUnknown => ObjectError::Unknown(error.to_string()),
        _ => of_read(error, name),
    }
}

/// The error of a call to object storage that changes nothing.
fn of_read(error: Error, name: &str) -> ObjectError {
    match error.kind {
        ErrorKind::Retriable | ErrorKind::OutcomeUnknown => {
            ObjectError::Unavailable(error.to_string())
        }
        ErrorKind::Exists => ObjectError::Exists(name.to_owned()),
        ErrorKind::NotFound => ObjectError::Missing(name.to_owned()),
        ErrorKind::Body => ObjectError::Body(error.to_string()),
        ErrorKind::Refused | ErrorKind::TooLarge | ErrorKind::Content => {
            ObjectError::Refused(error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Failure;

    use super::*;

    /// What the protocol concludes must never be more than the engine knows.
    #[test]
    fn kinds_say_what_the_protocol_may_conclude() {
        use ErrorKind::*;
        let error = |kind| Error::new(kind, "what", "remedy");
        for (kind, of_log, of_object) in [
            (Retriable, Failure::Retry, Failure::Retry),
            (OutcomeUnknown, Failure::Retry, Failure::Unknown),
            (Refused, Failure::Refused, Failure::Refused),
            (TooLarge, Failure::Refused, Failure::Refused),
            (Content, Failure::Refused, Failure::Refused),
            (NotFound, Failure::Refused, Failure::Refused),
            (Exists, Failure::Refused, Failure::Refused),
            (Body, Failure::Refused, Failure::Retry),
        ] {
            assert_eq!(of_query(error(kind)).failure(), of_log, "{kind:?}");
            assert_eq!(of_change(error(kind), "name").failure(), of_object, "{kind:?}");
        }
        assert_eq!(of_read(error(OutcomeUnknown), "name").failure(), Failure::Retry);
    }
}

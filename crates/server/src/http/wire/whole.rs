//! Answers that are written as a whole before they are sent: JSON, without a tree of it in between.
//!
//! Its memory is counted with that of the query that it answers, and stays counted until the client has taken it, or is
//! gone.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use query::{Buffer, Meter, RunError};
use serde::Serialize;

use crate::http::queries::ask::Running;

/// An answer in memory.
pub struct Whole {
    buffer: Buffer,
    meter: Meter,
}

impl Whole {
    /// Writes `value` as JSON.
    pub fn json(running: &Running, value: &impl Serialize) -> Result<Whole, RunError> {
        let meter = Meter::new(&running.context);
        let mut writer = Writer { whole: Whole { buffer: Buffer::default(), meter }, failed: None };
        let written = serde_json::to_writer(&mut writer, value);
        if let Some(error) = writer.failed {
            return Err(error);
        }
        written.map_err(|error| RunError::Failed(format!("cannot write the answer: {error}")))?;
        Ok(writer.whole)
    }
}

impl AsRef<[u8]> for Whole {
    fn as_ref(&self) -> &[u8] {
        self.buffer.bytes()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        self.buffer.clear(&mut self.meter);
    }
}

impl IntoResponse for Whole {
    fn into_response(self) -> Response {
        let body = Body::from(Bytes::from_owner(self));
        ([(CONTENT_TYPE, "application/json")], body).into_response()
    }
}

struct Writer {
    whole: Whole,
    failed: Option<RunError>,
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Whole { buffer, meter } = &mut self.whole;
        match buffer.room(bytes.len(), meter) {
            Ok(room) => {
                room.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::Error::other("there is no memory for the answer"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

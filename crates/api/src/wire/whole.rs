//! Responses that are encoded as a whole before they are sent: JSON, without an intermediate tree.
//!
//! The memory of a response is counted with that of its query, until the client has received it or
//! is gone.

use std::io;

use axum::body::{Body, Bytes};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use query::{Buffer, Context, Meter, RunError};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A response in memory.
pub struct WholeAnswer {
    buffer: Buffer,
    meter: Meter,
}

impl WholeAnswer {
    /// Encodes `value`, the result of a query that ran in `context`, as JSON. The memory that the
    /// query counted for it is released afterwards; that of the text is counted before it is
    /// allocated.
    pub fn json(context: &Context, value: impl Serialize) -> Result<WholeAnswer, RunError> {
        let meter = context.meter();
        let held = usize::try_from(meter.held()).unwrap_or(usize::MAX);
        let mut writer =
            Writer { whole: WholeAnswer { buffer: Buffer::default(), meter }, failed: None };
        let written = serde_json::to_writer(&mut writer, &value);
        drop(value);
        if let Some(error) = writer.failed {
            return Err(error);
        }
        written
            .map_err(|error| RunError::Failed(format!("cannot encode the response: {error}")))?;
        writer.whole.meter.give_back(held);
        Ok(writer.whole)
    }
}

/// A list of the items of an iterator, encoded one by one.
#[derive(Clone)]
pub struct List<I>(pub I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for List<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// An object of the pairs of an iterator, encoded one by one. The names must differ.
#[derive(Clone)]
pub struct Object<I>(pub I);

impl<N: Serialize, V: Serialize, I: Iterator<Item = (N, V)> + Clone> Serialize for Object<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_map(None)?;
        self.0.clone().try_for_each(|(name, value)| object.serialize_entry(&name, &value))?;
        object.end()
    }
}

impl AsRef<[u8]> for WholeAnswer {
    fn as_ref(&self) -> &[u8] {
        self.buffer.bytes()
    }
}

impl Drop for WholeAnswer {
    fn drop(&mut self) {
        self.buffer.clear(&mut self.meter);
    }
}

impl IntoResponse for WholeAnswer {
    fn into_response(self) -> Response {
        let body = Body::from(Bytes::from_owner(self));
        ([(CONTENT_TYPE, "application/json")], body).into_response()
    }
}

struct Writer {
    whole: WholeAnswer,
    failed: Option<RunError>,
}

impl io::Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let WholeAnswer { buffer, meter } = &mut self.whole;
        match buffer.room(bytes.len(), meter) {
            Ok(room) => {
                room.extend_from_slice(bytes);
                Ok(bytes.len())
            }
            Err(error) => {
                self.failed = Some(error);
                Err(io::Error::other("there is no memory for the response"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use query::Limits;

    use super::*;

    fn context(memory_bytes_max: u64) -> Context {
        Context { limits: Limits { memory_bytes_max, ..Limits::default() }, ..Context::default() }
    }

    #[test]
    fn lists_and_objects_are_written() {
        let value = Object([("a", 1), ("b", 2)].iter().map(|&(name, value)| (name, [value])));
        let whole = WholeAnswer::json(&context(1_000), List([&value, &value].iter())).unwrap();
        assert_eq!(whole.as_ref(), br#"[{"a":[1],"b":[2]},{"a":[1],"b":[2]}]"#);
    }

    #[test]
    fn a_text_is_counted_while_it_grows_and_until_it_is_sent() {
        // Room for the value, the text, and the shorter text that is copied when it grows.
        let context = context(2 << 20);
        let mut meter = context.meter();
        // The memory counted for the value is released with it.
        meter.take(400 << 10).unwrap();
        let whole = WholeAnswer::json(&context, "x".repeat(300 << 10)).unwrap();
        let length = whole.as_ref().len() as u64;
        assert_eq!(length, (300 << 10) + 2);
        assert!((length..2 * length).contains(&meter.held()), "{}", meter.held());
        drop(whole);
        assert_eq!(meter.held(), 0);

        meter.take((2 << 20) - (124 << 10)).unwrap();
        let many = || std::iter::repeat_n("0123456789", 100_000);
        let refused = WholeAnswer::json(&context, List(many())).err();
        assert!(matches!(refused, Some(RunError::MemoryLimit(_))), "{refused:?}");
    }
}

//! What the store asks of the program it runs in: the store keeps lines and does not know what is
//! in them.

use std::sync::Arc;

use record::{Batch, Frame};

/// Knows what is in a line, and how busy the machine is. Given to [`Store::start_background`]; may
/// be called from several threads at once.
///
/// [`Store::start_background`]: crate::Store::start_background
pub trait StoreCallbacks: Send + Sync {
    /// The records of a frame; the same ones each time.
    fn parse(&self, frame: Arc<Frame>) -> Batch;

    /// Understands a filter of lines. Relative times in it refer to `now_ns`, nanoseconds since
    /// 1970 UTC. An error says what is wrong with the text.
    fn filter(&self, text: &str, now_ns: i64) -> Result<LineFilter, String>;

    /// Whether nobody needs the processor at present, so that it may be used to make old segments
    /// smaller.
    fn is_idle(&self) -> bool {
        false
    }
}

/// The rows of a batch that a filter selects: true for each that is.
pub type RowSelector = Box<dyn Fn(&Arc<Batch>) -> Vec<bool> + Send + Sync>;

/// A filter of lines, understood.
pub struct LineFilter {
    /// Event times that a line it selects can have: first and last, both inclusive, nanoseconds
    /// since 1970 UTC.
    pub range_ns: (i64, i64),
    /// Which rows of a batch it selects.
    pub selects: RowSelector,
}

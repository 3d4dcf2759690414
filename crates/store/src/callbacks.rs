//! Callbacks from the store into the program. The store keeps lines and does not interpret them.

use std::sync::Arc;

use record::{Batch, Frame, Tenant};

/// Parses and selects lines, and reports how busy the machine is. Given to
/// [`Store::start_background`]; methods may be called from several threads at once.
///
/// [`Store::start_background`]: crate::Store::start_background
pub trait StoreCallbacks: Send + Sync {
    /// The records of a frame. The same frame must give the same records each time.
    fn parse(&self, frame: Arc<Frame>) -> Batch;

    /// Compiles a filter of lines. Relative times in it refer to `now_ns`, nanoseconds since 1970
    /// UTC. The error says what is wrong with the text.
    fn filter(&self, text: &str, now_ns: i64) -> Result<LineFilter, String>;

    /// Whether the processors are idle, so that old segments may be re-encoded to make them
    /// smaller.
    fn is_idle(&self) -> bool {
        false
    }

    /// Called by each sealing thread, and by each of its helpers, after a second without work, to
    /// return freed memory to the system.
    fn at_rest(&self) {}
}

/// Returns for each row of a batch whether the filter selects it.
pub type RowSelector = Box<dyn Fn(&Arc<Batch>) -> Vec<bool> + Send + Sync>;

/// A compiled filter of lines.
pub struct LineFilter {
    /// The event times that selected lines can have: first and last, both inclusive, nanoseconds
    /// since 1970 UTC.
    pub range_ns: (i64, i64),
    /// The only tenants of whom it selects lines; none where it may be any. Blocks of others are
    /// not read.
    pub tenants: Option<Vec<Tenant>>,
    /// Selects rows of a batch.
    pub selects: RowSelector,
}

//! Where rows of programs and of alerts become durable lines: the store of this machine, or the log
//! of a cluster ([`crate::cluster::engines`]).

use collector::Intake;
use record::Origin;

/// Makes rows durable.
pub trait RowStore: Send + Sync {
    /// Stores lines of rows with that origin, all or none. They are at most
    /// [`collector::ALONE_BYTES_MAX`]. Blocks.
    fn store(&self, origin: &Origin, lines: &[u8], now_ns: i64) -> Result<(), String>;

    /// Accepts no more rows.
    fn close(&self);
}

impl RowStore for Intake {
    fn store(&self, origin: &Origin, lines: &[u8], now_ns: i64) -> Result<(), String> {
        let stored = self.deliver_alone(origin, now_ns, lines);
        stored.wait().map_err(|error| error.to_string())
    }

    fn close(&self) {
        self.stop();
    }
}

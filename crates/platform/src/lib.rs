//! The machine under Loginson: disk and clock, each as a small trait with a real and a simulated
//! implementation; priorities of threads ([`placement`]), and work that gives way to ingest
//! ([`pressure`]); reusable threads ([`threads`]), and threads that help another one ([`helpers`]);
//! the memory budget ([`memory`]); the answer of whoever makes data durable ([`OnDurable`]); how
//! long things took ([`Durations`]); how long to wait before something is tried again ([`pauses`]);
//! files that only this program writes, opened so that nothing else in their place is taken for
//! them ([`open_regular`]); encryption of files ([`encryption`]).
//!
//! Everything that stores data takes `Arc<dyn Disk>` and `Arc<dyn Clock>`, so that a whole store
//! can be simulated from a seed, with power cuts and full or failing disks ([`SimDisk`]), in a
//! fraction of a second.
//!
//! Left out: the network, and asynchronous I/O. The data plane consists of blocking threads.

mod buffer;
mod clock;
mod disk;
mod durations;
pub mod encryption;
mod groups;
pub mod helpers;
mod keep;
pub mod memory;
pub mod pauses;
pub mod placement;
pub mod pressure;
mod real;
mod regular;
mod shrink;
mod sim;
pub mod threads;

pub use buffer::{AlignedBuffer, BLOCK_BYTES};
pub use clock::{Clock, ManualClock, RealClock};
pub use disk::{Access, Disk, DiskFile, DiskLock, DiskSpace, LockError, ReadOnce};
pub use durations::{BOUNDS_MS, DurationCounts, Durations};
pub use keep::{KeepError, OnDurable, Patience};
pub use real::RealDisk;
pub use regular::{
    check_regular, is_disk_full, is_not_regular, open_regular, read_all, read_provided,
    read_regular,
};
pub use sim::{Fault, Operation, SimDisk};

//! The process and its system: its own log, its allocator, its limit on open files, and the modes
//! of its files.

pub mod log;
pub mod memory;
pub mod open_files;
pub mod private;

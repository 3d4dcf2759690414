//! The process and its system: its own log, its allocator, its limit on open files, what it
//! takes of the machine, the modes of its files, and the threads of its stages.

pub mod disk_full;
pub mod lasting;
pub mod log;
pub mod memory;
pub mod open_files;
pub mod private;
pub mod stages;
pub mod usage;

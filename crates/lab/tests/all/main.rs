//! The integration tests of the lab, in one executable, because each executable links every client
//! library. A module has the tests of one subject: `cargo test -p loginson-lab --test all
//! servers::` runs one of them.
//!
//! Tests run at the same time, as threads of one process or as processes of their own. So no test
//! changes what its process shares (environment, current directory, hooks), and a test that needs
//! ports of this machine reserves them where other processes see it.

mod agents;
#[cfg(feature = "real-servers")]
mod contract;
mod liars;
mod report;
mod servers;
mod sinks;
#[cfg(feature = "real-servers")]
mod studies;

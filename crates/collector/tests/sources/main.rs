//! Sources with real sockets, delivering to a recorder that can block, fail, and be full.

#![allow(missing_docs)]

mod intake;
mod recorder;
mod tcp;
mod udp;

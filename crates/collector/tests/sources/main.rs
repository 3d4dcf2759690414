//! Sources with real sockets, delivering to a recorder that can block, fail, and be full.

#![allow(missing_docs)]

mod answered;
mod authority;
mod intake;
mod recorder;
mod sums;
mod tcp;
mod tls;
mod udp;

//! The engines of a cluster, which are servers of others: a log of messages in Apache Kafka
//! ([`kafka`]), objects in storage with the S3 interface ([`objects`]), and the catalog in
//! PostgreSQL ([`postgres`]). [`cache`] keeps parts of objects on the local disk.
//!
//! The wire protocols are those of libraries: `krafka`, `object_store` and `tokio-postgres`. This
//! module adds what they leave to their users: calls that block and end within a stated time,
//! bounds on memory, settings that are checked, and errors that say whether the call may be
//! repeated and what an administrator can do.
//!
//! [`kafka::Log`] is the [`FrameLog`](crate::FrameLog) of the protocol of a cluster,
//! [`objects::Bucket`] its [`Objects`](crate::Objects), and [`postgres::PgCatalog`] its
//! [`Catalog`](crate::Catalog). The protocol knows none of them: this module imports it, never the
//! other way, as `xtask` checks.
//!
//! The libraries are asynchronous. Each [`kafka::Log`] and each [`objects::Bucket`] has a small
//! runtime of its own, with named threads; callers see none of it. No call may be made from a task
//! of an asynchronous runtime, because it would block a thread of that runtime.
//!
//! Left out: transactions of Kafka, versions and access lists of objects.

pub mod cache;
mod error;
pub mod kafka;
mod meter;
pub mod objects;
pub mod postgres;
mod protocol;
pub mod roots;
mod runtime;
mod secret;

pub use error::{Error, ErrorKind};
pub use meter::{Meter, Metered};
pub use secret::Secret;

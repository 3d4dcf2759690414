//! SQL over the lines of a running Loginson, spoken as PostgreSQL speaks it.
//!
//! A statement passes these steps: `serve` takes it from a client of PostgreSQL and refuses
//! whatever would write, and `catalog` helps drivers to look around; DataFusion plans it over the
//! tables of `schema`; `filter` and `pushdown` turn what they can into LogsQL, which `table` sends
//! through `client`; `rows` makes columns of the answer, and DataFusion computes the rest.
//!
//! Everything goes through Loginson's HTTP API, so a query sees what its token may see, and a
//! cluster is asked like a single server. Nothing is written: not to Loginson, and not to a disk.

pub mod catalog;
pub mod client;
pub mod filter;
pub mod kind;
pub mod pushdown;
pub mod rows;
pub mod schema;
pub mod serve;
pub mod table;

//! The catalog in PostgreSQL: the same contract as the simulated one, and a server that is killed.
//! The server is the installed one (`scripts/test-deps.sh`), started on a free port with its data
//! in a temporary directory.

mod contract;
mod dump;
mod holds;
mod kill;
mod log;
mod random;
mod region;
mod server;
mod size;

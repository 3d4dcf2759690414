//! The summary in the running server, whose programs are built in ([`programs::summary`]): the
//! stage that counts, its stored rows, and reruns, which replace them.

pub mod reruns;
pub mod rows;
pub mod stage;

//! Who may call what: the guard against calls of other sites, the parameters that each path takes,
//! filters that restrict a caller, and the audit log.

pub mod audit;
pub mod guard;
pub mod known;
pub mod restriction;

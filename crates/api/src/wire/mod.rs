//! The parts of HTTP that all calls share: connections, bodies, errors, compression,
//! the text of metrics.

pub mod bells;
pub mod body;
pub mod clock;
pub mod compress;
pub mod error;
pub mod listen;
pub mod metrics;
pub mod missing;
pub mod whole;

//! The parts of HTTP that all calls share: connections, bodies, parameters, errors, compression,
//! streamed responses.

pub mod body;
pub mod compress;
pub mod error;
pub mod listen;
pub mod missing;
pub mod params;
pub mod stream;
pub mod whole;

//! What all calls share of HTTP: connections, bodies, parameters, errors, compression, streamed
//! answers.

pub mod body;
pub mod compress;
pub mod error;
pub mod listen;
pub mod params;
pub mod stream;
pub mod whole;

//! Questions: LogsQL text to rows.

pub mod source;

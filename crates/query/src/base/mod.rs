//! What all other folders use: limits and errors of a query, its memory, sets and names of fields,
//! phrases, encoders, numbers and times as text.
//!
//! Left out: rows, the language, and anything that runs. This folder imports none of the others.

pub(crate) mod bitmap;
mod damage;
mod error;
pub(crate) mod expression;
mod field_set;
mod hidden_fields;
mod hold;
pub(crate) mod json;
mod limits;
mod meter;
pub(crate) mod names;
pub(crate) mod number;
pub(crate) mod parallel;
pub(crate) mod partial_state;
mod phrases;
pub(crate) mod pulse;
mod range;
pub(crate) mod sorted;
pub mod time;
mod time_order;
mod watch;

pub use damage::{DamagedUnit, Damages};
pub use error::{RunError, SourceError};
pub use field_set::FieldSet;
pub use hidden_fields::HiddenFields;
pub use hold::Hold;
pub(crate) use hold::Pauses;
pub use limits::{CHECK_ROWS, Limits, Outcome, Progress};
pub(crate) use meter::UnitMemory;
pub use meter::{Account, Buffer, Meter};
pub use phrases::{Phrase, Phrases};
pub use pulse::Pulse;
pub use range::{TimeRange, Whose};
pub use time_order::{LineSet, RowKey, TimeOrder};
pub(crate) use watch::{Watch, may_continue};

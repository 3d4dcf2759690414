//! Finds the patterns of log messages: texts such as `Connection from <*> closed`, which many
//! messages have in common.
//!
//! It works in two steps. Each message is reduced to its *skeleton*: values that are known by their
//! form (numbers, addresses, paths, times) are replaced by a mark. Messages are counted by
//! skeleton. Then, and only when patterns are requested, the few skeletons are compared with each
//! other to find words that vary, such as names of users.
//!
//! Because the first step looks at one message alone, counts of threads and machines are added up,
//! and the patterns do not depend on the order of the messages ([`Counts`] says what is
//! guaranteed). There is one configuration for all kinds of logs.
//!
//! Left out: what the values were, which is not kept.
//!
//! ```
//! use analysis::patterns::{Counts, Scratch};
//!
//! let (mut counts, mut scratch) = (Counts::new(Counts::SKELETONS_MAX), Scratch::default());
//! for port in [4711, 4712, 4713] {
//!     let message = format!("Connection from 10.0.0.7:{port} closed");
//!     counts.push(message.as_bytes(), Some(port), &mut scratch);
//! }
//! let patterns = counts.patterns();
//! assert_eq!(patterns[0].text, b"Connection from <*> closed");
//! assert_eq!(patterns[0].group.hits, 3);
//! ```

mod cluster;
mod counts;
mod lex;
mod pattern;
mod skeleton;
mod text;
mod value;

pub use counts::{Classifier, Counts, texts};
pub use lex::{is_space, trimmed};
pub use pattern::{EXAMPLE_BYTES_MAX, Group, PLACEHOLDER, Pattern, PatternId};
pub use skeleton::{SKELETON_BYTES_MAX, Scratch};

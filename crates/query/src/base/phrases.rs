//! Texts that a value must hold for a line to be selected, as a source is asked about them.

use std::any::Any;
use std::sync::OnceLock;

/// A text that a value must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phrase {
    /// The text.
    pub text: String,
    /// Whether the text must begin at the start of a word of the value.
    pub whole_start: bool,
    /// Whether the text must end at the end of a word of the value.
    pub whole_end: bool,
}

/// The phrases that a query needs, and what a source prepares from them. It prepares that once,
/// because a query may read very many units.
#[derive(Debug, Default)]
pub struct Phrases {
    pub(crate) all: Vec<Phrase>,
    made: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Phrases {
    /// All phrases.
    pub fn all(&self) -> &[Phrase] {
        &self.all
    }

    /// What `make` prepares from the phrases, computed at the first call. All units of a query must
    /// ask for the same type and value.
    pub fn made<T: Any + Send + Sync>(&self, make: impl FnOnce(&[Phrase]) -> T) -> &T {
        let made = self.made.get_or_init(|| Box::new(make(&self.all)));
        made.downcast_ref().expect("a source makes one thing of phrases")
    }
}

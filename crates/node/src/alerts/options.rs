//! How alerts are set up: a part of `[alerts]`.

use std::path::PathBuf;

use alerts::{Defaults, NotifierOptions, Reach};

/// How rules are evaluated, and who is told.
#[derive(Clone, Debug)]
pub struct AlertOptions {
    /// Folder whose files are rules; `None` when off.
    pub folder: Option<PathBuf>,
    /// What rule files need not say.
    pub defaults: Defaults,
    /// Threads that evaluate.
    pub threads: usize,
    /// The address of the page, for links; empty if it is not known.
    pub external_url: String,
    /// Who is told.
    pub notifiers: Vec<NotifierOptions>,
    /// Which addresses receivers may have that are made over the API; none: they are off.
    pub receivers: Option<Reach>,
}

impl Default for AlertOptions {
    fn default() -> Self {
        AlertOptions {
            folder: None,
            defaults: Defaults::default(),
            threads: 2,
            external_url: String::new(),
            notifiers: Vec::new(),
            receivers: Some(Reach::Outside),
        }
    }
}

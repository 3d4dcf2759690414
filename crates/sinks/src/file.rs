//! Files of JSON lines with rotation.
//!
//! Documents count as accepted when they are on disk (`fdatasync`). While the process runs, a
//! document is written once; after a crash, documents that were on disk and not acknowledged are
//! written again, with the same id. A deletion is a line with the id and `"deleted": true`; without
//! a field for the id it is ignored.

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::{Clock, SystemClock};
use crate::destination::{Delivered, Destination, Fault};
use crate::document::Document;
use crate::rotating::{RotatingFile, Rotation};

/// Bytes that are written at once. A larger document is written alone.
const WRITE_BYTES_MAX: usize = 8 << 20;

/// Options of the destination.
#[derive(Debug, Clone)]
pub struct FileOptions {
    /// The current file; rotated files are beside it.
    pub path: PathBuf,
    /// When files are rotated.
    pub rotation: Rotation,
    /// The field that gets the document's id; `None` to leave it out.
    pub id_field: Option<String>,
    /// The field that gets the document's time.
    pub time_field: String,
}

/// The destination.
pub struct Files {
    file: RotatingFile,
    options: FileOptions,
    clock: Arc<dyn Clock>,
}

impl Files {
    /// A destination that opens its file with the first documents.
    pub fn new(options: FileOptions) -> Files {
        Files::with_clock(options, Arc::new(SystemClock))
    }

    /// The same, with a clock that decides about the age of files.
    pub fn with_clock(options: FileOptions, clock: Arc<dyn Clock>) -> Files {
        let file = RotatingFile::new(options.path.clone(), options.rotation.clone());
        Files { file, options, clock }
    }
}

impl Destination for Files {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        let mut lines = Vec::new();
        let mut outcomes = Vec::new();
        let bytes_max = self.options.rotation.file_bytes_max.min(WRITE_BYTES_MAX as u64) as usize;
        for document in documents {
            let start = lines.len();
            let (time, id) = (&self.options.time_field, self.options.id_field.as_deref());
            let outcome = document.write_line(time, id, &mut lines);
            if !outcomes.is_empty() && lines.len() > bytes_max {
                lines.truncate(start);
                break;
            }
            outcomes.push(outcome);
        }
        if lines.is_empty() {
            return Delivered::Answered { outcomes, retry_after: None };
        }
        match self.file.append(&lines, self.clock.now_ns(), &mut |_| {}) {
            Ok(()) => Delivered::Answered { outcomes, retry_after: None },
            Err(error) => {
                let what = format!("cannot write {}: {error}", self.options.path.display());
                let remedy = "free disk space, or correct the folder and its permissions";
                Delivered::unavailable(Fault::new(what, remedy))
            }
        }
    }
}

#[cfg(test)]
mod tests;

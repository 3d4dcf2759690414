//! Frames that the parse stage cannot read: damaged, or the disk fails.
//!
//! A segment has about a thousand frames, and mostly fails as a whole; so the log gets one line
//! with numbers per pass instead of one per frame. Left out: frames that retention deleted before
//! they were parsed, which is intended, and counted elsewhere.

use store::StoreError;

/// The frames that one pass could not read.
#[derive(Default)]
pub struct Unreadable {
    frames: u64,
    lines: u64,
    first_error: Option<StoreError>,
}

impl Unreadable {
    /// Records a frame with `lines` lines.
    pub fn add(&mut self, lines: u64, error: StoreError) {
        self.frames += 1;
        self.lines += lines;
        self.first_error.get_or_insert(error);
    }

    /// Number of frames.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// The message for the log; `None` if all frames could be read.
    pub fn message(&self) -> Option<String> {
        let Unreadable { frames, lines, first_error } = self;
        let error = first_error.as_ref()?;
        Some(format!(
            "{frames} frames with {lines} lines cannot be read for parsing, and the summary counts them only if they can be read later; the first: {error}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_is_one_message() {
        let mut unreadable = Unreadable::default();
        assert_eq!((unreadable.frames(), unreadable.message()), (0, None));
        for (lines, error) in [(10, "no file"), (20, "a checksum")] {
            unreadable.add(lines, StoreError::Refused(error.into()));
        }
        let message = unreadable.message().unwrap();
        assert_eq!(unreadable.frames(), 2);
        assert!(message.starts_with("2 frames with 30 lines") && message.ends_with("no file"));
    }
}

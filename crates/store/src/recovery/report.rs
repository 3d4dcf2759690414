//! The report of recovery, for the log and for people.

use std::fmt;
use std::path::PathBuf;

/// What recovery found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Segments with frames.
    pub segments: u64,
    /// Of those, the segments without a valid index, whose every frame was read.
    pub segments_scanned: u64,
    /// Frames in all of them.
    pub frames: u64,
    /// Lines in all of them.
    pub lines: u64,
    /// Duration of recovery, milliseconds.
    pub elapsed_ms: u64,
    /// Bytes cut off at the ends of segments: writes that a crash interrupted. Usually they were
    /// never acknowledged; a copy is kept, as this cannot be told.
    pub dropped: Vec<Dropped>,
    /// Warnings for the operator: damage, missing files. Each names its file.
    pub warnings: Vec<String>,
}

/// Bytes cut off a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Number of the segment.
    pub segment: u64,
    /// Bytes cut off.
    pub bytes: u64,
    /// The file that has a copy of them.
    pub copy: PathBuf,
}

impl fmt::Display for RecoveryReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: u64| if n == 1 { "" } else { "s" };
        write!(
            f,
            "recovered {} line{} in {} segment{} in {} ms",
            thousands(self.lines),
            plural(self.lines),
            thousands(self.segments),
            plural(self.segments),
            thousands(self.elapsed_ms),
        )?;
        for (i, dropped) in self.dropped.iter().enumerate() {
            write!(
                f,
                "{} {} byte{} of an interrupted write at the end of segment {} (a copy is {})",
                if i == 0 { "; dropped" } else { "," },
                thousands(dropped.bytes),
                plural(dropped.bytes),
                dropped.segment,
                dropped.copy.display(),
            )?;
        }
        for warning in &self.warnings {
            write!(f, "; {warning}")?;
        }
        Ok(())
    }
}

/// A number with commas between groups of three digits.
pub(crate) fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_one_sentence() {
        let mut report = RecoveryReport {
            segments: 3,
            lines: 1_000_000,
            elapsed_ms: 12,
            ..RecoveryReport::default()
        };
        assert_eq!(report.to_string(), "recovered 1,000,000 lines in 3 segments in 12 ms");
        let copy = PathBuf::from("/d/7.hot.torn1");
        report.dropped.push(Dropped { segment: 7, bytes: 4096, copy });
        assert_eq!(
            report.to_string(),
            "recovered 1,000,000 lines in 3 segments in 12 ms; dropped 4,096 bytes of an interrupted write \
             at the end of segment 7 (a copy is /d/7.hot.torn1)"
        );
        let one = RecoveryReport { segments: 1, lines: 1, ..RecoveryReport::default() };
        assert_eq!(one.to_string(), "recovered 1 line in 1 segment in 0 ms");
    }
}

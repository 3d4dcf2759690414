//! The identity of a line, and its text.

use super::FrameError;

/// Identifies one line permanently, on every machine: the node that built its frame, the frame's
/// number there, and the index of the line in the frame. The id stays the same when the frame is
/// forwarded to another node, and when it is sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LineId {
    /// The node that built the frame.
    pub node: u32,
    /// Number of the frame on that node.
    pub sequence: u64,
    /// Index of the line in the frame, from 0.
    pub line: u32,
}

impl std::fmt::Display for LineId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}-{}-{}", self.node, self.sequence, self.line)
    }
}

impl std::str::FromStr for LineId {
    type Err = FrameError;
    fn from_str(s: &str) -> Result<Self, FrameError> {
        // Digits only: other accepted notations would give one id several texts.
        let decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let parse = || {
            let mut parts = s.split('-');
            let (node, sequence, line) = (parts.next()?, parts.next()?, parts.next()?);
            let is_node = node.len() == 8 && node.bytes().all(|byte| byte.is_ascii_hexdigit());
            if parts.next().is_some() || !is_node || !decimal(sequence) || !decimal(line) {
                return None;
            }
            Some(LineId {
                node: u32::from_str_radix(node, 16).ok()?,
                sequence: sequence.parse().ok()?,
                line: line.parse().ok()?,
            })
        };
        parse().ok_or_else(|| FrameError::LineId(s.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ids_round_trip_as_text() {
        for id in [
            LineId { node: 0x5f3a_09c1, sequence: 17, line: 42 },
            LineId { node: 0, sequence: u64::MAX, line: u32::MAX },
        ] {
            assert_eq!(id.to_string().parse(), Ok(id));
        }
        for text in [
            "",
            "5f3a09c1",
            "5f3a09c1-17",
            "17-42",
            "5f3a09c1-17-42-1",
            "f3a09c1-17-42",
            "5f3a09c1-+1-2",
            "x",
        ] {
            assert_eq!(text.parse::<LineId>(), Err(FrameError::LineId(text.to_owned())));
        }
    }
}

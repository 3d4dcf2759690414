//! The parts of a line before its message.

use super::time::Written;

/// Digits and value of a PRI.
pub(crate) type Priority<'a> = (&'a [u8], u16);

/// What stands before the message. Empty slices: not there.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head<'a> {
    pub priority: Option<Priority<'a>>,
    /// Severity from elsewhere than the PRI.
    pub severity: Option<u8>,
    /// `rfc5424`, `rfc3164`; none when the line is no syslog line.
    pub format: Option<&'static str>,
    pub written: Option<Written>,
    /// The sender says that its clock was never set.
    pub clock_unset: bool,
    pub hostname: &'a [u8],
    pub app_name: &'a [u8],
    pub proc_id: &'a [u8],
    pub msg_id: &'a [u8],
    pub sequence: &'a [u8],
    /// Structured data, checked, with its brackets.
    pub structured: &'a [u8],
    pub message: &'a [u8],
    pub note: Option<&'static str>,
}

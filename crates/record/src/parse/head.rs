//! The parts of a line before its message.

use super::level::LEVELS;
use super::time::Written;

/// Digits and value of a PRI.
pub(crate) type Priority<'a> = (&'a [u8], u16);

/// The syslog header before the message. Empty slices mean "not present".
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Head<'a> {
    pub priority: Option<Priority<'a>>,
    /// Severity from a source other than the PRI.
    pub severity: Option<u8>,
    /// The level that a device writes between host and application.
    pub level: Option<&'static str>,
    /// `rfc5424` or `rfc3164`; `None` if the line is not syslog.
    pub format: Option<&'static str>,
    pub written: Option<Written>,
    /// The sender says that its clock was never set.
    pub clock_unset: bool,
    pub hostname: &'a [u8],
    pub app_name: &'a [u8],
    /// The application is a first word without colon and process id.
    pub bare: bool,
    pub proc_id: &'a [u8],
    pub msg_id: &'a [u8],
    pub sequence: &'a [u8],
    /// Structured data, validated, with its brackets.
    pub structured: &'a [u8],
    pub message: &'a [u8],
    pub note: Option<&'static str>,
}

impl Head<'_> {
    /// The level that the head states beside the priority.
    pub fn own_level(&self) -> Option<&'static str> {
        self.level.or(self.severity.map(|severity| LEVELS[usize::from(severity)]))
    }
}

//! How a run can fail, in words for the operator who reads them at night.

use std::time::Duration;

use thiserror::Error;

use crate::rows::reader::OutputError;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
}

/// Why a run gives no rows.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ProgramError {
    /// No process could be started.
    #[error("the program could not be started: {message}")]
    Start {
        /// What the system said.
        message: String,
    },
    /// The process that applies the sandbox refused to go on.
    #[error("the program was not started, because its sandbox could not be applied: {message}")]
    Sandbox {
        /// What could not be applied.
        message: String,
    },
    /// It ended with an error.
    #[error("the program ended with exit code {code}{}", said(stderr))]
    Failed {
        /// The exit code.
        code: i32,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// A signal ended it that our own process did not send.
    #[error("the program was killed by signal {signal}: {}{}", signal_text(*signal), said(stderr))]
    Killed {
        /// The signal.
        signal: i32,
        /// The end of what it wrote to stderr.
        stderr: String,
    },
    /// It took too long at its input, or after the end of its input.
    #[error(
        "the program was killed, because it took longer than {timeout:?} ({}); look for an endless \
         loop, or raise `# timeout:` in its file",
        if *is_input_ended { "its input had ended" } else { "it did not read its input" }
    )]
    TimedOut {
        /// The limit.
        timeout: Duration,
        /// Whether it had its whole input.
        is_input_ended: bool,
    },
    /// Its output is not what a summary may be.
    #[error("the program was killed, because it {0}")]
    Output(#[from] OutputError),
    /// A pipe of the process failed in a way that no program causes.
    #[error("the pipes to the program failed: {message}")]
    Pipe {
        /// What the system said.
        message: String,
    },
}

fn said(stderr: &str) -> String {
    let stderr = stderr.trim();
    if stderr.is_empty() {
        " and wrote nothing to stderr".to_owned()
    } else {
        format!(": {stderr}")
    }
}

fn signal_text(signal: i32) -> &'static str {
    match signal {
        libc::SIGXCPU => "it used up its processor time; look for an endless loop",
        libc::SIGXFSZ => "it wrote to a file, which programs must not",
        libc::SIGSEGV | libc::SIGBUS => {
            "the interpreter crashed; endless recursion does that, or a fault of the interpreter"
        }
        libc::SIGSYS => "it made a system call that programs must not make",
        libc::SIGKILL => "by the kernel for lack of memory, or by another process",
        libc::SIGABRT => "the interpreter gave up",
        _ => "another process sent it, or the interpreter itself",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_sentences() {
        let error = ProgramError::Failed { code: 2, stderr: "awk: line 3: oops\n".into() };
        assert_eq!(error.to_string(), "the program ended with exit code 2: awk: line 3: oops");
        let error = ProgramError::Failed { code: 1, stderr: String::new() };
        assert_eq!(
            error.to_string(),
            "the program ended with exit code 1 and wrote nothing to stderr"
        );
        let error =
            ProgramError::TimedOut { timeout: Duration::from_secs(5), is_input_ended: false };
        assert!(error.to_string().contains("5s (it did not read its input)"), "{error}");
        let error = ProgramError::Output(OutputError::Bytes { bytes_max: 9 });
        assert!(error.to_string().contains("because it printed more than 9 bytes"), "{error}");
    }
}

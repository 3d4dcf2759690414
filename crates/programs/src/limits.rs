//! What a run may take. Each limit says what happens beyond it.

use std::path::PathBuf;
use std::time::Duration;

/// Limits of the output of one run.
#[derive(Clone, Copy, Debug)]
pub struct OutputLimits {
    /// Bytes that a process may print; beyond, the run fails. Bounds the memory of its rows.
    ///
    /// limits.md, Programs of users: output of a run | 16 MiB, 100,000 rows | the run is killed and
    /// fails
    pub bytes_max: u64,
    /// Rows that a process may print; beyond, the run fails.
    pub rows_max: u64,
    /// Bytes of one line; a longer line is rejected as a row.
    ///
    /// limits.md, Programs of users: a line of output | 64 KiB, 256 fields, names of 256 bytes,
    /// objects in objects 4 deep | the line is rejected and counted, the first 10 are kept; after
    /// 100 rejected lines the run is killed and fails
    pub line_bytes_max: usize,
    /// Fields of one row; a row with more is rejected.
    pub fields_max: usize,
    /// Lines that are no rows; beyond, the run fails.
    pub garbage_lines_max: u64,
}

impl Default for OutputLimits {
    fn default() -> Self {
        Self {
            bytes_max: 16 << 20,
            rows_max: 100_000,
            line_bytes_max: 64 << 10,
            fields_max: 256,
            garbage_lines_max: 100,
        }
    }
}

/// Limits of one process.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Address space in bytes; beyond, the allocations of the program fail, and it ends with an
    /// error.
    ///
    /// limits.md, Programs of users: memory of a process | 512 MiB of address space | its
    /// allocations fail, and it ends with an error
    pub memory_bytes_max: u64,
    /// Processor time of a run, in seconds; beyond, the kernel kills the program.
    ///
    /// limits.md, Programs of users: processor time of a run | 60 s | the kernel kills it, and the
    /// run fails
    pub cpu_s_max: u64,
    /// Open files; the program has three, and the loader of libraries needs one more.
    pub open_files_max: u64,
    /// Added to the niceness of our own process, so that programs give way to it.
    pub nice: i32,
    /// Waiting for the program, if its definition does not say how long: the time during which its
    /// pipe is full, and the time after the end of its input. Beyond, the run is killed.
    ///
    /// limits.md, Programs of users: waiting for a program to read, and after the end of its input
    /// | 5 s each, `# timeout:` in the program | the run is killed and fails
    pub timeout: Duration,
    /// The output.
    pub output: OutputLimits,
    /// Bytes of stderr that are kept, the last ones.
    ///
    /// limits.md, Programs of users: stderr | the last 4 KiB are kept | what was before is dropped
    pub stderr_bytes_max: usize,
    /// Files and folders that the program may read besides its interpreter and the libraries of
    /// the system; for systems that keep libraries elsewhere.
    pub read_paths: Vec<PathBuf>,
    /// Time zone of the program (`TZ`).
    pub time_zone: String,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes_max: 512 << 20,
            cpu_s_max: 60,
            open_files_max: 16,
            nice: 10,
            timeout: Duration::from_secs(5),
            output: OutputLimits::default(),
            stderr_bytes_max: 4096,
            read_paths: Vec::new(),
            time_zone: "UTC".to_owned(),
        }
    }
}

//! Limits of the kernel for one process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Spec;

/// All but the address space.
pub(super) fn apply(spec: &Spec) -> Result<(), String> {
    // The signal at the soft limit says what happened; at the hard limit comes SIGKILL.
    limit(Resource::Cpu, spec.cpu_s_max, spec.cpu_s_max + 1)?;
    limit(Resource::Fsize, 0, 0)?;
    limit(Resource::Core, 0, 0)?;
    limit(Resource::Nofile, spec.open_files_max, spec.open_files_max)?;
    // Does not hold for root, which seccomp holds back.
    limit(Resource::Nproc, 0, 0)?;
    limit(Resource::Memlock, 0, 0)?;
    limit(Resource::Msgqueue, 0, 0)
}

/// The address space.
pub(super) fn limit_memory(spec: &Spec) -> Result<(), String> {
    limit(Resource::As, spec.memory_bytes_max, spec.memory_bytes_max)
}

/// Sets a limit, or keeps the hard limit that is there if it is lower.
fn limit(resource: Resource, soft: u64, hard: u64) -> Result<(), String> {
    let maximum = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let new = Rlimit { current: Some(soft.min(maximum)), maximum: Some(hard.min(maximum)) };
    setrlimit(resource, new).map_err(|error| format!("limit {resource:?}: {error}"))
}

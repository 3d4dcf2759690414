//! Seccomp: system calls that fail with EPERM.
//!
//! The list names what AWK could be made to do (`system`, pipes to commands, gawk's sockets) and
//! what a faulty interpreter should not do. It names calls to refuse, not calls to allow: the
//! latter differ between libraries and versions, and an interpreter that cannot start helps nobody.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Refused on every architecture.
const REFUSED: [libc::c_long; 46] = [
    // New processes and threads.
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_setsid,
    libc::SYS_setpgid,
    // Other processes.
    libc::SYS_kill,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    // Network.
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    // The file system and the machine.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_truncate,
    libc::SYS_mknodat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_setuid,
];

/// Older forms of the same calls.
#[cfg(target_arch = "x86_64")]
const REFUSED_OLD: [libc::c_long; 7] = [
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_mknod,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_chmod,
    libc::SYS_chown,
];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_OLD: [libc::c_long; 0] = [];

/// Restricts this process, for good.
pub(super) fn restrict() -> Result<(), String> {
    let rules: BTreeMap<i64, Vec<_>> =
        REFUSED.iter().chain(&REFUSED_OLD).map(|call| (*call, Vec::new())).collect();
    let arch = std::env::consts::ARCH.try_into().map_err(|e| format!("architecture: {e}"))?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch);
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error| error.to_string())?;
    seccompiler::apply_filter(&program).map_err(|error| error.to_string())
}

//! Datagrams that the kernel dropped because a socket's receive buffer was full.
//!
//! The socket reports the number of drops since it was opened (`SO_MEMINFO`, Linux 4.12 and later).
//! `/proc/net/udp` has the same number, but is read piece by piece: while other sockets open and
//! close, one reading in three misses a row. The counter has 32 bits and wraps around; it must be
//! read more often than that.
#![expect(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use nix::libc;

/// Upper bound on the numbers the kernel reports for a socket. Later kernels may have more; they
/// report as many as there is room for.
const NUMBERS: usize = 16;

/// The drops of one socket counted so far.
#[derive(Debug, Default)]
pub(crate) struct KernelDrops {
    counted: u32,
}

impl KernelDrops {
    /// Datagrams that the socket dropped since the last call.
    pub fn new_drops(&mut self, socket: impl AsFd) -> io::Result<u64> {
        let drops = drops_of(socket)?;
        let new_drops = drops.wrapping_sub(self.counted);
        self.counted = drops;
        Ok(u64::from(new_drops))
    }
}

fn drops_of(socket: impl AsFd) -> io::Result<u32> {
    let mut numbers = [0u32; NUMBERS];
    let mut bytes = size_of_val(&numbers) as libc::socklen_t;
    // SAFETY: the descriptor is borrowed, so it is open. `numbers` has room for `bytes` bytes; the
    // kernel writes at most that many and stores the count in `bytes`. Any bytes are valid numbers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            numbers.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let drops = libc::SK_MEMINFO_DROPS as usize;
    if (bytes as usize) < (drops + 1) * size_of::<u32>() {
        return Err(io::Error::other(
            "the kernel does not report how many datagrams a socket dropped",
        ));
    }
    Ok(numbers[drops])
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::*;

    #[test]
    fn drops_of_a_real_socket_are_counted_once_while_others_come_and_go() {
        let others = || {
            for _ in 0..100 {
                let bind = |_| UdpSocket::bind("127.0.0.1:0").unwrap();
                drop((0..500).map(bind).collect::<Vec<_>>());
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(others);
            for address in ["127.0.0.1:0", "[::1]:0"].repeat(50) {
                let socket = UdpSocket::bind(address).unwrap();
                rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
                let mut drops = KernelDrops::default();
                assert_eq!(drops.new_drops(&socket).unwrap(), 0);
                let sender = UdpSocket::bind(address).unwrap();
                for _ in 0..1000 {
                    sender.send_to(&[0; 500], socket.local_addr().unwrap()).unwrap();
                }
                let dropped = drops.new_drops(&socket).unwrap();
                assert_eq!(drops.new_drops(&socket).unwrap(), 0);
                socket.set_nonblocking(true).unwrap();
                let kept = std::iter::from_fn(|| socket.recv(&mut [0; 500]).ok()).count() as u64;
                assert!(dropped > 0);
                assert_eq!(kept + dropped, 1000);
            }
        });
    }

    #[test]
    fn a_non_socket_is_an_error() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(KernelDrops::default().new_drops(&file).is_err());
    }
}

//! Datagrams that the kernel dropped because a socket's receive buffer was full, from `/proc/net/udp{,6}`.
//!
//! The last column of a socket's row counts its drops since it was opened (proc_pid_net(5)). A row is found by
//! the socket's inode. The kernel's counter has 32 bits and wraps around; it must be read before that.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;

/// Place of the inode in a row.
const INODE_COLUMN: usize = 9;
/// Place of the drops in a row.
const DROPS_COLUMN: usize = 12;

/// Reads the drops of one socket.
#[derive(Debug)]
pub(crate) struct KernelDrops {
    table: &'static str,
    inode: u64,
    counted: u32,
}

impl KernelDrops {
    /// For that socket.
    pub fn of(socket: impl AsFd, ipv6: bool) -> io::Result<Self> {
        let inode = rustix::fs::fstat(socket)?.st_ino;
        let table = if ipv6 { "/proc/net/udp6" } else { "/proc/net/udp" };
        Ok(KernelDrops { table, inode, counted: 0 })
    }

    /// Datagrams dropped since this was last asked.
    pub fn new_drops(&mut self) -> io::Result<u64> {
        let drops = find_drops(BufReader::new(File::open(self.table)?), self.inode)?;
        let new_drops = drops.wrapping_sub(self.counted);
        self.counted = drops;
        Ok(u64::from(new_drops))
    }
}

fn find_drops(table: impl BufRead, inode: u64) -> io::Result<u32> {
    let inode = inode.to_string();
    for row in table.lines().skip(1) {
        let row = row?;
        let mut columns = row.split_ascii_whitespace().skip(INODE_COLUMN);
        if columns.next() == Some(inode.as_str()) {
            let drops = columns.nth(DROPS_COLUMN - INODE_COLUMN - 1).and_then(|d| d.parse().ok());
            return drops.ok_or_else(|| io::Error::other(format!("no count of drops in '{row}'")));
        }
    }
    Err(io::Error::other(format!("no row for the socket with inode {inode}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops
 6546: 0100007F:EA31 00000000:0000 07 00000000:00001D40 00:00000000 00000000     0        0 47952 2 00000000e7bf548b 991
12040: 00000000:BFA7 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 4795 2 0000000021240a7e 4294967295
13746: 0100007F:EA32 00000000:0000 07 00000000:00001D40 00:00000000 00000000     0        0 47 2 00000000e7bf548b
";

    #[test]
    fn the_row_is_found_by_inode() {
        let check = |inode: u64, expected: Option<u32>| {
            assert_eq!(find_drops(TABLE.as_bytes(), inode).ok(), expected, "inode {inode}");
        };
        check(47952, Some(991));
        check(4795, Some(u32::MAX));
        check(47, None);
        check(1, None);
        assert!(find_drops(&b""[..], 1).is_err());
    }

    #[test]
    fn drops_of_a_real_socket_are_counted_once() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let socket = std::net::UdpSocket::bind(address).unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 4096).unwrap();
            let mut drops = KernelDrops::of(&socket, address.starts_with('[')).unwrap();
            assert_eq!(drops.new_drops().unwrap(), 0);
            let sender = std::net::UdpSocket::bind(address).unwrap();
            for _ in 0..1000 {
                sender.send_to(&[0; 500], socket.local_addr().unwrap()).unwrap();
            }
            let dropped = drops.new_drops().unwrap();
            assert_eq!(drops.new_drops().unwrap(), 0);
            socket.set_nonblocking(true).unwrap();
            let kept = std::iter::from_fn(|| socket.recv(&mut [0; 500]).ok()).count() as u64;
            assert_eq!(kept + dropped, 1000);
        }
    }
}

//! Buffers for the datagrams of one recvmmsg(2): a single system call receives up to
//! [`BATCH_DATAGRAMS_MAX`] of them.
//!
//! Each datagram has a slot of the largest datagram's length, since the lengths are not known
//! beforehand. For the same reason they are not read into the frame itself: the gaps between them
//! would have to be closed by moving data, which costs as much as one copy out of a slot that is
//! still in the cache. Pages of a slot that no datagram reached are never touched, so the buffers
//! use only as much memory as the datagrams are long, at most 4.2 MiB.
//!
//! Left out: generic receive offload (UDP_GRO). It joins datagrams of one sender and one size
//! before they are queued, but log senders are many and their lines differ in length. In addition,
//! joined datagrams count as one drop when the receive buffer is full: of 10,000 datagrams sent in
//! bursts of 50 to a full socket, 1,250 were received and 175 counted as dropped. The rest would be
//! lost without being counted.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrStorage, recvmmsg};

use crate::source::canonical;

/// Datagrams per call. More would save little (the call is a hundredth of their cost) and use more
/// of the cache.
pub(crate) const BATCH_DATAGRAMS_MAX: usize = 64;
/// The longest datagram, more than IPv4 or IPv6 without jumbograms can carry: none is cut.
const DATAGRAM_BYTES_MAX: usize = 64 << 10;
/// Distance between slots. An odd number of cache lines more than a power of two, because mostly
/// only the beginning of a slot is used, and the beginnings should not share the same few cache
/// sets.
const SLOT_BYTES: usize = DATAGRAM_BYTES_MAX + 33 * 64;

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram<'a> {
    /// The sender's address.
    pub sender: SocketAddr,
    /// The content.
    pub bytes: &'a [u8],
    /// Whether it was longer than its slot, so that the rest is lost.
    pub cut: bool,
}

/// Buffers for a batch, reused for each.
pub(crate) struct Datagrams {
    headers: MultiHeaders<SockaddrStorage>,
    buffer: Vec<u8>,
    datagram_bytes_max: usize,
    received: Vec<Received>,
}

/// Metadata of the datagram in a slot.
struct Received {
    sender: SocketAddr,
    bytes: usize,
    cut: bool,
}

impl Datagrams {
    pub fn new() -> Self {
        Self::of_bytes_max(DATAGRAM_BYTES_MAX)
    }

    fn of_bytes_max(datagram_bytes_max: usize) -> Self {
        Datagrams {
            headers: MultiHeaders::preallocate(BATCH_DATAGRAMS_MAX, None),
            buffer: vec![0; BATCH_DATAGRAMS_MAX * SLOT_BYTES],
            datagram_bytes_max,
            received: Vec::with_capacity(BATCH_DATAGRAMS_MAX),
        }
    }

    /// Receives the queued datagrams, up to [`BATCH_DATAGRAMS_MAX`], in the order of arrival;
    /// [`io::ErrorKind::WouldBlock`] if there are none. Does not wait and does not allocate.
    pub fn receive<'a>(
        &'a mut self,
        socket: BorrowedFd<'_>,
    ) -> io::Result<impl ExactSizeIterator<Item = Datagram<'a>> + use<'a>> {
        let mut slots = self.buffer.chunks_exact_mut(SLOT_BYTES);
        let mut slots: [_; BATCH_DATAGRAMS_MAX] = std::array::from_fn(|_| {
            let slot = slots.next().expect("a slot for each");
            [IoSliceMut::new(&mut slot[..self.datagram_bytes_max])]
        });
        let flags = MsgFlags::MSG_DONTWAIT;
        let messages =
            recvmmsg(socket.as_raw_fd(), &mut self.headers, slots.iter_mut(), flags, None)?;
        self.received.clear();
        self.received.extend(messages.map(|message| Received {
            sender: message.address.as_ref().and_then(sender).expect("bound to an IP address"),
            bytes: message.bytes,
            cut: message.flags.contains(MsgFlags::MSG_TRUNC),
        }));
        let slots = self.buffer.chunks_exact(SLOT_BYTES);
        Ok(self.received.iter().zip(slots).map(|(received, slot)| Datagram {
            sender: received.sender,
            bytes: &slot[..received.bytes],
            cut: received.cut,
        }))
    }
}

/// The address of the sender. An IPv4-mapped address (from a dual-stack socket) becomes an IPv4
/// address.
fn sender(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(&v4) = address.as_sockaddr_in() {
        return Some(v4.into());
    }
    address.as_sockaddr_in6().map(|&v6| canonical(SocketAddr::from(v6)))
}

#[cfg(test)]
mod tests {
    use std::iter;
    use std::net::UdpSocket;
    use std::os::fd::AsFd;

    use proptest::prelude::*;
    use socket2::SockRef;

    use super::*;
    use crate::udp::enlarge_receive_buffer;

    fn pair(address: &str) -> (UdpSocket, UdpSocket) {
        let receiver = UdpSocket::bind(address).unwrap();
        let sender = UdpSocket::bind(address).unwrap();
        sender.connect(receiver.local_addr().unwrap()).unwrap();
        (receiver, sender)
    }

    #[test]
    fn batches_end_at_their_limit_and_slots_are_used_again() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let (receiver, sender) = pair(address);
            let mut datagrams = Datagrams::new();
            for count in [BATCH_DATAGRAMS_MAX - 1, BATCH_DATAGRAMS_MAX, BATCH_DATAGRAMS_MAX + 1, 1]
            {
                let sent: Vec<Vec<u8>> =
                    (0..count).map(|n| vec![n as u8; fastrand::usize(..300)]).collect();
                for datagram in &sent {
                    sender.send(datagram).unwrap();
                }
                for expected in sent.chunks(BATCH_DATAGRAMS_MAX) {
                    let received = datagrams.receive(receiver.as_fd()).unwrap();
                    assert_eq!(received.len(), expected.len());
                    for (received, expected) in received.zip(expected) {
                        let sender = sender.local_addr().unwrap();
                        assert_eq!(received, Datagram { sender, bytes: expected, cut: false });
                    }
                }
                let none = datagrams.receive(receiver.as_fd()).map(|received| received.len());
                assert_eq!(none.unwrap_err().kind(), io::ErrorKind::WouldBlock);
            }
        }
    }

    #[test]
    fn a_datagram_longer_than_its_slot_is_known_as_cut() {
        let (receiver, sender) = pair("127.0.0.1:0");
        let mut datagrams = Datagrams::of_bytes_max(100);
        for bytes in [99, 100, 101, 0, 65_507] {
            sender.send(&vec![7; bytes]).unwrap();
        }
        let received: Vec<(usize, bool)> = datagrams
            .receive(receiver.as_fd())
            .unwrap()
            .map(|datagram| (datagram.bytes.len(), datagram.cut))
            .collect();
        assert_eq!(received, [(99, false), (100, false), (100, true), (0, false), (100, true)]);
    }

    proptest! {
        #[test]
        fn batches_hold_what_single_reads_give(
            datagrams in prop::collection::vec((0..3usize, 0..2000usize, any::<u8>()), 0..150),
        ) {
            let (in_batches, one_by_one) = (pair("127.0.0.1:0").0, pair("127.0.0.1:0").0);
            let senders = [0; 3].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
            for receiver in [&in_batches, &one_by_one] {
                receiver.set_nonblocking(true).unwrap();
                enlarge_receive_buffer(&SockRef::from(receiver), 4 << 20).unwrap();
                for &(sender, bytes, first) in &datagrams {
                    let datagram: Vec<u8> = (0..bytes).map(|n| first.wrapping_add(n as u8)).collect();
                    senders[sender].send_to(&datagram, receiver.local_addr().unwrap()).unwrap();
                }
            }
            let mut room = vec![0; DATAGRAM_BYTES_MAX];
            let single = iter::from_fn(|| {
                let (bytes, sender) = one_by_one.recv_from(&mut room).ok()?;
                Some((sender, room[..bytes].to_vec()))
            });
            let single: Vec<_> = single.collect();
            let mut batches = Datagrams::new();
            let mut received = Vec::new();
            while let Ok(batch) = batches.receive(in_batches.as_fd()) {
                received.extend(batch.map(|datagram| (datagram.sender, datagram.bytes.to_vec())));
            }
            prop_assert_eq!(received, single);
        }
    }
}

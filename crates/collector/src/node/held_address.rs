//! Addresses at which a listener of a test may listen again.

use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Socket, Type};

/// An address of loopback. Until it is dropped, the system gives its port to nobody who asks for
/// any, because a socket that does not listen has it too.
pub struct HeldAddress {
    pub address: SocketAddr,
    _held: Socket,
}

impl HeldAddress {
    pub fn take() -> HeldAddress {
        let held = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // Listeners set it too: then several sockets may have the port, as long as one of them
        // listens at most.
        held.set_reuse_address(true).unwrap();
        held.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        let address = held.local_addr().unwrap().as_socket().unwrap();
        HeldAddress { address, _held: held }
    }
}

//! A connection that ends when its client takes nothing of what is written to it, and says so.
//!
//! Invariant: whatever is dropped by the task of such a connection can ask [`client_has_stalled`]
//! why. Left out: the same for WebSockets, which leave the task; they end and are counted all the
//! same.

use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::http::wire::listen::Clients;

tokio::task_local! {
    /// Of the connection that this task serves: whether its client took nothing for too long.
    pub static STALLED: Arc<AtomicBool>;
}

/// Whether the connection that this task serves has ended because its client took nothing of its
/// answer.
pub fn client_has_stalled() -> bool {
    STALLED.try_with(|stalled| stalled.load(Relaxed)).unwrap_or(false)
}

/// A connection. See the module.
pub struct Watched {
    stream: TcpStream,
    peer: SocketAddr,
    clients: Clients,
    stalled: Arc<AtomicBool>,
}

impl Watched {
    /// Asks the kernel to end the connection when what is written is not taken.
    pub fn new(stream: TcpStream, peer: SocketAddr, clients: &Clients) -> Watched {
        // Answers are written as whole pieces; waiting for more to send only adds delay. Failing is
        // harmless.
        let _ = stream.set_nodelay(true);
        let idle_ms = u32::try_from(clients.idle_max.as_millis()).unwrap_or(u32::MAX);
        if let Err(error) = set_tcp_user_timeout(&stream, idle_ms) {
            tracing::warn!(%error, "a client that takes nothing of its answer keeps its place: no TCP_USER_TIMEOUT");
        }
        Watched { stream, peer, clients: clients.clone(), stalled: Arc::default() }
    }

    /// The first byte that the client sent, without taking it; none when it sent nothing and is
    /// gone.
    pub async fn peek_first(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        Ok((self.stream.peek(&mut first).await? > 0).then_some(first[0]))
    }

    /// Becomes true when the client took nothing for too long.
    pub fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stalled)
    }

    /// Looks at what the kernel said. Whoever waits to write may be told by a read.
    fn look<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &polled
            && error.kind() == ErrorKind::TimedOut
            && !self.stalled.swap(true, Relaxed)
        {
            self.clients.stalled.fetch_add(1, Relaxed);
            tracing::info!(
                "HTTP connection from {} closed: its client took nothing of the answer for {} s (query.client_idle_max)",
                self.peer,
                self.clients.idle_max.as_secs_f64()
            );
        }
        polled
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(context, buffer);
        self.look(polled)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.look(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.look(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(context);
        self.look(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(context);
        self.look(polled)
    }
}

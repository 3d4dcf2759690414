//! A connection that ends when its client reads nothing of what is written to it, and records that.
//!
//! Invariant: code that is dropped by the task of such a connection can find the reason with
//! [`client_has_stalled`]. Left out: that information for WebSockets, which leave the task; they
//! are closed and counted like the others.

use std::io::{self, ErrorKind, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll};

use rustix::net::sockopt::set_tcp_user_timeout;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::wire::listen::Clients;

tokio::task_local! {
    /// Whether the client of the connection that this task serves read nothing for too long.
    pub static STALLED: Arc<AtomicBool>;
}

/// Whether the connection that this task serves has ended because its client read nothing of its
/// response.
pub fn client_has_stalled() -> bool {
    STALLED.try_with(|stalled| stalled.load(Relaxed)).unwrap_or(false)
}

/// A connection whose client is watched. See the module.
pub struct Watched {
    stream: TcpStream,
    peer: SocketAddr,
    clients: Clients,
    stalled: Arc<AtomicBool>,
}

impl Watched {
    /// Makes the kernel end the connection when the client does not read what is written.
    pub fn new(stream: TcpStream, peer: SocketAddr, clients: &Clients) -> Watched {
        // Responses are written in whole chunks; waiting for more data would only add delay.
        // Failing is harmless.
        let _ = stream.set_nodelay(true);
        let idle_ms = u32::try_from(clients.idle_max.as_millis()).unwrap_or(u32::MAX);
        if let Err(error) = set_tcp_user_timeout(&stream, idle_ms) {
            tracing::warn!(%error, "TCP_USER_TIMEOUT cannot be set; a client that reads nothing of its response keeps its connection");
        }
        Watched { stream, peer, clients: clients.clone(), stalled: Arc::default() }
    }

    /// The first byte that the client sent, without consuming it; `None` if it sent nothing and is
    /// gone.
    pub async fn peek_first(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        Ok((self.stream.peek(&mut first).await? > 0).then_some(first[0]))
    }

    /// The first bytes that the client sends, without consuming them. Of a client that sends them
    /// in parts, there are fewer; the rest is zeros.
    pub async fn first_bytes<const N: usize>(&self) -> io::Result<[u8; N]> {
        let mut first = [0; N];
        self.stream.peek(&mut first).await?;
        Ok(first)
    }

    /// Counts and tells of a connection whose first bytes are not those of HTTP.
    pub fn ring(&self, first: &[u8]) {
        self.clients.bells.is_foreign(first, self.peer);
    }

    /// Becomes true when the client read nothing for too long.
    pub fn stalled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stalled)
    }

    /// Checks a result of the kernel for a timeout. A pending write may learn of it by a read.
    fn look<T>(&self, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &polled
            && error.kind() == ErrorKind::TimedOut
            && !self.stalled.swap(true, Relaxed)
        {
            self.clients.stalled.fetch_add(1, Relaxed);
            tracing::info!(
                "HTTP connection from {} closed: its client read nothing of the response for {} s (query.client_idle_max)",
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

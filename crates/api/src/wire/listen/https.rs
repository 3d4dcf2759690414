//! HTTPS: the TLS handshake of a connection. The connection uses the certificate that is in use
//! when the handshake begins.
//!
//! TLS 1.2 and 1.3. The library and the handling of files are those of syslog over TLS
//! ([`collector::tls`]): changed files are reloaded, and the old certificate stays in use if the
//! new files cannot be used.
//!
//! Left out: client certificates. Users and tokens authenticate callers.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use collector::Credentials;
use collector::tls::LOOK_INTERVAL;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::server::TlsStream;

use super::HTTP2_ALPN;
use super::watched::Watched;

/// Time limit of a handshake. Beyond it the connection is closed.
///
/// limits.md, Lines on their way in: handshakes of HTTPS | {} each | the connection is closed.
/// Until its handshake is done, a connection may lose its seat to another, like a connection that
/// waits for its first request
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes read from a client that does not speak TLS, and the time for that.
const UNENCRYPTED_BYTES_MAX: u64 = 64 << 10;
const UNENCRYPTED_TIME_MAX: Duration = Duration::from_secs(2);
/// The first byte of a handshake (RFC 8446, §5.1).
const TLS_HANDSHAKE: u8 = 22;
/// The response to a client that does not speak TLS.
const NOT_ENCRYPTED: &str = "HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
    content-length: 73\r\nconnection: close\r\n\r\n\
    {\"error\":\"this server speaks HTTPS here; write https:// in the address\"}\n";

/// Certificate and counters of a listener with HTTPS.
pub struct Tls {
    credentials: Arc<Credentials>,
    failed: AtomicU64,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl Tls {
    /// A listener with these credentials.
    pub fn new(credentials: Arc<Credentials>) -> Arc<Tls> {
        Arc::new(Tls { credentials, failed: AtomicU64::new(0) })
    }

    /// The certificate in use.
    pub fn credentials(&self) -> &Arc<Credentials> {
        &self.credentials
    }

    /// Handshakes that failed.
    pub fn failed(&self) -> u64 {
        self.failed.load(Relaxed)
    }

    /// Checks every [`LOOK_INTERVAL`] whether the files have changed. Does not return.
    pub async fn follow_files(self: Arc<Tls>) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            let tls = Arc::clone(&self);
            if let Err(error) = tokio::task::spawn_blocking(move || tls.credentials.look()).await {
                tracing::error!("checking the certificate of HTTPS: {error}");
            }
        }
    }

    /// Performs the handshake of a connection; `None` if it fails.
    pub async fn accept(&self, stream: Watched, peer: SocketAddr) -> Option<TlsStream<Watched>> {
        match tokio::time::timeout(HANDSHAKE_TIME_MAX, self.shake_hands(stream)).await {
            Ok(Ok(stream)) => Some(stream),
            Ok(Err(None)) => None,
            Ok(Err(Some(error))) => self.fail(peer, &error),
            Err(_) => self.fail(peer, "it was not complete in time"),
        }
    }

    /// The error is `None` if the client closed the connection without sending a byte, as health
    /// checks do.
    async fn shake_hands(&self, stream: Watched) -> Result<TlsStream<Watched>, Option<String>> {
        match stream.peek_first().await {
            Err(error) => return Err(Some(error.to_string())),
            Ok(None) => return Err(None),
            Ok(Some(TLS_HANDSHAKE)) => {}
            Ok(Some(_)) => {
                // An error here means that the client is gone.
                let _ = tell_without_tls(stream).await;
                return Err(Some("the client does not speak TLS".to_owned()));
            }
        }
        let mut config = ServerConfig::clone(&self.credentials.config());
        // The first one that the client offers too: HTTP/2 for those that speak nothing else.
        config.alpn_protocols = vec![b"http/1.1".to_vec(), HTTP2_ALPN.to_vec()];
        let acceptor = TlsAcceptor::from(Arc::new(config));
        acceptor.accept(stream).await.map_err(|error| Some(error.to_string()))
    }

    fn fail(&self, peer: SocketAddr, why: &str) -> Option<TlsStream<Watched>> {
        self.failed.fetch_add(1, Relaxed);
        tracing::debug!("the TLS handshake of {peer} failed: {why}");
        None
    }
}

/// Responds to a client that does not speak TLS in the protocol that it probably speaks.
async fn tell_without_tls(mut stream: Watched) -> io::Result<()> {
    stream.write_all(NOT_ENCRYPTED.as_bytes()).await?;
    stream.shutdown().await?;
    // Closing while bytes of the request are unread would reset the connection, and the client
    // would not see the response.
    let mut rest = stream.take(UNENCRYPTED_BYTES_MAX);
    tokio::time::timeout(UNENCRYPTED_TIME_MAX, tokio::io::copy(&mut rest, &mut tokio::io::sink()))
        .await??;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_without_tls_is_as_long_as_it_says() {
        let (head, body) = NOT_ENCRYPTED.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}

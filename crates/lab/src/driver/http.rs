//! HTTP, for stores with an HTTP API: a client with connections of its own for each thread of load.
//!
//! Requests are sent to the endpoints in turn. Nothing is retried: a failed request is an error
//! that counts. Proxies of the environment are not used, and there is no TLS.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::Method;

use super::StoreError;

/// Time limit for connecting, which distinguishes a dead machine from a slow one.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Limit of one response; more is an error, because no operation of the lab requests so much.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A client of one store.
pub(crate) struct Http {
    store: String,
    endpoints: Vec<String>,
    next: AtomicUsize,
    client: reqwest::Client,
    timeout: Duration,
}

/// A response of any status.
pub(crate) struct Reply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// A client without TLS and without proxies.
///
/// The client gets TLS that trusts nobody. Another crate of the same build turns on TLS in
/// `reqwest` without a provider of cryptography; then a client that names none panics when it is
/// built.
pub(crate) fn plain_client() -> reqwest::ClientBuilder {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("ring has the cipher suites of these versions")
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    reqwest::Client::builder().no_proxy().tls_backend_preconfigured(tls)
}

impl Http {
    /// For the `host:port`s of a store; `first` is the index of the one to begin with.
    pub fn new(store: &str, endpoints: &[String], first: usize, timeout: Duration) -> Http {
        let client = plain_client()
            .connect_timeout(CONNECT_TIMEOUT.min(timeout))
            .build()
            .expect("a client without TLS needs nothing of the system");
        let (store, endpoints) = (store.to_owned(), endpoints.to_vec());
        Http { store, endpoints, next: AtomicUsize::new(first), client, timeout }
    }

    /// The name of the store.
    pub fn store(&self) -> &str {
        &self.store
    }

    /// A client for each of the `host:port`s, for stores whose endpoints are shards.
    pub fn each(store: &str, endpoints: &[String], timeout: Duration) -> Vec<Http> {
        let client =
            |endpoint: &String| Http::new(store, std::slice::from_ref(endpoint), 0, timeout);
        endpoints.iter().map(client).collect()
    }

    /// Sends a request to the next endpoint, and reads the whole response. The path begins with `/`
    /// and is encoded.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: impl Into<reqwest::Body>,
    ) -> Result<Reply, StoreError> {
        self.send_within(self.timeout, method, path, content_type, body).await
    }

    /// Like [`Http::send`], with a time limit of its own.
    pub async fn send_within(
        &self,
        timeout: Duration,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: impl Into<reqwest::Body>,
    ) -> Result<Reply, StoreError> {
        let mut response = self.response(timeout, method, path, content_type, body).await?;
        let status = response.status().as_u16();
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.failed(&e, timeout))? {
            if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                return Err(self.answer(format!("more than {ANSWER_BYTES_MAX} bytes")));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { status, body })
    }

    /// Sends a request like [`Http::send_within`], and hands over the lines of the response one by
    /// one, of whatever number.
    pub async fn lines(
        &self,
        timeout: Duration,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: impl Into<reqwest::Body>,
        mut take: impl FnMut(&[u8]),
    ) -> Result<(), StoreError> {
        let mut response = self.response(timeout, method, path, content_type, body).await?;
        if !response.status().is_success() {
            return Err(self.refused(format!("status {}", response.status())));
        }
        // The beginning of a line whose end is in the next chunk.
        let mut begun: Vec<u8> = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|e| self.failed(&e, timeout))? {
            for piece in chunk.split_inclusive(|byte| *byte == b'\n') {
                begun.extend_from_slice(piece);
                if piece.ends_with(b"\n") {
                    take(&begun);
                    begun.clear();
                } else if begun.len() > ANSWER_BYTES_MAX {
                    return Err(self.answer(format!("a line of {ANSWER_BYTES_MAX} bytes")));
                }
            }
        }
        if !begun.is_empty() {
            take(&begun);
        }
        Ok(())
    }

    /// The beginning of a response: of the next endpoint, to a request of which `timeout` bounds
    /// the whole exchange.
    async fn response(
        &self,
        timeout: Duration,
        method: Method,
        path: &str,
        content_type: &'static str,
        body: impl Into<reqwest::Body>,
    ) -> Result<reqwest::Response, StoreError> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.endpoints.len();
        let request = self
            .client
            .request(method, format!("http://{}{path}", self.endpoints[at]))
            .header(reqwest::header::CONTENT_TYPE, content_type)
            .timeout(timeout)
            .body(body);
        request.send().await.map_err(|e| self.failed(&e, timeout))
    }

    /// The store's own error.
    pub fn refused(&self, reason: String) -> StoreError {
        StoreError::Refused { store: self.store.clone(), reason }
    }

    /// A response that differs from the store's documentation.
    pub fn answer(&self, reason: String) -> StoreError {
        StoreError::Answer { store: self.store.clone(), reason }
    }

    fn failed(&self, e: &reqwest::Error, timeout: Duration) -> StoreError {
        let store = self.store.clone();
        if e.is_timeout() && !e.is_connect() {
            return StoreError::Timeout { store, seconds: timeout.as_secs() };
        }
        // The client's message has only the address; its source has the reason.
        let mut reason = e.to_string();
        let mut cause = e.source();
        while let Some(e) = cause {
            reason = format!("{reason}: {e}");
            cause = e.source();
        }
        StoreError::Unreachable { store, reason }
    }
}

/// One field of a form, percent-encoded.
pub(crate) fn form(name: &str, value: &str) -> String {
    let mut form = format!("{name}=");
    push_segment(&mut form, value);
    form
}

/// Appends one segment of a path, percent-encoded (RFC 3986, section 2.3).
pub(crate) fn push_segment(path: &mut String, segment: &str) {
    use std::fmt::Write;
    for byte in segment.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                path.push(char::from(byte));
            }
            _ => write!(path, "%{byte:02X}").expect("a String takes all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A time limit that no machine is too slow for.
    const NEVER: Duration = Duration::from_secs(86_400);

    #[tokio::test]
    async fn lines_are_whole_wherever_the_response_is_cut() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = listener.local_addr().unwrap().to_string();
        let server = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
            for part in [head, "4\r\none\n\r\n", "2\r\ntw\r\n", "3\r\no\n3\r\n", "0\r\n\r\n"] {
                stream.write_all(part.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
            }
        });
        let http = Http::new("s", &[endpoint], 0, NEVER);
        let mut lines = Vec::new();
        let take = |line: &[u8]| lines.push(String::from_utf8(line.to_vec()).unwrap());
        http.lines(NEVER, Method::GET, "/", "text/plain", "", take).await.unwrap();
        server.await.unwrap();
        assert_eq!(lines, ["one\n", "two\n", "3"]);
    }
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[test]
    fn segments_are_encoded() {
        for (segment, path) in [("a-1_~.Z", "a-1_~.Z"), ("a/ü \"%", "a%2F%C3%BC%20%22%25")] {
            let mut out = String::new();
            push_segment(&mut out, segment);
            assert_eq!(out, path);
        }
    }

    #[tokio::test]
    async fn a_closed_port_a_broken_connection_and_a_silent_server_are_told_apart() {
        let closed = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed_port = closed.local_addr().unwrap().to_string();
        drop(closed);
        let breaking = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answering = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = |listener: &tokio::net::TcpListener| listener.local_addr().unwrap().to_string();
        let endpoints = [closed_port, port(&breaking), port(&answering)];
        tokio::spawn(async move { drop(breaking.accept().await) });
        tokio::spawn(async move {
            let (mut stream, _) = answering.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await.unwrap();
            let answer = b"HTTP/1.1 418 no\r\ncontent-length: 3\r\n\r\nabc";
            stream.write_all(answer).await.unwrap();
        });
        // The client of the silent server alone has a time limit that is ever reached.
        let hasty = Http::new("some", &[port(&silent)], 0, Duration::from_millis(200));
        let reply = hasty.send(Method::GET, "/", "text/plain", "").await;
        assert_eq!(reply.err().map(|e| e.kind()), Some("timeout"));
        let http = Http::new("some", &endpoints, 0, NEVER);
        for _ in 0..2 {
            let reply = http.send(Method::GET, "/", "text/plain", "").await;
            assert_eq!(reply.err().map(|e| e.kind()), Some("unreachable"));
        }
        let reply = http.send(Method::GET, "/", "text/plain", "").await.unwrap();
        assert_eq!((reply.status, reply.body.as_slice()), (418, b"abc".as_slice()));
    }
}

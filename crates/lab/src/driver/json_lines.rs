//! A connection to a server that answers a line of JSON with a line of JSON.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::StoreError;

/// Limit of a line in bytes. A longer one ends the connection.
pub(crate) const LINE_BYTES_MAX: u64 = 256 << 20;

/// A connection to a node, made when it is used.
pub(crate) struct Link {
    /// The name of the store, for errors.
    pub store: String,
    endpoint: String,
    stream: Option<BufReader<TcpStream>>,
}

impl Link {
    /// A connection to `endpoint`, which is made when it is used.
    pub fn new(store: &str, endpoint: &str) -> Link {
        Link { store: store.to_owned(), endpoint: endpoint.to_owned(), stream: None }
    }

    /// Whether it was made and did not break.
    pub fn is_connected(&self) -> bool {
        self.stream.is_some()
    }

    /// Connects if it is not connected.
    pub async fn connect(&mut self) -> Result<(), StoreError> {
        if self.stream.is_none() {
            let connect = async {
                let stream = TcpStream::connect(&self.endpoint).await?;
                stream.set_nodelay(true)?;
                Ok(BufReader::new(stream))
            };
            let stream = connect.await.map_err(|e: std::io::Error| self.broken(&e))?;
            self.stream = Some(stream);
        }
        Ok(())
    }

    /// From now on, the connection is one to this endpoint.
    pub fn lead_to(&mut self, endpoint: &str) {
        endpoint.clone_into(&mut self.endpoint);
        self.stream = None;
    }

    /// Forgets the connection.
    pub fn disconnect(&mut self) {
        self.stream = None;
    }

    /// Sends a request and waits for its answer.
    pub async fn ask<T: DeserializeOwned>(
        &mut self,
        request: &impl Serialize,
    ) -> Result<T, StoreError> {
        let mut line = serde_json::to_vec(request).map_err(|e| self.answer(e))?;
        line.push(b'\n');
        self.connect().await?;
        let stream = self.stream.as_mut().expect("it is connected");
        let exchange = async {
            stream.get_mut().write_all(&line).await?;
            line.clear();
            stream.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await?;
            match line.last() {
                Some(b'\n') => Ok(()),
                _ => Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof)),
            }
        };
        if let Err(error) = exchange.await {
            self.disconnect();
            return Err(self.broken(&error));
        }
        serde_json::from_slice(&line).map_err(|e| self.answer(e))
    }

    /// The error of an answer that is not understood.
    pub fn answer(&self, reason: impl ToString) -> StoreError {
        StoreError::Answer { store: self.store.clone(), reason: reason.to_string() }
    }

    fn broken(&self, e: &std::io::Error) -> StoreError {
        StoreError::Unreachable { store: self.store.clone(), reason: e.to_string() }
    }
}

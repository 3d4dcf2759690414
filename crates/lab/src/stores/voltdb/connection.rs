//! A connection to one node: requests, and responses in the order of the server.
//!
//! Responses of calls that were sent together come in any order, and are told apart by their
//! numbers. A connection on which anything failed other than a refused call must not be used again.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::wire::{self, Response, Table, status};
use crate::driver::{StoreError, short_message};
use crate::row::Value;

/// Calls that are sent together before their responses are read. More of them would fill the
/// buffers of both sides while neither reads.
const CALLS_TOGETHER: usize = 128;

/// An open connection.
pub(super) struct Connection {
    store: String,
    stream: BufReader<TcpStream>,
    /// The number of the next call.
    next: i64,
    /// The buffer of a call; kept, so that it is allocated once.
    out: Vec<u8>,
    /// The version and build that the server told at the login.
    pub(super) build: String,
}

impl Connection {
    /// Connects and logs in, as no particular user.
    pub(super) async fn open(
        store: &str,
        (host, port): &(String, u16),
        limit: Duration,
    ) -> Result<Connection, StoreError> {
        let unreachable = |e: std::io::Error| unreachable(store, &e);
        let connect = TcpStream::connect((host.as_str(), *port));
        let stream = match tokio::time::timeout(limit.min(Duration::from_secs(10)), connect).await {
            Ok(stream) => stream.map_err(unreachable)?,
            Err(_) => return Err(unreachable(std::io::ErrorKind::TimedOut.into())),
        };
        stream.set_nodelay(true).map_err(unreachable)?;
        let mut connection = Connection {
            store: store.to_owned(),
            stream: BufReader::new(stream),
            next: 0,
            out: wire::login(),
            build: String::new(),
        };
        connection.send().await?;
        let message = connection.receive().await?;
        let login = wire::logged_in(&message).map_err(|e| connection.answer(&e))?;
        if login.status != status::LOGIN_ACCEPTED {
            let store = store.to_owned();
            return Err(StoreError::Refused { store, reason: refusal(login.status) });
        }
        connection.build = login.build;
        Ok(connection)
    }

    /// Calls a procedure; its results.
    pub(super) async fn call(
        &mut self,
        procedure: &str,
        parameters: &[&Value],
    ) -> Result<Vec<Table>, StoreError> {
        self.out.clear();
        let handle = self.next;
        self.next += 1;
        wire::invocation(&mut self.out, handle, procedure, parameters);
        self.send().await?;
        let response = self.response().await?;
        match response.handle == handle {
            true => self.checked(response),
            false => Err(self.answer(&"a response to another call")),
        }
    }

    /// Calls a procedure with each of these parameters, many at a time. Fails with the first
    /// refusal, after all calls that were sent with it are answered.
    pub(super) async fn call_each<'a>(
        &mut self,
        procedure: &str,
        all: impl Iterator<Item = Vec<&'a Value>>,
    ) -> Result<(), StoreError> {
        let mut all = all.peekable();
        while all.peek().is_some() {
            self.out.clear();
            let first = self.next;
            for parameters in all.by_ref().take(CALLS_TOGETHER) {
                wire::invocation(&mut self.out, self.next, procedure, &parameters);
                self.next += 1;
            }
            self.send().await?;
            let mut outcome = Ok(());
            for _ in first..self.next {
                let response = self.response().await?;
                if !(first..self.next).contains(&response.handle) {
                    return Err(self.answer(&"a response to another call"));
                }
                outcome = outcome.and(self.checked(response).map(|_| ()));
            }
            outcome?;
        }
        Ok(())
    }

    async fn send(&mut self) -> Result<(), StoreError> {
        let sent = self.stream.get_mut().write_all(&self.out).await;
        sent.map_err(|e| unreachable(&self.store, &e))
    }

    async fn response(&mut self) -> Result<Response, StoreError> {
        let message = self.receive().await?;
        wire::response(&message).map_err(|e| self.answer(&e))
    }

    /// The next message, without its length.
    async fn receive(&mut self) -> Result<Vec<u8>, StoreError> {
        let length = self.stream.read_u32().await.map_err(|e| unreachable(&self.store, &e))?;
        let length = length as usize;
        if length > wire::MESSAGE_BYTES_MAX {
            return Err(self.answer(&format!("a message of {length} bytes")));
        }
        let mut message = vec![0; length];
        let read = self.stream.read_exact(&mut message).await;
        read.map_err(|e| unreachable(&self.store, &e))?;
        Ok(message)
    }

    fn checked(&self, response: Response) -> Result<Vec<Table>, StoreError> {
        let store = self.store.clone();
        let reason =
            || format!("{} (status {})", short_message(&response.message), response.status);
        match response.status {
            status::SUCCESS => Ok(response.tables),
            status::CONNECTION_LOST | status::CONNECTION_TIMEOUT => {
                Err(StoreError::Unreachable { store, reason: reason() })
            }
            _ => Err(StoreError::Refused { store, reason: reason() }),
        }
    }

    fn answer(&self, reason: &dyn std::fmt::Display) -> StoreError {
        StoreError::Answer { store: self.store.clone(), reason: reason.to_string() }
    }
}

fn unreachable(store: &str, error: &std::io::Error) -> StoreError {
    StoreError::Unreachable { store: store.to_owned(), reason: error.to_string() }
}

/// Why a login was refused.
fn refusal(status: i8) -> String {
    let reason = match status {
        -1 => {
            "it asks for a user and a password, which the lab does not send; turn its security off"
        }
        1 => "it has too many connections; send with fewer threads",
        6 => "it asks for TLS, which the lab does not speak; turn it off",
        _ => return format!("it refuses the login with status {status}"),
    };
    reason.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A connection to a server that accepts the login and then sends `bytes`.
    async fn answered(bytes: Vec<u8>) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut login = vec![0; wire::login().len()];
            stream.read_exact(&mut login).await.unwrap();
            let mut accepted = vec![0, 0, 0, 30];
            accepted.extend([0; 30]);
            stream.write_all(&accepted).await.unwrap();
            stream.write_all(&bytes).await.unwrap();
            // Closes once the client has read everything.
            let _ = stream.shutdown().await;
            let _ = stream.read_to_end(&mut login).await;
        });
        let place = ("127.0.0.1".to_owned(), port);
        Connection::open("voltdb", &place, Duration::from_secs(86_400)).await.unwrap()
    }

    /// A response without tables.
    fn response(handle: i64, status: i8) -> Vec<u8> {
        let mut out = vec![0, 0, 0, 18, 0];
        out.extend(handle.to_be_bytes());
        out.extend([0, status as u8, 0, 0, 0, 0, 0, 0, 0]);
        out[3] = (out.len() - 4) as u8;
        out
    }

    #[tokio::test]
    async fn answers_of_a_server_become_results_or_errors() {
        for (bytes, kind) in [
            (response(0, 1), None),
            (response(0, -2), Some("refused")),
            (response(0, -4), Some("unreachable")),
            (response(1, 1), Some("answer")),
            (vec![0xff; 8], Some("answer")),
            (vec![0, 0, 0, 2, 0, 0], Some("answer")),
            (vec![0, 0, 0, 2, 0], Some("unreachable")),
            (vec![], Some("unreachable")),
        ] {
            let mut connection = answered(bytes.clone()).await;
            let found = connection.call("@Ping", &[]).await;
            assert_eq!(found.err().map(|e| e.kind()), kind, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn responses_to_calls_sent_together_come_in_any_order() {
        let none = || std::iter::repeat_n(Vec::new(), 3);
        let send = |answers: [(i64, i8); 3]| async move {
            let bytes = answers.iter().flat_map(|(handle, status)| response(*handle, *status));
            let mut connection = answered(bytes.collect()).await;
            let outcome = connection.call_each("T.insert", none()).await;
            (outcome.err().map(|e| e.kind()), connection.next)
        };
        assert_eq!(send([(2, 1), (0, 1), (1, 1)]).await, (None, 3));
        assert_eq!(send([(2, 1), (0, -2), (1, 1)]).await, (Some("refused"), 3));
        assert_eq!(send([(2, 1), (9, 1), (1, 1)]).await, (Some("answer"), 3));
    }
}

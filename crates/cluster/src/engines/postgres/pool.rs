//! Connections and transactions.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Connection, NoTls};

use super::PgSettings;
use super::tls::Tls;
use crate::engines::meter::{Meter, Metered};
use crate::engines::runtime::Runtime;
use crate::error::CatalogError;

/// What a transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads one state of the catalog.
    Read,
    /// Changes it.
    Write,
}

/// Why the statements of a transaction ended early.
pub enum Failed {
    /// The transaction was refused by what it found.
    Found(CatalogError),
    /// A statement failed.
    Sql(tokio_postgres::Error),
}

impl From<tokio_postgres::Error> for Failed {
    fn from(error: tokio_postgres::Error) -> Self {
        Failed::Sql(error)
    }
}

impl From<CatalogError> for Failed {
    fn from(error: CatalogError) -> Self {
        Failed::Found(error)
    }
}

/// Connections that are kept. One that failed is dropped, and the next call makes another.
pub struct Pool {
    runtime: Runtime,
    settings: PgSettings,
    config: Config,
    tls: Option<Tls>,
    idle: Mutex<Vec<Client>>,
    places: Semaphore,
    meter: Meter,
}

impl Pool {
    pub fn new(settings: PgSettings) -> Result<Pool, CatalogError> {
        let refused = |error: &dyn std::error::Error| {
            CatalogError::Refused(format!("connection of the catalog: {}", chain(error)))
        };
        let mut config: Config = settings.connection.parse().map_err(|error| refused(&error))?;
        config.connect_timeout(settings.connect_timeout);
        config.tcp_user_timeout(settings.call_timeout);
        if config.get_application_name().is_none() {
            config.application_name("loginson");
        }
        let tls = settings.root_certificates.as_deref().map(Tls::new).transpose()?;
        if tls.is_some() {
            config.ssl_mode(SslMode::Require);
        } else if config.get_ssl_mode() == SslMode::Require {
            let error = "sslmode=require needs a file of root certificates";
            return Err(CatalogError::Refused(error.to_owned()));
        }
        // One worker drives all connections; callers wait on their own threads.
        let runtime = Runtime::start("catalog", 1).map_err(|error| refused(&error))?;
        let places = Semaphore::new(settings.connections_max.max(1));
        let (idle, meter) = (Mutex::default(), Meter::default());
        Ok(Pool { runtime, settings, config, tls, idle, places, meter })
    }

    /// Runs `body` as one transaction.
    pub fn run<T>(
        &self,
        access: Access,
        body: impl AsyncFnOnce(&Client) -> Result<T, Failed>,
    ) -> Result<T, CatalogError> {
        self.run_within(self.settings.call_timeout, access, body)
    }

    /// As [`run`](Self::run), with another time of the call.
    pub fn run_within<T>(
        &self,
        time_max: Duration,
        access: Access,
        body: impl AsyncFnOnce(&Client) -> Result<T, Failed>,
    ) -> Result<T, CatalogError> {
        self.meter.call(is_failure, || self.transaction(time_max, access, body))
    }

    /// The calls so far.
    pub fn metered(&self) -> Metered {
        self.meter.read()
    }

    fn transaction<T>(
        &self,
        call_timeout: Duration,
        access: Access,
        body: impl AsyncFnOnce(&Client) -> Result<T, Failed>,
    ) -> Result<T, CatalogError> {
        self.runtime.block_on(async {
            let deadline = Instant::now() + call_timeout;
            let late = |_| CatalogError::Unavailable(format!("no answer within {call_timeout:?}"));
            let place = timeout_at(deadline, self.places.acquire()).await.map_err(late)?;
            let begin = timeout_at(deadline, self.begin(access)).await;
            let client = begin.map_err(late)??;
            match timeout_at(deadline, body(&client)).await.map_err(late)? {
                Ok(value) => {
                    // From here on the outcome is unknown if there is no answer.
                    match timeout_at(deadline, client.batch_execute("COMMIT")).await {
                        Ok(Ok(())) => self.keep(client),
                        // What was read is right in any case.
                        _ if access == Access::Read => {}
                        Ok(Err(error)) => return Err(not_committed(&error)),
                        Err(_) => {
                            let error = format!("no answer to COMMIT within {call_timeout:?}");
                            return Err(CatalogError::Unknown(error));
                        }
                    }
                    drop(place);
                    Ok(value)
                }
                Err(Failed::Found(error)) => {
                    let rollback = timeout_at(deadline, client.batch_execute("ROLLBACK")).await;
                    if let Ok(Ok(())) = rollback {
                        self.keep(client);
                    }
                    Err(error)
                }
                // The connection is dropped, and with it the transaction.
                Err(Failed::Sql(error)) => Err(failed(&error)),
            }
        })
    }

    /// A connection in a new transaction.
    async fn begin(&self, access: Access) -> Result<Client, CatalogError> {
        let mode = match access {
            Access::Read => "ISOLATION LEVEL REPEATABLE READ READ ONLY",
            Access::Write => "ISOLATION LEVEL READ COMMITTED READ WRITE",
        };
        let ms = self.settings.statement_timeout.as_millis().max(1);
        let begin = format!(
            "BEGIN {mode}; SET LOCAL statement_timeout = {ms}; \
             SET LOCAL idle_in_transaction_session_timeout = {ms}"
        );
        loop {
            let idle = self.lock().pop();
            let is_new = idle.is_none();
            let client = match idle {
                Some(client) if client.is_closed() => continue,
                Some(client) => client,
                None => self.connect().await?,
            };
            match client.batch_execute(&begin).await {
                Ok(()) => return Ok(client),
                Err(error) if is_new => return Err(failed(&error)),
                // An idle connection ended unnoticed, for example with a restart of the server.
                Err(_) => {}
            }
        }
    }

    async fn connect(&self) -> Result<Client, CatalogError> {
        match &self.tls {
            Some(tls) => {
                let connected = self.config.connect(tls.clone()).await;
                connected.map(|(client, connection)| drive(client, connection))
            }
            None => {
                let connected = self.config.connect(NoTls).await;
                connected.map(|(client, connection)| drive(client, connection))
            }
        }
        .map_err(|error| failed(&error))
    }

    fn keep(&self, client: Client) {
        self.lock().push(client);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Client>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the worker drive a connection, which ends with its client or with the server.
fn drive<S, T>(client: Client, connection: Connection<S, T>) -> Client
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            log::debug!("connection to the catalog ended: {}", chain(&error));
        }
    });
    client
}

/// An error before `COMMIT`: nothing happened.
fn failed(error: &tokio_postgres::Error) -> CatalogError {
    let text = chain(error);
    match error.code() {
        // The server answered, and would answer the same again.
        Some(code) if !is_passing(code) => CatalogError::Refused(text),
        // No code: the connection failed, or an answer was not understood.
        _ => CatalogError::Unavailable(text),
    }
}

/// An error of `COMMIT`. Only a conflict says that the transaction was rolled back.
fn not_committed(error: &tokio_postgres::Error) -> CatalogError {
    match error.code().map(SqlState::code) {
        Some(code) if code.starts_with("40") => CatalogError::Unavailable(chain(error)),
        _ => CatalogError::Unknown(chain(error)),
    }
}

/// Whether the same statement may succeed later: connections, conflicts, resources, a full disk,
/// operators (which include the timeout of statements), a standby that is promoted.
fn is_passing(code: &SqlState) -> bool {
    let classes = ["08", "40", "53", "55", "57", "58"];
    classes.contains(&&code.code()[..2]) || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

/// Whether an error is one of the database, or of the way to it. Others are its answers.
fn is_failure(error: &CatalogError) -> bool {
    use CatalogError::{Refused, Unavailable, Unknown};
    matches!(error, Unavailable(_) | Unknown(_) | Refused(_))
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The server drops its last reference to the catalog in a task, and must not panic there.
    #[test]
    fn a_pool_may_be_dropped_in_a_task() {
        let pool = Pool::new(PgSettings::new("host=127.0.0.1 user=nobody")).unwrap();
        let outer = tokio::runtime::Builder::new_current_thread().build().unwrap();
        outer.block_on(async move { drop(pool) });
    }
}

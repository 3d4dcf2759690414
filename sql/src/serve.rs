//! Speaks PostgreSQL's protocol, by the library `datafusion-postgres`, and lets statements read
//! only.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use datafusion::common::{DFSchema, ParamValues};
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::disk_manager::{DiskManagerBuilder, DiskManagerMode};
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::logical_expr::{EmptyRelation, LogicalPlan};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::sqlparser::ast::{Set, SetExpr, Statement};
use datafusion_postgres::DfSessionService;
use datafusion_postgres::datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
use datafusion_postgres::datafusion_pg_catalog::setup_pg_catalog;
use datafusion_postgres::hooks::cursor::CursorStatementHook;
use datafusion_postgres::hooks::set_show::SetShowHook;
use datafusion_postgres::hooks::transactions::TransactionStatementHook;
use datafusion_postgres::hooks::{HookClient, QueryHook};
use datafusion_postgres::pgwire::api::auth::noop::NoopStartupHandler;
use datafusion_postgres::pgwire::api::auth::sasl::SASLAuthStartupHandler;
use datafusion_postgres::pgwire::api::auth::sasl::scram::{
    SCRAM_ITERATIONS, ScramAuth, gen_salted_password, random_nonce,
};
use datafusion_postgres::pgwire::api::auth::{
    AuthSource, DefaultServerParameterProvider, LoginInfo, Password, StartupHandler,
};
use datafusion_postgres::pgwire::api::cancel::{CancelHandler, DefaultCancelHandler};
use datafusion_postgres::pgwire::api::query::{ExtendedQueryHandler, SimpleQueryHandler};
use datafusion_postgres::pgwire::api::results::{Response, Tag};
use datafusion_postgres::pgwire::api::{ClientInfo, ConnectionManager, PgWireServerHandlers};
use datafusion_postgres::pgwire::error::{ErrorInfo, PgWireError, PgWireResult};
use datafusion_postgres::pgwire::messages::{PgWireBackendMessage, PgWireFrontendMessage};
use datafusion_postgres::pgwire::tokio::process_socket;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::catalog::{Absent, add_functions};
use crate::pushdown::PushDown;
use crate::schema::Tables;

/// The name of the database that clients see. They may connect to any name.
const DATABASE: &str = "loginson";
/// The code of PostgreSQL for what a transaction that only reads may not do.
const READ_ONLY: &str = "25006";

/// The context in which statements are planned and run, with this memory for all of them. Nothing
/// goes to the disk: what needs more memory fails.
pub fn context(tables: Arc<Tables>, memory_bytes_max: usize) -> Result<SessionContext> {
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Disabled);
    let runtime = RuntimeEnvBuilder::new()
        .with_memory_pool(Arc::new(FairSpillPool::new(memory_bytes_max)))
        .with_disk_manager_builder(disk)
        .build_arc()?;
    let config = SessionConfig::new()
        .with_default_catalog_and_schema(DATABASE, "public")
        .with_information_schema(true)
        // Texts have one type, so that a comparison with a cast text needs no cast of the column.
        .set_bool("datafusion.sql_parser.map_string_types_to_utf8view", false);
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_runtime_env(runtime)
        .with_default_features()
        .with_optimizer_rule(Arc::new(PushDown))
        .build();
    let context = SessionContext::new_with_state(state);
    let catalog = context.catalog(DATABASE).context("there is no catalog")?;
    catalog.register_schema("public", tables)?;
    setup_pg_catalog(&context, DATABASE, EmptyContextProvider)
        .map_err(|e| anyhow::anyhow!("{e}"))?;
    add_functions(&context);
    Ok(context)
}

/// TLS for clients, by files with a certificate and its key.
pub fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor> {
    let shown = certificate.display();
    let chain = CertificateDer::pem_file_iter(certificate)
        .and_then(|chain| chain.collect::<Result<Vec<_>, _>>())
        .with_context(|| format!("--tls-certificate: cannot read certificates from {shown}"))?;
    let key = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("--tls-key: cannot read a key from {}", key.display()))?;
    let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
    Ok(TlsAcceptor::from(Arc::new(config.context("certificate and key do not fit")?)))
}

/// How clients connect.
pub struct Server {
    /// Where statements run.
    pub context: Arc<SessionContext>,
    /// The password that clients have to give. Their names do not matter.
    pub password: Option<String>,
    /// Encrypts connections of clients that ask for it.
    pub tls: Option<TlsAcceptor>,
    /// Connections at once. Further ones are closed, which the log tells.
    pub connections_max: usize,
}

impl Server {
    /// Whether it is safe to listen there: without a password, only clients of this machine may
    /// come.
    pub fn check(&self, address: SocketAddr) -> Result<()> {
        ensure!(
            self.password.is_some() || address.ip().is_loopback(),
            "--listen {address} is open to other machines: set a password by --password-file, or \
             listen on 127.0.0.1"
        );
        Ok(())
    }

    /// Serves clients, for ever.
    pub async fn serve(self, listener: TcpListener) -> Result<()> {
        let places = Arc::new(Semaphore::new(self.connections_max));
        let service = DfSessionService::new_with_hooks(
            Arc::clone(&self.context),
            vec![
                Arc::new(ReadOnly),
                Arc::new(Absent),
                Arc::new(CursorStatementHook),
                Arc::new(SetShowHook),
                Arc::new(TransactionStatementHook),
            ],
        );
        let (service, manager) = (Arc::new(service), Arc::new(ConnectionManager::new()));
        let password = self.password.map(|password| Arc::new(OnePassword::new(&password)));
        loop {
            let (socket, from) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(e) => {
                    // Out of file descriptors, as a rule; they get free when clients leave.
                    log::warn!("cannot accept a connection: {e}");
                    tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                log::warn!(
                    "the connection of {from} is closed: there are {} already; raise \
                     --connections-max",
                    self.connections_max
                );
                continue;
            };
            let handlers = Handlers {
                service: Arc::clone(&service),
                startup: Arc::new(Startup::new(password.as_ref(), &manager)),
                cancel: Arc::new(DefaultCancelHandler::new(Arc::clone(&manager))),
            };
            let tls = self.tls.clone();
            tokio::spawn(async move {
                let _place = place;
                if let Err(e) = serve_client(socket, tls, handlers).await {
                    log::info!("the connection of {from} broke: {e}");
                }
            });
        }
    }
}

async fn serve_client(
    socket: TcpStream,
    tls: Option<TlsAcceptor>,
    handlers: Handlers,
) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    process_socket(socket, tls, Arc::new(handlers)).await
}

/// What serves one connection.
struct Handlers {
    service: Arc<DfSessionService>,
    startup: Arc<Startup>,
    cancel: Arc<DefaultCancelHandler>,
}

impl PgWireServerHandlers for Handlers {
    fn simple_query_handler(&self) -> Arc<impl SimpleQueryHandler> {
        Arc::clone(&self.service)
    }

    fn extended_query_handler(&self) -> Arc<impl ExtendedQueryHandler> {
        Arc::clone(&self.service)
    }

    fn startup_handler(&self) -> Arc<impl StartupHandler> {
        Arc::clone(&self.startup)
    }

    fn cancel_handler(&self) -> Arc<impl CancelHandler> {
        Arc::clone(&self.cancel)
    }
}

/// How a client proves who it is.
enum Startup {
    Open(Open),
    Password(SASLAuthStartupHandler<DefaultServerParameterProvider>),
}

impl Startup {
    fn new(password: Option<&Arc<OnePassword>>, manager: &Arc<ConnectionManager>) -> Startup {
        match password {
            None => Startup::Open(Open(Arc::clone(manager))),
            Some(password) => {
                let scram = ScramAuth::new(Arc::clone(password) as Arc<dyn AuthSource>);
                let parameters = Arc::new(DefaultServerParameterProvider::default());
                let handler = SASLAuthStartupHandler::new(parameters).with_scram(scram);
                Startup::Password(handler.with_connection_manager(Arc::clone(manager)))
            }
        }
    }
}

#[async_trait]
impl StartupHandler for Startup {
    async fn on_startup<C>(
        &self,
        client: &mut C,
        message: PgWireFrontendMessage,
    ) -> PgWireResult<()>
    where
        C: ClientInfo + futures::Sink<PgWireBackendMessage> + Unpin + Send + Sync,
        C::Error: std::fmt::Debug,
        PgWireError: From<<C as futures::Sink<PgWireBackendMessage>>::Error>,
    {
        match self {
            Startup::Open(open) => StartupHandler::on_startup(open, client, message).await,
            Startup::Password(password) => password.on_startup(client, message).await,
        }
    }
}

/// Lets everybody in.
struct Open(Arc<ConnectionManager>);

impl NoopStartupHandler for Open {
    fn connection_manager(&self) -> Option<Arc<ConnectionManager>> {
        Some(Arc::clone(&self.0))
    }
}

/// The password of every user, as SCRAM keeps it.
struct OnePassword {
    salt: Vec<u8>,
    salted: Vec<u8>,
}

impl OnePassword {
    fn new(password: &str) -> OnePassword {
        let salt = random_nonce().into_bytes();
        let salted = gen_salted_password(password, &salt, SCRAM_ITERATIONS);
        OnePassword { salt, salted }
    }
}

impl std::fmt::Debug for OnePassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnePassword")
    }
}

#[async_trait]
impl AuthSource for OnePassword {
    async fn get_password(&self, _login: &LoginInfo) -> PgWireResult<Password> {
        Ok(Password::new(Some(self.salt.clone()), self.salted.clone()))
    }
}

/// Refuses statements that write, and answers those that would change settings of all connections.
struct ReadOnly;

/// Settings that a connection has of its own. The hook behind this one keeps them.
const SETTINGS: [&str; 7] = [
    "statement_timeout",
    "datestyle",
    "bytea_output",
    "intervalstyle",
    "application_name",
    "extra_float_digits",
    "search_path",
];

/// Why a statement is refused; `None` if it only reads.
pub fn refusal(statement: &Statement) -> Option<String> {
    match statement {
        Statement::Query(query) => writes(&query.body)
            .then(|| "loginson-sql only reads: a query must not write a table".to_owned()),
        Statement::Explain { statement, .. } => refusal(statement),
        Statement::Declare { stmts } => {
            let writes = stmts.iter().any(|declared| {
                declared.for_query.as_ref().is_some_and(|query| writes(&query.body))
            });
            writes.then(|| "loginson-sql only reads: a cursor must not write".to_owned())
        }
        // Settings of DataFusion are those of all connections, and its limits are among them.
        Statement::Set(_) => {
            let text = statement.to_string().to_lowercase();
            text.contains("datafusion").then(|| {
                "settings of DataFusion cannot be changed; see `loginson-sql --help` for limits"
                    .to_owned()
            })
        }
        Statement::ShowVariable { .. }
        | Statement::ShowStatus { .. }
        | Statement::ShowCatalogs { .. }
        | Statement::ShowTables { .. }
        | Statement::ShowColumns { .. }
        | Statement::StartTransaction { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint { .. }
        | Statement::ReleaseSavepoint { .. }
        | Statement::Fetch { .. }
        | Statement::Close { .. }
        | Statement::Deallocate { .. }
        | Statement::Discard { .. } => None,
        _ => Some("loginson-sql only reads: SELECT, EXPLAIN, SHOW, SET and cursors".to_owned()),
    }
}

/// Whether a query makes a table (`SELECT … INTO`), or has a statement that writes in it.
fn writes(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => select.into.is_some(),
        SetExpr::Query(query) => writes(&query.body),
        SetExpr::SetOperation { left, right, .. } => writes(left) || writes(right),
        SetExpr::Values(_) | SetExpr::Table(_) => false,
        _ => true,
    }
}

fn refused(statement: &Statement) -> Option<PgWireError> {
    let error = |why| ErrorInfo::new("ERROR".to_owned(), READ_ONLY.to_owned(), why);
    Some(PgWireError::UserError(Box::new(error(refusal(statement)?))))
}

/// What a statement that changes nothing here is answered by. DataFusion has one set of settings
/// and prepared statements for all connections, so it must not see them. Drivers send such
/// statements when they connect, or give a connection back.
fn without_effect(statement: &Statement) -> Option<&'static str> {
    match statement {
        Statement::Set(Set::SetTimeZone { local: false, .. }) => None,
        Statement::Set(Set::SingleAssignment { scope: None, variable, .. })
            if SETTINGS.contains(&variable.to_string().to_lowercase().as_str()) =>
        {
            None
        }
        Statement::Set(_) => Some("SET"),
        Statement::Savepoint { .. } => Some("SAVEPOINT"),
        Statement::ReleaseSavepoint { .. } => Some("RELEASE"),
        Statement::Rollback { savepoint: Some(_), .. } => Some("ROLLBACK"),
        Statement::Deallocate { .. } => Some("DEALLOCATE"),
        Statement::Discard { .. } => Some("DISCARD"),
        _ => None,
    }
}

fn answer(statement: &Statement) -> Option<PgWireResult<Response>> {
    if let Some(error) = refused(statement) {
        return Some(Err(error));
    }
    let tag = Tag::new(without_effect(statement)?);
    Some(Ok(match statement {
        // Statements that follow a failed one are refused until its transaction has ended.
        Statement::Rollback { .. } => Response::TransactionEnd(tag),
        _ => Response::Execution(tag),
    }))
}

#[async_trait]
impl QueryHook for ReadOnly {
    async fn handle_simple_query(
        &self,
        statement: &Statement,
        _context: &SessionContext,
        _client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        answer(statement)
    }

    async fn handle_extended_parse_query(
        &self,
        statement: &Statement,
        _context: &SessionContext,
        _client: &(dyn ClientInfo + Send + Sync),
    ) -> Option<PgWireResult<LogicalPlan>> {
        if let Some(error) = refused(statement) {
            return Some(Err(error));
        }
        without_effect(statement)?;
        let schema = Arc::new(DFSchema::empty());
        Some(Ok(LogicalPlan::EmptyRelation(EmptyRelation { produce_one_row: false, schema })))
    }

    async fn handle_extended_query(
        &self,
        statement: &Statement,
        _plan: &LogicalPlan,
        _params: &ParamValues,
        _context: &SessionContext,
        _client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        answer(statement)
    }
}

#[cfg(test)]
mod tests {
    use datafusion_postgres::datafusion_pg_catalog::sql::PostgresCompatibilityParser;

    use super::*;

    #[test]
    fn statements_only_read() {
        let parser = PostgresCompatibilityParser::new();
        for (sql, passes) in [
            ("SELECT 1", true),
            ("WITH a AS (SELECT 1) SELECT * FROM a UNION ALL SELECT 2", true),
            ("VALUES (1)", true),
            ("EXPLAIN ANALYZE SELECT 1", true),
            ("SHOW search_path", true),
            ("SET application_name = 'x'", true),
            ("BEGIN", true),
            ("COMMIT", true),
            ("DECLARE c CURSOR FOR SELECT 1", true),
            ("SELECT 1 INTO t", false),
            ("SELECT 1 UNION ALL SELECT 2 INTO t", false),
            ("INSERT INTO t VALUES (1)", false),
            ("CREATE TABLE t AS SELECT 1", false),
            ("CREATE VIEW v AS SELECT 1", false),
            ("CREATE SCHEMA s", false),
            ("DROP TABLE logs", false),
            ("COPY logs TO '/tmp/x'", false),
            ("EXPLAIN ANALYZE INSERT INTO t VALUES (1)", false),
            ("SET datafusion.runtime.memory_limit = '100G'", false),
            (r#"SET "datafusion"."runtime"."memory_limit" = '100G'"#, false),
            ("DEALLOCATE ALL", true),
            ("DISCARD ALL", true),
            ("PREPARE p AS SELECT 1", false),
            ("DELETE FROM logs", false),
        ] {
            // What the parser does not know is refused by it.
            let Ok(statements) = parser.parse(sql) else {
                assert!(!passes, "{sql} cannot be parsed");
                continue;
            };
            let refused = statements.iter().any(|statement| refusal(statement).is_some());
            assert_eq!(!refused, passes, "{sql}");
        }
    }

    #[test]
    fn what_has_no_effect_does_not_reach_datafusion() {
        let parser = PostgresCompatibilityParser::new();
        for (sql, tag) in [
            ("SET application_name = 'x'", None),
            ("SET statement_timeout = 1000", None),
            ("SET TIME ZONE 'UTC'", None),
            ("SET timezone = 'Asia/Tokyo'", Some("SET")),
            ("SET LOCAL TIME ZONE 'Asia/Tokyo'", Some("SET")),
            ("SET client_min_messages TO warning", Some("SET")),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", Some("SET")),
            ("ROLLBACK", None),
            ("SAVEPOINT a", Some("SAVEPOINT")),
            ("ROLLBACK TO SAVEPOINT a", Some("ROLLBACK")),
            ("RELEASE SAVEPOINT a", Some("RELEASE")),
            ("DEALLOCATE ALL", Some("DEALLOCATE")),
            ("DISCARD ALL", Some("DISCARD")),
        ] {
            let statements = parser.parse(sql).unwrap();
            assert_eq!(statements.len(), 1, "{sql}");
            assert_eq!(refusal(&statements[0]), None, "{sql}");
            assert_eq!(without_effect(&statements[0]), tag, "{sql}");
        }
    }
}

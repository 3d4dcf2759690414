//! Sends LogsQL to a running Loginson, and turns failures into sentences that say what to do.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, http::Response};

/// Time limit for connecting. Beyond it the server counts as unreachable.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Time until the first byte of an answer. A query may wait in Loginson's queue and run for a
/// minute each; beyond this, the statement fails.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(300);
/// Bytes that are read of an answer with an error; the rest is ignored.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// Bytes of one row of an answer. A line of a log has at most 8 MiB, which JSON may write six
/// times as long; a longer row ends the query.
const ROW_BYTES_MAX: u64 = 64 << 20;

/// A server's address and the connections to it. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    server: String,
    /// The value of the header `Authorization`.
    authorization: Option<String>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.server)
    }
}

impl Client {
    /// A client for the server at `http://HOST:PORT` or `https://HOST:PORT`. `ca` is a file with
    /// the certificate of the server or of its CA.
    pub fn new(server: &str, ca: Option<&Path>, token: Option<&str>) -> Result<Client> {
        let server = server.trim_end_matches('/');
        ensure!(
            !server.contains('@'),
            "--server: leave name and password out of the address, and give a token by --token-file"
        );
        let server =
            if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .timeout_recv_response(Some(ANSWER_TIME_MAX));
        if let Some(ca) = ca {
            let read = || format!("--ca: cannot read certificates from {}", ca.display());
            let mut roots = Vec::new();
            for der in tokio_rustls::rustls::pki_types::CertificateDer::pem_file_iter(ca)
                .with_context(read)?
            {
                roots.push(Certificate::from_der(&der.with_context(read)?).to_owned());
            }
            let roots = RootCerts::Specific(Arc::new(roots));
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        let authorization = token.map(|token| format!("Bearer {token}"));
        Ok(Client { agent: config.build().into(), server, authorization })
    }

    /// Runs a query and returns its rows, one JSON object each, as they come.
    pub fn query(&self, query: &str, limit: Option<usize>) -> Result<Rows> {
        let limit = limit.unwrap_or(0).to_string();
        let answer =
            self.post("/select/logsql/query", &[("query", query), ("limit", limit.as_str())])?;
        let reader: Box<dyn Read + Send> = Box::new(answer.into_body().into_reader());
        Ok(Rows { reader: BufReader::with_capacity(64 << 10, reader), line: Vec::new() })
    }

    /// Runs a call that answers with values and their numbers of lines, most frequent first.
    pub fn values(&self, call: &str, params: &[(&str, &str)]) -> Result<Vec<String>> {
        let mut answer = self.post(&format!("/select/logsql/{call}"), params)?;
        let answer: Value = serde_json::from_reader(answer.body_mut().as_reader())
            .with_context(|| format!("{}: the answer of {call} is no JSON", self.server))?;
        let values = answer["values"].as_array().into_iter().flatten();
        Ok(values.filter_map(|value| value["value"].as_str().map(str::to_owned)).collect())
    }

    fn post(&self, path: &str, form: &[(&str, &str)]) -> Result<Response<Body>> {
        let mut request = self.agent.post(format!("{}{path}", self.server));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut answer = request
            .send_form(form.iter().copied())
            .map_err(|e| anyhow!("{}: {e}; is Loginson running there?", self.server))?;
        let status = answer.status().as_u16();
        if status == 200 {
            return Ok(answer);
        }
        let mut text = String::new();
        let _ = answer.body_mut().as_reader().take(ERROR_BYTES_MAX).read_to_string(&mut text);
        let message = match serde_json::from_str::<Value>(&text) {
            Ok(json) if json["error"].is_string() => json["error"].as_str().unwrap().to_owned(),
            _ => text.trim().chars().take(200).collect(),
        };
        match status {
            401 | 403 => bail!(
                "Loginson refuses the token ({status}): {message}; start loginson-sql with a token \
                 that may query"
            ),
            _ => bail!("Loginson answered {status}: {message}"),
        }
    }
}

/// Rows of an answer, which are read as they come.
pub struct Rows {
    reader: BufReader<Box<dyn Read + Send>>,
    line: Vec<u8>,
}

impl Rows {
    /// The next row, a JSON object; `None` at the end.
    pub fn next_row(&mut self) -> Result<Option<&[u8]>> {
        loop {
            self.line.clear();
            let mut limited = (&mut self.reader).take(ROW_BYTES_MAX);
            limited
                .read_until(b'\n', &mut self.line)
                .context("the answer of Loginson broke off")?;
            if self.line != b"\n" {
                break;
            }
        }
        match self.line.last() {
            None => Ok(None),
            Some(b'\n') => Ok(Some(&self.line)),
            Some(_) => bail!("the answer of Loginson broke off within a row; try again"),
        }
    }
}

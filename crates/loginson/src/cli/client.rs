//! Talks HTTP to a running server, and turns failures into sentences that say what to do.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;
use serde_json::Value;
use ureq::http::Response;
use ureq::http::header::AUTHORIZATION;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Body, RequestBuilder};

use crate::cli::ServerArgs;
use crate::cli::secrets::read_password;
use api::access::authority::Authority;
use node::cluster::roots;
use node::queries::export::Format;

/// Time limit for connecting. Beyond it the server counts as unreachable.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes that are read of an error response; the rest is ignored.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// Characters that are shown of a response that did not come from Loginson.
const SHOWN_CHARS_MAX: usize = 200;

/// A server's address and the connections to it. Clones share the connections.
#[derive(Clone)]
pub struct Client {
    agent: Agent,
    server: String,
    /// The value of the header `Authorization`.
    authorization: Option<String>,
}

/// No request was sent, because no connection to the server could be made.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotReached(String);

/// An answer with another status than 2xx.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The fields of the response: `error` and what belongs to it; null when the response did not
    /// come from Loginson.
    pub body: Value,
    /// Describes a response without a message: its URL, status and media type.
    described: String,
}

impl Refusal {
    /// The message of the server.
    pub fn message(&self) -> String {
        match self.body["error"].as_str().map(str::trim) {
            Some(message) if !message.is_empty() => message.to_owned(),
            _ => self.described.clone(),
        }
    }
}

/// What a successful response has to contain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Json,
    Rows,
    /// A plan, or a word such as `ready`.
    Text,
}

impl Expected {
    /// What a request of `path` is answered with.
    fn at(path: &str) -> Expected {
        let rows =
            path.starts_with("/select/") || path == "/api/v1/export" || path.ends_with("/results");
        match path {
            "/select/logsql/explain" | "/health" | "/ready" => Expected::Text,
            _ if rows => Expected::Rows,
            _ => Expected::Json,
        }
    }

    /// Whether a response of that media type is as expected.
    fn is_met_by(self, media_type: &str) -> bool {
        match self {
            Expected::Json => media_type == "application/json",
            Expected::Text => matches!(media_type, "text/plain" | "application/json"),
            Expected::Rows => {
                let formats = <Format as ValueEnum>::value_variants().iter();
                formats
                    .map(|format| media_type_of(format.media_type()))
                    .any(|ours| ours == media_type)
            }
        }
    }
}

/// A media type without its parameters.
fn media_type_of(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or_default().trim()
}

impl Client {
    /// A client for the server at `http://HOST:PORT` or `https://HOST:PORT`, with the credentials
    /// in the arguments.
    pub fn new(args: &ServerArgs) -> Result<Self> {
        let who = credentials(args)?;
        let client = Client::of(&args.server, args.ca.as_deref(), who)?;
        if client.authorization.is_some() && client.is_overheard() {
            eprintln!(
                "loginson: credentials go to {} unencrypted; use https:// if the server \
                 has it",
                client.server
            );
        }
        Ok(client)
    }

    fn of(server: &str, ca: Option<&Path>, authorization: Option<String>) -> Result<Self> {
        let server = server.trim_end_matches('/');
        ensure!(
            !server.contains('@'),
            "leave name and password out of the address: other users of this machine see them in the list of processes; \
             see --user and --token-file"
        );
        let server =
            if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        Ok(Client { agent: agent(&server, ca, None)?, server, authorization })
    }

    /// The same server, over connections of its own.
    pub fn apart(&self) -> Client {
        let agent = self.agent.config().clone().into();
        Client { agent, server: self.server.clone(), authorization: self.authorization.clone() }
    }

    /// Ends the requests that run over these connections, on whatever thread; further ones fail.
    pub fn shut_down(self) {
        self.agent.shutdown();
    }

    /// Whether requests cross a network without encryption.
    fn is_overheard(&self) -> bool {
        let Some(rest) = self.server.strip_prefix("http://") else { return false };
        let authority = rest.split('/').next().unwrap_or_default();
        !Authority::parse(authority.as_bytes()).is_some_and(|a| a.host.is_loopback())
    }

    /// Adds the credentials to a request.
    fn by<B>(&self, request: RequestBuilder<B>) -> RequestBuilder<B> {
        match &self.authorization {
            Some(authorization) => request.header(AUTHORIZATION, authorization),
            None => request,
        }
    }

    /// Posts a form and returns the response.
    pub fn post_form(
        &self,
        path: &str,
        form: &[(&str, String)],
    ) -> Result<Result<Response<Body>, Refusal>> {
        let url = format!("{}{path}", self.server);
        let form = form.iter().map(|(name, value)| (*name, value.as_str()));
        self.judge(path, self.by(self.agent.post(url)).send_form(form))
    }

    /// Posts bytes, with parameters in the URL.
    pub fn post_bytes(
        &self,
        path: &str,
        params: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Result<Response<Body>, Refusal>> {
        let url = format!("{}{path}", self.server);
        let request = self.by(self.agent.post(url)).query_pairs(params.iter().copied());
        self.judge(path, request.content_type("text/plain").send(body))
    }

    /// Gets a path, with parameters.
    pub fn get(
        &self,
        path: &str,
        params: &[(&str, &str)],
    ) -> Result<Result<Response<Body>, Refusal>> {
        let url = format!("{}{path}", self.server);
        self.judge(path, self.by(self.agent.get(url)).query_pairs(params.iter().copied()).call())
    }

    /// Posts an empty body; returns the JSON of the response.
    pub fn post_json(&self, path: &str) -> Result<Value> {
        let url = format!("{}{path}", self.server);
        self.json(path, self.by(self.agent.post(url)).send_empty())
    }

    /// Gets the JSON at a path.
    pub fn get_json(&self, path: &str) -> Result<Value> {
        let url = format!("{}{path}", self.server);
        self.json(path, self.by(self.agent.get(url)).call())
    }

    /// Sends DELETE for a path; returns the JSON of the response.
    pub fn delete_json(&self, path: &str) -> Result<Value> {
        let url = format!("{}{path}", self.server);
        self.json(path, self.by(self.agent.delete(url)).call())
    }

    fn json(&self, path: &str, result: Result<Response<Body>, ureq::Error>) -> Result<Value> {
        match self.judge(path, result)? {
            Ok(mut response) => Ok(serde_json::from_str(&response.body_mut().read_to_string()?)?),
            Err(refusal) => Err(anyhow!(crate::cli::terminal::escaped(&refusal.message()))),
        }
    }

    fn judge(
        &self,
        path: &str,
        result: Result<Response<Body>, ureq::Error>,
    ) -> Result<Result<Response<Body>, Refusal>> {
        let mut response = result.map_err(|error| self.explain(error))?;
        let header = |name: &str| {
            let value = response.headers().get(name).and_then(|value| value.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let (content_type, location) = (header("content-type"), header("location"));
        let media_type = media_type_of(&content_type).to_ascii_lowercase();
        let status = response.status();
        if status.is_success() && Expected::at(path).is_met_by(&media_type) {
            return Ok(Ok(response));
        }
        let from = format!("{}{path} answered with status {status}", self.server);
        if status.is_redirection() {
            return Err(anyhow!(crate::cli::terminal::escaped(&format!(
                "{from} and redirects to '{location}', as a proxy does that requires a login; give the address of Loginson itself with --server"
            ))));
        }
        let text = response
            .body_mut()
            .with_config()
            .limit(ERROR_BYTES_MAX)
            .lossy_utf8(true)
            .read_to_string();
        let text = text.unwrap_or_default();
        let begin: String = text.trim().chars().take(SHOWN_CHARS_MAX).collect();
        let kind = if media_type.is_empty() { "no media type" } else { media_type.as_str() };
        let described = match begin.is_empty() {
            true => format!("{from}, without a body ({kind})"),
            false => format!("{from}, with a body that is not Loginson's ({kind}): {begin}"),
        };
        if status.is_success() {
            return Err(anyhow!(crate::cli::terminal::escaped(&format!(
                "{described}; give the address of Loginson itself with --server"
            ))));
        }
        let body = serde_json::from_str(&text).unwrap_or_default();
        Ok(Err(Refusal { status: status.as_u16(), body, described }))
    }

    fn explain(&self, error: ureq::Error) -> anyhow::Error {
        let server = &self.server;
        let not_reached = |message: String| anyhow::Error::new(NotReached(message));
        match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                not_reached(format!(
                    "no server answers at {server}; start one with `loginson`, or give the address of another with --server URL"
                ))
            }
            ureq::Error::HostNotFound => {
                not_reached(format!("the host name of {server} cannot be resolved; check --server"))
            }
            ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => not_reached(
                format!("{server} could not be reached in time; check --server and the network"),
            ),
            ureq::Error::Timeout(_) => {
                anyhow!("{server} did not answer in time; check --server and the network")
            }
            error => {
                // ureq wraps errors of rustls in several ways, so only their text identifies them.
                let text = format!("{error} {error:?}");
                let hint = if text.contains("UnknownIssuer") {
                    "; if you trust the server, give its certificate, or that of its CA, with --ca"
                } else if text.contains("CaUsedAsEndEntity") {
                    "; the server presents a CA certificate as its own; docs/access.md says how \
                     to make a certificate for it"
                } else if text.contains("NotValidForName") {
                    "; its certificate is for other names; use one of those in the address"
                } else if text.contains("InvalidContentType") {
                    "; it seems to speak HTTP there, not HTTPS"
                } else {
                    ""
                };
                anyhow!("{server}: {error}{hint}")
            }
        }
    }
}

/// Connections to a server at an address with its scheme, which may let one wait for an answer.
pub fn agent(server: &str, ca: Option<&Path>, answer_time_max: Option<Duration>) -> Result<Agent> {
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        // A proxy that requires a login redirects to its login page, which is not our response.
        .max_redirects(0)
        .timeout_connect(Some(CONNECT_TIME_MAX))
        .timeout_recv_response(answer_time_max);
    if server.starts_with("https://") {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(provider)
            .root_certs(RootCerts::Specific(Arc::new(roots(ca)?)))
            .build();
        config = config.tls_config(tls);
    }
    Ok(config.build().into())
}

/// The value of the header `Authorization`: a token, or a name with a password.
fn credentials(args: &ServerArgs) -> Result<Option<String>> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(name) = &args.user {
        let password = match variable("LOGINSON_PASSWORD") {
            Some(password) => password,
            None => read_password(&format!("Password of {name}: "))?,
        };
        return Ok(Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}")))));
    }
    let token = token(args.token_file.as_deref())?;
    Ok(token.map(|token| format!("Bearer {token}")))
}

/// The token in a file, or in the environment.
pub fn token(file: Option<&Path>) -> Result<Option<String>> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let token = match file {
        Some(file) => {
            let text = std::fs::read_to_string(file);
            Some(text.with_context(|| format!("--token-file: cannot read {}", file.display()))?)
        }
        None => variable("LOGINSON_TOKEN"),
    };
    let Some(token) = token else { return Ok(None) };
    let token = token.trim();
    ensure!(
        !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()),
        "the token is empty, or has characters that no token contains"
    );
    Ok(Some(token.to_owned()))
}

/// Shows a refused query, with a mark below the position of the error.
pub fn explain_query_refusal(refusal: &Refusal) -> anyhow::Error {
    let (Some(query), Some(position)) =
        (refusal.body["query"].as_str(), refusal.body["position"].as_u64())
    else {
        return anyhow!(refusal.message());
    };
    let before = query.get(..position as usize).unwrap_or(query);
    // Only the line of the query with the error, so that the mark stands below it.
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = query[line_start..].lines().next().unwrap_or_default();
    let column = query[line_start..before.len().max(line_start)].chars().count();
    anyhow!(
        "{}\n  {}\n  {}^",
        crate::cli::terminal::escaped(&refusal.message()),
        crate::cli::terminal::escaped(line),
        " ".repeat(column)
    )
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;

    use super::*;

    /// How the client judges a raw response to a request of `path`.
    fn judged(path: &str, answer: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let answer = answer.to_owned();
        let answering = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            assert!(lines.map_while(Result::ok).any(|line| line.is_empty()));
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let client = Client::of(&server, None, None).unwrap();
        let described = match client.get(path, &[]) {
            Ok(Ok(mut response)) => {
                format!("taken: {}", response.body_mut().read_to_string().unwrap())
            }
            Ok(Err(refusal)) => format!("refused: {}", refusal.message()),
            Err(error) => format!("error: {error}"),
        };
        answering.join().unwrap();
        described.replace(&server, "SERVER")
    }

    #[test]
    fn answers_that_are_not_ours_are_described() {
        let answer = |status: &str, kind: &str, body: &str| {
            let length = body.len();
            format!(
                "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
            )
        };
        let rows = "/select/logsql/query";
        for (path, answer, expected) in [
            (rows, answer("200 OK", "application/stream+json", "{}"), "taken: {}"),
            (rows, answer("200 OK", "text/csv; charset=utf-8", "a"), "taken: a"),
            ("/api/v1/backups", answer("200 OK", "application/json", "{}"), "taken: {}"),
            ("/select/logsql/explain", answer("200 OK", "text/plain", "all"), "taken: all"),
            ("/select/logsql/explain", answer("200 OK", "application/json", "{}"), "taken: {}"),
            (
                rows,
                answer("200 OK", "text/html; charset=utf-8", "<html>Log in\u{1b}[2J"),
                "error: http://SERVER/select/logsql/query answered with status 200 OK, with a body that is not Loginson's \
                 (text/html): <html>Log in\\x1b[2J; give the address of Loginson itself with --server",
            ),
            (
                rows,
                answer("200 OK", "application/json", "{\"login\":1}"),
                "error: http://SERVER/select/logsql/query answered with status 200 OK, with a body that is not Loginson's \
                 (application/json): {\"login\":1}; give the address of Loginson itself with --server",
            ),
            (
                "/api/v1/backups",
                "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
                "error: http://SERVER/api/v1/backups answered with status 204 No Content, without a body (no media type); \
                 give the address of Loginson itself with --server",
            ),
            (
                rows,
                "HTTP/1.1 302 Found\r\nLocation: https://sso/?a=b\r\nContent-Length: 0\r\n\r\n"
                    .to_owned(),
                "error: http://SERVER/select/logsql/query answered with status 302 Found and redirects to 'https://sso/?a=b', \
                 as a proxy does that requires a login; give the address of Loginson itself with --server",
            ),
            (
                rows,
                answer("502 Bad Gateway", "text/html", ""),
                "refused: http://SERVER/select/logsql/query answered with status 502 Bad Gateway, without a body (text/html)",
            ),
            (
                rows,
                answer("401 Unauthorized", "application/json", "{\"error\":\" \"}"),
                "refused: http://SERVER/select/logsql/query answered with status 401 Unauthorized, with a body that is not \
                 Loginson's (application/json): {\"error\":\" \"}",
            ),
            (
                rows,
                answer("400 Bad Request", "application/json", "{\"error\":\"no query\"}"),
                "refused: no query",
            ),
        ] {
            assert_eq!(judged(path, &answer), expected);
        }
    }
}

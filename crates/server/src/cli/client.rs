//! Talks HTTP to a running server, and turns failures into sentences that say what to do.

use std::io;
use std::time::Duration;

use anyhow::{Result, anyhow};
use serde_json::Value;
use ureq::http::Response;
use ureq::{Agent, Body};

/// Time to connect. A server that does not take the connection by then is not there.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
/// Bytes read of an error's text.
const ERROR_BYTES_MAX: u64 = 64 << 10;

/// A server's address and the connections to it.
pub struct Client {
    agent: Agent,
    server: String,
}

/// No request was sent: there is no connection to the server.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct NotReached(String);

/// An answer with another status than 2xx.
#[derive(Debug)]
pub struct Refusal {
    /// The HTTP status.
    pub status: u16,
    /// The answer's fields: `error` and what belongs to it.
    pub body: Value,
}

impl Refusal {
    /// The message of the server.
    pub fn message(&self) -> String {
        match self.body["error"].as_str() {
            Some(message) => message.to_owned(),
            None => format!("the server answered with status {}", self.status),
        }
    }
}

impl Client {
    /// A client of the server at `http://HOST:PORT`.
    pub fn new(server: &str) -> Result<Self> {
        let server = server.trim_end_matches('/');
        if server.starts_with("https://") {
            return Err(anyhow!(
                "{server}: https is not spoken here; use http, or a proxy that speaks https for you"
            ));
        }
        let server =
            if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .build();
        Ok(Client { agent: config.into(), server })
    }

    /// Posts a form.
    pub fn post_form(
        &self,
        path: &str,
        form: &[(&str, String)],
    ) -> Result<Result<Response<Body>, Refusal>> {
        let url = format!("{}{path}", self.server);
        let form = form.iter().map(|(name, value)| (*name, value.as_str()));
        self.judge(self.agent.post(url).send_form(form))
    }

    /// Posts bytes, with parameters in the address.
    pub fn post_bytes(
        &self,
        path: &str,
        params: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Result<Response<Body>, Refusal>> {
        let url = format!("{}{path}", self.server);
        let request = self.agent.post(url).query_pairs(params.iter().copied());
        self.judge(request.content_type("text/plain").send(body))
    }

    /// What is at a path, with parameters.
    pub fn get(
        &self,
        path: &str,
        params: &[(&str, &str)],
    ) -> Result<Result<Response<Body>, Refusal>> {
        let url = format!("{}{path}", self.server);
        self.judge(self.agent.get(url).query_pairs(params.iter().copied()).call())
    }

    /// Posts nothing; gives the JSON of the answer.
    pub fn post_json(&self, path: &str) -> Result<Value> {
        let url = format!("{}{path}", self.server);
        self.json(self.agent.post(url).send_empty())
    }

    /// The JSON at a path.
    pub fn get_json(&self, path: &str) -> Result<Value> {
        let url = format!("{}{path}", self.server);
        self.json(self.agent.get(url).call())
    }

    /// Deletes what is at a path; gives the JSON of the answer.
    pub fn delete_json(&self, path: &str) -> Result<Value> {
        let url = format!("{}{path}", self.server);
        self.json(self.agent.delete(url).call())
    }

    fn json(&self, result: Result<Response<Body>, ureq::Error>) -> Result<Value> {
        match self.judge(result)? {
            Ok(mut response) => Ok(serde_json::from_str(&response.body_mut().read_to_string()?)?),
            Err(refusal) => Err(anyhow!(super::terminal::escaped(&refusal.message()))),
        }
    }

    fn judge(
        &self,
        result: Result<Response<Body>, ureq::Error>,
    ) -> Result<Result<Response<Body>, Refusal>> {
        let mut response = result.map_err(|error| self.explain(error))?;
        if response.status().is_success() {
            return Ok(Ok(response));
        }
        let text = response
            .body_mut()
            .with_config()
            .limit(ERROR_BYTES_MAX)
            .lossy_utf8(true)
            .read_to_string();
        let text = text.unwrap_or_default();
        let body = serde_json::from_str(&text)
            .unwrap_or_else(|_| serde_json::json!({ "error": text.trim() }));
        Ok(Err(Refusal { status: response.status().as_u16(), body }))
    }

    fn explain(&self, error: ureq::Error) -> anyhow::Error {
        let server = &self.server;
        let not_reached = |message: String| anyhow::Error::new(NotReached(message));
        match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                not_reached(format!(
                    "no server answers at {server}; start one with `loginson`, or name another with --server URL"
                ))
            }
            ureq::Error::HostNotFound => {
                not_reached(format!("the host of {server} is not known; check --server"))
            }
            ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => not_reached(
                format!("{server} cannot be reached in time; check --server and the network"),
            ),
            ureq::Error::Timeout(_) => {
                anyhow!("{server} did not answer in time; check --server and the network")
            }
            error => anyhow!("{server}: {error}"),
        }
    }
}

/// A wrong query, with a mark below the place where it is wrong.
pub fn explain_query_refusal(refusal: &Refusal) -> anyhow::Error {
    let (Some(query), Some(position)) =
        (refusal.body["query"].as_str(), refusal.body["position"].as_u64())
    else {
        return anyhow!(refusal.message());
    };
    let before = query.get(..position as usize).unwrap_or(query);
    // Only the line of the query that is wrong, so that the mark stands below it.
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let line = query[line_start..].lines().next().unwrap_or_default();
    let column = query[line_start..before.len().max(line_start)].chars().count();
    anyhow!(
        "{}\n  {}\n  {}^",
        super::terminal::escaped(&refusal.message()),
        super::terminal::escaped(line),
        " ".repeat(column)
    )
}

//! Requests over HTTP and HTTPS to one of several equal servers.
//!
//! A server that cannot be reached is left for the next one at once, since it received nothing. A
//! server that broke off, or answered that it is overloaded or broken, is left for the next
//! request. Redirects are not followed: behind them are login pages. No text that leaves this
//! module contains a secret of the client. Neither does the log of the libraries below: `ureq`
//! shows only harmless headers and no path at DEBUG, and what it would dump at TRACE is compiled
//! out.
//!
//! Left out: proxies.

pub mod compress;
pub mod judge;
mod limited;
pub mod tls;
mod wait;

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ureq::Agent;
use ureq::http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HeaderName, HeaderValue};
use ureq::unversioned::transport::DefaultConnector;

use crate::destination::{Delivered, Fault};
use cluster::engines::Secret;
use compress::Encoding;

/// A build with TRACE of the libraries below could log credentials.
const _: () = assert!(log::STATIC_MAX_LEVEL as usize <= log::LevelFilter::Debug as usize);

/// Bytes that are read of a response. A longer one counts as a broken answer; the longest sensible
/// one answers for each of some 100,000 documents.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// How servers are reached.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// `http://HOST:PORT` or `https://HOST:PORT`, with or without a path, without a slash at the
    /// end.
    pub urls: Vec<String>,
    /// Who asks.
    pub credentials: Credentials,
    /// More headers of every request.
    pub headers: Vec<(String, Secret)>,
    /// A file with the certificates that servers are verified with; `None` for those of the system.
    pub ca: Option<PathBuf>,
    /// The longest time for connecting.
    pub connect_time_max: Duration,
    /// The longest time from the start of a request to the end of its response.
    pub request_time_max: Duration,
}

/// What a client proves its identity with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    None,
    /// HTTP Basic.
    Basic {
        /// The name of a user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// An API key of Elasticsearch in its encoded form.
    ApiKey(Secret),
    /// A token.
    Bearer(Secret),
}

/// Connections to the servers of one destination.
pub struct Client {
    agent: Agent,
    urls: Vec<String>,
    /// The server that requests go to.
    current: usize,
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Texts that no message may contain.
    secrets: Vec<Secret>,
}

/// A request below the address of a server.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// GET, PUT or POST.
    pub method: Method,
    /// Begins with a slash, or is empty.
    pub path: &'a str,
    /// The media type of the body.
    pub content_type: &'a str,
    /// How the body is compressed already.
    pub encoding: Encoding,
    /// The body.
    pub body: &'a [u8],
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Method {
    Get,
    Put,
    Post,
}

/// A response, whatever its status.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// How long to wait.
    pub retry_after: Option<Duration>,
    /// The whole body; it may contain a secret.
    pub body: String,
    /// Where it came from.
    pub url: String,
}

/// Why there is no response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// No response came in time.
    TimedOut(Fault),
    /// No server could be reached, or the connection broke.
    Broken(Fault),
}

impl From<Trouble> for Delivered {
    fn from(trouble: Trouble) -> Delivered {
        match trouble {
            Trouble::TimedOut(fault) => Delivered::TimedOut(fault),
            Trouble::Broken(fault) => Delivered::unavailable(fault),
        }
    }
}

impl Client {
    /// A client; connects to nothing yet.
    pub fn new(options: &ClientOptions) -> Result<Client, Fault> {
        Client::with(options, |config| config.into())
    }

    /// A client that connects to those addresses alone that `check` allows, whatever a name
    /// resolves to at the time; its error says why not. Connects to nothing yet.
    pub fn limited(
        options: &ClientOptions,
        check: impl Fn(IpAddr) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Client, Fault> {
        Client::with(options, |config| {
            let resolver = limited::LimitedResolver::new(check);
            Agent::with_parts(config, DefaultConnector::default(), resolver)
        })
    }

    fn with(
        options: &ClientOptions,
        agent: impl FnOnce(ureq::config::Config) -> Agent,
    ) -> Result<Client, Fault> {
        let mut secrets = Vec::new();
        let mut headers = Vec::new();
        let mut add = |name: &str, value: &str| -> Result<(), Fault> {
            let fault = || {
                let what = format!("the header '{name}' cannot be sent");
                Fault::new(what, "a name or secret contains a character that HTTP does not allow")
            };
            let parsed = HeaderName::from_bytes(name.as_bytes()).map_err(|_| fault())?;
            let mut value = HeaderValue::from_str(value).map_err(|_| fault())?;
            value.set_sensitive(true);
            headers.push((parsed, value));
            Ok(())
        };
        match &options.credentials {
            Credentials::None => {}
            Credentials::Basic { user, password } => {
                let encoded = STANDARD.encode(format!("{user}:{}", password.expose()));
                add(AUTHORIZATION.as_str(), &format!("Basic {encoded}"))?;
                secrets.extend([password.clone(), Secret::new(encoded)]);
            }
            Credentials::ApiKey(key) => {
                add(AUTHORIZATION.as_str(), &format!("ApiKey {}", key.expose()))?;
                secrets.push(key.clone());
                // The decoded form is `ID:KEY`.
                let decoded = STANDARD.decode(key.expose()).ok();
                let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
                let secret = decoded.as_deref().and_then(|text| text.split_once(':'));
                secrets.extend(secret.map(|(_, key)| Secret::new(key)));
            }
            Credentials::Bearer(token) => {
                add(AUTHORIZATION.as_str(), &format!("Bearer {}", token.expose()))?;
                secrets.push(token.clone());
            }
        }
        for (name, value) in &options.headers {
            add(name, value.expose())?;
            secrets.push(value.clone());
        }
        // A secret that contains another one is hidden first, as a whole.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose().len()));
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .user_agent(concat!("loginson/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(options.connect_time_max))
            .timeout_global(Some(options.request_time_max));
        if options.urls.iter().any(|url| url.starts_with("https://")) {
            config = config.tls_config(tls::config(options.ca.as_deref())?);
        }
        Ok(Client {
            agent: agent(config.build()),
            urls: options.urls.clone(),
            current: 0,
            headers,
            secrets,
        })
    }

    /// Sends a request to the current server, or to the first one that can be reached.
    pub fn send(&mut self, request: Request<'_>) -> Result<Reply, Trouble> {
        let mut unreached = None;
        for _ in 0..self.urls.len() {
            let base = self.urls[self.current].clone();
            let url = format!("{base}{}", request.path);
            let error = match self.send_to(&url, request) {
                Ok(reply) => {
                    if matches!(reply.status, 429 | 500..) {
                        self.next_server();
                    }
                    return Ok(reply);
                }
                Err(error) => error,
            };
            self.next_server();
            let fault = self.explain(&base, &error);
            if !is_unreached(&error) {
                return Err(match error {
                    ureq::Error::Timeout(_) => Trouble::TimedOut(fault),
                    _ => Trouble::Broken(fault),
                });
            }
            unreached = Some(fault);
        }
        Err(Trouble::Broken(unreached.unwrap_or_else(|| {
            Fault::new("no address is configured", "give at least one in `urls`")
        })))
    }

    /// `text` without secrets.
    pub fn redacted(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| secret.hidden_in(&text))
    }

    fn next_server(&mut self) {
        self.current = (self.current + 1) % self.urls.len();
    }

    fn send_to(&self, url: &str, request: Request<'_>) -> Result<Reply, ureq::Error> {
        let mut response = match request.method {
            Method::Get => {
                let built = self.agent.get(url);
                self.headers
                    .iter()
                    .fold(built, |built, (name, value)| built.header(name, value))
                    .call()?
            }
            Method::Put | Method::Post => {
                let is_put = request.method == Method::Put;
                let built = if is_put { self.agent.put(url) } else { self.agent.post(url) };
                let mut built = self
                    .headers
                    .iter()
                    .fold(built, |built, (name, value)| built.header(name, value))
                    .header(CONTENT_TYPE, request.content_type);
                if let Some(encoding) = request.encoding.header() {
                    built = built.header(CONTENT_ENCODING, encoding);
                }
                built.send(request.body)?
            }
        };
        let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let retry_after = text("retry-after")
            .and_then(|value| wait::asked(value, text("date"), SystemTime::now()));
        let limited = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX);
        let body = limited.lossy_utf8(true).read_to_string()?;
        Ok(Reply { status: response.status().as_u16(), retry_after, body, url: url.to_owned() })
    }

    fn explain(&self, server: &str, error: &ureq::Error) -> Fault {
        // Parameters are left out: they may hold a token.
        let server = server.split('?').next().unwrap_or_default();
        let check = "check that the server runs, its address and the network";
        match error {
            ureq::Error::Io(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                Fault::new(format!("no server answers at {server}"), check)
            }
            ureq::Error::HostNotFound => Fault::new(
                format!("the host name of {server} cannot be resolved"),
                "correct the address, or the name service of this machine",
            ),
            ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
                Fault::new(format!("{server} could not be reached in time"), check)
            }
            ureq::Error::Timeout(_) => Fault::new(
                format!("{server} did not answer in time"),
                "the server is overloaded, or `timeout` is too short for it",
            ),
            error => {
                // ureq wraps errors of rustls in several ways, so only their text identifies them.
                let text = format!("{error} {error:?}");
                let remedy = if text.contains("UnknownIssuer") || text.contains("BadSignature") {
                    "if you trust the server, give its certificate, or that of its CA, with `ca`"
                } else if text.contains("CaUsedAsEndEntity") {
                    "the server presents a CA certificate as its own; give it one signed by the CA"
                } else if text.contains("NotValidForName") {
                    "its certificate is for other names; use one of those in the address"
                } else if text.contains("Expired") {
                    "renew the certificate of the server, or correct the clock of this machine"
                } else if text.contains("InvalidContentType") {
                    "it seems to speak HTTP there, not HTTPS"
                } else {
                    ""
                };
                Fault::new(self.redacted(&format!("{server}: {error}")), remedy)
            }
        }
    }
}

/// Whether an error shows that the server received nothing.
fn is_unreached(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => error.kind() == io::ErrorKind::ConnectionRefused,
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => true,
        _ => false,
    }
}

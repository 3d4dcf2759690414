//! The HTTP below the library: our TLS, time limits, and two corrections of its requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use async_trait::async_trait;
use http::header::{CONTENT_LENGTH, HeaderValue, IF_NONE_MATCH};
use http::{Method, StatusCode};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};

use super::Config;
use crate::engines::error::{Error, ErrorKind};
use crate::engines::roots;

/// A client that the library uses for all requests of a bucket.
#[derive(Debug, Clone)]
pub struct Client(Arc<reqwest::Client>, Arc<Counters>);

/// The requests to an object storage, by the classes that are paid for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Requests {
    /// That write: PUT, and POST for uploads in parts.
    pub put: u64,
    /// That list names, which cost as much as those that write.
    pub list: u64,
    /// That read: GET and HEAD.
    pub get: u64,
    /// That delete, which cost nothing.
    pub delete: u64,
    /// Bytes of bodies that were sent.
    pub bytes_sent: u64,
    /// Bytes of bodies that were received, as their heads announced them.
    pub bytes_received: u64,
}

#[derive(Debug, Default)]
struct Counters {
    put: AtomicU64,
    list: AtomicU64,
    get: AtomicU64,
    delete: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
}

impl Counters {
    fn note(&self, request: &HttpRequest) {
        let is_list =
            request.uri().query().is_some_and(|query| query.split('&').any(|p| p == "list-type=2"));
        let class = match *request.method() {
            Method::GET if is_list => &self.list,
            Method::GET | Method::HEAD => &self.get,
            Method::DELETE => &self.delete,
            _ => &self.put,
        };
        class.fetch_add(1, Relaxed);
        self.bytes_sent.fetch_add(request.body().content_length() as u64, Relaxed);
    }
}

/// A server that cannot answer now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Busy(pub StatusCode);

impl fmt::Display for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the object storage answered {}", self.0)
    }
}

impl std::error::Error for Busy {}

impl Client {
    pub fn new(config: &Config) -> Result<Client, Error> {
        let is_encrypted =
            config.endpoint.as_ref().is_none_or(|endpoint| !endpoint.starts_with("http://"));
        // Certificates are read for TLS alone: a system may have none.
        let tls = match is_encrypted {
            true => roots::client_config(config.ca.as_deref(), None)?,
            false => without_roots()?,
        };
        Client::with(config, tls)
    }

    /// A client for servers that are not the storage, and may be known by the certificates of the
    /// system only.
    pub fn of_system(config: &Config) -> Result<Client, Error> {
        Client::with(config, roots::client_config(None, None).or_else(|_| without_roots())?)
    }

    fn with(config: &Config, tls: rustls::ClientConfig) -> Result<Client, Error> {
        let builder = reqwest::Client::builder()
            .user_agent("loginson")
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(config.connect_time_max)
            .timeout(config.request_time_max)
            .tls_backend_preconfigured(tls);
        let client = builder.build().map_err(|error| {
            let what = format!("the HTTP client cannot be set up: {error}");
            Error::new(ErrorKind::Refused, what, "")
        })?;
        Ok(Client(Arc::new(client), Arc::default()))
    }

    /// The requests so far.
    pub fn requests(&self) -> Requests {
        let Counters { put, list, get, delete, bytes_sent, bytes_received } = &*self.1;
        Requests {
            put: put.load(Relaxed),
            list: list.load(Relaxed),
            get: get.load(Relaxed),
            delete: delete.load(Relaxed),
            bytes_sent: bytes_sent.load(Relaxed),
            bytes_received: bytes_received.load(Relaxed),
        }
    }
}

/// TLS that trusts nobody, for connections that have none.
fn without_roots() -> Result<rustls::ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::new(ErrorKind::Refused, format!("TLS: {error}"), ""))?;
    Ok(config.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth())
}

impl HttpConnector for Client {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Client {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The library has no upload in parts that never replaces an object. Such a header is not
        // part of the signature.
        let is_completion = request.method() == Method::POST
            && request.uri().query().is_some_and(|query| query.contains("uploadId="));
        if is_completion {
            request.headers_mut().insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        self.1.note(&request);
        let has_body = request.method() == Method::GET;
        let response = HttpService::call(self.0.as_ref(), request).await?;
        let length = response.headers().get(CONTENT_LENGTH).filter(|_| has_body);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        self.1.bytes_received.fetch_add(length.unwrap_or(0), Relaxed);
        // The library tells the status of its errors by text alone.
        let status = response.status();
        let is_busy = status.is_server_error()
            || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT);
        if is_busy && status != StatusCode::NOT_IMPLEMENTED {
            return Err(HttpError::new(HttpErrorKind::Unknown, Busy(status)));
        }
        Ok(response)
    }
}

//! The HTTP below the library: our TLS, time limits, and two corrections of its requests.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use http::header::{HeaderValue, IF_NONE_MATCH};
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
pub struct Client(Arc<reqwest::Client>);

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
        let mut builder = reqwest::Client::builder()
            .user_agent("loginson")
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .connect_timeout(config.connect_time_max)
            .timeout(config.request_time_max);
        // Certificates are read for TLS alone: a system may have none.
        let tls = match is_encrypted {
            true => roots::client_config(config.ca.as_deref(), None)?,
            false => without_roots()?,
        };
        builder = builder.tls_backend_preconfigured(tls);
        let client = builder.build().map_err(|error| {
            let what = format!("the HTTP client cannot be set up: {error}");
            Error::new(ErrorKind::Refused, what, "")
        })?;
        Ok(Client(Arc::new(client)))
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
        let response = HttpService::call(self.0.as_ref(), request).await?;
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

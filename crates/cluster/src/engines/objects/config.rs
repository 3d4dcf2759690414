//! How object storage is reached, and what a bucket may use.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::engines::error::{Error, ErrorKind};
use crate::engines::secret::Secret;

/// Options of a [`Bucket`](super::Bucket).
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the storage is, for example `https://s3.example.com:9000`; `None` for Amazon's.
    pub endpoint: Option<String>,
    /// The region, which is part of signatures.
    pub region: String,
    /// The bucket. It is not created.
    pub bucket: String,
    /// Whether the bucket is in the path of addresses, and not in their host name. Servers other
    /// than Amazon's mostly expect it there.
    pub path_style: bool,
    /// Who signs requests.
    pub credentials: Credentials,
    /// A file with the certificates that the storage is verified with; `None` for those of the
    /// system.
    pub ca: Option<PathBuf>,
    /// Bytes of a part of an upload, at least 5 MiB. A smaller object is one request.
    pub part_bytes: usize,
    /// Parts of one upload that are sent in parallel, and in memory.
    pub parallel_parts_max: usize,
    /// The longest time for connecting.
    pub connect_time_max: Duration,
    /// The longest time for a request and its response.
    pub request_time_max: Duration,
    /// The longest time for a call, all repetitions included. For an upload in parts it is that of
    /// each part.
    pub call_time_max: Duration,
}

/// A key and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The access key, which names the user.
    pub key: String,
    /// The secret key.
    pub secret: Secret,
    /// The token of temporary credentials.
    pub token: Option<Secret>,
}

impl Config {
    /// The defaults: `us-east-1`, the bucket in the path, parts of 32 MiB of which two are sent in
    /// parallel, 5 s for connecting, 30 s for a request, a minute for a call. Each part is paid for
    /// as a request, so large ones make large segments cheap.
    pub fn new(endpoint: Option<String>, bucket: &str, credentials: Credentials) -> Config {
        Config {
            endpoint,
            region: "us-east-1".to_owned(),
            bucket: bucket.to_owned(),
            path_style: true,
            credentials,
            ca: None,
            part_bytes: 32 << 20,
            parallel_parts_max: 2,
            connect_time_max: Duration::from_secs(5),
            request_time_max: Duration::from_secs(30),
            call_time_max: Duration::from_secs(60),
        }
    }
}

impl Credentials {
    /// Those in two files, without the white space around them.
    pub fn from_files(key: &Path, secret: &Path) -> Result<Credentials, Error> {
        let read = |file: &Path| {
            let text = std::fs::read_to_string(file).map_err(|error| {
                let what = format!("cannot read {}: {error}", file.display());
                Error::new(ErrorKind::Refused, what, "name a file that Loginson may read")
            })?;
            let text = text.trim().to_owned();
            if text.is_empty() || text.contains(char::is_control) {
                let what = format!("{} is empty, or has several lines", file.display());
                return Err(Error::new(ErrorKind::Refused, what, "write one key into it"));
            }
            Ok(text)
        };
        Ok(Credentials { key: read(key)?, secret: Secret::new(read(secret)?), token: None })
    }

    /// Those of the variables `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, for temporary ones,
    /// `AWS_SESSION_TOKEN` of the environment.
    pub fn from_environment() -> Result<Credentials, Error> {
        let read = |name: &str| {
            std::env::var(name).map_err(|_| {
                let what = format!("the environment has no variable {name}");
                let remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give files";
                Error::new(ErrorKind::Refused, what, remedy)
            })
        };
        Ok(Credentials {
            key: read("AWS_ACCESS_KEY_ID")?,
            secret: Secret::new(read("AWS_SECRET_ACCESS_KEY")?),
            token: read("AWS_SESSION_TOKEN").ok().map(Secret::new),
        })
    }
}

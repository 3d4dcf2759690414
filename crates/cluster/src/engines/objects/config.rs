//! How object storage is reached, and what a bucket may use.

use std::path::PathBuf;
use std::time::Duration;

use super::Credentials;

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
    /// The class that new objects have, for example `INTELLIGENT_TIERING`; `None` for that of the
    /// bucket.
    pub storage_class: Option<String>,
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
            storage_class: None,
            part_bytes: 32 << 20,
            parallel_parts_max: 2,
            connect_time_max: Duration::from_secs(5),
            request_time_max: Duration::from_secs(30),
            call_time_max: Duration::from_secs(60),
        }
    }
}

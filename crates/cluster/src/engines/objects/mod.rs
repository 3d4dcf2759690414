//! Objects in storage with the S3 interface, by the library `object_store`.
//!
//! An object has a name and bytes. It is written whole, once, and never changed: no call replaces
//! the content of a name. Every reader sees it once [`Bucket::put_new`] has returned.
//!
//! Calls are repeated after errors that may pass, with growing pauses, until
//! [`Config::call_time_max`] is over. Whether a write whose answer was lost is ours is told by a
//! random number that each write attaches to its object (`x-amz-meta-upload`).
//!
//! Large objects are uploaded in parts, of which [`Config::parallel_parts_max`] are in memory at a
//! time. A process that is killed leaves parts without an object; a lifecycle rule of the bucket
//! (`AbortIncompleteMultipartUpload`) deletes them.

mod config;
mod credentials;
mod errors;
mod http;
mod upload;

use std::future::Future;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore, ObjectStoreExt, RetryConfig};

pub use crate::{FileBody, ObjectBody, ObjectInfo};
pub use config::Config;
pub use credentials::{Credentials, Keys};
pub use http::Requests;

use crate::engines::error::{Error, ErrorKind};
use crate::engines::meter::{Meter, Metered};
use crate::engines::runtime::Runtime;

/// Threads of the library.
const THREADS: usize = 2;
/// The first pause before a call is repeated; it doubles each time.
const PAUSE_FIRST: Duration = Duration::from_millis(100);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Without an answer for this long, the storage counts as away for queries.
const OUTAGE: Duration = Duration::from_secs(2);
/// How long after a request that failed queries send none, while the storage is away.
const OUTAGE_PAUSE: Duration = Duration::from_secs(1);
/// Time of one request of a query while the storage is away.
const ATTEMPT_IN_OUTAGE: Duration = Duration::from_secs(1);
/// Time of one request of a query. It reads one part of an object.
const ATTEMPT: Duration = Duration::from_secs(15);
/// Objects that a server lists at once.
const PAGE_OBJECTS_MAX: usize = 1000;

/// A bucket. It may be used by several threads at the same time.
#[derive(Debug)]
pub struct Bucket {
    config: Config,
    store: AmazonS3,
    client: http::Client,
    runtime: Runtime,
    meter: Meter,
    /// Reads of queries alone: uploads may fail where reads succeed.
    reads: Meter,
}

impl Bucket {
    /// A bucket that is contacted with the first call. Fails if the configuration cannot be used.
    pub fn new(config: Config) -> Result<Bucket, Error> {
        let client = http::Client::new(&config)?;
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&config.bucket)
            .with_region(&config.region)
            .with_credentials(config.credentials.provider(&config)?)
            .with_virtual_hosted_style_request(!config.path_style)
            .with_disable_bulk_delete(true)
            // Calls are repeated here, where their outcome is looked up first.
            .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
            .with_http_connector(client.clone());
        if let Some(endpoint) = &config.endpoint {
            builder = builder
                .with_endpoint(endpoint.trim_end_matches('/'))
                .with_allow_http(endpoint.starts_with("http://"));
        }
        let store = builder.build().map_err(|error| errors::explain(&error, "", &config))?;
        let runtime = Runtime::start("objects", THREADS)?;
        let (meter, reads) = Default::default();
        Ok(Bucket { config, store, client, runtime, meter, reads })
    }

    /// The requests so far, by the classes that are paid for.
    pub fn requests(&self) -> Requests {
        self.client.requests()
    }

    /// The requests so far, repeated ones included.
    pub fn metered(&self) -> Metered {
        self.meter.read()
    }

    /// The options.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Reads from `offset` into `buffer`. Returns the bytes read, which are fewer than asked for
    /// only at the end of the object. [`ErrorKind::NotFound`] if there is no such object.
    pub fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let path = path(name)?;
        self.repeat(async || self.get_or_end(&path, name, offset, buffer).await)
    }

    /// As [`read_range`](Self::read_range), for a query: fails soon while the storage is away. Once
    /// no read has succeeded for two seconds, none is repeated, and for a moment after each one
    /// that fails none is sent.
    pub fn read_range_soon(
        &self,
        name: &str,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        let path = path(name)?;
        let deadline = Instant::now() + self.config.call_time_max;
        let mut pause = PAUSE_FIRST;
        loop {
            let outage = self.reads.outage().filter(|outage| outage.since >= OUTAGE);
            if let Some(outage) = outage.as_ref().filter(|outage| outage.last < OUTAGE_PAUSE) {
                let since_s = outage.since.as_secs();
                let what = format!("the object storage has not answered for {since_s} s");
                return Err(Error::new(ErrorKind::Retriable, what, outage.error.clone()));
            }
            let time_max = if outage.is_some() { ATTEMPT_IN_OUTAGE } else { ATTEMPT };
            let begun = Instant::now();
            let call = self.get_or_end(&path, name, offset, buffer);
            let outcome = self.runtime.block_on(bounded(time_max, call));
            for meter in [&self.meter, &self.reads] {
                meter.note(begun, outcome.as_ref().err().filter(|error| error.is_failure()));
            }
            match outcome {
                Err(error)
                    if error.may_pass()
                        && outage.is_none()
                        && Instant::now() + pause < deadline =>
                {
                    log::debug!("object storage: {error}; repeated in {pause:?}");
                    std::thread::sleep(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                outcome => return outcome,
            }
        }
    }

    async fn get_or_end(
        &self,
        path: &Path,
        name: &str,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize, Error> {
        if buffer.is_empty() {
            return Ok(0);
        }
        match self.get(path, offset, buffer).await {
            Ok(read) => Ok(read),
            // Servers refuse ranges behind the end.
            Err(error) => match self.store.head(path).await {
                Ok(found) if offset >= found.size => Ok(0),
                _ => Err(errors::explain(&error, name, &self.config)),
            },
        }
    }

    async fn get(
        &self,
        path: &Path,
        offset: u64,
        buffer: &mut [u8],
    ) -> object_store::Result<usize> {
        let range = offset..offset.saturating_add(buffer.len() as u64);
        let options = GetOptions { range: Some(GetRange::Bounded(range)), ..Default::default() };
        let mut stream = self.store.get_opts(path, options).await?.into_stream();
        let mut read = 0;
        while let Some(bytes) = stream.next().await {
            let bytes = bytes?;
            // More than was asked for would be the fault of the server, and is not read.
            let count = bytes.len().min(buffer.len() - read);
            buffer[read..read + count].copy_from_slice(&bytes[..count]);
            read += count;
        }
        Ok(read)
    }

    /// Reads ranges of an object, each of which must lie within it. Ranges that are less than 1 MiB
    /// apart are fetched together, and up to ten fetches run in parallel; the bytes of all, with
    /// those between them, are in memory.
    pub fn read_ranges(&self, name: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, Error> {
        let path = path(name)?;
        self.repeat(async || {
            let found = self.store.get_ranges(&path, ranges).await;
            let found = found.map_err(|error| errors::explain(&error, name, &self.config))?;
            let is_whole = found.len() == ranges.len()
                && found.iter().zip(ranges).all(|(bytes, range)| {
                    bytes.len() as u64 == range.end.saturating_sub(range.start)
                });
            if !is_whole {
                let what = format!("a range of {name} ends behind the object");
                return Err(Error::new(ErrorKind::Refused, what, ""));
            }
            Ok(found)
        })
    }

    /// The size of an object in bytes. [`ErrorKind::NotFound`] if there is no such object.
    pub fn size(&self, name: &str) -> Result<u64, Error> {
        let path = path(name)?;
        self.repeat(async || match self.store.head(&path).await {
            Ok(found) => Ok(found.size),
            Err(error) => Err(errors::explain(&error, name, &self.config)),
        })
    }

    /// Deletes an object. One that is not there is no error.
    pub fn delete(&self, name: &str) -> Result<(), Error> {
        let path = path(name)?;
        self.repeat(async || match self.store.delete(&path).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(errors::explain(&error, name, &self.config)),
        })
    }

    /// Up to `max` objects whose names begin with `prefix` and are greater than `after`, in the
    /// order of the bytes of their names.
    pub fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, Error> {
        let mut listed: Vec<ObjectInfo> = Vec::new();
        while listed.len() < max {
            let last = listed.last().map(|info| info.name.clone());
            let offset = last.as_deref().or(after);
            let page_max = (max - listed.len()).min(PAGE_OBJECTS_MAX);
            let (mut page, is_last) = self.page(prefix, offset, page_max)?;
            page.sort_by(|a, b| a.name.cmp(&b.name));
            // A server that does not know where to begin would list the same page for ever.
            if page.iter().any(|info| offset.is_some_and(|offset| info.name.as_str() <= offset)) {
                let what = "the storage lists names that were listed before";
                return Err(Error::new(ErrorKind::Refused, what, "use one with `start-after`"));
            }
            let is_end = is_last || page.is_empty();
            listed.append(&mut page);
            if is_end {
                break;
            }
        }
        listed.truncate(max);
        Ok(listed)
    }

    /// A page of a listing, and whether it is the last one.
    fn page(
        &self,
        prefix: &str,
        offset: Option<&str>,
        max: usize,
    ) -> Result<(Vec<ObjectInfo>, bool), Error> {
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
        self.repeat(async || {
            let options = PaginatedListOptions {
                offset: offset.map(str::to_owned),
                max_keys: Some(max),
                ..Default::default()
            };
            let page = self.store.list_paginated(prefix, options).await;
            let page = page.map_err(|error| errors::explain(&error, "", &self.config))?;
            let objects = page.result.objects.into_iter().map(|found| ObjectInfo {
                name: found.location.to_string(),
                bytes: found.size,
                written_ns: found.last_modified.timestamp_nanos_opt().unwrap_or(0),
            });
            Ok((objects.collect(), page.page_token.is_none()))
        })
    }

    /// Repeats a call after errors that may pass, until its time is over.
    fn repeat<T>(&self, call: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
        self.runtime.block_on(self.repeated(call))
    }

    async fn repeated<T>(
        &self,
        mut call: impl AsyncFnMut() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = Instant::now() + self.config.call_time_max;
        let mut pause = PAUSE_FIRST;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let begun = Instant::now();
            let outcome = bounded(left, call()).await;
            self.meter.note(begun, outcome.as_ref().err().filter(|error| error.is_failure()));
            match outcome {
                Err(error) if error.may_pass() && Instant::now() + pause < deadline => {
                    log::debug!("object storage: {error}; repeated in {pause:?}");
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(PAUSE_MAX);
                }
                outcome => return outcome,
            }
        }
    }
}

/// Gives an attempt up when its time is over.
async fn bounded<T>(
    time_max: Duration,
    call: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::time::timeout(time_max, call).await.unwrap_or_else(|_| {
        let what = "the object storage did not answer in time";
        Err(Error::new(ErrorKind::OutcomeUnknown, what, "check that it runs, and the network"))
    })
}

/// The name of an object as the library takes it.
fn path(name: &str) -> Result<Path, Error> {
    match Path::parse(name) {
        Ok(path) if !name.is_empty() && path.as_ref() == name => Ok(path),
        _ => {
            let what = format!("'{name}' is no name of an object");
            let remedy = "use parts of letters, digits, '-', '_' and '.', with '/' between them";
            Err(Error::new(ErrorKind::Refused, what, remedy))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_they_are_or_refused() {
        for name in ["a", "a/b.c", "segments/0000-42_x"] {
            assert_eq!(path(name).unwrap().as_ref(), name);
        }
        for name in ["", "/a", "a/", "a//b", ".", "a/../b"] {
            assert_eq!(path(name).unwrap_err().kind, ErrorKind::Refused, "{name}");
        }
    }
}

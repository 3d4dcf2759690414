//! Storing a new object, in one request or in parts.

use std::borrow::Cow;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, GetOptions, MultipartId, ObjectStore, PutMode, PutMultipartOptions,
    PutOptions, PutPayload,
};
use ring::rand::{SecureRandom, SystemRandom};

use super::{Bucket, ObjectBody, errors, path};
use crate::engines::error::{Error, ErrorKind};

/// Where the number of a write is kept with its object.
const UPLOAD: &str = "upload";
/// Servers take no smaller parts, but for the last one.
const PART_BYTES_MIN: usize = 5 << 20;
/// Servers take no more parts of one object.
const PARTS_MAX: u64 = 10_000;

impl Bucket {
    /// Stores a new object, whole or not at all, and never in the place of another.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Exists`] if the name is taken, and [`ErrorKind::OutcomeUnknown`] if the storage
    /// did not answer: the object may be there, or come to be there. The same call may then be
    /// repeated, and says [`ErrorKind::Exists`] if it is.
    pub fn put_new(&self, name: &str, body: &dyn ObjectBody) -> Result<(), Error> {
        let path = path(name)?;
        let number = upload_number()?;
        match body.size() <= self.part_bytes(body) as u64 {
            true => self.put_whole(name, &path, body, &number),
            false => self.put_in_parts(name, &path, body, &number),
        }
    }

    /// Finds out whether the storage keeps an object whose name is written again, by writing a
    /// small object `name` a few times. It is deleted afterwards. Returns what is wrong with the
    /// storage.
    ///
    /// # Errors
    ///
    /// The storage did not answer, or refused: nothing is known then.
    pub fn check_conditions(&self, name: &str) -> Result<Option<String>, Error> {
        let place = path(name)?;
        let body = b"probe".to_vec();
        let is_kept = |outcome: Result<(), Error>| match outcome {
            Ok(()) => Ok(false),
            Err(error) if error.kind == ErrorKind::Exists => Ok(true),
            Err(error) => Err(error),
        };
        // It may be there from an earlier try.
        is_kept(self.put_whole(name, &place, &body, &upload_number()?))?;
        let whole = is_kept(self.put_whole(name, &place, &body, &upload_number()?));
        let parts = match whole {
            Ok(true) => is_kept(self.put_in_parts(name, &place, &body, &upload_number()?)),
            _ => Ok(true),
        };
        self.delete(name)?;
        let how = match (whole?, parts?) {
            (true, true) => return Ok(None),
            (false, _) => "uploads in one request",
            (true, false) => "uploads in parts",
        };
        Ok(Some(format!(
            "the object storage replaces objects that are there: it ignores If-None-Match for {how}; use a storage \
             or a version of it that knows conditional writes"
        )))
    }

    fn put_whole(
        &self,
        name: &str,
        path: &Path,
        body: &dyn ObjectBody,
        number: &str,
    ) -> Result<(), Error> {
        let bytes = read(body, 0, body.size(), name)?;
        let mut is_unclear = false;
        let stored = self.repeat(async || {
            let options = PutOptions {
                mode: PutMode::Create,
                attributes: self.attributes(number),
                ..Default::default()
            };
            let put = self.store.put_opts(path, PutPayload::from(bytes.clone()), options).await;
            self.settle(name, path, number, put.map(drop), &mut is_unclear).await
        });
        unclear(stored, is_unclear)
    }

    fn put_in_parts(
        &self,
        name: &str,
        path: &Path,
        body: &dyn ObjectBody,
        number: &str,
    ) -> Result<(), Error> {
        let id = self.repeat(async || {
            let attributes = self.attributes(number);
            let options = PutMultipartOptions { attributes, ..Default::default() };
            let id = self.store.create_multipart_opts(path, options).await;
            id.map_err(|error| errors::explain(&error, name, &self.config))
        });
        // An upload without parts is nothing.
        let id = id.map_err(nothing_done)?;
        let stored = self.put_parts(name, path, body, &id).map_err(nothing_done);
        let stored = stored.and_then(|parts| {
            let mut is_unclear = false;
            let stored = self.repeat(async || {
                let put = self.store.complete_multipart(path, &id, parts.clone()).await;
                self.settle(name, path, number, put.map(drop), &mut is_unclear).await
            });
            unclear(stored, is_unclear)
        });
        if stored.is_err() {
            let aborted = self.runtime.block_for(self.config.request_time_max, async {
                self.store.abort_multipart(path, &id).await
            });
            if !matches!(aborted, Some(Ok(()))) {
                log::debug!("object storage: parts of {name} are left to the rules of the bucket");
            }
        }
        stored
    }

    fn put_parts(
        &self,
        name: &str,
        path: &Path,
        body: &dyn ObjectBody,
        id: &MultipartId,
    ) -> Result<Vec<PartId>, Error> {
        let (size, part_bytes) = (body.size(), self.part_bytes(body) as u64);
        let put = |index: u64| async move {
            let start = index * part_bytes;
            // A body may be read from a storage, by calls that block.
            let bytes = tokio::task::block_in_place(|| {
                read(body, start, part_bytes.min(size - start), name)
            })?;
            self.repeated(async || {
                let payload = PutPayload::from(bytes.clone());
                let put = self.store.put_part(path, id, index as usize, payload).await;
                put.map_err(|error| errors::explain(&error, name, &self.config))
            })
            .await
        };
        let puts = futures_util::stream::iter(0..size.div_ceil(part_bytes)).map(put);
        let puts = puts.buffered(self.config.parallel_parts_max.max(1));
        self.runtime.block_on(puts.try_collect())
    }

    /// Finds out whether a write is done, although its answer was lost or says that an object is
    /// there. `is_unclear` becomes true if it may be done without being seen yet.
    async fn settle(
        &self,
        name: &str,
        path: &Path,
        number: &str,
        put: object_store::Result<()>,
        is_unclear: &mut bool,
    ) -> Result<(), Error> {
        let Err(error) = put else { return Ok(()) };
        let error = errors::explain(&error, name, &self.config);
        match error.kind {
            // An upload that is not there any more was completed by a request before.
            ErrorKind::Exists | ErrorKind::NotFound => {}
            ErrorKind::OutcomeUnknown => *is_unclear = true,
            _ => return Err(error),
        }
        let head = GetOptions { head: true, ..Default::default() };
        match self.store.get_opts(path, head).await {
            Ok(found) => {
                let key = Attribute::Metadata(Cow::Borrowed(UPLOAD));
                match found.attributes.get(&key).is_some_and(|found| found.as_ref() == number) {
                    true => Ok(()),
                    false => Err(Error::new(
                        ErrorKind::Exists,
                        format!("object {name} of bucket {} exists already", self.config.bucket),
                        "",
                    )),
                }
            }
            // Another write of the name is under way.
            Err(object_store::Error::NotFound { .. }) if error.kind == ErrorKind::Exists => {
                Err(Error { kind: ErrorKind::Retriable, ..error })
            }
            Err(object_store::Error::NotFound { .. }) => Err(error),
            Err(looked) => Err(errors::explain(&looked, name, &self.config)),
        }
    }

    /// What is stored with an object.
    fn attributes(&self, number: &str) -> Attributes {
        let upload = (Attribute::Metadata(Cow::Borrowed(UPLOAD)), number.to_owned());
        let class = self.config.storage_class.clone();
        let class = class.map(|class| (Attribute::StorageClass, class));
        Attributes::from_iter(std::iter::once(upload).chain(class))
    }

    /// Bytes of the parts of an object: more than is configured if there would be too many.
    fn part_bytes(&self, body: &dyn ObjectBody) -> usize {
        let least = usize::try_from(body.size().div_ceil(PARTS_MAX)).unwrap_or(usize::MAX);
        self.config.part_bytes.max(PART_BYTES_MIN).max(least)
    }
}

/// The last error of a write, one attempt of which may be done.
fn unclear(stored: Result<(), Error>, is_unclear: bool) -> Result<(), Error> {
    stored.map_err(|error| match is_unclear && error.kind != ErrorKind::Exists {
        true => Error { kind: ErrorKind::OutcomeUnknown, ..error },
        false => error,
    })
}

/// The error of a step of an upload that stores no object by itself.
fn nothing_done(error: Error) -> Error {
    match error.kind {
        ErrorKind::OutcomeUnknown | ErrorKind::NotFound => {
            Error { kind: ErrorKind::Retriable, ..error }
        }
        _ => error,
    }
}

fn read(body: &dyn ObjectBody, offset: u64, count: u64, name: &str) -> Result<Bytes, Error> {
    let mut buffer = vec![0; usize::try_from(count).unwrap_or(usize::MAX)];
    body.read_exact_at(offset, &mut buffer).map_err(|error| {
        let what = format!("the bytes of object {name} cannot be read: {error}");
        Error::new(ErrorKind::Body, what, "see the file that is to be stored")
    })?;
    Ok(Bytes::from(buffer))
}

/// A random number that no other write has.
fn upload_number() -> Result<String, Error> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        Error::new(ErrorKind::Retriable, "the system has no random numbers", "see /dev/urandom")
    })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

//! Object storage in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use platform::Clock;

use crate::error::ObjectError;
use crate::objects::{ObjectBody, ObjectInfo, Objects};

struct Object {
    bytes: Vec<u8>,
    written_ns: i64,
}

/// Object storage in memory, with a clock of its own.
pub struct SimObjects {
    clock: Arc<dyn Clock>,
    objects: Mutex<BTreeMap<String, Object>>,
}

impl SimObjects {
    /// An empty storage.
    pub fn new(clock: Arc<dyn Clock>) -> SimObjects {
        SimObjects { clock, objects: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Object>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects for SimObjects {
    fn put_new(&self, name: &str, body: &dyn ObjectBody) -> Result<(), ObjectError> {
        let mut bytes = vec![0; usize::try_from(body.size()).unwrap_or(usize::MAX)];
        let failed = |error: std::io::Error| ObjectError::Body(error.to_string());
        body.read_exact_at(0, &mut bytes).map_err(failed)?;
        let mut objects = self.lock();
        if objects.contains_key(name) {
            return Err(ObjectError::Exists(name.to_owned()));
        }
        objects.insert(name.to_owned(), Object { bytes, written_ns: self.clock.now_ns() });
        Ok(())
    }

    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, ObjectError> {
        let objects = self.lock();
        let object = objects.get(name).ok_or_else(|| ObjectError::Missing(name.to_owned()))?;
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(object.bytes.len());
        let count = buffer.len().min(object.bytes.len() - start);
        buffer[..count].copy_from_slice(&object.bytes[start..start + count]);
        Ok(count)
    }

    fn size(&self, name: &str) -> Result<u64, ObjectError> {
        let objects = self.lock();
        let object = objects.get(name).ok_or_else(|| ObjectError::Missing(name.to_owned()))?;
        Ok(object.bytes.len() as u64)
    }

    fn delete(&self, name: &str) -> Result<(), ObjectError> {
        self.lock().remove(name);
        Ok(())
    }

    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, ObjectError> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let objects = self.lock();
        let listed = objects.range::<str, _>((start, Bound::Unbounded));
        let info = |(name, object): (&String, &Object)| ObjectInfo {
            name: name.clone(),
            bytes: object.bytes.len() as u64,
            written_ns: object.written_ns,
        };
        Ok(listed.take_while(|(name, _)| name.starts_with(prefix)).take(max).map(info).collect())
    }
}

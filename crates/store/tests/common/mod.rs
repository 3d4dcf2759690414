//! Frames and stores for the tests.
#![allow(dead_code)] // Each test file uses its part.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc;

use platform::{Clock, Disk};
use record::{Format, Frame, FrameBuilder, Origin, Transport};
use store::{AppendError, FrameHandle, Position, Store, StoreConfig};

/// A frame of `lines` lines that say their sequence and place, each padded to `line_bytes`.
pub fn frame_at(id: (u32, u64), lines: u32, line_bytes: usize, received_ns: i64) -> Frame {
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    for line in 0..lines {
        let mut text = format!("{}-{line}", id.1);
        text.push_str(&".".repeat(line_bytes.saturating_sub(text.len() + 1)));
        builder.push_line(&origin, received_ns, text.as_bytes(), false);
    }
    builder.finish(id.0, id.1).expect("has lines")
}

/// Settings without pauses, so that a test on a manual clock goes on.
pub fn config(dir: impl Into<PathBuf>) -> StoreConfig {
    StoreConfig {
        segment_bytes_max: 1 << 20,
        commit_interval_ms: 0,
        disk_free_bytes_min: 0,
        retry_ms: 1,
        ..StoreConfig::new(dir)
    }
}

pub fn open(config: &StoreConfig, disk: &Arc<dyn Disk>, clock: &Arc<dyn Clock>) -> Arc<Store> {
    Store::open(config.clone(), disk.clone(), clock.clone()).expect("opens").0
}

/// Appends frames together and waits for what becomes of each.
pub fn append(store: &Store, frames: Vec<Frame>) -> Vec<Result<(), AppendError>> {
    let count = frames.len();
    let (sender, receiver) = mpsc::channel();
    let with_callbacks = frames.into_iter().enumerate().map(|(i, frame)| {
        let sender = sender.clone();
        let done: store::OnDurable = Box::new(move |result| sender.send((i, result)).unwrap());
        (frame, Some(done))
    });
    let _ = store.append_all(with_callbacks.collect());
    let mut results = vec![None; count];
    for _ in 0..count {
        let (i, result) = receiver.recv().expect("each is called once");
        assert!(results[i].replace(result).is_none(), "frame {i} called twice");
    }
    results.into_iter().flatten().collect()
}

/// All frames in the order in which they became durable.
pub fn all(store: &Store) -> Vec<FrameHandle> {
    let mut after = Position::START;
    let mut handles = Vec::new();
    loop {
        let frames = store.wait_committed(after, std::time::Duration::ZERO);
        let Some(last) = frames.last() else { return handles };
        after = last.position;
        handles.extend(frames.into_iter().map(|f| f.handle));
    }
}

pub fn sequences(store: &Store) -> Vec<u64> {
    all(store).iter().map(FrameHandle::sequence).collect()
}

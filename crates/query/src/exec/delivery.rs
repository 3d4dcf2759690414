//! Delivers rows behind the last pipe: to the client as they come, or after they have been ordered.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::newest::Newest;
use super::ordered::Ordered;
use super::rows::ResultRows;
use super::task::{ExecutionContext, RowsOut};
use crate::base::{Outcome, RowKey, RunError};
use crate::block::{BLOCK_ROWS_MAX, Block, Scratch};
use crate::lang::pipe::RowReceiver;
use crate::plan::Order;

/// The order in which rows go to the client, with the rows held for it.
enum Sink {
    Stream,
    Newest(Newest),
    Ordered(Ordered),
}

/// Sends rows to the client.
pub(crate) struct RowDelivery<'a> {
    out: RowsOut<'a>,
    execution: ExecutionContext<'a>,
    sink: Sink,
    /// Rows to skip, and to send after those, unless only the newest rows are wanted.
    skip: usize,
    left: usize,
    include: Arc<[String]>,
    scratch: Scratch,
    /// Rows sent.
    sent: u64,
    /// The client stopped the query.
    stopped: bool,
}

impl<'a> RowDelivery<'a> {
    /// Delivers to `out`, in the order of the plan.
    pub fn new(order: &Order, execution: &ExecutionContext<'a>, out: RowsOut<'a>) -> Self {
        let context = execution.context;
        let sink = match order {
            Order::Stream => Sink::Stream,
            Order::Newest(count) => Sink::Newest(Newest::new(*count)),
            Order::Time(order) => {
                Sink::Ordered(Ordered::new(order.clone(), context.limits.memory_bytes_max))
            }
        };
        RowDelivery {
            out,
            execution: execution.clone(),
            sink,
            skip: context.offset,
            left: context.limit.unwrap_or(usize::MAX),
            include: context.include.clone().into(),
            scratch: Scratch::default(),
            sent: 0,
            stopped: false,
        }
    }

    /// Whether the client stopped the query.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// What was done for the query, with the rows that were sent.
    pub fn outcome(&self, done: Outcome) -> Outcome {
        Outcome { rows: self.sent, stopped: self.stopped, ..done }
    }

    /// Rows older than this are no longer needed.
    pub fn oldest_wanted_ns(&self) -> i64 {
        match &self.sink {
            Sink::Newest(newest) => newest.oldest_wanted_ns(),
            Sink::Ordered(ordered) => ordered.oldest_wanted_ns(),
            Sink::Stream => i64::MIN,
        }
    }

    /// Called before the rows of a unit whose oldest line is at `unit_oldest_ns`. In order of time,
    /// sends the held rows that are older, and breaks when no further unit is
    /// wanted. None for other orders.
    pub fn before_unit(
        &mut self,
        unit_oldest_ns: i64,
    ) -> Option<Result<ControlFlow<()>, RunError>> {
        let Sink::Ordered(ordered) = &self.sink else { return None };
        if unit_oldest_ns > ordered.newest_wanted_ns() {
            return Some(Ok(ControlFlow::Break(())));
        }
        Some(self.send_older(unit_oldest_ns))
    }

    /// Sends the held rows that are older than an instant, or all of them at the end. Only for rows
    /// in order of time.
    pub fn send_older(&mut self, before_ns: i64) -> Result<ControlFlow<()>, RunError> {
        while let Sink::Ordered(ordered) = &mut self.sink {
            if self.left == 0 || self.stopped {
                return Ok(ControlFlow::Break(()));
            }
            let taken = ordered.take(before_ns, BLOCK_ROWS_MAX, &mut self.execution.meter);
            let Some((rows, keys)) = taken else { break };
            let _ = self.send_wanted(Block::Made(rows), keys)?;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the units must be read once more, for rows that could not be held.
    pub fn next_pass(&mut self) -> bool {
        match &mut self.sink {
            Sink::Ordered(ordered) => ordered.next_pass(),
            Sink::Stream | Sink::Newest(_) => false,
        }
    }

    /// Sends the rows that offset and limit leave, with their keys, if they have any. Breaks when
    /// no more rows are wanted.
    pub fn send_wanted(
        &mut self,
        mut block: Block,
        mut keys: Vec<RowKey>,
    ) -> Result<ControlFlow<()>, RunError> {
        let skipped = self.skip.min(block.len());
        let taken = (block.len() - skipped).min(self.left);
        self.skip -= skipped;
        self.left -= taken;
        keys.truncate(skipped + taken);
        keys.drain(..skipped.min(keys.len()));
        block.slice(skipped, taken);
        let flow = self.send(block, keys)?;
        Ok(if self.left == 0 { ControlFlow::Break(()) } else { flow })
    }

    /// Sends rows to the client in small blocks.
    fn send(&mut self, block: Block, mut keys: Vec<RowKey>) -> Result<ControlFlow<()>, RunError> {
        let context = self.execution.context;
        let rows_max = context.limits.rows_max;
        let mut rest = block;
        while !rest.is_empty() {
            self.execution.check()?;
            let count = whole_lines(&keys, BLOCK_ROWS_MAX);
            let behind = rest.split_off(count);
            let keys_behind = keys.split_off(keys.len().min(count));
            let count = rest.len() as u64;
            if self.sent + count > rows_max {
                rest.slice(0, (rows_max - self.sent) as usize);
                let _ = (self.out)(ResultRows::new(rest, self.include.clone()));
                self.sent = rows_max;
                context.progress.rows.store(rows_max, Relaxed);
                return Err(RunError::RowLimit(rows_max));
            }
            self.sent += count;
            context.progress.rows.store(self.sent, Relaxed);
            let rows = ResultRows { keys, ..ResultRows::new(rest, self.include.clone()) };
            if (self.out)(rows).is_break() {
                self.stopped = true;
                return Ok(ControlFlow::Break(()));
            }
            (rest, keys) = (behind, keys_behind);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Sends the rows that are still held, after the last row has arrived.
    pub fn finish(&mut self) -> Result<(), RunError> {
        if let Sink::Newest(newest) = &mut self.sink {
            let (mut rows, mut keys) = newest.take();
            let skipped = self.execution.context.offset.min(rows.len());
            rows.drain(..skipped);
            keys.drain(..skipped);
            let _ = self.send(Block::Made(rows), keys)?;
        }
        Ok(())
    }

    /// The held rows, for a deferred drop.
    pub fn into_held(self) -> impl Send + 'static {
        self.sink
    }
}

impl RowReceiver for RowDelivery<'_> {
    fn take(&mut self, block: Block) -> Result<ControlFlow<()>, RunError> {
        let meter = &mut self.execution.meter;
        match &mut self.sink {
            Sink::Newest(newest) => {
                newest.add(&block, &self.include, meter, &mut self.scratch)?;
                Ok(ControlFlow::Continue(()))
            }
            Sink::Ordered(ordered) => {
                ordered.add(&block, &self.include, meter, &mut self.scratch)?;
                Ok(ControlFlow::Continue(()))
            }
            Sink::Stream => self.send_wanted(block, Vec::new()),
        }
    }
}

/// At least `count`, and so many that all rows of a line stay together: a client that resumes
/// behind the key of a row gets no more rows of that line.
pub(super) fn whole_lines(keys: &[RowKey], count: usize) -> usize {
    count + (count..keys.len()).take_while(|&next| keys[next] == keys[next - 1]).count()
}

#[cfg(test)]
mod tests {
    use record::LineId;

    use super::*;

    #[test]
    fn rows_of_a_line_are_never_parted() {
        let key = |line| RowKey { time_ns: 1, id: LineId { node: 1, sequence: 1, line } };
        let keys = [0, 0, 1, 1, 1, 2].map(key);
        let found: Vec<usize> = (1..=6).map(|count| whole_lines(&keys, count)).collect();
        assert_eq!(found, [2, 2, 5, 5, 5, 6]);
        assert_eq!(whole_lines(&[], 3), 3, "rows without keys are cut anywhere");
    }
}

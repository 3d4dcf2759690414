//! `field_names`: the names of fields, with the number of rows that have a value for them.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::{Processor, tuples, uniq::push_tuples};
use crate::block::{Block, Lines, Scratch};
use crate::run::{CHECK_ROWS, Next, RunError};

#[derive(Default)]
pub(super) struct Names {
    hits: HashMap<Arc<str>, u64, foldhash::fast::RandomState>,
    scratch: Scratch,
}

impl Names {
    fn add(&mut self, name: &Arc<str>, rows: u64, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        if let Some(hits) = self.hits.get_mut(name) {
            *hits += rows;
        } else {
            next.meter().take(name.len() + tuples::ENTRY_BYTES)?;
            self.hits.insert(name.clone(), rows);
        }
        Ok(())
    }
}

impl Processor for Names {
    fn push(&mut self, block: Block, next: &mut Next<'_, '_>) -> Result<ControlFlow<()>, RunError> {
        if let Block::Lines(lines) = &block
            && lines.is_plain()
        {
            let Lines { batch, rows, .. } = lines;
            // Numbers of fields are counted, and turned into names once a batch.
            let mut by_field = vec![0u64; batch.names().len()];
            for &row in rows {
                for (id, value) in batch.row(row as usize).fields() {
                    by_field[id.0 as usize] += u64::from(!value.is_empty());
                }
            }
            for computed in ["_time", "_stream"] {
                self.add(&computed.into(), rows.len() as u64, next)?;
            }
            for (name, &count) in batch.names().iter().zip(&by_field) {
                if count > 0 && &**name != "_stream" {
                    self.add(name, count, next)?;
                }
            }
            return Ok(ControlFlow::Continue(()));
        }
        let mut names = Vec::new();
        let mut scratch = std::mem::take(&mut self.scratch);
        for row in 0..block.len() {
            if row % CHECK_ROWS == CHECK_ROWS - 1 {
                next.check()?;
            }
            names.clear();
            block.visit(row, &[], &mut scratch, &mut |name, _, _| names.push(name.clone()));
            for name in &names {
                self.add(name, 1, next)?;
            }
        }
        self.scratch = scratch;
        Ok(ControlFlow::Continue(()))
    }

    fn finish(&mut self, next: &mut Next<'_, '_>) -> Result<(), RunError> {
        let mut names: Vec<_> = std::mem::take(&mut self.hits).into_iter().collect();
        names.sort_unstable();
        let hits = names.iter().map(|(name, hits)| (name.as_bytes(), *hits));
        push_tuples(&["name".to_owned()], Some("hits"), None, hits, next)
    }
}

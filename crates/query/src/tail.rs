//! Live tail: a query over lines as they arrive.

use std::sync::Arc;

use record::Batch;

use crate::block::{Block, Lines, Scratch};
use crate::error::ParseError;
use crate::filter::Selector;
use crate::pipe::Pipe;
use crate::query::Query;
use crate::run::Rows;

/// A query that is run over each new batch: a filter and pipes that look at each line by itself.
pub struct TailQuery {
    selector: Selector,
    steps: Vec<Step>,
    include: Arc<[String]>,
}

enum Step {
    Change(crate::block::Change),
    Filter(Box<Selector>),
}

impl Query {
    /// Makes the query ready to run over each new batch; `include` as in [`crate::Context::include`]. An error
    /// when a pipe needs all rows before it can hand on the first.
    pub fn tail(&self, include: &[String]) -> Result<TailQuery, ParseError> {
        if self.has_subqueries() {
            return Err(ParseError {
                position: 0,
                expected: vec!["a list of values".to_owned()],
                message: "a query inside a filter cannot be followed live".to_owned(),
                query: self.to_string(),
            });
        }
        let steps = self.pipes().iter().map(|pipe| match pipe {
            Pipe::Change(change) => Ok(Step::Change(change.clone())),
            Pipe::Filter(filter) => Ok(Step::Filter(Box::new(Selector::new(filter)))),
            other => {
                let query = self.to_string();
                let written = other.to_string();
                let name = written.split(' ').next().unwrap_or_default();
                Err(ParseError {
                    position: query.find(&format!("| {written}")).map_or(0, |at| at + 2),
                    expected: ["filter", "fields", "delete", "rename", "copy"]
                        .map(String::from)
                        .into(),
                    message: format!(
                        "\"{name}\" does not work line by line, so it cannot be followed live"
                    ),
                    query,
                })
            }
        });
        Ok(TailQuery {
            selector: Selector::new(self.filter()),
            steps: steps.collect::<Result<_, _>>()?,
            include: include.into(),
        })
    }
}

impl TailQuery {
    /// The rows of a batch that the query selects, in the order of its lines.
    pub fn rows(&self, batch: &Arc<Batch>, scratch: &mut Scratch) -> Rows {
        let rows = (0..batch.len() as u32).collect();
        let mut block = Block::Lines(Lines::new(batch.clone(), rows));
        self.selector.select(&mut block, scratch);
        for step in &self.steps {
            match step {
                _ if block.is_empty() => break,
                Step::Change(change) => block.change(change),
                Step::Filter(selector) => selector.select(&mut block, scratch),
            }
        }
        Rows::new(block, self.include.clone())
    }
}

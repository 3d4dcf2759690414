//! The store that does nothing, for tests of the generator alone: it acknowledges everything at
//! once, stores nothing, and is not reached over a network.
//!
//! The driver answers reads, scans and counts with nothing. In a trial of the limit the load takes
//! the workload's own right answers in their place ([`crate::workload::right_answer`]).

use std::sync::Arc;

use async_trait::async_trait;

use super::aggregate::Aggregate;
use super::{
    Ability, Answer, Driver, OpenError, Operation, Session, Settle, StoreError, StoreSpec,
};
use crate::row::Schema;

/// Its name among the drivers.
pub const NAME: &str = "null";

/// See the module.
pub struct Null;

/// The driver, which has neither options nor endpoints.
pub fn open(_spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    Ok(Arc::new(Null))
}

#[async_trait]
impl Driver for Null {
    fn abilities(&self) -> &'static [Ability] {
        Ability::ALL
    }

    async fn version(&self) -> Result<String, StoreError> {
        Ok(env!("CARGO_PKG_VERSION").to_owned())
    }

    fn versions_tested(&self) -> &'static [&'static str] {
        &[""]
    }

    async fn create(&self, _schema: &Schema) -> Result<(), StoreError> {
        Ok(())
    }

    async fn settle(&self, _schema: &Schema, _settle: Settle) -> Result<(), StoreError> {
        Ok(())
    }

    async fn table_bytes(&self, _schema: &Schema) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    async fn connect(&self, _schema: &Schema) -> Result<Box<dyn Session>, StoreError> {
        Ok(Box::new(Null))
    }
}

#[async_trait]
impl Session for Null {
    async fn execute(&mut self, operation: &Operation) -> Result<Answer, StoreError> {
        Ok(match operation {
            Operation::Read { .. } => Answer::Row(None),
            Operation::Scan { .. } => Answer::Rows(Vec::new()),
            Operation::Count { .. } => Answer::Count(0),
            Operation::Aggregate(_) => Answer::Aggregate(Aggregate::default()),
            _ => Answer::Done,
        })
    }
}

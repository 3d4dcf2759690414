//! A sealed segment as a source of queries. Nothing is cached, so each query reads what it needs.

use std::sync::Arc;

use query::source::{
    Phrase, Phrases, ScanUnit, Source, SourceError, TimeRange, Whose, WithColumns,
};
use record::{Batch, LineId};
use segment::SegmentError;
use segment::sealed::SealedFile;
use segment::tokens::required_tokens;

/// The blocks of a segment.
pub(crate) struct Sealed(pub(crate) SealedFile);

impl Source for Sealed {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let unit = |block| -> Box<dyn ScanUnit> { Box::new(Block { file: self.0.clone(), block }) };
        Ok((0..self.0.footer().blocks.len()).map(unit).collect())
    }

    fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(None)
    }
}

struct Block {
    file: SealedFile,
    block: usize,
}

impl ScanUnit for Block {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.file.footer().blocks[self.block].time_ns)
    }

    fn lines(&self) -> u64 {
        self.file.footer().blocks[self.block].lines.into()
    }

    fn bytes(&self) -> u64 {
        self.file.footer().blocks[self.block].bytes_raw
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        let batch = self.file.read_block(self.block).map_err(source_error)?;
        Ok(Some(Arc::new(batch)))
    }

    fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
        let words = |phrase: &Phrase| {
            required_tokens(phrase.text.as_bytes(), phrase.whole_start, phrase.whole_end)
        };
        let sets = phrases.made(|phrases| phrases.iter().map(words).collect::<Vec<_>>());
        self.file.may_contain(self.block, sets).map_err(source_error)
    }

    fn with_columns(&self, with: WithColumns<'_>) -> Result<bool, SourceError> {
        let read = |number| self.file.chunk(self.block, number).map(Arc::new);
        let done = self.file.with_columns(self.block, &read, |columns| with(columns));
        done.map_err(source_error)??;
        Ok(true)
    }
}

fn source_error(error: SegmentError) -> SourceError {
    SourceError(error.to_string())
}

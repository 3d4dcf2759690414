//! `field_names [as a] [filter x]`: the names of fields that contain a text, with the number of
//! rows that have a value for them.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::compute::parse_field;
use super::operator::{Documentation, Merges, Mode, Operator, Processor, Registration};
use super::select::Select;
use super::uniq::push_tuples;
use super::{Pipe, tuples};
use crate::base::names::NamePattern;
use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{CHECK_ROWS, FieldSet, Meter, RunError};
use crate::block::{BatchLines, Block, Change, Scratch, Weighted};
use crate::lang::filter::{Filter, Test};
use crate::lang::pipe::{CountedBy, Next};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// The `field_names` pipe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldNames;

pub(super) static FIELD_NAMES: Registration = Registration {
    doc: Documentation {
        name: "field_names",
        aliases: &[],
        syntax: "field_names [as <name>] [filter <text>]",
        summary: "lists the names of fields, with the number of rows that have each",
        example: "field_names as n",
    },
    parse,
};

/// Parses the arguments: another name for the result field, and a text that the names must contain.
fn parse(cursor: &mut Cursor<'_>) -> Result<Vec<Pipe>, ParseError> {
    let mut pipes = vec![Pipe::new(FieldNames)];
    let mut name = parse_field(cursor, "as")?;
    if cursor.eat_keyword("filter") {
        let text = cursor.expect_string(true, "a text")?.text;
        if !text.is_empty() {
            let filter = Filter::field("name", Test::Substring(text));
            pipes.push(Pipe::new(Select { filter }));
        }
        name = name.or(parse_field(cursor, "as")?);
    }
    if let Some(name) = name.filter(|name| name != "name") {
        let renamed = (NamePattern::exact("name"), NamePattern::exact(&name));
        pipes.push(Pipe::new(Change::Rename(vec![renamed])));
    }
    Ok(pipes)
}

impl fmt::Display for FieldNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("field_names")
    }
}

impl Operator for FieldNames {
    fn mode(&self) -> Mode {
        Mode::Collecting
    }

    fn merges(&self) -> Merges {
        Merges::AnyOrder
    }

    fn needed_fields(&self, _wanted: FieldSet) -> FieldSet {
        FieldSet::all()
    }

    fn counted_by(&self) -> Option<CountedBy> {
        Some(CountedBy::names())
    }

    fn processor(&self, _carried: &[String]) -> Box<dyn Processor> {
        Box::new(Names::default())
    }
}

/// Number of rows by the name of a field.
type Hits = HashMap<Arc<str>, u64, foldhash::fast::RandomState>;

/// Computed fields that every line has.
const COMPUTED: [&str; 2] = ["_time", "_stream"];

#[derive(Default)]
struct Names {
    hits: Hits,
    scratch: Scratch,
}

impl Names {
    fn add(&mut self, name: &Arc<str>, rows: u64, next: &mut Next<'_>) -> Result<(), RunError> {
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
    fn push(&mut self, block: Block, next: &mut Next<'_>) -> Result<ControlFlow<()>, RunError> {
        if let Block::Lines(lines) = &block
            && lines.is_plain()
        {
            let BatchLines { batch, rows, .. } = lines;
            // Rows are counted by field id, and ids are turned into names once per batch.
            let mut by_field = vec![0u64; batch.names().len()];
            for &row in rows {
                for (id, value) in batch.row(row as usize).fields() {
                    by_field[id.0 as usize] += u64::from(!value.is_empty());
                }
            }
            for computed in COMPUTED {
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

    fn push_weighted(&mut self, rows: &Weighted, next: &mut Next<'_>) -> Result<(), RunError> {
        let Block::Made(kinds) = &rows.block else { unreachable!("kinds of lines are made rows") };
        for (kind, &lines) in kinds.iter().zip(&rows.lines) {
            for computed in COMPUTED {
                self.add(&computed.into(), lines, next)?;
            }
            for (name, _) in kind.fields().filter(|(name, _)| &***name != "_stream") {
                self.add(name, lines, next)?;
            }
        }
        Ok(())
    }

    fn collected(&mut self) -> Option<&mut dyn Any> {
        Some(&mut self.hits)
    }

    fn merge(&mut self, collected: &mut dyn Any, next: &mut Next<'_>) -> Result<(), RunError> {
        let others = collected.downcast_mut::<Hits>().expect("of the same pipe");
        for (name, hits) in std::mem::take(others) {
            next.meter().give_back(name.len() + tuples::ENTRY_BYTES);
            self.add(&name, hits, next)?;
        }
        Ok(())
    }

    fn encode(&self, out: &mut Encoder<'_>) -> Result<(), RunError> {
        out.number(self.hits.len() as u64)?;
        self.hits.iter().try_for_each(|(name, hits)| {
            out.bytes(name.as_bytes())?;
            out.number(*hits)
        })
    }

    fn decode(&mut self, from: &mut Decoder<'_>, meter: &mut Meter) -> Result<(), RunError> {
        for _ in 0..from.length(size_of::<u32>())? {
            let name = from.name(meter)?;
            if self.hits.insert(name, from.count()?).is_some() {
                return Err(wrong_state("a name comes twice"));
            }
        }
        Ok(())
    }

    fn finish(&mut self, next: &mut Next<'_>) -> Result<(), RunError> {
        let mut names: Vec<_> = std::mem::take(&mut self.hits).into_iter().collect();
        names.sort_unstable();
        let hits = names.iter().map(|(name, hits)| (name.as_bytes(), *hits));
        push_tuples(&["name".to_owned()], Some("hits"), None, hits, next)
    }
}

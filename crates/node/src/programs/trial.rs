//! A trial of a program on sample lines, as on one bucket: what `loginson program test` and the
//! editor of the page show. Nothing is stored.

use std::ops::ControlFlow;
use std::sync::Arc;

use programs::{
    Fault, InputBlock, Language, Launcher, Rejected, Row, RunSpec, Variable, test_program,
};
use query::source::{ScanUnit, Source, SourceError, TimeRange, Whose};
use query::{Context, RunError, Scratch};
use record::frame::LINE_BYTES_MAX;
use record::{Batch, Format, FrameBuilder, Hints, LineId, Origin, Parser, Transport};

use super::compiled::{Compiled, columns};
use super::compute::run_query;

/// Sample lines of a trial, at most.
///
/// limits.md, Programs of users: sample lines of a trial | {} | the page and the API refuse more;
/// the command takes the first
pub const SAMPLE_LINES_MAX: usize = 10_000;
const SECOND_NS: i64 = 1_000_000_000;

/// What a program makes of the sample.
#[derive(Debug, Default)]
pub struct Trial {
    /// Rows.
    pub rows: Vec<Row>,
    /// Lines of output that are no rows.
    pub rejected: Rejected,
    /// Why there are no rows.
    pub error: Option<String>,
    /// What the interpreter said; `input_line` is the number of a line of the sample, from 1.
    pub faults: Vec<Fault>,
    /// Probable mistakes.
    pub warnings: Vec<String>,
    /// Lines of the sample that the type and the filter let through.
    pub lines_matching: u64,
    /// Processor time of the process, milliseconds.
    pub cpu_ms: f64,
    /// The AWK that ran it.
    pub interpreter: Option<&'static str>,
}

/// Parses sample lines as if they came now. A line that is not found to be of the type of the
/// program counts as one of it all the same: what it came with is not known here.
pub fn parse<'l>(
    parser: &mut Parser,
    log_type: Option<&str>,
    lines: impl IntoIterator<Item = &'l [u8]>,
    now_ns: i64,
) -> Option<Arc<Batch>> {
    let lines: Vec<&[u8]> = lines.into_iter().take(SAMPLE_LINES_MAX).collect();
    let found = Origin::new(Transport::Http, Format::Auto, None);
    let hints = Hints { log_type: log_type.map(str::to_owned), ..Hints::default() };
    let told = Origin { hints: Arc::new(hints), ..found.clone() };
    let mut parse = |is_told: &dyn Fn(usize) -> bool| {
        let mut frame = FrameBuilder::new();
        for (number, line) in lines.iter().enumerate() {
            let is_cut = line.len() > LINE_BYTES_MAX;
            let origin = if is_told(number) { &told } else { &found };
            frame.push_line(origin, now_ns, &line[..line.len().min(LINE_BYTES_MAX)], is_cut);
        }
        frame.finish(0, 1).map(|frame| parser.parse(Arc::new(frame)))
    };
    let batch = parse(&|_| false)?;
    let Some(log_type) = log_type else { return Some(Arc::new(batch)) };
    let is_of_type: Vec<bool> =
        (batch.rows()).map(|row| row.get_by_name("_type") == Some(log_type.as_bytes())).collect();
    let is_told = |number: usize| !is_of_type.get(number).copied().unwrap_or(true);
    parse(&is_told).map(Arc::new)
}

/// Runs a program on the sample. `spec` makes the process of a program in AWK; it gives none where
/// there is no interpreter. Errors are those of the filter or the query.
pub fn run(
    compiled: &Compiled,
    sample: Option<Arc<Batch>>,
    launcher: &Arc<Launcher>,
    spec: impl FnOnce(Vec<Variable>) -> Option<RunSpec>,
) -> Result<Trial, RunError> {
    let source = Sample(sample);
    let context = Context { oldest_first: true, ..Context::default() };
    if compiled.definition.language == Language::LogsQl {
        let outcome = run_query(compiled, &source, &context)?;
        let (rows, error) = match outcome.result {
            Ok(rows) => (rows, None),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        let lines_matching = source.matching(compiled, &context)?.len() as u64;
        return Ok(Trial {
            rows,
            error,
            rejected: outcome.rejected,
            lines_matching,
            ..Trial::default()
        });
    }
    let first_s = source.0.as_ref().map_or(0, |batch| batch.time_range_ns().0 / SECOND_NS);
    let width_s = i64::from(compiled.definition.width_s);
    let variable = |name: &str, value: String| Variable { name: name.to_owned(), value };
    let variables = vec![
        variable("BUCKET", (first_s.div_euclid(width_s) * width_s).to_string()),
        variable("BUCKET_S", compiled.definition.width_s.to_string()),
    ];
    let Some(spec) = spec(variables) else {
        let error = Some("there is no AWK on this machine; install gawk".to_owned());
        return Ok(Trial { error, ..Trial::default() });
    };
    let mut block = InputBlock::new();
    let mut scratch = Scratch::default();
    // Numbers in the sample of the lines that the program gets.
    let mut numbers: Vec<u64> = Vec::new();
    query::run(&compiled.query, &source, &context, &mut |rows| {
        let indexes: Vec<usize> = (0..rows.len()).collect();
        for &index in &indexes {
            let line = rows.line(index);
            numbers.extend(line.map(|(batch, row)| number_of(batch, row)));
            if columns(&compiled.definition).is_none() {
                block.push_raw(rows.raw(index).unwrap_or_default());
            }
        }
        if let Some(names) = columns(&compiled.definition) {
            let last = names.len() - 1;
            let names = names.iter().map(String::as_str);
            rows.visit_columns(&indexes, names, &mut scratch, |_, place, value| {
                block.push_field(place == 0, value);
                if place == last {
                    block.end_line();
                }
            });
        }
        ControlFlow::Continue(())
    })?;
    let mut report = test_program(launcher, &spec, &mut block);
    for fault in &mut report.faults {
        let of_input = fault.input_line.and_then(|line| usize::try_from(line - 1).ok());
        fault.input_line = of_input.and_then(|at| numbers.get(at).copied());
    }
    Ok(Trial {
        rows: report.rows,
        rejected: report.rejected,
        error: report.error.map(|error| error.to_string()),
        faults: report.faults,
        warnings: report.warnings,
        lines_matching: numbers.len() as u64,
        cpu_ms: report.usage.cpu.as_secs_f64() * 1e3,
        interpreter: Some(report.interpreter.name()),
    })
}

/// The number of a line in the sample, from 1.
fn number_of(batch: &Batch, row: u32) -> u64 {
    u64::from(batch.row(row as usize).id().line) + 1
}

/// The sample as a source of records.
struct Sample(Option<Arc<Batch>>);

impl Sample {
    /// Numbers of the lines that the filter of a program lets through.
    fn matching(&self, compiled: &Compiled, context: &Context) -> Result<Vec<u64>, RunError> {
        let query = query::Query::new(compiled.query.filter().clone(), Vec::new());
        let mut numbers = Vec::new();
        query::run(&query, self, context, &mut |rows| {
            let lines = (0..rows.len()).filter_map(|index| rows.line(index));
            numbers.extend(lines.map(|(batch, row)| number_of(batch, row)));
            ControlFlow::Continue(())
        })?;
        Ok(numbers)
    }
}

impl Source for Sample {
    fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
        let unit =
            |batch: &Arc<Batch>| Box::new(SampleUnit(Arc::clone(batch))) as Box<dyn ScanUnit>;
        Ok(self.0.iter().map(unit).collect())
    }

    fn find(&self, id: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
        let has = |batch: &&Arc<Batch>| batch.rows().any(|row| row.id() == id);
        Ok(self.0.as_ref().filter(has).cloned())
    }
}

/// Some lines as a unit.
pub(super) struct SampleUnit(pub Arc<Batch>);

impl ScanUnit for SampleUnit {
    fn time_range_ns(&self) -> Option<(i64, i64)> {
        Some(self.0.time_range_ns())
    }

    fn lines(&self) -> u64 {
        self.0.len() as u64
    }

    fn bytes(&self) -> u64 {
        self.0.raw_bytes()
    }

    fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
        Ok(Some(Arc::clone(&self.0)))
    }
}

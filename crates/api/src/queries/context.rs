//! `/api/v1/context`: the lines around a line, of the same stream.
//!
//! The order is that of event time; lines of the same instant are in the order of their arrival.
//! The frames are read from the line's time outwards, and only as many as needed. A rare stream may
//! need all of them; the time limit of queries bounds that.

use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::State;
use axum::response::IntoResponse;
use query::source::{Source, TimeRange, Whose};
use query::{Meter, Query, RowKey, RunError, Scratch, TimeOrder};
use record::{Batch, LineId, Row};
use serde_json::{Map, Value, json};

use crate::access::params::Params;
use crate::access::principal::{Caller, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{PendingQuery, Running, answer};
use crate::wire::error::wrong_query;
use crate::wire::error::{ApiError, ApiResult};
use crate::wire::whole::WholeAnswer;

/// Limit of the lines on one side. A client gets more with another call around the outermost line.
const LINES_MAX: usize = 1000;
const LINES_DEFAULT: usize = 20;
/// Lines of the target's instant behind it that are read in vain where other nodes have the lines.
const SAME_INSTANT_MAX: usize = 1_000;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::Read, "/api/v1/context", context)
}

async fn context(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let id: LineId = params
        .required("id")?
        .parse()
        .map_err(|error: record::FrameError| ApiError::bad_request(error.to_string()))?;
    let side = |name: &str| -> ApiResult<usize> {
        let lines = params.number(name)?.unwrap_or(LINES_DEFAULT);
        if lines > LINES_MAX {
            return Err(ApiError::bad_request(format!("'{name}' is more than {LINES_MAX}")));
        }
        Ok(lines)
    };
    let (before, after) = (side("before")?, side("after")?);
    let mut pending = PendingQuery::new(&app, "context", &format!("_line_id:{id}"), &caller)?;
    let restriction = params.restriction(crate::wire::clock::now_ns())?;
    // The queries for the lines of other nodes are restricted by it, too.
    pending.context.restriction = restriction.clone();
    let seen = Seen::new(restriction.filter)?;
    let body = answer(pending, move |running| {
        let mut meter = running.context.meter();
        let found = match running.source().sides() {
            Some(_) => around_of_sides(running, id, before, after, seen)?,
            None => {
                let check = &mut || running.check();
                around(running.source(), id, before, after, seen, &mut meter, check)?
            }
        };
        found.map(|found| WholeAnswer::json(&running.context, found)).transpose()
    });
    body.await?.map(IntoResponse::into_response).ok_or_else(|| {
        ApiError::not_found(format!("there is no line {id}; it may have been deleted by retention"))
    })
}

/// Sorts lines: by time, then by arrival.
type Key = (i64, u64, u32);
/// A line that was found: its batch and its row there.
type Found = (Arc<Batch>, u32);

fn key(row: &Row<'_>) -> Key {
    (row.time_ns(), row.sequence(), row.id().line)
}

fn around(
    source: &dyn Source,
    id: LineId,
    before: usize,
    after: usize,
    mut seen: Seen,
    meter: &mut Meter,
    check: &mut dyn FnMut() -> Result<(), RunError>,
) -> Result<Option<Value>, RunError> {
    let Some(batch) = source.find(id)? else { return Ok(None) };
    let Some(target) = batch.rows().find(|row| row.id() == id) else { return Ok(None) };
    if !seen.visible_rows(&batch).may(target.index()) {
        return Ok(None);
    }
    let stream = Stream::of(&target);
    let whose = if batch.is_internal() { Whose::All } else { Whose::Sent };
    let at = key(&target);

    let mut earlier = Nearest::new(before);
    let mut units =
        source.units(TimeRange { start_ns: i64::MIN, end_ns: at.0.saturating_add(1) }, whose)?;
    units.sort_by_key(|unit| {
        std::cmp::Reverse(unit.time_range_ns().map_or(i64::MAX, |(_, newest)| newest))
    });
    for unit in units.iter().take_while(|_| before > 0) {
        check()?;
        let newest = unit.time_range_ns().map_or(i64::MAX, |(_, newest)| newest);
        if earlier.is_full() && earlier.lines.keys().next().is_some_and(|oldest| newest < oldest.0)
        {
            break;
        }
        let Some(batch) = unit.load()? else { continue };
        let visible = seen.visible_rows(&batch);
        stream.select(
            &batch,
            |row| key(row) < at && visible.may(row.index()),
            |row, key| earlier.add_before(key, (Arc::clone(&batch), row)),
        );
        earlier.count(meter)?;
    }

    let mut later = Nearest::new(after);
    let mut units = source.units(TimeRange { start_ns: at.0, end_ns: i64::MAX }, whose)?;
    units.sort_by_key(|unit| unit.time_range_ns().map_or(i64::MIN, |(oldest, _)| oldest));
    for unit in units.iter().take_while(|_| after > 0) {
        check()?;
        let oldest = unit.time_range_ns().map_or(i64::MIN, |(oldest, _)| oldest);
        if later.is_full() && later.lines.keys().next_back().is_some_and(|newest| oldest > newest.0)
        {
            break;
        }
        let Some(batch) = unit.load()? else { continue };
        let visible = seen.visible_rows(&batch);
        stream.select(
            &batch,
            |row| key(row) > at && visible.may(row.index()),
            |row, key| later.add_after(key, (Arc::clone(&batch), row)),
        );
        later.count(meter)?;
    }

    let mut show = Show::new();
    let mut rows: Vec<Value> = Vec::new();
    for line in earlier.lines.values() {
        rows.push(show.row(line, meter)?);
    }
    let mut row = show.row(&(Arc::clone(&batch), target.index()), meter)?;
    row["_is_target"] = "true".into();
    rows.push(row);
    for line in later.lines.values() {
        rows.push(show.row(line, meter)?);
    }
    Ok(Some(json!({ "stream": stream.text, "rows": rows })))
}

/// The lines around a line where the lines are on other nodes: by queries for the lines of its
/// stream before and behind it. Lines of the same instant are in the order of their ids.
fn around_of_sides(
    running: &Running,
    id: LineId,
    before: usize,
    after: usize,
    mut seen: Seen,
) -> Result<Option<Value>, RunError> {
    let source = running.source();
    let Some(batch) = source.find(id)? else { return Ok(None) };
    let Some(target) = batch.rows().find(|row| row.id() == id) else { return Ok(None) };
    if !seen.visible_rows(&batch).may(target.index()) {
        return Ok(None);
    }
    let stream = Stream::of(&target);
    let exact = |name: &str, value: &str| {
        format!("{}:={}", text::quoted::quote(name), text::quoted::quote(value))
    };
    let own = if batch.is_internal() { "_type:summary " } else { "" };
    let text = format!("{own}{}", exact("_stream", &stream.text));
    let of_stream = Query::parse(&text, 0).map_err(|error| RunError::Failed(error.message))?;
    let key = RowKey { time_ns: target.time_ns(), id };
    let include = vec!["_line_id".to_owned(), "_line".to_owned(), "_received".to_owned()];
    let at = target.time_ns();
    // What stands around a line has no revisions left out.
    let context = query::Context { include, all_revisions: true, ..running.context.clone() };
    let read = |context: &query::Context, is_wanted: &dyn Fn(RowKey) -> bool, max: usize| {
        let (mut found, mut scratch) = (Vec::new(), Scratch::default());
        query::run(&of_stream, source, context, &mut |rows| {
            for index in 0..rows.len() {
                let Some(key) = rows.key(index).filter(|key| is_wanted(*key)) else { continue };
                let mut row = Map::new();
                rows.visit(index, &mut scratch, |name, value| {
                    row.insert(name.to_owned(), String::from_utf8_lossy(value).into());
                });
                found.push((key, Value::Object(row)));
                if found.len() >= max {
                    return ControlFlow::Break(());
                }
            }
            ControlFlow::Continue(())
        })?;
        Ok::<_, RunError>(found)
    };
    let mut rows = Vec::new();
    if before > 0 {
        let range = TimeRange { start_ns: i64::MIN, end_ns: at.saturating_add(1) };
        // Lines of the same instant may be behind the target.
        let limit = Some(before + SAME_INSTANT_MAX);
        let context = query::Context { range, limit, ..context.clone() };
        let found = read(&context, &|other| other < key, before)?;
        rows.extend(found.into_iter().rev().map(|(_, row)| row));
    }
    let mut row = Show::new().row(&(Arc::clone(&batch), target.index()), &mut context.meter())?;
    row["_is_target"] = "true".into();
    rows.push(row);
    if after > 0 {
        let range = TimeRange { start_ns: at, end_ns: i64::MAX };
        let order = Some(TimeOrder { after: Some(key), ..TimeOrder::default() });
        let context = query::Context { range, order, limit: Some(after), ..context };
        rows.extend(read(&context, &|_| true, after)?.into_iter().map(|(_, row)| row));
    }
    Ok(Some(json!({ "stream": stream.text, "rows": rows })))
}

/// The lines that the caller may see.
struct Seen {
    only: Option<query::TailQuery>,
    scratch: Scratch,
}

/// Those lines of one batch; `None` means all.
struct VisibleRows(Option<HashSet<LineId>>, Arc<Batch>);

impl Seen {
    fn new(to: Option<Arc<query::Filter>>) -> ApiResult<Seen> {
        let of = |to: Arc<query::Filter>| Query::new((*to).clone(), Vec::new()).tail(&[]);
        let only = to.map(of).transpose().map_err(wrong_query)?;
        // A filter that leaves out some of Loginson's own lines does not name the others.
        let only = only.map(query::TailQuery::with_own);
        Ok(Seen { only, scratch: Scratch::default() })
    }

    fn visible_rows(&mut self, batch: &Arc<Batch>) -> VisibleRows {
        let visible = self.only.as_ref().map(|only| {
            let rows = only.selected(batch, &mut self.scratch);
            let id = |index| {
                let (batch, row) = rows.line(index).expect("no pipe made rows");
                batch.row(row as usize).id()
            };
            (0..rows.len()).map(id).collect()
        });
        VisibleRows(visible, Arc::clone(batch))
    }
}

impl VisibleRows {
    fn may(&self, row: u32) -> bool {
        let id = self.1.row(row as usize).id();
        self.0.as_ref().is_none_or(|visible| visible.contains(&id))
    }
}

/// The lines nearest to the target on one side.
struct Nearest {
    lines: BTreeMap<Key, Found>,
    max: usize,
    /// Memory counted for the batches that hold these lines.
    counted: usize,
}

impl Nearest {
    fn new(max: usize) -> Nearest {
        Nearest { lines: BTreeMap::new(), max, counted: 0 }
    }

    /// Counts each batch that is held once. Lines of one batch are mostly neighbours.
    fn count(&mut self, meter: &mut Meter) -> Result<(), RunError> {
        let mut held: Vec<&Arc<Batch>> = self.lines.values().map(|(batch, _)| batch).collect();
        held.sort_unstable_by_key(|batch| Arc::as_ptr(batch));
        held.dedup_by(|a, b| Arc::ptr_eq(a, b));
        let bytes = held.iter().map(|batch| batch.memory_bytes()).sum();
        match bytes > self.counted {
            true => meter.take(bytes - self.counted)?,
            false => meter.give_back(self.counted - bytes),
        }
        self.counted = bytes;
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= self.max
    }

    fn add_before(&mut self, key: Key, line: Found) {
        self.lines.insert(key, line);
        if self.lines.len() > self.max {
            self.lines.pop_first();
        }
    }

    fn add_after(&mut self, key: Key, line: Found) {
        self.lines.insert(key, line);
        if self.lines.len() > self.max {
            self.lines.pop_last();
        }
    }
}

/// A stream: the field values that its lines have in common.
struct Stream {
    text: String,
    fields: Vec<(String, Vec<u8>)>,
}

impl Stream {
    fn of(row: &Row<'_>) -> Stream {
        let mut text = String::new();
        row.write_stream(&mut text);
        let fields = row
            .stream_fields()
            .map(|name| (name.to_owned(), row.get_by_name(name).unwrap_or_default().to_vec()))
            .collect();
        Stream { text, fields }
    }

    /// Calls `each` with the row of every line of the stream that is `wanted`.
    fn select(
        &self,
        batch: &Batch,
        wanted: impl Fn(&Row<'_>) -> bool,
        mut each: impl FnMut(u32, Key),
    ) {
        // The values are compared first, which is cheap; a stream name is written for few lines
        // only.
        let ids: Vec<_> =
            self.fields.iter().map(|(name, value)| (batch.field_id(name), value)).collect();
        let mut text = String::new();
        for row in batch.rows().filter(|row| wanted(row)) {
            let alike = |(id, value): &(Option<record::FieldId>, &Vec<u8>)| {
                id.and_then(|id| row.get(id)).unwrap_or_default() == value.as_slice()
            };
            if !ids.iter().all(alike) {
                continue;
            }
            text.clear();
            row.write_stream(&mut text);
            if text == self.text {
                each(row.index(), key(&row));
            }
        }
    }
}

/// Memory of a row besides its text, about.
const ROW_BYTES: usize = 2 << 10;

/// Encodes lines as a query does.
struct Show {
    all: query::TailQuery,
    scratch: Scratch,
}

impl Show {
    fn new() -> Show {
        let include = ["_line_id", "_line", "_received"].map(String::from);
        let all = Query::parse("*", 0)
            .and_then(|query| query.tail(&include))
            .expect("the query of everything")
            .with_own();
        Show { all, scratch: Scratch::default() }
    }

    fn row(&mut self, (batch, index): &Found, meter: &mut Meter) -> Result<Value, RunError> {
        let rows = self.all.selected(batch, &mut self.scratch);
        let mut row = Map::new();
        meter.take(rows.text_bytes(*index as usize, &mut self.scratch) + ROW_BYTES)?;
        rows.visit(*index as usize, &mut self.scratch, |name, value| {
            row.insert(name.to_owned(), String::from_utf8_lossy(value).into());
        });
        Ok(Value::Object(row))
    }
}

#[cfg(test)]
mod tests {
    use query::Filter;
    use record::{Format, FrameBuilder, Hints, Origin, Parser, ParserConfig, Transport};

    use super::*;

    /// A line of Loginson itself.
    fn own_line(log_type: &str) -> Arc<Batch> {
        let hints = Hints { log_type: Some(log_type.to_owned()), ..Hints::default() };
        let internal = Origin::new(Transport::Internal, Format::Json, None);
        let origin = Origin { hints: Arc::new(hints), ..internal };
        let mut frame = FrameBuilder::new();
        frame.push_line(&origin, 1, b"{\"user\":\"ann\"}", false);
        let frame = Arc::new(frame.finish(1, 1).unwrap());
        Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame))
    }

    #[test]
    fn own_lines_are_seen_save_for_those_that_are_left_out() {
        let may = |to: Filter, log_type: &str| {
            let mut seen = Seen::new(Some(Arc::new(to))).unwrap();
            seen.visible_rows(&own_line(log_type)).may(0)
        };
        assert!(may(Filter::without_audit(), "alert"));
        assert!(may(Filter::without_audit(), "summary"));
        assert!(!may(Filter::without_audit(), "audit"));
        assert!(!may(Filter::without_own(), "alert"));
    }
}

//! Filters of lines in LogsQL, for rules of retention, which the configuration checks, and for
//! deletions. None selects lines of the audit log: these go only with the segments that retention
//! deletes by age or size.

use std::sync::Arc;

use query::macros::Callable;
use query::{Filter, Query, Scratch};
use record::Batch;
use store::LineFilter;

/// Parses a filter of lines in LogsQL, without pipes. The error names the position in bytes and
/// what was expected there.
pub fn line_filter(text: &str, now_ns: i64) -> Result<LineFilter, String> {
    // Whoever may save a macro must not change what is deleted.
    let query =
        Query::parse_with(text, now_ns, Callable::None).map_err(|error| error.to_string())?;
    if !query.pipes().is_empty() {
        return Err("a filter of lines has no pipes".to_owned());
    }
    let query = query.restricted(&Filter::without_audit()).map_err(|error| error.to_string())?;
    let range = query.filter().time_range();
    let tenants = query.filter().tenants();
    let tail = query.tail(&[]).map_err(|error| error.to_string())?;
    let selects = move |batch: &Arc<Batch>| {
        let mut selected = vec![false; batch.len()];
        let rows = tail.selected(batch, &mut Scratch::default());
        for index in 0..rows.len() {
            let (_, row) = rows.line(index).expect("a filter makes no rows");
            selected[row as usize] = true;
        }
        selected
    };
    let last_ns = match range.end_ns {
        i64::MAX => i64::MAX,
        end_ns => end_ns.saturating_sub(1),
    };
    let range_ns = (range.start_ns, last_ns);
    Ok(LineFilter { range_ns, tenants, selects: Box::new(selects) })
}

//! A search: the body of a request, and its answer.
//!
//! Hits come in the order of time, the newest first, unless `sort` says something else. A key of
//! `sort` is a field; `_doc` and `_shard_doc` are the order of time and arrival, and as a last key
//! they tell hits with equal keys apart, for `search_after`. Sort values of times are milliseconds,
//! or a text where a time is finer.

use std::time::Duration;

use query::source::TimeRange;
use query::{Comparison, Filter, Number, RowKey, Test, TimeOrder};
use record::LineId;
use serde_json::{Map, Value, json};
use text::quoted::quote;

use crate::aggs::{self, Aggregation};
use crate::dates::{self, MS_NS};
use crate::dsl;
use crate::error::{Refused, SearchError};
use crate::hits::{Highlight, Hit, Shown, SourceFilter, WantedField};
use crate::leaf::{Leaves, all, any, none, not};
use crate::names::{Field, ID, LINE, TIME};
use crate::object::{Object, cut, list, shown, text_of};
use crate::rows::Runner;

/// Most hits up to the last one of a page, as in Elasticsearch.
///
/// limits.md, Queries: hits of a page of Elasticsearch's API, with those before it | {} | the
/// request is refused (400); `search_after`, scroll and point in time go on
pub const WINDOW_MAX: u64 = 10_000;
/// Hits that are counted by default, as in Elasticsearch.
const TRACKED_DEFAULT: u64 = 10_000;
/// Hits by default.
const SIZE_DEFAULT: u64 = 10;
/// Most hits with equal keys among which the last one of a page is looked for.
const TIES_MAX: u64 = 1_000_000;
/// Most keys of `sort`.
const KEYS_MAX: usize = 16;

/// Which hits are wanted, in which order, and what of them.
#[derive(Clone, Debug)]
pub struct TopHits {
    from: u64,
    size: u64,
    keys: Vec<SortKey>,
    /// Whether the request has a `sort`.
    is_sorted: bool,
    after: Option<Vec<Value>>,
    shown: Shown,
}

#[derive(Clone, Debug, PartialEq)]
enum SortBy {
    Score,
    Arrival,
    Field(String),
}

#[derive(Clone, Debug, PartialEq)]
struct SortKey {
    by: SortBy,
    descending: bool,
    missing_first: bool,
    format: Option<String>,
}

/// How many hits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Track {
    No,
    UpTo(u64),
    All,
}

/// The body of a search.
#[derive(Clone, Debug)]
pub struct Search {
    filter: Filter,
    post_filter: Filter,
    hits: TopHits,
    aggregations: Vec<Aggregation>,
    track: Track,
    terminate_after: Option<u64>,
    /// The time that the search may take.
    pub timeout: Option<Duration>,
    /// The point in time that it names.
    pub pit: Option<String>,
}

impl TopHits {
    /// Reads the aggregation.
    pub fn parse(body: &Value) -> Result<TopHits, Refused> {
        let object = Object::new(body, "top_hits")?;
        let hits = TopHits::of(&object, 3)?;
        object.without_effect(&["version", "seq_no_primary_term", "explain", "track_scores"]);
        object.finish()?;
        Ok(hits)
    }

    fn of(object: &Object<'_>, size: u64) -> Result<TopHits, Refused> {
        let from = object.whole("from")?.unwrap_or(0);
        let size = object.whole("size")?.unwrap_or(size);
        if from.saturating_add(size) > WINDOW_MAX {
            return Err(Refused::argument(format!(
                "Result window is too large, from + size must be less than or equal to: [{WINDOW_MAX}] but was [{}]; \
                 use search_after, a scroll or a point in time",
                from.saturating_add(size)
            )));
        }
        let sort = object.get("sort");
        let mut keys = sort.map_or(Ok(Vec::new()), sort_keys)?;
        let is_sorted = !keys.is_empty();
        if keys.iter().all(|key| key.by == SortBy::Score) {
            keys.push(SortKey::newest());
        }
        let source = object.get("_source").map(SourceFilter::parse).transpose()?;
        let mut wanted = Vec::new();
        // Where both name a field, the format of `fields` counts.
        for name in ["docvalue_fields", "fields"] {
            for value in object.get(name).map(list).unwrap_or_default() {
                wanted.push(WantedField::parse(value)?);
            }
        }
        let mut source = source.unwrap_or_default();
        let stored = object.get("stored_fields").map(list).unwrap_or_default();
        if stored.iter().any(|value| *value == "_none_") {
            source = SourceFilter::none();
        }
        for name in ["script_fields", "runtime_mappings"] {
            if object.get(name).and_then(Value::as_object).is_some_and(|fields| !fields.is_empty())
            {
                return Err(Refused::parsing(format!(
                    "[{name}] is not understood; there are no scripts"
                )));
            }
        }
        let highlight = object.get("highlight").map(Highlight::parse).transpose()?;
        Ok(TopHits {
            from,
            size,
            keys,
            is_sorted,
            after: None,
            shown: Shown { source, wanted, highlight },
        })
    }
}

impl SortKey {
    fn newest() -> SortKey {
        SortKey {
            by: SortBy::Field(TIME.to_owned()),
            descending: true,
            missing_first: false,
            format: None,
        }
    }
}

fn sort_keys(value: &Value) -> Result<Vec<SortKey>, Refused> {
    let mut keys = Vec::new();
    for value in list(value) {
        match value {
            Value::String(text) => {
                let (name, order) = match text.rsplit_once(':') {
                    Some((name, order @ ("asc" | "desc"))) => (name, Some(order)),
                    _ => (text.as_str(), None),
                };
                keys.push(sort_key(name, order, None)?);
            }
            value => {
                let object = Object::new(value, "sort")?;
                for (name, body) in object.entries() {
                    keys.push(match body {
                        Value::String(order) => sort_key(name, Some(order), None)?,
                        body => {
                            let of = Object::new(body, name)?;
                            let key = sort_key(name, of.text("order")?.as_deref(), Some(&of))?;
                            of.finish()?;
                            key
                        }
                    });
                }
            }
        }
    }
    // Behind the order of arrival, nothing is equal any more. Names of one object have no order, so
    // that it comes last there.
    if keys.iter().any(|key| key.by == SortBy::Arrival) && keys.len() > 1 {
        let is_one = !matches!(value, Value::Array(values) if values.len() > 1);
        if is_one {
            keys.sort_by_key(|key| key.by == SortBy::Arrival);
        }
        let place = keys.iter().position(|key| key.by == SortBy::Arrival).unwrap_or(0);
        keys.truncate(place + 1);
    }
    if keys.len() > KEYS_MAX {
        return Err(Refused::argument(format!("[sort] has more than {KEYS_MAX} keys")));
    }
    Ok(keys)
}

fn sort_key(name: &str, order: Option<&str>, of: Option<&Object<'_>>) -> Result<SortKey, Refused> {
    let by = match name {
        "_score" => SortBy::Score,
        "_doc" | "_shard_doc" => SortBy::Arrival,
        "_script" | "_geo_distance" => {
            return Err(Refused::parsing(format!(
                "[sort] [{name}] is not understood; sort by fields"
            )));
        }
        name => match Field::of(name).name {
            id if id == ID => SortBy::Arrival,
            name => SortBy::Field(name),
        },
    };
    let descending = match order {
        None => by == SortBy::Score,
        Some("asc") => false,
        Some("desc") => true,
        Some(other) => {
            return Err(Refused::parsing(format!(
                "[sort] [order] takes asc or desc, not [{}]",
                cut(other)
            )));
        }
    };
    let (mut missing_first, mut format) = (false, None);
    if let Some(of) = of {
        // Fields have one value, and every field may be missing.
        of.without_effect(&["unmapped_type", "mode", "numeric_type", "ignore_unmapped"]);
        missing_first = match of.text("missing")?.as_deref() {
            None | Some("_last") => false,
            Some("_first") => true,
            Some(_) => return Err(Refused::parsing("[sort] [missing] takes _first or _last")),
        };
        format = of.text("format")?;
        if let Some(format) = &format {
            dates::check_format(format)?;
        }
    }
    Ok(SortKey { by, descending, missing_first, format })
}

/// A time such as `30s` or `500ms`.
pub fn duration(text: &str, what: &str) -> Result<Duration, Refused> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let count: Option<u64> = text[..digits].parse().ok();
    let unit_ms = match &text[digits..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        "h" => Some(3_600_000),
        "d" => Some(86_400_000),
        _ => None,
    };
    let ms = count.zip(unit_ms).and_then(|(count, unit_ms)| count.checked_mul(unit_ms));
    ms.map(Duration::from_millis).ok_or_else(|| {
        Refused::argument(format!(
            "[{what}] [{}] is not a time; write for example 30s, 5m or 500ms",
            cut(text)
        ))
    })
}

impl Search {
    /// Reads the body of a request that came at that time.
    pub fn parse(body: &Value, now_ns: i64) -> Result<Search, Refused> {
        let mut leaves = Leaves::new(now_ns);
        let object = Object::new(body, "search")?;
        let query = |name: &'static str, leaves: &mut Leaves| {
            object.get(name).map_or(Ok(Filter::All), |query| dsl::parse(query, leaves))
        };
        let filter = query("query", &mut leaves)?;
        let post_filter = query("post_filter", &mut leaves)?;
        let mut hits = TopHits::of(&object, SIZE_DEFAULT)?;
        let given = object.get("aggs").or_else(|| object.get("aggregations"));
        let aggregations = given.map_or(Ok(Vec::new()), |value| aggs::parse(value, &mut leaves))?;
        if let Some(after) = object.get("search_after") {
            let values =
                after.as_array().ok_or_else(|| Refused::parsing("[search_after] takes a list"))?;
            if hits.from > 0 {
                return Err(Refused::argument("[from] must be 0 with [search_after]"));
            }
            hits.after = Some(values.clone());
        }
        let track = match object.get("track_total_hits") {
            None => Track::UpTo(TRACKED_DEFAULT),
            Some(Value::Bool(true)) => Track::All,
            Some(Value::Bool(false)) => Track::No,
            Some(value) => match text_of(value).and_then(|text| text.parse::<i64>().ok()) {
                Some(-1) => Track::No,
                Some(limit) if limit >= 0 => Track::UpTo(limit.unsigned_abs()),
                _ => match value.as_str() {
                    Some("true") => Track::All,
                    Some("false") => Track::No,
                    _ => {
                        return Err(Refused::parsing(format!(
                            "[track_total_hits] takes true, false or a number, not {}",
                            shown(value)
                        )));
                    }
                },
            },
        };
        let terminate_after = object.whole("terminate_after")?.filter(|limit| *limit > 0);
        if terminate_after.is_some() && !aggregations.is_empty() {
            return Err(Refused::argument(
                "[terminate_after] is not understood beside aggregations",
            ));
        }
        let timeout = object.text("timeout")?.map(|text| duration(&text, "timeout")).transpose()?;
        let pit = match object.get("pit") {
            None => None,
            Some(value) => {
                let pit = Object::new(value, "pit")?;
                let id = pit.text("id")?.ok_or_else(|| Refused::parsing("[pit] needs [id]"))?;
                pit.without_effect(&["keep_alive"]);
                pit.finish()?;
                Some(id)
            }
        };
        // There are no scores, versions and caches; how a query is carried out is always told by
        // /select/logsql/explain.
        object.without_effect(&[
            "track_scores",
            "version",
            "seq_no_primary_term",
            "explain",
            "profile",
            "indices_boost",
            "stats",
            "batched_reduce_size",
        ]);
        object.finish()?;
        Ok(Search { filter, post_filter, hits, aggregations, track, terminate_after, timeout, pit })
    }

    /// The number of hits of a page.
    pub fn size(&self) -> u64 {
        self.hits.size
    }

    /// The same search, for hits behind one with these sort values. Aggregations and totals are of
    /// the first page.
    pub fn behind(&self, after: Vec<Value>) -> Search {
        let mut next = self.clone();
        next.hits.after = Some(after);
        next.aggregations = Vec::new();
        next
    }

    /// Sorts hits with equal keys by arrival, so that a page can go on behind any of them.
    pub fn with_tie_breaker(mut self) -> Search {
        if self.hits.keys.iter().all(|key| key.by != SortBy::Arrival) {
            if !self.hits.is_sorted {
                self.hits.keys = vec![SortKey::newest()];
            }
            self.hits.is_sorted = true;
            let by = SortBy::Arrival;
            let key = SortKey { by, descending: false, missing_first: false, format: None };
            self.hits.keys.push(key);
        }
        self
    }
}

/// The answer of a search.
pub struct Answer {
    /// `hits`, and perhaps `aggregations` and `terminated_early`.
    pub parts: Map<String, Value>,
    /// The sort values of the last hit.
    pub last: Option<Vec<Value>>,
}

/// Carries out a search over the indices; with `typed`, names of aggregations have their types.
pub fn run(
    search: &Search,
    runner: &mut Runner<'_>,
    indices: &Filter,
    typed: bool,
) -> Result<Answer, SearchError> {
    let outer = indices.clone();
    let filter = all(vec![outer.clone(), search.filter.clone()]);
    let with_post = all(vec![filter.clone(), search.post_filter.clone()]);
    let mut wanted = search.hits.clone();
    if let Some(limit) = search.terminate_after {
        wanted.size = wanted.size.min(limit);
    }
    let found = match wanted.size {
        0 => Vec::new(),
        _ => page(runner, &with_post, &wanted)?,
    };
    runner.take(found.iter().map(Hit::bytes).sum())?;
    let last = found.last().map(|hit| sort_values(&wanted.keys, hit));
    let mut hits = Map::new();
    let mut parts = Map::new();
    let counted = match (search.track, search.terminate_after) {
        (Track::No, _) => None,
        (_, Some(limit)) => {
            let count = runner.count(&with_post, Some(limit))?;
            parts.insert("terminated_early".to_owned(), (count >= limit).into());
            Some((count, "eq"))
        }
        (Track::All, _) => Some((runner.count(&with_post, None)?, "eq")),
        (Track::UpTo(limit), _) => {
            let count = runner.count(&with_post, Some(limit.saturating_add(1)))?;
            Some(if count > limit { (limit, "gte") } else { (count, "eq") })
        }
    };
    if let Some((value, relation)) = counted {
        hits.insert("total".to_owned(), json!({ "value": value, "relation": relation }));
    }
    hits.insert("max_score".to_owned(), Value::Null);
    hits.insert("hits".to_owned(), written(&wanted, &with_post, found, runner)?);
    parts.insert("hits".to_owned(), hits.into());
    if !search.aggregations.is_empty() {
        let found = aggs::run(&search.aggregations, runner, &filter, &outer, typed)?;
        parts.insert("aggregations".to_owned(), found.into());
    }
    Ok(Answer { parts, last })
}

/// The number of hits of a search.
pub fn count(
    search: &Search,
    runner: &mut Runner<'_>,
    indices: &Filter,
) -> Result<u64, SearchError> {
    let filter = all(vec![indices.clone(), search.filter.clone()]);
    runner.count(&filter, search.terminate_after)
}

/// `hits` of an aggregation.
pub fn hits_of(
    runner: &mut Runner<'_>,
    filter: &Filter,
    wanted: &TopHits,
) -> Result<Value, SearchError> {
    let found = page(runner, filter, wanted)?;
    runner.take(found.iter().map(Hit::bytes).sum())?;
    let total = runner.count(filter, None)?;
    let hits = written(wanted, filter, found, runner)?;
    Ok(json!({
        "total": { "value": total, "relation": "eq" },
        "max_score": null,
        "hits": hits,
    }))
}

fn written(
    wanted: &TopHits,
    filter: &Filter,
    found: Vec<Hit>,
    runner: &mut Runner<'_>,
) -> Result<Value, SearchError> {
    let write = |hit: &Hit| {
        let sort = wanted.is_sorted.then(|| sort_values(&wanted.keys, hit));
        wanted.shown.write(hit, sort, filter, runner)
    };
    found.iter().map(write).collect()
}

fn sort_values(keys: &[SortKey], hit: &Hit) -> Vec<Value> {
    let only_arrival = keys.len() == 1;
    let value = |key: &SortKey| match &key.by {
        SortBy::Score => Value::Null,
        // As a single key it says the time too, from which the next page is read.
        SortBy::Arrival if only_arrival => format!("{}:{}", hit.time_ns, hit.id).into(),
        SortBy::Arrival => hit.id.clone().into(),
        SortBy::Field(name) if name == TIME => time_value(hit.time_ns, key.format.as_deref()),
        SortBy::Field(name) => match hit.value(name) {
            None => Value::Null,
            Some(text) => aggs::plain_number(&text).unwrap_or_else(|| text.into()),
        },
    };
    keys.iter().map(value).collect()
}

/// Milliseconds, or a text where they do not say all.
fn time_value(time_ns: i64, format: Option<&str>) -> Value {
    match format {
        Some("epoch_millis") | None if time_ns % MS_NS == 0 => time_ns.div_euclid(MS_NS).into(),
        Some(format)
            if format != "epoch_millis" && !format.contains("nanos") && time_ns % MS_NS == 0 =>
        {
            dates::write(time_ns, Some(format), record::Zone::UTC).into()
        }
        _ => text::time::format_time(time_ns).into(),
    }
}

/// The time of a sort value.
fn time_of(value: &Value, format: Option<&str>) -> Option<i64> {
    if let Some(ms) = value.as_i64() {
        return ms.checked_mul(MS_NS);
    }
    let text = value.as_str()?;
    if let Some(time_ns) = text::time::parse_timestamp(text.as_bytes()) {
        return Some(time_ns);
    }
    let reading = dates::Reading { format, zone: record::Zone::UTC, now_ns: 0 };
    dates::parse(text, reading).ok().map(|instants| instants.start_ns)
}

/// What a hit is made of.
const INCLUDE: [&str; 2] = [ID, LINE];

fn page(
    runner: &mut Runner<'_>,
    filter: &Filter,
    wanted: &TopHits,
) -> Result<Vec<Hit>, SearchError> {
    let keys: Vec<&SortKey> = wanted.keys.iter().filter(|key| key.by != SortBy::Score).collect();
    if let [SortKey { by: SortBy::Arrival, descending: false, .. }] = keys[..] {
        return page_by_arrival(runner, filter, wanted);
    }
    let after = match &wanted.after {
        None => None,
        Some(values) if values.len() != wanted.keys.len() => {
            return Err(SearchError::Refused(Refused::argument(format!(
                "[search_after] has {} values, and [sort] {} keys; take the values of [sort] of the last hit",
                values.len(),
                wanted.keys.len()
            ))));
        }
        Some(values) => Some(values),
    };
    let mut ties = 0;
    let mut selected = filter.clone();
    let mut marker = None;
    if let Some(values) = after {
        let pairs = wanted.keys.iter().zip(values).filter(|(key, _)| key.by != SortBy::Score);
        let (behind, id) = behind(&pairs.collect::<Vec<_>>())?;
        selected = all(vec![selected, behind]);
        marker = id;
        ties = if marker.is_some() { 100 } else { 0 };
    }
    loop {
        let limit = wanted.from + wanted.size + ties;
        let rows = runner.rows(&selected, &sort_pipes(&keys, limit), None, None, &INCLUDE)?;
        let is_all = (rows.len() as u64) < limit;
        let mut found: Vec<Hit> = rows.into_iter().map(Hit::new).collect();
        let Some((id, values)) = marker.as_ref().zip(after) else {
            return Ok(found.split_off((wanted.from as usize).min(found.len())));
        };
        // Hits that are equal to the last one come first, in the order of arrival.
        let place = found.iter().position(|hit| hit.id == *id);
        let is_equal = |hit: &Hit| {
            let own = sort_values(&wanted.keys, hit);
            let mut pairs = wanted.keys.iter().zip(own.iter().zip(values));
            pairs.all(|(key, (own, value))| key.by == SortBy::Arrival || own == value)
        };
        let begin = match place {
            Some(place) => place + 1,
            None if found.last().is_some_and(is_equal) && !is_all => {
                ties = ties.saturating_mul(8);
                if ties > TIES_MAX {
                    return Err(SearchError::Refused(Refused::argument(format!(
                        "more than {TIES_MAX} hits have equal sort values; sort by _doc, or by one more field"
                    ))));
                }
                continue;
            }
            // The last hit is gone; those that are equal to it may have been sent.
            None => found.iter().take_while(|hit| is_equal(hit)).count(),
        };
        let wanted_size = wanted.size as usize;
        if found.len() - begin < wanted_size && !is_all {
            ties = ties.saturating_mul(8).min(TIES_MAX);
            continue;
        }
        let mut rest = found.split_off(begin);
        rest.truncate(wanted_size);
        return Ok(rest);
    }
}

fn page_by_arrival(
    runner: &mut Runner<'_>,
    filter: &Filter,
    wanted: &TopHits,
) -> Result<Vec<Hit>, SearchError> {
    let mut order = TimeOrder::default();
    let mut selected = filter.clone();
    let place = wanted.keys.iter().position(|key| key.by == SortBy::Arrival).unwrap_or(0);
    if let Some(after) = &wanted.after {
        let wrong = || {
            SearchError::Refused(Refused::argument(
                "[search_after] takes the values of [sort] of the last hit; that of _doc alone is a time and an id",
            ))
        };
        let text = after.get(place).and_then(Value::as_str).ok_or_else(wrong)?;
        let (time, id) = text.split_once(':').ok_or_else(wrong)?;
        let time_ns: i64 = time.parse().map_err(|_| wrong())?;
        let id: LineId = id.parse().map_err(|_| wrong())?;
        order.after = Some(RowKey { time_ns, id });
        let range = TimeRange { start_ns: time_ns, end_ns: i64::MAX };
        selected = all(vec![selected, Filter::Time(range)]);
    }
    let limit = (wanted.from + wanted.size) as usize;
    let rows = runner.rows(&selected, "", Some(order), Some(limit), &INCLUDE)?;
    Ok(rows.into_iter().map(Hit::new).skip(wanted.from as usize).collect())
}

/// The pipes that sort, each key as it is written in LogsQL, where empty values come first.
fn sort_pipes(keys: &[&SortKey], limit: u64) -> String {
    let mut before = String::new();
    let mut written = Vec::new();
    for (index, key) in keys.iter().enumerate() {
        let SortBy::Field(name) = &key.by else { continue };
        let direction = if key.descending { " desc" } else { "" };
        // Empty values come first, and last where the order is reversed.
        if name != TIME && key.missing_first == key.descending {
            let flag = quote(&format!("\u{1}s{index}"));
            // Rows with the flag come behind those without.
            let test = if key.descending { "!" } else { "" };
            let name = quote(name);
            before.push_str(&format!(" | format if ({test}{name}:\"\") \"1\" as {flag}"));
            written.push(flag);
        }
        written.push(format!("{}{direction}", quote(name)));
    }
    if written.is_empty() {
        written.push(quote(TIME));
    }
    format!("{before} | sort by ({}) limit {limit}", written.join(", "))
}

/// The filter of what comes behind some sort values, and the id of the hit that they are of. With
/// an id, hits with equal values are selected too.
fn behind(pairs: &[(&SortKey, &Value)]) -> Result<(Filter, Option<String>), SearchError> {
    let mut alternatives = Vec::new();
    let mut equal: Vec<Filter> = Vec::new();
    let mut marker = None;
    for (key, value) in pairs {
        let name = match &key.by {
            SortBy::Field(name) => name,
            _ => {
                let id = value.as_str().map(str::to_owned);
                marker = Some(id.ok_or_else(|| {
                    Refused::argument("[search_after] takes the values of [sort] of the last hit; that of _doc is an id")
                })?);
                break;
            }
        };
        let (beyond, same) = match name == TIME {
            true => {
                let time_ns = time_of(value, key.format.as_deref()).ok_or_else(|| {
                    Refused::argument(format!("[search_after] {} is not a time", shown(value)))
                })?;
                beyond_time(time_ns, key.descending)
            }
            false => beyond_value(name, value, key),
        };
        let mut one = equal.clone();
        one.push(beyond);
        alternatives.push(all(one));
        equal.push(same);
    }
    if marker.is_some() {
        alternatives.push(all(equal));
    }
    Ok((any(alternatives), marker))
}

fn beyond_time(time_ns: i64, descending: bool) -> (Filter, Filter) {
    let range = |start_ns, end_ns| Filter::Time(TimeRange { start_ns, end_ns });
    let behind_ns = time_ns.saturating_add(1);
    let beyond = match descending {
        true => range(i64::MIN, time_ns),
        false => range(behind_ns, i64::MAX),
    };
    (beyond, range(time_ns, behind_ns))
}

/// The order of LogsQL: numbers, then texts by their bytes.
fn beyond_value(name: &str, value: &Value, key: &SortKey) -> (Filter, Filter) {
    let field = |test| Filter::field(name, test);
    let missing = field(Test::Phrase(String::new()));
    let exists = field(Test::Prefix(String::new()));
    let infinite = |text: &str| Number::parse(text).expect("it is a number");
    let between = |low: Number, low_inside, high: Number, high_inside| {
        field(Test::Range { low, low_inside, high, high_inside })
    };
    let Some(text) = text_of(value) else {
        let beyond = if key.missing_first { exists } else { none() };
        return (beyond, missing);
    };
    let is_number = between(infinite("-inf"), true, infinite("inf"), true);
    let is_text = all(vec![exists, not(is_number.clone())]);
    let compared = |comparison| {
        all(vec![is_text.clone(), field(Test::Compare { comparison, value: text.clone() })])
    };
    let beyond = match (Number::parse(&text), key.descending) {
        (Some(number), false) => {
            any(vec![between(number, false, infinite("inf"), true), is_text.clone()])
        }
        (Some(number), true) => between(infinite("-inf"), true, number, false),
        (None, false) => compared(Comparison::Greater),
        (None, true) => any(vec![compared(Comparison::Less), is_number]),
    };
    let same = match Number::parse(&text) {
        Some(number) => between(number.clone(), true, number, true),
        None => field(Test::Exact(text)),
    };
    (if key.missing_first { beyond } else { any(vec![beyond, missing]) }, same)
}

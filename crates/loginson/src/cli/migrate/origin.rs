//! Stores that lines are taken from, each over its own API.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use serde_json::{Value, json};
use text::time::format_time;
use ureq::http::Response;
use ureq::{Agent, Body};

use crate::cli::client::agent;
use crate::cli::import::dump::{self, Unpacked};
use crate::cli::terminal::escaped;

/// Entries of a page of Loki, which by default gives no more.
const LOKI_PAGE: usize = 5000;
/// Documents of a page of Elasticsearch.
const ELASTIC_PAGE: u64 = 2000;
/// Bytes of an answer that is read as a whole.
const ANSWER_BYTES_MAX: u64 = 512 << 20;
/// Bytes of an error that are shown.
const ERROR_BYTES_MAX: u64 = 2000;
/// The longest line of a streamed answer.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// The longest wait for the beginning of an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(300);

/// Takes one record of a source.
pub type Take<'t> = dyn FnMut(Unpacked) -> Result<()> + 't;

/// The source refuses a call, and always will.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refused(String);

/// A store that lines are taken from, by intervals of nanoseconds since 1970 UTC: with the first
/// instant, without the last.
pub trait Origin {
    /// What is moved, by which a state is recognised.
    fn describe(&self) -> String;
    /// Lines of an interval, as the store counts them.
    fn count(&self, start: i64, end: i64) -> Result<u64>;
    /// The lines of an interval.
    fn read(&self, start: i64, end: i64, take: &mut Take<'_>) -> Result<()>;
    /// Records that are in no interval.
    fn without_time(&self) -> Result<u64> {
        Ok(0)
    }
}

/// A source's address and the connections to it.
pub struct Http {
    agent: Agent,
    base: String,
    headers: Vec<(String, String)>,
}

impl Http {
    /// `headers` is a file of lines `Name: value`.
    pub fn new(url: &str, headers: Option<&Path>, ca: Option<&Path>) -> Result<Http> {
        let base = url.trim_end_matches('/');
        ensure!(
            !base.contains('@'),
            "leave name and password out of the address: other users of this machine see them in the list of processes; \
             write a line `Authorization: Basic …` into a file, and name it with --source-headers"
        );
        let base = if base.contains("://") { base.to_owned() } else { format!("http://{base}") };
        let agent = agent(&base, ca, Some(ANSWER_TIME_MAX))?;
        let mut parsed = Vec::new();
        if let Some(file) = headers {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("--source-headers: cannot read {}", file.display()))?;
            for line in text.lines().filter(|line| !line.trim().is_empty()) {
                let (name, value) = line.split_once(':').with_context(|| {
                    format!("--source-headers: a line of {} is no `Name: value`", file.display())
                })?;
                parsed.push((name.trim().to_owned(), value.trim().to_owned()));
            }
        }
        Ok(Http { agent, base, headers: parsed })
    }

    fn form(&self, path: &str, form: &[(&str, &str)]) -> Result<Response<Body>> {
        let mut request = self.agent.post(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        self.judge(path, request.send_form(form.iter().copied()))
    }

    fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Response<Body>> {
        let mut request = self.agent.get(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        self.judge(path, request.query_pairs(query.iter().copied()).call())
    }

    fn json(&self, path: &str, body: &Value) -> Result<Value> {
        let mut request = self.agent.post(format!("{}{path}", self.base));
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.header("content-type", "application/json");
        value(self.judge(path, request.send(body.to_string()))?)
    }

    fn judge(
        &self,
        path: &str,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>> {
        let address = format!("{}{}", self.base, path.split('?').next().unwrap_or_default());
        let answer = answer.map_err(|error| {
            anyhow!("{address} cannot be reached: {error}; check the address and the network")
        })?;
        let status = answer.status();
        if status.is_success() {
            return Ok(answer);
        }
        let mut begin = String::new();
        let body = answer.into_body().into_reader();
        // What it cannot say does not matter.
        let _ = body.take(ERROR_BYTES_MAX).read_to_string(&mut begin);
        let remedy = match status.as_u16() {
            401 | 403 => "; give credentials by --source-headers",
            404 => "; check the address and the kind of the source",
            _ => "",
        };
        let text =
            escaped(&format!("{address} answered with status {status}: {}{remedy}", begin.trim()));
        match status.as_u16() {
            408 | 429 | 500..=599 => Err(anyhow!(text)),
            _ => Err(Refused(text).into()),
        }
    }
}

fn value(answer: Response<Body>) -> Result<Value> {
    let text = answer.into_body().into_with_config().limit(ANSWER_BYTES_MAX).read_to_string();
    let text = text.context("the answer of the source was cut off, or is too long")?;
    serde_json::from_str(&text).context("the answer of the source is no JSON; check its address")
}

/// VictoriaLogs, and servers with its API: rows are streamed.
pub struct VictoriaLogs {
    http: Http,
    query: String,
}

impl VictoriaLogs {
    /// The lines that a filter selects.
    pub fn new(http: Http, query: &str) -> VictoriaLogs {
        VictoriaLogs { http, query: query.to_owned() }
    }

    fn rows(
        &self,
        start: i64,
        end: i64,
        pipe: &str,
        mut row: impl FnMut(Value) -> Result<()>,
    ) -> Result<()> {
        let (from, to) = (format_time(start), format_time(end));
        let query = format!("_time:[{from}, {to}) ({}){pipe}", self.query);
        let answer = self.http.form("/select/logsql/query", &[("query", &query)])?;
        let mut reader = BufReader::with_capacity(1 << 20, answer.into_body().into_reader());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut reader).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            if read.context("the answer of the source was cut off")? == 0 {
                return Ok(());
            }
            let value: Value = serde_json::from_slice(&line)
                .context("the source did not answer with JSON lines; check its address")?;
            if let Some(message) = value["_error"]["message"].as_str() {
                return Err(anyhow!("the source ended its answer: {}", escaped(message)));
            }
            row(value)?;
        }
    }
}

impl Origin for VictoriaLogs {
    fn describe(&self) -> String {
        format!("victorialogs {} {}", self.http.base, self.query)
    }

    fn count(&self, start: i64, end: i64) -> Result<u64> {
        let mut count = 0;
        self.rows(start, end, " | stats count() n", |row| {
            let n = row["n"].as_str().and_then(|n| n.parse::<u64>().ok());
            count = n.context("the source does not count; is it VictoriaLogs?")?;
            Ok(())
        })?;
        Ok(count)
    }

    fn read(&self, start: i64, end: i64, take: &mut Take<'_>) -> Result<()> {
        self.rows(start, end, "", |row| dump::unpack_any(row).into_iter().try_for_each(&mut *take))
    }
}

/// Loki: pages in the order of time.
pub struct Loki {
    http: Http,
    query: String,
}

impl Loki {
    /// The entries that a query of LogQL selects.
    pub fn new(http: Http, query: &str) -> Loki {
        Loki { http, query: query.to_owned() }
    }

    /// The entries of a page with their times, the oldest first.
    fn page(&self, start: i64, end: i64) -> Result<Vec<(i64, String, Unpacked)>> {
        let (from, to, limit) = (start.to_string(), end.to_string(), LOKI_PAGE.to_string());
        let answer = self.http.get(
            "/loki/api/v1/query_range",
            &[
                ("query", &self.query),
                ("start", &from),
                ("end", &to),
                ("limit", &limit),
                ("direction", "forward"),
            ],
        )?;
        let mut answer = value(answer)?;
        ensure!(
            answer["data"]["resultType"] == "streams",
            "the source gives numbers and no lines; give a query of streams and filters alone"
        );
        let mut entries = Vec::new();
        let streams = answer["data"]["result"].as_array_mut().map(std::mem::take);
        for mut stream in streams.unwrap_or_default() {
            let labels = stream["stream"].as_object().cloned().unwrap_or_default();
            let identity = stream["stream"].to_string();
            let values = stream["values"].as_array_mut().map(std::mem::take).unwrap_or_default();
            for value in values {
                let (time, line) = (&value[0], &value[1]);
                let ns = time.as_str().and_then(|ns| ns.parse::<i64>().ok());
                let ns = ns.context("an entry of the source has no time")?;
                let key = format!("{identity}{line}");
                let record = dump::labelled(labels.clone(), format_time(ns).into(), line.clone());
                entries.push((ns, key, record));
            }
        }
        entries.sort_by_key(|(ns, _, _)| *ns);
        Ok(entries)
    }
}

impl Origin for Loki {
    fn describe(&self) -> String {
        format!("loki {} {}", self.http.base, self.query)
    }

    fn count(&self, start: i64, end: i64) -> Result<u64> {
        // The range is open at its beginning and closed at its end.
        let at = (end - 1).to_string();
        let query = format!("sum(count_over_time({} [{}ns]))", self.query, end - start);
        let answer = self.http.get("/loki/api/v1/query", &[("query", &query), ("time", &at)])?;
        let answer = value(answer)?;
        let Some(result) = answer["data"]["result"].as_array() else {
            return Err(anyhow!("the source does not count; is it Loki?"));
        };
        let Some(first) = result.first() else { return Ok(0) };
        let count = first["value"][1].as_str().and_then(|n| n.parse::<f64>().ok());
        Ok(count.context("the source does not count; is it Loki?")? as u64)
    }

    fn read(&self, start: i64, end: i64, take: &mut Take<'_>) -> Result<()> {
        let mut from = start;
        // Entries of the last instant of a page, which the next one begins with again.
        let mut seen: HashMap<String, u64> = HashMap::new();
        loop {
            let page = self.page(from, end)?;
            let is_last = page.len() < LOKI_PAGE;
            let Some(last) = page.last().map(|(ns, _, _)| *ns) else { return Ok(()) };
            ensure!(
                is_last || last > from,
                "the source has {LOKI_PAGE} lines or more of one instant ({}), and gives no others; narrow --query, and migrate \
                 in several runs",
                format_time(last)
            );
            let mut at_last: HashMap<String, u64> = HashMap::new();
            for (ns, key, record) in page {
                if ns == from
                    && let Some(times) = seen.get_mut(&key).filter(|times| **times > 0)
                {
                    *times -= 1;
                    continue;
                }
                if ns == last {
                    *at_last.entry(key).or_default() += 1;
                }
                take(record)?;
            }
            if is_last {
                return Ok(());
            }
            (from, seen) = (last, at_last);
        }
    }
}

/// Elasticsearch and OpenSearch: a scroll.
pub struct Elasticsearch {
    http: Http,
    index: String,
    query: String,
    time_field: String,
}

impl Elasticsearch {
    /// The documents of indices that a query string selects.
    pub fn new(http: Http, index: &str, query: &str, time_field: &str) -> Elasticsearch {
        let [index, query, time_field] = [index, query, time_field].map(str::to_owned);
        Elasticsearch { http, index, query, time_field }
    }

    fn filter(&self, start: i64, end: i64) -> Value {
        let mut filters = vec![json!({ "range": { &self.time_field: {
            "gte": format_time(start),
            "lt": format_time(end),
            "format": "strict_date_optional_time_nanos",
        }}})];
        if self.query != "*" {
            filters.push(json!({ "query_string": { "query": self.query } }));
        }
        json!({ "bool": { "filter": filters } })
    }

    fn counted(&self, query: Value) -> Result<u64> {
        let path = format!("/{}/_count", self.index);
        let answer = self.http.json(&path, &json!({ "query": query }))?;
        answer["count"].as_u64().context("the source does not count; is it Elasticsearch?")
    }
}

impl Origin for Elasticsearch {
    fn describe(&self) -> String {
        // The time field has no blanks, and stands where `origin_params` looks for it.
        format!(
            "elasticsearch {} {} {} {}",
            self.http.base, self.time_field, self.index, self.query
        )
    }

    fn count(&self, start: i64, end: i64) -> Result<u64> {
        self.counted(self.filter(start, end))
    }

    fn read(&self, start: i64, end: i64, take: &mut Take<'_>) -> Result<()> {
        let search = json!({
            "size": ELASTIC_PAGE,
            "sort": ["_doc"],
            "query": self.filter(start, end),
        });
        let path = format!("/{}/_search?scroll=5m", self.index);
        let mut answer = self.http.json(&path, &search)?;
        let read = loop {
            if answer["timed_out"] == true || answer["_shards"]["failed"].as_u64().unwrap_or(0) > 0
            {
                break Err(anyhow!("some shards of the source failed; look at its health"));
            }
            let hits = answer["hits"]["hits"].as_array_mut().map(std::mem::take);
            let hits = hits.context("the source does not search; is it Elasticsearch?")?;
            if hits.is_empty() {
                break Ok(());
            }
            let records = hits.into_iter().flat_map(dump::unpack_any);
            if let Err(error) = records.into_iter().try_for_each(&mut *take) {
                break Err(error);
            }
            let next = json!({ "scroll": "5m", "scroll_id": answer["_scroll_id"] });
            answer = self.http.json("/_search/scroll", &next)?;
        };
        let mut request =
            self.http.agent.delete(format!("{}/_search/scroll", self.http.base)).force_send_body();
        for (name, value) in &self.http.headers {
            request = request.header(name, value);
        }
        let ended = json!({ "scroll_id": answer["_scroll_id"] });
        // It ends by itself after five minutes.
        let _ = request.header("content-type", "application/json").send(ended.to_string());
        read
    }

    fn without_time(&self) -> Result<u64> {
        let mut query =
            json!({ "bool": { "must_not": [{ "exists": { "field": self.time_field } }] } });
        if self.query != "*" {
            query["bool"]["filter"] = json!([{ "query_string": { "query": self.query } }]);
        }
        self.counted(query)
    }
}

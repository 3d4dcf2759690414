//! `queries`: several queries in one request, for clients that look up many single lines. They run
//! one after the other in one place of the queue, and share what each request costs: the
//! connection, the entry in the queue, the thread.
//!
//! Left out: formats other than JSON, and answers that are sent while queries run. A client with
//! long answers sends single queries.

use std::ops::ControlFlow;
use std::sync::Arc;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use query::source::Source;
use query::{Context, Query, RunError};
use text::json::write_text;

use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::access::routes::Routes;
use crate::app::App;
use crate::queries::run::{PendingQuery, answer};
use crate::wire::error::{ApiError, ApiResult, wrong_query};
use node::queries::export::{Encoder, Format};

/// Most queries of a request.
///
/// limits.md, Queries: queries of one request to `/select/logsql/queries` | {} | the request is
/// refused (400)
const QUERIES_MAX: usize = 1_000;
/// Rows of each query, without `limit`.
///
/// limits.md, Queries: rows of each query of a request to `/select/logsql/queries` | {}, or `limit`
/// up to {ROWS_MAX} | the newest are sent; a higher limit is refused (400)
const ROWS_DEFAULT: usize = 10;
/// Most rows of each query.
const ROWS_MAX: usize = 1_000;
/// Most bytes of a response.
///
/// limits.md, Queries: bytes of an answer of `/select/logsql/queries` | {} | the queries behind get
/// an error in place of rows
const ANSWER_BYTES_MAX: usize = 16 << 20;

/// The route of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().query("/select/logsql/queries", several)
}

async fn several(State(app): State<Arc<App>>, caller: Caller, params: Params) -> ApiResult {
    let now_ns = crate::wire::clock::now_ns();
    let queries = params.queries(now_ns)?;
    let limit = params.limit("limit")?.unwrap_or(ROWS_DEFAULT);
    if limit > ROWS_MAX {
        return Err(ApiError::bad_request(format!(
            "limit: {limit} is more than {ROWS_MAX} rows of each query; ask for more by /select/logsql/query"
        )));
    }
    let text = params.all("query").collect::<Vec<_>>().join("\n");
    let mut pending = PendingQuery::of_text(&app, "queries", &text, &params, &caller, now_ns)?;
    pending.context.limit = Some(limit);
    pending.context.include = params.include()?;
    let lines = answer(pending, move |running| {
        answers(&queries, running.source(), &running.context, &|| running.check())
    });
    Ok(([(CONTENT_TYPE, Format::Jsonl.media_type())], lines.await?).into_response())
}

impl Params {
    /// All parameters `query`, parsed at `now_ns`.
    fn queries(&self, now_ns: i64) -> ApiResult<Vec<Query>> {
        let count = self.all("query").count();
        if !(1..=QUERIES_MAX).contains(&count) {
            return Err(ApiError::bad_request(format!(
                "query: give 1 to {QUERIES_MAX} of them, not {count}"
            )));
        }
        let time_ns = self.query_time_ns(now_ns)?;
        let parse = |(number, text): (usize, &str)| {
            self.parse_query(text, time_ns).map_err(|mut error| {
                error.message = format!("query {}: {}", number + 1, error.message);
                wrong_query(error)
            })
        };
        self.all("query").enumerate().map(parse).collect()
    }
}

/// Runs the queries one after the other. Returns a line for each: its rows, or its error. An error
/// that is not that of one query ends all: `check` says that there is one.
fn answers(
    queries: &[Query],
    source: &dyn Source,
    context: &Context,
    check: &dyn Fn() -> Result<(), RunError>,
) -> Result<Vec<u8>, RunError> {
    let mut encoder = Encoder::new(Format::Jsonl, Vec::new(), true);
    let (mut out, mut meter, mut counted) = (Vec::new(), context.meter(), 0);
    for query in queries {
        check()?;
        let from = out.len();
        out.extend_from_slice(b"{\"rows\":[");
        let first = out.len();
        let (mut failed, held) = (None, meter.held());
        let ran = query::run(query, source, context, &mut |rows| {
            for index in 0..rows.len() {
                if out.len() + encoder.text_bytes(&rows, index) > ANSWER_BYTES_MAX {
                    failed = Some(RunError::Failed(format!(
                        "the answer has more than {ANSWER_BYTES_MAX} bytes; send fewer queries, or take fewer \
                         fields with `| fields`"
                    )));
                    return ControlFlow::Break(());
                }
                let before = out.len();
                if before > first {
                    out.push(b',');
                }
                let at = out.len();
                if let Err(error) = encoder.push_row(&rows, index, &mut out) {
                    failed = Some(RunError::Failed(error.to_string()));
                    return ControlFlow::Break(());
                }
                match out.len() > at {
                    // Without its newline.
                    true => _ = out.pop(),
                    // A row without fields is left out.
                    false => out.truncate(before),
                }
            }
            ControlFlow::Continue(())
        });
        // What the query counted is freed, also where an error ended it.
        meter.give_back(meter.held().saturating_sub(held) as usize);
        check()?;
        match failed.map_or(ran.map(drop), Err) {
            Ok(()) => out.extend_from_slice(b"]}\n"),
            Err(error) => {
                out.truncate(from);
                out.extend_from_slice(b"{\"error\":");
                write_text(error.to_string().as_bytes(), &mut out);
                out.extend_from_slice(b"}\n");
            }
        }
        meter.take(out.len() - counted)?;
        counted = out.len();
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use query::source::{ScanUnit, SourceError, TimeRange, Whose};
    use record::{Batch, Format, FrameBuilder, LineId, Origin, Parser, ParserConfig, Transport};

    use super::*;

    struct Lines(Arc<Batch>);

    impl Lines {
        fn of(lines: &[&str]) -> Lines {
            let mut frame = FrameBuilder::new();
            let origin = Origin::new(Transport::Http, Format::Json, None);
            for line in lines {
                frame.push_line(&origin, 1, line.as_bytes(), false);
            }
            let frame = Arc::new(frame.finish(1, 1).unwrap());
            Lines(Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame)))
        }
    }

    impl Source for Lines {
        fn units(&self, _: TimeRange, _: Whose) -> Result<Vec<Box<dyn ScanUnit>>, SourceError> {
            Ok(vec![Box::new(Lines(Arc::clone(&self.0)))])
        }

        fn find(&self, _: LineId) -> Result<Option<Arc<Batch>>, SourceError> {
            Ok(None)
        }
    }

    impl ScanUnit for Lines {
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

    fn parse(texts: &[&str]) -> Vec<Query> {
        texts.iter().map(|text| Query::parse(text, 0).unwrap()).collect()
    }

    #[test]
    fn each_query_has_a_line() {
        let source = Lines::of(&[
            r#"{"id":"a","n":"1","_msg":"first"}"#,
            r#"{"id":"b","n":"2","_msg":"second"}"#,
        ]);
        let queries = parse(&[
            "id:=b | fields n",
            "id:=nobody",
            "* | fields none",
            "* | sort by (n) | fields id, n",
            "* | stats count() lines",
        ]);
        let context = Context { limit: Some(10), ..Context::default() };
        let lines = answers(&queries, &source, &context, &|| Ok(())).unwrap();
        assert_eq!(
            String::from_utf8(lines).unwrap(),
            "{\"rows\":[{\"n\":\"2\"}]}\n{\"rows\":[]}\n{\"rows\":[]}\n\
             {\"rows\":[{\"id\":\"a\",\"n\":\"1\"},{\"id\":\"b\",\"n\":\"2\"}]}\n\
             {\"rows\":[{\"lines\":\"2\"}]}\n"
        );
    }

    #[test]
    fn an_error_of_one_query_is_its_line_and_others_end_all() {
        let long = format!(r#"{{"id":"a","_msg":"{}"}}"#, "first ".repeat(2_000));
        let source = Lines::of(&[&long]);
        let queries = parse(&["* | sort by (id)", "id:=a | fields id"]);
        let mut context = Context { limit: Some(10), ..Context::default() };
        context.limits.memory_bytes_max = 5_000;
        let lines = answers(&queries, &source, &context, &|| Ok(())).unwrap();
        let lines = String::from_utf8(lines).unwrap();
        let (first, second) = lines.split_once('\n').unwrap();
        assert!(first.starts_with("{\"error\":\""), "{first}");
        assert!(second.starts_with("{\"rows\":[{\"id\":\"a\"}]}"), "{second}");
        let cancelled = AtomicBool::new(false);
        let check = || match cancelled.swap(true, Relaxed) {
            true => Err(RunError::Cancelled),
            false => Ok(()),
        };
        let ended = answers(&queries, &source, &Context::default(), &check);
        assert!(matches!(ended, Err(RunError::Cancelled)));
    }

    #[test]
    fn requests_are_bounded() {
        let params = |count: usize| Params::parse("query=a&".repeat(count).as_bytes());
        assert_eq!(params(QUERIES_MAX).queries(0).unwrap().len(), QUERIES_MAX);
        assert!(params(QUERIES_MAX + 1).queries(0).is_err());
        assert!(params(0).queries(0).is_err());
        let error = Params::parse(b"query=a&query=(").queries(0).unwrap_err().to_string();
        assert!(error.starts_with("query 2: "), "{error}");
    }
}

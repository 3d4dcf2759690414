//! Data points of metrics as JSON, as exporters of JavaScript send them by default.
//!
//! Names and numbers are written as those of logs are (see [`super::super::json`]): names in
//! lowerCamelCase or as in the `.proto` files, numbers of 64 bits as text or as numbers, and `NaN`,
//! `Infinity` and `-Infinity` as text.

use super::super::json::{self, Json, Levels, check_object, count, object, text, unquoted};
use super::super::{ExportError, Found, List, Rejection, Text};
use super::{BUCKETS_MAX, Kind, Metric, Number, Point, Points};
use crate::body::json::{Items, Members, first};

const METRICS: Levels = Levels {
    of_resource: ["resourceMetrics", "resource_metrics"],
    of_scope: ["scopeMetrics", "scope_metrics"],
    items: ["metrics", "metrics"],
};

impl Kind {
    fn of_member(name: &[u8]) -> Option<Kind> {
        Some(match name {
            b"gauge" => Kind::Gauge,
            b"sum" => Kind::Sum,
            b"histogram" => Kind::Histogram,
            b"exponentialHistogram" | b"exponential_histogram" => Kind::ExponentialHistogram,
            b"summary" => Kind::Summary,
            _ => return None,
        })
    }
}

/// Finds the points of a request.
pub(crate) fn find<'b>(content: &'b [u8], found: &mut Found<'b>) -> Result<(), ExportError> {
    json::find_items(content, &METRICS, found, find_points)
}

fn find_points<'b>(content: &'b [u8], found: &mut Found<'b>) -> Result<(), ExportError> {
    check_object("metrics", content)?;
    let wrong = |what: &str| ExportError::Wrong(format!("a metric has {what}"));
    let (mut name, mut unit, mut data) = (Text::Plain(b""), Text::Plain(b""), None);
    for (key, value) in Members::of(content) {
        match key {
            b"name" => name = text(value).map_err(|_| wrong("a name that is no text"))?,
            b"unit" => unit = text(value).map_err(|_| wrong("a unit that is no text"))?,
            key => data = Kind::of_member(key).map(|kind| (kind, value)).or(data),
        }
    }
    let Some((kind, data)) = data else { return Ok(()) };
    let members = || object(data).map_err(|_| wrong("data that are no object"));
    let mut temporality = 0;
    for (key, value) in members()? {
        if matches!(key, b"aggregationTemporality" | b"aggregation_temporality") {
            temporality = match unquoted(value) {
                b"1" | b"AGGREGATION_TEMPORALITY_DELTA" => 1,
                b"2" | b"AGGREGATION_TEMPORALITY_CUMULATIVE" => 2,
                _ => 0,
            };
        }
    }
    let metric = Metric { name, unit, kind, temporality };
    for (key, value) in members()? {
        if matches!(key, b"dataPoints" | b"data_points") {
            found.push_points(metric, json::list("dataPoints", value)?.map(Ok))?;
        }
    }
    Ok(())
}

impl Points for Json {
    fn point(kind: Kind, content: &[u8]) -> Result<Point<'_>, Rejection> {
        let mut point = Point::with(List { content: &[], field: 0 });
        if first(content) != Some(b'{') {
            return Err(Rejection::Broken);
        }
        for (key, value) in Members::of(content) {
            if value == b"null" {
                continue;
            }
            match key {
                b"attributes" => point.attributes.content = value,
                b"startTimeUnixNano" | b"start_time_unix_nano" => point.start_ns = count(value)?,
                b"timeUnixNano" | b"time_unix_nano" => point.time_ns = count(value)?,
                b"flags" => point.flags = count(value)?,
                b"asDouble" | b"as_double" => point.value = Some(Number::Double(double(value)?)),
                b"asInt" | b"as_int" => point.value = Some(int(value)?),
                b"count" => point.count = Some(count(value)?),
                b"sum" => point.sum = Some(double(value)?),
                b"min" => point.min = Some(double(value)?),
                b"max" => point.max = Some(double(value)?),
                b"bucketCounts" | b"bucket_counts" if kind == Kind::Histogram => {
                    point.counts = few(value, BUCKETS_MAX + 1, count)?;
                }
                b"explicitBounds" | b"explicit_bounds" => {
                    point.bounds = few(value, BUCKETS_MAX, double)?;
                }
                b"quantileValues" | b"quantile_values" => {
                    point.quantiles = few(value, BUCKETS_MAX, quantile)?;
                }
                _ => {}
            }
        }
        Ok(point)
    }
}

/// The items of a list; none if there are too many.
fn few<'b, T>(
    value: &'b [u8],
    most: usize,
    read: impl Fn(&'b [u8]) -> Result<T, Rejection>,
) -> Result<Vec<T>, Rejection> {
    if first(value) != Some(b'[') {
        return Err(Rejection::Broken);
    }
    if Items::of(value).nth(most).is_some() {
        return Ok(Vec::new());
    }
    Items::of(value).map(read).collect()
}

fn quantile(content: &[u8]) -> Result<(f64, f64), Rejection> {
    let mut pair = (0.0, 0.0);
    for (key, value) in object(content)? {
        match key {
            b"quantile" => pair.0 = double(value)?,
            b"value" => pair.1 = double(value)?,
            _ => {}
        }
    }
    Ok(pair)
}

/// A number of 64 bits. Exporters of JavaScript write large ones as floating ones.
fn int(value: &[u8]) -> Result<Number, Rejection> {
    let number = std::str::from_utf8(unquoted(value)).ok().and_then(|text| text.parse().ok());
    number.map_or_else(|| double(value).map(Number::Double), |number| Ok(Number::Int(number)))
}

fn double(value: &[u8]) -> Result<f64, Rejection> {
    let text = std::str::from_utf8(unquoted(value)).map_err(|_| Rejection::Broken)?;
    text.parse().map_err(|_| Rejection::Broken)
}

#[cfg(test)]
mod tests {
    use super::super::super::{Export, ExportError, Format, Rejection};

    fn rows(metrics: &str) -> (String, Option<(u64, Rejection)>) {
        let content = format!(
            r#"{{"resourceMetrics":[{{"resource":{{"attributes":[
                {{"key":"service.name","value":{{"stringValue":"shop"}}}}]}},
                "scopeMetrics":[{{"scope":{{"name":"web"}},"metrics":{metrics}}}]}}]}}"#
        );
        let mut export = Export::read_metrics(Format::Json, content.as_bytes()).unwrap();
        let mut out = Vec::new();
        assert!(!export.write(&mut out, usize::MAX));
        let rejected = export.rejected().map(|rejected| (rejected.records, rejected.first));
        (String::from_utf8(out).unwrap(), rejected)
    }

    const END: &str = "\"service.name\":\"shop\",\"scope.name\":\"web\"}\n";

    #[test]
    fn points_become_the_rows_of_those_in_protobuf() {
        let times = r#""startTimeUnixNano":"1000000000","timeUnixNano":"11000000000""#;
        let (found, rejected) = rows(&format!(
            r#"[
            {{"name":"temp","description":"d","unit":"s","gauge":{{"dataPoints":[
                {{{times},"asDouble":21.5}}, {{{times},"asDouble":1,"flags":1}}]}}}},
            {{"name":"sent","sum":{{"dataPoints":[{{{times},"asInt":"7","attributes":[
                {{"key":"name","value":{{"stringValue":"x"}}}},
                {{"key":"to","value":{{"intValue":3}}}}]}}],
                "aggregationTemporality":2,"isMonotonic":true}}}},
            {{"name":"took","histogram":{{"aggregationTemporality":"AGGREGATION_TEMPORALITY_DELTA",
                "dataPoints":[{{{times},"count":"4","sum":10,"bucketCounts":["1","2","1"],
                "explicitBounds":[0.5,5],"min":0.25,"max":6}}]}}}},
            {{"name":"size","summary":{{"data_points":[{{{times},"count":0,"sum":0,"quantileValues":[
                {{"quantile":0.99,"value":3}}]}}]}}}},
            {{"name":"deep","exponentialHistogram":{{"dataPoints":[{{{times},"count":2,"sum":"NaN",
                "scale":3,"positive":{{"offset":1,"bucketCounts":["2"]}}}}]}}}},
            {{"name":"none"}}]"#
        ));
        assert_eq!(rejected, None);
        let time = "\"_time\":\"1970-01-01T00:00:11Z\"";
        let expected = [
            format!(
                "{{\"name\":\"temp\",{time},\"value\":21.5,\"unit\":\"s\",\"kind\":\"gauge\",\"duration\":10,{END}"
            ),
            format!(
                "{{\"name\":\"sent\",{time},\"value\":7,\"kind\":\"sum\",\"temporality\":\"cumulative\",\
                 \"duration\":10,\"attributes.name\":\"x\",\"to\":3,{END}"
            ),
            format!(
                "{{\"name\":\"took\",{time},\"value\":2.5,\"kind\":\"histogram\",\"temporality\":\"delta\",\
                 \"count\":4,\"sum\":10,\"min\":0.25,\"max\":6,\"duration\":10,\"le.0.5\":1,\"le.5\":3,{END}"
            ),
            format!(
                "{{\"name\":\"size\",{time},\"kind\":\"summary\",\"count\":0,\"sum\":0,\"duration\":10,\
                 \"quantile.0.99\":3,{END}"
            ),
            format!(
                "{{\"name\":\"deep\",{time},\"value\":\"NaN\",\"kind\":\"exponential_histogram\",\"count\":2,\
                 \"sum\":\"NaN\",\"duration\":10,{END}"
            ),
        ];
        assert_eq!(found, expected.concat());
    }

    #[test]
    fn a_wrong_point_is_rejected_alone_and_a_wrong_request_as_a_whole() {
        let (found, rejected) = rows(
            r#"[{"name":"a","gauge":{"dataPoints":[{"asInt":"many"},7,{"asInt":1}]}},
                {"name":"b","summary":{"dataPoints":[{"quantileValues":{}},{"attributes":3}]}}]"#,
        );
        assert_eq!(found, format!("{{\"name\":\"a\",\"value\":1,\"kind\":\"gauge\",{END}"));
        assert_eq!(rejected, Some((4, Rejection::Broken)));
        for wrong in [
            r#"{"resourceMetrics":3}"#,
            r#"{"resourceLogs":[]}"#,
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[3]}]}]}"#,
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":3}]}]}]}"#,
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":3}]}]}]}"#,
            r#"{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"gauge":{"dataPoints":3}}]}]}]}"#,
        ] {
            let read = Export::read_metrics(Format::Json, wrong.as_bytes());
            assert!(matches!(read, Err(ExportError::Wrong(_))), "{wrong}");
        }
    }

    #[test]
    fn metrics_without_points_are_not_held() {
        let metrics = vec![r#"{"name":"a","gauge":{"dataPoints":[]}}"#; 1000].join(",");
        let content =
            format!(r#"{{"resourceMetrics":[{{"scopeMetrics":[{{"metrics":[{metrics}]}}]}}]}}"#);
        let export = Export::read_metrics(Format::Json, content.as_bytes()).unwrap();
        assert_eq!(export.metrics.len(), 0);
        // Each has field 5, a gauge without points, in `Metric`.
        let metrics = [0x12, 2, 0x2a, 0].repeat(30);
        let scopes = [&[0x12, metrics.len() as u8][..], &metrics].concat();
        let content = [&[0x0a, scopes.len() as u8][..], &scopes].concat();
        let export = Export::read_metrics(Format::Protobuf, &content).unwrap();
        assert_eq!(export.metrics.len(), 0);
    }
}

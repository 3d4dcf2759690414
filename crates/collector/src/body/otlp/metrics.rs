//! Data points of metrics, `ExportMetricsServiceRequest`, in protobuf
//! (`opentelemetry/proto/metrics/v1/metrics.proto`) and in [`json`].
//!
//! A point becomes a row of [measurements](crate::body::metrics): `name`, `value`, `unit`, `kind`,
//! `temporality`, its attributes, and those of resource and scope. `duration` is the time since the
//! start of the point. A histogram has `count`, `sum`, `min`, `max`, their mean as `value`, and
//! `le.BOUND`, the number of values up to each bound; a summary has `quantile.Q` instead. A point
//! without a value (`NO_RECORDED_VALUE`) is left out.
//!
//! A metric is held only if it has a point, so there are no more of them than records of a request.
//!
//! Left out: the buckets of exponential histograms, exemplars, descriptions.

pub(super) mod json;

use text::time::write_time;

use super::protobuf::Protobuf;
use super::{ExportError, Found, List, Rejection, Shared, Text, Wire, write_members, write_name};
use crate::body::json::{write_double, write_number};
use crate::body::metrics::{OWN, write_measure};
use crate::body::protobuf::{Broken, Fields, Value};

/// Bounds of a histogram, and quantiles of a summary, that become fields. Those of a point with
/// more are left out.
const BUCKETS_MAX: usize = 256;
/// `DataPointFlags`
const NO_RECORDED_VALUE: u64 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    Sum,
    Histogram,
    ExponentialHistogram,
    Summary,
}

impl Kind {
    fn of_field(field: u64) -> Option<Kind> {
        Some(match field {
            5 => Kind::Gauge,
            7 => Kind::Sum,
            9 => Kind::Histogram,
            10 => Kind::ExponentialHistogram,
            11 => Kind::Summary,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Gauge => "gauge",
            Kind::Sum => "sum",
            Kind::Histogram => "histogram",
            Kind::ExponentialHistogram => "exponential_histogram",
            Kind::Summary => "summary",
        }
    }

    /// The field of a point that has its attributes.
    fn attributes(self) -> u64 {
        match self {
            Kind::Gauge | Kind::Sum | Kind::Summary => 7,
            Kind::Histogram => 9,
            Kind::ExponentialHistogram => 1,
        }
    }
}

/// What the points of a metric share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Metric<'b> {
    name: Text<'b>,
    unit: Text<'b>,
    kind: Kind,
    temporality: u64,
}

/// An encoding of data points.
pub(super) trait Points: Wire {
    fn point(kind: Kind, content: &[u8]) -> Result<Point<'_>, Rejection>;
}

/// Finds the points of a request.
pub(super) fn find<'b>(content: &'b [u8], found: &mut Found<'b>) -> Result<(), ExportError> {
    let wrong = |error: Broken| ExportError::Wrong(error.to_string());
    for field in Fields(content) {
        let (1, Value::Bytes(of_resource)) = field.map_err(wrong)? else { continue };
        let mut resource = &[][..];
        for field in Fields(of_resource) {
            if let (1, Value::Bytes(found)) = field.map_err(wrong)? {
                resource = found;
            }
        }
        for field in Fields(of_resource) {
            let (2, Value::Bytes(of_scope)) = field.map_err(wrong)? else { continue };
            let mut scope = &[][..];
            for field in Fields(of_scope) {
                match field.map_err(wrong)? {
                    (1, Value::Bytes(content)) => scope = content,
                    (2, Value::Bytes(metric)) => find_points(metric, found)?,
                    _ => {}
                }
            }
            found.end_group(resource, scope);
        }
    }
    Ok(())
}

fn find_points<'b>(content: &'b [u8], found: &mut Found<'b>) -> Result<(), ExportError> {
    let wrong = |error: Broken| ExportError::Wrong(error.to_string());
    let (mut name, mut unit, mut data) = (&[][..], &[][..], None);
    for field in Fields(content) {
        match field.map_err(wrong)? {
            (1, Value::Bytes(text)) => name = text,
            (3, Value::Bytes(text)) => unit = text,
            (number, Value::Bytes(content)) => {
                data = Kind::of_field(number).map(|kind| (kind, content)).or(data);
            }
            _ => {}
        }
    }
    let Some((kind, data)) = data else { return Ok(()) };
    let mut temporality = 0;
    for field in Fields(data) {
        if let (2, Value::Number(number)) = field.map_err(wrong)? {
            temporality = number;
        }
    }
    let (name, unit) = (Text::Plain(name), Text::Plain(unit));
    let metric = Metric { name, unit, kind, temporality };
    let points = Fields(data).filter_map(|field| match field {
        Ok((1, Value::Bytes(point))) => Some(Ok(point)),
        Ok(_) => None,
        Err(error) => Some(Err(wrong(error))),
    });
    found.push_points(metric, points)
}

impl<'b> Found<'b> {
    /// Adds the points of a metric.
    fn push_points(
        &mut self,
        metric: Metric<'b>,
        points: impl Iterator<Item = Result<&'b [u8], ExportError>>,
    ) -> Result<(), ExportError> {
        let mut metric = Some(metric);
        for point in points {
            self.push(point?)?;
            self.metrics.extend(metric.take());
            self.metric_of.push((self.metrics.len() - 1) as u32);
        }
        Ok(())
    }
}

/// A data point.
pub(super) struct Point<'b> {
    attributes: List<'b>,
    start_ns: u64,
    time_ns: u64,
    value: Option<Number>,
    count: Option<u64>,
    sum: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    bounds: Vec<f64>,
    counts: Vec<u64>,
    quantiles: Vec<(f64, f64)>,
    flags: u64,
}

#[derive(Clone, Copy)]
enum Number {
    Int(i64),
    Double(f64),
}

impl<'b> Point<'b> {
    fn with(attributes: List<'b>) -> Point<'b> {
        Point {
            attributes,
            start_ns: 0,
            time_ns: 0,
            value: None,
            count: None,
            sum: None,
            min: None,
            max: None,
            bounds: Vec::new(),
            counts: Vec::new(),
            quantiles: Vec::new(),
            flags: 0,
        }
    }
}

impl Points for Protobuf {
    fn point(kind: Kind, content: &[u8]) -> Result<Point<'_>, Rejection> {
        use Kind::*;
        let mut point = Point::with(List { content, field: kind.attributes() });
        let of = f64::from_bits;
        for field in Fields(content) {
            match (kind, field?) {
                (_, (2, Value::Fixed64(time))) => point.start_ns = time,
                (_, (3, Value::Fixed64(time))) => point.time_ns = time,
                (Gauge | Sum, (4, Value::Fixed64(bits))) => {
                    point.value = Some(Number::Double(of(bits)));
                }
                (Gauge | Sum, (6, Value::Fixed64(number))) => {
                    point.value = Some(Number::Int(number as i64));
                }
                (Gauge | Sum | Summary, (8, Value::Number(flags))) => point.flags = flags,
                (Histogram | ExponentialHistogram, (10, Value::Number(flags))) => {
                    point.flags = flags;
                }
                (_, (4, Value::Fixed64(count))) => point.count = Some(count),
                (_, (5, Value::Fixed64(bits))) => point.sum = Some(of(bits)),
                (Histogram, (6, value)) => {
                    fixed(value, BUCKETS_MAX + 1, |count| point.counts.push(count));
                }
                (Histogram, (7, value)) => {
                    fixed(value, BUCKETS_MAX, |bits| point.bounds.push(of(bits)));
                }
                (Histogram, (11, Value::Fixed64(bits)))
                | (ExponentialHistogram, (12, Value::Fixed64(bits))) => point.min = Some(of(bits)),
                (Histogram, (12, Value::Fixed64(bits)))
                | (ExponentialHistogram, (13, Value::Fixed64(bits))) => point.max = Some(of(bits)),
                (Summary, (6, Value::Bytes(content))) if point.quantiles.len() < BUCKETS_MAX => {
                    let (mut quantile, mut value) = (0.0, 0.0);
                    for field in Fields(content) {
                        match field? {
                            (1, Value::Fixed64(bits)) => quantile = of(bits),
                            (2, Value::Fixed64(bits)) => value = of(bits),
                            _ => {}
                        }
                    }
                    point.quantiles.push((quantile, value));
                }
                _ => {}
            }
        }
        Ok(point)
    }
}

/// Numbers of eight bytes, packed or each by itself; none if there are too many.
fn fixed(value: Value<'_>, most: usize, mut each: impl FnMut(u64)) {
    match value {
        Value::Fixed64(number) => each(number),
        Value::Bytes(packed) if packed.len() / 8 <= most => {
            let (numbers, _) = packed.as_chunks();
            numbers.iter().for_each(|number| each(u64::from_le_bytes(*number)));
        }
        _ => {}
    }
}

/// Appends a point as a row; nothing if it has no value.
pub(super) fn write_point<W: Points>(
    metric: &Metric<'_>,
    content: &[u8],
    shared: &Shared<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Rejection> {
    let point = W::point(metric.kind, content)?;
    if point.flags & NO_RECORDED_VALUE != 0 {
        return Ok(());
    }
    let begin = out.len();
    out.extend_from_slice(b",\"name\":");
    metric.name.write(out);
    if let Some(time_ns) = i64::try_from(point.time_ns).ok().filter(|&ns| ns > 0) {
        out.extend_from_slice(b",\"_time\":\"");
        write_time(time_ns, out);
        out.push(b'"');
    }
    match (point.value, point.count, point.sum) {
        (Some(Number::Double(number)), ..) => write_measure("value", number, out),
        (Some(Number::Int(number)), ..) => {
            out.extend_from_slice(b",\"value\":");
            write_number(number, out);
        }
        (None, Some(count), Some(sum)) if count > 0 => {
            write_measure("value", sum / count as f64, out);
        }
        _ => {}
    }
    if !metric.unit.is_empty() {
        out.extend_from_slice(b",\"unit\":");
        metric.unit.write(out);
    }
    out.extend_from_slice(b",\"kind\":\"");
    out.extend_from_slice(metric.kind.name().as_bytes());
    out.push(b'"');
    match metric.temporality {
        1 => out.extend_from_slice(b",\"temporality\":\"delta\""),
        2 => out.extend_from_slice(b",\"temporality\":\"cumulative\""),
        _ => {}
    }
    if let Some(count) = point.count {
        out.extend_from_slice(b",\"count\":");
        write_number(count, out);
    }
    for (name, value) in [("sum", point.sum), ("min", point.min), ("max", point.max)] {
        if let Some(value) = value {
            write_measure(name, value, out);
        }
    }
    if point.start_ns > 0 && point.time_ns > point.start_ns {
        write_measure("duration", (point.time_ns - point.start_ns) as f64 / 1e9, out);
    }
    if point.counts.len() == point.bounds.len() + 1 {
        let mut so_far = 0u64;
        for (bound, count) in point.bounds.iter().zip(&point.counts) {
            so_far = so_far.saturating_add(*count);
            write_of("le", *bound, out);
            write_number(so_far, out);
        }
    }
    for (quantile, value) in &point.quantiles {
        write_of("quantile", *quantile, out);
        write_double(*value, out);
    }
    write_members::<W>(point.attributes, 0, out, |key, out| {
        let is_taken = |name: &[u8]| OWN.contains(&name) || shared.have(name);
        write_name(key, "attributes", out, |_, name| is_taken(name));
    })?;
    out.extend_from_slice(&shared.members);
    // All members begin with a comma.
    out[begin] = b'{';
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends `,"NAME.NUMBER":`.
fn write_of(name: &str, number: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.push(b'.');
    let mut text = Vec::new();
    write_double(number, &mut text);
    // Infinity is in quotes.
    out.extend(text.into_iter().filter(|&byte| byte != b'"'));
    out.extend_from_slice(b"\":");
}

#[cfg(test)]
mod tests {
    use super::super::{Export, Format};

    fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
        let content = content.as_ref();
        assert!(content.len() < 128);
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    fn fixed64(number: u8, value: u64) -> Vec<u8> {
        [&[number << 3 | 1][..], &value.to_le_bytes()].concat()
    }

    fn double(number: u8, value: f64) -> Vec<u8> {
        fixed64(number, value.to_bits())
    }

    fn attribute(number: u8, name: &str, value: &str) -> Vec<u8> {
        field(number, [field(1, name), field(2, field(1, value))].concat())
    }

    fn metric(name: &str, kind: u8, data: Vec<u8>) -> Vec<u8> {
        let content = [field(1, name), field(2, "described"), field(3, "s"), field(kind, data)];
        field(2, content.concat())
    }

    fn request(metrics: &[Vec<u8>]) -> Vec<u8> {
        let mut content = field(1, attribute(1, "service.name", "shop"));
        let of_scope = metrics.concat();
        content.push(0x12);
        content.extend([of_scope.len() as u8 & 0x7f | 0x80, (of_scope.len() >> 7) as u8]);
        content.extend(of_scope);
        let length = content.len();
        [&[0x0a, length as u8 & 0x7f | 0x80, (length >> 7) as u8][..], &content].concat()
    }

    fn rows(content: &[u8]) -> String {
        let (mut export, mut out) =
            (Export::read_metrics(Format::Protobuf, content).unwrap(), Vec::new());
        assert!(!export.write(&mut out, usize::MAX));
        assert_eq!(export.rejected(), None);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn points_become_rows() {
        const START: u64 = 1_000_000_000;
        let times = [fixed64(2, START), fixed64(3, 11 * START)].concat();
        let point = |rest: &[Vec<u8>]| field(1, [times.clone(), rest.concat()].concat());
        let packed =
            |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<_>>();
        let counts = packed(&[1, 2, 1]);
        let bounds = packed(&[0.5f64.to_bits(), 5f64.to_bits()]);
        let content = request(&[
            metric("temp", 5, [point(&[double(4, 21.5)]), point(&[vec![0x40, 1]])].concat()),
            metric(
                "sent",
                7,
                [
                    point(&[fixed64(6, 7), attribute(7, "name", "x"), attribute(7, "to", "a")]),
                    vec![0x10, 2, 0x18, 1],
                ]
                .concat(),
            ),
            metric(
                "took",
                9,
                [
                    point(&[
                        fixed64(4, 4),
                        double(5, 10.0),
                        field(6, counts),
                        field(7, bounds),
                        double(11, 0.25),
                        double(12, 6.0),
                    ]),
                    vec![0x10, 1],
                ]
                .concat(),
            ),
            metric(
                "size",
                11,
                point(&[
                    fixed64(4, 0),
                    double(5, 0.0),
                    field(6, [double(1, 0.99), double(2, 3.0)].concat()),
                ]),
            ),
        ]);
        let time = "\"_time\":\"1970-01-01T00:00:11Z\"";
        let end = "\"service.name\":\"shop\"}\n";
        let expected = [
            format!(
                "{{\"name\":\"temp\",{time},\"value\":21.5,\"unit\":\"s\",\"kind\":\"gauge\",\"duration\":10,{end}"
            ),
            format!(
                "{{\"name\":\"sent\",{time},\"value\":7,\"unit\":\"s\",\"kind\":\"sum\",\"temporality\":\"cumulative\",\
                 \"duration\":10,\"attributes.name\":\"x\",\"to\":\"a\",{end}"
            ),
            format!(
                "{{\"name\":\"took\",{time},\"value\":2.5,\"unit\":\"s\",\"kind\":\"histogram\",\"temporality\":\"delta\",\
                 \"count\":4,\"sum\":10,\"min\":0.25,\"max\":6,\"duration\":10,\"le.0.5\":1,\"le.5\":3,{end}"
            ),
            format!(
                "{{\"name\":\"size\",{time},\"unit\":\"s\",\"kind\":\"summary\",\"count\":0,\"sum\":0,\"duration\":10,\
                 \"quantile.0.99\":3,{end}"
            ),
        ];
        assert_eq!(rows(&content), expected.concat());
        for cut in 1..content.len() {
            assert!(Export::read_metrics(Format::Protobuf, &content[..cut]).is_err(), "{cut}");
        }
    }
}

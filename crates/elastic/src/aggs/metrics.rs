//! Metrics: numbers about the rows of a bucket, as functions of `stats`.

use query::Number;
use serde_json::{Map, Value, json};
use text::quoted::quote;

use crate::dates;
use crate::error::Refused;
use crate::names::{Field, TIME};
use crate::object::Object;

/// Percentiles by default.
const PERCENTS: [f64; 7] = [1.0, 5.0, 25.0, 50.0, 75.0, 95.0, 99.0];
/// Most percentiles of one aggregation. More are refused.
const PERCENTS_MAX: usize = 100;

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Elasticsearch's name.
    pub kind: &'static str,
    field: String,
    percents: Vec<f64>,
    keyed: bool,
    sigma: f64,
    /// What rows without the field count as.
    missing: Option<f64>,
}

/// All metrics.
pub const KINDS: [&str; 9] = [
    "avg",
    "sum",
    "min",
    "max",
    "value_count",
    "cardinality",
    "stats",
    "extended_stats",
    "percentiles",
];

impl Metric {
    /// Reads a metric.
    pub fn parse(kind: &'static str, body: &Value) -> Result<Metric, Refused> {
        let object = Object::new(body, kind)?;
        let field = object.text("field")?;
        let field = field.ok_or_else(|| Refused::parsing(format!("[{kind}] needs [field]")))?;
        let mut percents = Vec::new();
        let mut keyed = true;
        if kind == "percentiles" {
            percents = match object.get("percents") {
                None => PERCENTS.to_vec(),
                Some(value) => percents_of(value)?,
            };
            keyed = object.flag("keyed")?.unwrap_or(true);
            object.without_effect(&["tdigest", "hdr"]);
        }
        let sigma = match kind {
            "extended_stats" => object.number("sigma")?.unwrap_or(2.0),
            _ => 2.0,
        };
        if kind == "cardinality" {
            // Always exact.
            object.without_effect(&["precision_threshold", "execution_hint", "rehash"]);
        }
        let missing = match kind {
            "avg" | "sum" | "min" | "max" => object.number("missing")?,
            _ => None,
        };
        object.without_effect(&["format", "value_type"]);
        object.finish()?;
        let field = Field::of(&field).name;
        if field == TIME && !matches!(kind, "min" | "max" | "value_count" | "cardinality") {
            return Err(Refused::argument(format!(
                "[{kind}] of @timestamp is not understood; there are min, max, value_count and cardinality"
            )));
        }
        Ok(Metric { kind, field, percents, keyed, sigma, missing })
    }

    /// The functions of `stats` that it needs.
    pub fn functions(&self) -> Vec<String> {
        let name = quote(&self.field);
        let numbers = format!("if ({name}:range[-inf, inf])");
        let least = |function: &str| match self.field == TIME {
            true => format!("{function}({name})"),
            false => format!("{function}({name}) {numbers}"),
        };
        let counted = format!("count({name}) {numbers}");
        let mut functions = match self.kind {
            "avg" | "sum" => vec![format!("sum({name})"), counted],
            "min" | "max" => vec![least(self.kind)],
            "value_count" => vec![format!("count({name})")],
            "cardinality" => vec![format!("count_uniq({name})")],
            "stats" | "extended_stats" => {
                vec![format!("sum({name})"), counted, least("min"), least("max")]
            }
            _ => self.percents.iter().map(|p| format!("quantile({}, {name})", p / 100.0)).collect(),
        };
        if self.kind == "extended_stats" {
            functions.push(format!("stddev({name})"));
        }
        if self.missing.is_some() {
            functions.push(format!("count_empty({name})"));
        }
        functions
    }

    /// The answer, of the results of its functions; those of a bucket without rows are empty.
    pub fn answer(&self, results: &[String]) -> Value {
        if self.field == TIME && matches!(self.kind, "min" | "max") {
            let time_ns = text::time::parse_timestamp(results[0].as_bytes());
            return match time_ns {
                None => json!({ "value": null }),
                Some(time_ns) => json!({
                    "value": time_ns.div_euclid(dates::MS_NS) as f64,
                    "value_as_string": dates::write(time_ns, None, record::Zone::UTC),
                }),
            };
        }
        let part = |name: &str| shown(self.part(name, results));
        match self.kind {
            "value_count" | "cardinality" => {
                json!({ "value": self.part("value", results).unwrap_or(0.0) as u64 })
            }
            "percentiles" => {
                let values = self.percents.iter().zip(results);
                let values = values.map(|(percent, text)| (*percent, shown(number(text))));
                match self.keyed {
                    true => {
                        let values: Map<String, Value> =
                            values.map(|(p, value)| (percent_text(p), value)).collect();
                        json!({ "values": values })
                    }
                    false => {
                        let one = |(key, value)| json!({ "key": key, "value": value });
                        json!({ "values": values.map(one).collect::<Vec<Value>>() })
                    }
                }
            }
            "stats" | "extended_stats" => {
                let mut answer = Map::new();
                let count = self.part("count", results).unwrap_or(0.0) as u64;
                answer.insert("count".to_owned(), count.into());
                for name in ["min", "max", "avg", "sum"] {
                    answer.insert(name.to_owned(), part(name));
                }
                if self.kind == "extended_stats" {
                    for name in ["sum_of_squares", "variance", "std_deviation"] {
                        answer.insert(name.to_owned(), part(name));
                    }
                    answer.insert("variance_population".to_owned(), part("variance"));
                    answer.insert("std_deviation_population".to_owned(), part("std_deviation"));
                    let bounds = json!({ "upper": part("upper"), "lower": part("lower") });
                    answer.insert("std_deviation_bounds".to_owned(), bounds);
                }
                Value::Object(answer)
            }
            _ => json!({ "value": part("value") }),
        }
    }

    /// One number of the answer, by its name; `value` of a metric with one.
    pub fn part(&self, name: &str, results: &[String]) -> Option<f64> {
        let get = |index: usize| number(results.get(index)?);
        let added = self
            .missing
            .map(|missing| (missing, results.last().and_then(|text| number(text)).unwrap_or(0.0)));
        match self.kind {
            "value_count" | "cardinality" => get(0),
            "min" | "max" => match (get(0), added) {
                (Some(found), Some((missing, count))) if count > 0.0 => match self.kind {
                    "min" => Some(found.min(missing)),
                    _ => Some(found.max(missing)),
                },
                (None, Some((missing, count))) if count > 0.0 => Some(missing),
                (found, _) => found,
            },
            "percentiles" => {
                let wanted: f64 = name.parse().ok()?;
                let index = self.percents.iter().position(|percent| *percent == wanted)?;
                get(index)
            }
            _ => {
                let (missing, extra) = added.unwrap_or((0.0, 0.0));
                let count = get(1).unwrap_or(0.0) + extra;
                let sum = get(0).unwrap_or(0.0) + missing * extra;
                let avg = (count > 0.0).then(|| sum / count);
                let name = match (self.kind, name) {
                    ("avg", "value") => "avg",
                    ("sum", "value") => "sum",
                    (_, name) => name,
                };
                let deviation = || get(4);
                match name {
                    "count" => Some(count),
                    "sum" => Some(sum),
                    "avg" => avg,
                    "min" => get(2),
                    "max" => get(3),
                    "std_deviation" => deviation(),
                    "variance" => deviation().map(|d| d * d),
                    "sum_of_squares" => Some(
                        avg.map_or(0.0, |a| count * (deviation().unwrap_or(0.0).powi(2) + a * a)),
                    ),
                    "upper" => Some(avg? + self.sigma * deviation()?),
                    "lower" => Some(avg? - self.sigma * deviation()?),
                    _ => None,
                }
            }
        }
    }
}

fn percents_of(value: &Value) -> Result<Vec<f64>, Refused> {
    let wrong = || {
        Refused::parsing(format!(
            "[percentiles] [percents] takes a list of up to {PERCENTS_MAX} numbers from 0 to 100"
        ))
    };
    let percents: Option<Vec<f64>> = crate::object::list(value)
        .into_iter()
        .map(|value| value.as_f64().or_else(|| value.as_str()?.parse().ok()))
        .collect();
    let percents = percents.ok_or_else(wrong)?;
    let is_right = (1..=PERCENTS_MAX).contains(&percents.len())
        && percents.iter().all(|percent| (0.0..=100.0).contains(percent));
    if is_right { Ok(percents) } else { Err(wrong()) }
}

/// A percent as a key of an answer: `50.0`, `99.9`.
fn percent_text(percent: f64) -> String {
    if percent.fract() == 0.0 { format!("{percent:.1}") } else { percent.to_string() }
}

/// The number of a result.
pub fn number(text: &str) -> Option<f64> {
    let number = text.parse().ok().or_else(|| Number::parse(text).map(|number| number.value));
    number.filter(|number: &f64| number.is_finite())
}

fn shown(number: Option<f64>) -> Value {
    number.map_or(Value::Null, Value::from)
}

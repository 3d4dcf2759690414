//! Turns conditions of SQL into filters of LogsQL that select exactly the same rows.
//!
//! SQL knows three answers, LogsQL two: a comparison with NULL is neither true nor false. So each
//! condition is translated for the answer that is wanted, and `NOT` asks its operand for the other
//! answer, down to the comparisons, which then ask for a value beside it.
//!
//! What has no exact counterpart is not translated; DataFusion then filters the rows itself. Left
//! out on purpose: regular expressions (a `.` of LogsQL also stands for a newline), comparisons of
//! two columns, and computations.

use std::fmt::Write;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Like, Operator};

use crate::kind::{Kind, quoted};

/// Length of a filter made of one condition. A longer one, such as a list of thousands of values,
/// is left to DataFusion: Loginson refuses queries of more than 256 KiB.
const FILTER_BYTES_MAX: usize = 64 << 10;

/// The filter that selects nothing.
const NOTHING: &str = "!*";

/// The filter of LogsQL for rows of which a condition is true; `None` if there is none.
/// `kind_of` gives the kind of a column, or `None` for what is no column of the table.
pub fn filter(condition: &Expr, kind_of: &dyn Fn(&str) -> Option<Kind>) -> Option<String> {
    let filter = Translator { kind_of }.of(condition, true)?;
    (filter.len() <= FILTER_BYTES_MAX).then_some(filter)
}

struct Translator<'a> {
    kind_of: &'a dyn Fn(&str) -> Option<Kind>,
}

/// A column: its quoted name, and its kind.
type Column = (String, Kind);

impl Translator<'_> {
    /// The filter for rows of which the condition is `wanted`, true or false.
    fn of(&self, condition: &Expr, wanted: bool) -> Option<String> {
        match condition {
            Expr::Alias(alias) => self.of(&alias.expr, wanted),
            Expr::Literal(ScalarValue::Boolean(value), _) => {
                Some(if *value == Some(wanted) { "*" } else { NOTHING }.to_owned())
            }
            Expr::Not(inner) => self.of(inner, !wanted),
            Expr::IsNull(inner) => self.is_null(inner, wanted),
            Expr::IsNotNull(inner) => self.is_null(inner, !wanted),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => match op {
                Operator::And | Operator::Or => {
                    let word = if (*op == Operator::And) == wanted { "and" } else { "or" };
                    let (left, right) = (self.of(left, wanted)?, self.of(right, wanted)?);
                    Some(format!("({left} {word} {right})"))
                }
                _ => match (self.column(left), literal(right)) {
                    (Some(column), Some(value)) => compare(&column, *op, value, wanted),
                    _ => {
                        let (column, value) = (self.column(right)?, literal(left)?);
                        compare(&column, op.swap()?, value, wanted)
                    }
                },
            },
            Expr::Between(Between { expr, negated, low, high }) => {
                let wanted = wanted != *negated;
                let column = self.column(expr)?;
                let low = compare(&column, Operator::GtEq, literal(low)?, wanted)?;
                let high = compare(&column, Operator::LtEq, literal(high)?, wanted)?;
                Some(format!("({low} {} {high})", if wanted { "and" } else { "or" }))
            }
            Expr::InList(list) => {
                let column = self.column(&list.expr)?;
                let values: Option<Vec<_>> = list.list.iter().map(literal).collect();
                in_list(&column, &values?, wanted != list.negated)
            }
            Expr::Like(like) => self.like(like, wanted),
            _ => None,
        }
    }

    fn column(&self, expr: &Expr) -> Option<Column> {
        match expr {
            Expr::Column(column) => Some((quoted(&column.name), (self.kind_of)(&column.name)?)),
            Expr::Alias(alias) => self.column(&alias.expr),
            _ => None,
        }
    }

    fn is_null(&self, expr: &Expr, wanted: bool) -> Option<String> {
        let (field, kind) = self.column(expr)?;
        let is_value = kind.is_value(&field);
        Some(if wanted { format!("!{is_value}") } else { is_value })
    }

    fn like(&self, like: &Like, wanted: bool) -> Option<String> {
        let wanted = wanted != like.negated;
        let (field, Kind::Text) = self.column(&like.expr)? else { return None };
        let pattern = text(literal(&like.pattern)?)?;
        // An escape changes what `%` and `_` mean; DataFusion knows how.
        if like.escape_char.is_some() || pattern.contains('\\') {
            return None;
        }
        let matching = if pattern.is_empty() {
            NOTHING.to_owned()
        } else if pattern.bytes().all(|byte| byte == b'%') {
            format!("{field}:*")
        } else {
            format!("{field}:{}", like_value(&pattern, like.case_insensitive))
        };
        Some(if wanted { matching } else { format!("({field}:* and !{matching})") })
    }
}

/// What stands behind `field:` for the values that a pattern of `LIKE` matches.
fn like_value(pattern: &str, any_case: bool) -> String {
    let inner = pattern.trim_matches('%');
    let plain = !any_case && !inner.is_empty() && !inner.contains(['%', '_']);
    let (open, end) = (pattern.starts_with('%'), pattern.ends_with('%'));
    match (plain, open, end) {
        (true, false, false) => format!("={}", quoted(inner)),
        (true, false, true) => format!("={}*", quoted(inner)),
        (true, true, true) => format!("*{}*", quoted(inner)),
        _ => {
            let mut regex = format!("^(?s{}:", if any_case { "i" } else { "" });
            for c in pattern.chars() {
                match c {
                    '%' => regex.push_str(".*"),
                    '_' => regex.push('.'),
                    c if r"\.+*?()|[]{}^$#&-~".contains(c) => regex.extend(['\\', c]),
                    c => regex.push(c),
                }
            }
            regex.push_str(")$");
            format!("~{}", quoted(&regex))
        }
    }
}

fn literal(expr: &Expr) -> Option<&ScalarValue> {
    match expr {
        Expr::Literal(value, _) => Some(value),
        Expr::Alias(alias) => literal(&alias.expr),
        _ => None,
    }
}

fn text(value: &ScalarValue) -> Option<String> {
    value.try_as_str().flatten().map(str::to_owned)
}

/// A filter for `column op value` being true or false.
fn compare(column: &Column, op: Operator, value: &ScalarValue, wanted: bool) -> Option<String> {
    use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    if !matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) {
        return None;
    }
    // Neither true nor false.
    if value.is_null() {
        return Some(NOTHING.to_owned());
    }
    // That `a < b` is false means `a >= b`, as values of all kinds have an order.
    let op = if wanted { op } else { op.negate()? };
    let (field, kind) = column;
    let is_value = kind.is_value(field);
    match kind {
        Kind::Text => {
            let value = text(value)?;
            let equal = match value.as_str() {
                // An empty value is NULL, so nothing is equal to it.
                "" => NOTHING.to_owned(),
                value => format!("{field}:={}", quoted(value)),
            };
            // Ranges of texts leave their end out. With a NUL at its end, a text is the next one.
            let below = |end: &str| format!("{field}:string_range(\"\", {})", quoted(end));
            let next = format!("{value}\0");
            Some(match op {
                Eq => equal,
                NotEq => format!("({is_value} and !{equal})"),
                Lt => format!("({is_value} and {})", below(&value)),
                LtEq => format!("({is_value} and {})", below(&next)),
                Gt => format!("({is_value} and !{})", below(&next)),
                _ => format!("({is_value} and !{})", below(&value)),
            })
        }
        Kind::Int => {
            let ScalarValue::Int64(Some(value)) = value else { return None };
            Some(match op {
                // A whole number is written in one way only.
                Eq => format!("{field}:=\"{value}\""),
                NotEq => format!("({is_value} and !{field}:=\"{value}\")"),
                op => format!("({is_value} and {field}:{op}{value})"),
            })
        }
        Kind::Float => {
            let ScalarValue::Float64(Some(value)) = value else { return None };
            // SQL puts a zero below zero apart, which no column has.
            if !value.is_finite() || (*value == 0.0 && value.is_sign_negative()) {
                return None;
            }
            Some(match op {
                Eq => format!("({is_value} and {field}:range[{value}, {value}])"),
                NotEq => format!("({is_value} and !{field}:range[{value}, {value}])"),
                op => format!("({is_value} and {field}:{op}{value})"),
            })
        }
        Kind::Time => {
            let ScalarValue::TimestampNanosecond(Some(nanos), _) = value else { return None };
            let time = time(*nanos)?;
            Some(match op {
                Eq => format!("_time:[{time}, {time}]"),
                NotEq => format!("!_time:[{time}, {time}]"),
                op => format!("_time:{op}{time}"),
            })
        }
    }
}

/// A filter for a value being in a list, or for it being not in the list.
fn in_list(column: &Column, values: &[&ScalarValue], wanted: bool) -> Option<String> {
    let (field, kind) = column;
    // Whether a value is equal to NULL is not known, so it is never known to be outside.
    if !wanted && values.iter().any(|value| value.is_null()) {
        return Some(NOTHING.to_owned());
    }
    let mut texts = Vec::new();
    for value in values.iter().filter(|value| !value.is_null()) {
        match (kind, value) {
            (Kind::Text, value) => texts.push(text(value)?),
            (Kind::Int, ScalarValue::Int64(Some(value))) => texts.push(value.to_string()),
            _ => return None,
        }
    }
    texts.retain(|text| !text.is_empty());
    let mut inside = format!("{field}:in(");
    for (at, text) in texts.iter().enumerate() {
        let _ = write!(inside, "{}{}", if at == 0 { "" } else { ", " }, quoted(text));
    }
    inside.push(')');
    if texts.is_empty() {
        inside = NOTHING.to_owned();
    }
    Some(if wanted { inside } else { format!("({} and !{inside})", kind.is_value(field)) })
}

/// A time with all its digits, so that LogsQL does not take it for a whole second.
fn time(nanos: i64) -> Option<String> {
    use datafusion::arrow::temporal_conversions::timestamp_ns_to_datetime;
    let time = timestamp_ns_to_datetime(nanos)?;
    Some(time.format("%Y-%m-%dT%H:%M:%S.%9fZ").to_string())
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::{col, lit};

    use super::*;

    fn translated(condition: &Expr) -> Option<String> {
        filter(condition, &|name| match name {
            "_time" => Some(Kind::Time),
            "n" => Some(Kind::Int),
            "x" => Some(Kind::Float),
            "s" | "odd name" => Some(Kind::Text),
            _ => None,
        })
    }

    fn at(nanos: i64) -> Expr {
        Expr::Literal(ScalarValue::TimestampNanosecond(Some(nanos), Some("UTC".into())), None)
    }

    #[test]
    fn conditions_become_filters() {
        for (condition, filter) in [
            (col("s").eq(lit("a")), r#""s":="a""#),
            (lit("a").eq(col("s")), r#""s":="a""#),
            (col("s").not_eq(lit("a")), r#"("s":* and !"s":="a")"#),
            (Expr::Not(Box::new(col("s").eq(lit("a")))), r#"("s":* and !"s":="a")"#),
            (col("s").eq(lit("")), "!*"),
            (col("s").not_eq(lit("")), r#"("s":* and !!*)"#),
            (col("s").lt(lit("b")), r#"("s":* and "s":string_range("", "b"))"#),
            (col("s").lt_eq(lit("b")), r#"("s":* and "s":string_range("", "b\u0000"))"#),
            (lit("b").gt(col("s")), r#"("s":* and "s":string_range("", "b"))"#),
            (col("s").is_null(), r#"!"s":*"#),
            (col("n").is_not_null(), r#""n":value_type(int64)"#),
            (col("n").eq(lit(5i64)), r#""n":="5""#),
            (col("n").gt(lit(-5i64)), r#"("n":value_type(int64) and "n":>-5)"#),
            (Expr::Not(Box::new(col("n").gt(lit(5i64)))), r#"("n":value_type(int64) and "n":<=5)"#),
            (col("x").lt(lit(1e-7)), r#"("x":value_type(float64) and "x":<0.0000001)"#),
            (col("x").eq(lit(1.5)), r#"("x":value_type(float64) and "x":range[1.5, 1.5])"#),
            (col("_time").gt_eq(at(1)), "_time:>=1970-01-01T00:00:00.000000001Z"),
            (Expr::Not(Box::new(col("_time").lt(at(0)))), "_time:>=1970-01-01T00:00:00.000000000Z"),
            (col("s").in_list(vec![lit("a"), lit("b, c)")], false), r#""s":in("a", "b, c)")"#),
            (col("s").in_list(vec![lit("a"), lit("")], true), r#"("s":* and !"s":in("a"))"#),
            (col("s").in_list(vec![lit(ScalarValue::Utf8(None))], true), "!*"),
            (
                col("n").in_list(vec![lit(1i64)], true),
                r#"("n":value_type(int64) and !"n":in("1"))"#,
            ),
            (col("s").like(lit("a%")), r#""s":="a"*"#),
            (col("s").like(lit("%a%")), r#""s":*"a"*"#),
            (col("s").like(lit("a")), r#""s":="a""#),
            (col("s").like(lit("%a")), r#""s":~"^(?s:.*a)$""#),
            (col("s").like(lit("a_(%")), r#""s":~"^(?s:a.\\(.*)$""#),
            (col("s").ilike(lit("a%")), r#""s":~"^(?si:a.*)$""#),
            (col("s").not_like(lit("%")), r#"("s":* and !"s":*)"#),
            (
                Expr::Not(Box::new(col("s").eq(lit("a")).and(col("n").eq(lit(1i64))))),
                r#"(("s":* and !"s":="a") or ("n":value_type(int64) and !"n":="1"))"#,
            ),
        ] {
            assert_eq!(translated(&condition).as_deref(), Some(filter), "{condition}");
        }
    }

    #[test]
    fn values_stay_inside_their_quotes() {
        for (value, filter) in [
            (r#"" or *"#, r#""s":="\" or *""#),
            (r#"\" | delete"#, r#""s":="\\\" | delete""#),
            ("a\n#", "\"s\":=\"a\\u000a#\""),
        ] {
            assert_eq!(translated(&col("s").eq(lit(value))).as_deref(), Some(filter));
        }
        let odd = Expr::Column(datafusion::common::Column::new_unqualified("odd name"));
        assert_eq!(translated(&odd.eq(lit("a"))).as_deref(), Some(r#""odd name":="a""#));
    }

    #[test]
    fn what_differs_is_left_to_datafusion() {
        for condition in [
            col("s").eq(col("n")),
            col("s").like(lit(r"a\%%")),
            col("x").gt(lit(f64::NAN)),
            col("x").gt(lit(-0.0)),
            (col("n") + lit(1i64)).gt(lit(5i64)),
            col("unknown").eq(lit("a")),
            col("s").in_list((0..20_000).map(|n| lit(n.to_string())).collect(), false),
            col("s").eq(lit("a")).or(col("s").eq(col("n"))),
        ] {
            assert_eq!(translated(&condition), None, "{condition}");
        }
    }
}

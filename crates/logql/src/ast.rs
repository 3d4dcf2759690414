//! A query as a syntax tree, and how it is written as text.

use std::fmt;

use text::duration::format_duration;

use crate::lex::{join, quote};
pub use crate::matcher::{MatchOp, Matcher, Regex};
use crate::stage::filter::LabelTest;
pub use crate::stage::kinds::{LabelSource, Named, Stage};
use crate::units::format_number;

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// Lines.
    Log(LogQuery),
    /// Numbers.
    Metric(Metric),
}

/// A query for lines: a selector and stages.
#[derive(Clone, Debug, PartialEq)]
pub struct LogQuery {
    /// The stream selector.
    pub matchers: Vec<Matcher>,
    /// Stages, in order.
    pub stages: Vec<Stage>,
}

/// A query for samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// An aggregation over the lines of a time window.
    Range(Box<RangeAggregation>),
    /// An aggregation over series.
    Vector {
        /// The operation.
        op: VectorOp,
        /// The number of `topk` and similar ones.
        parameter: Option<f64>,
        /// The labels that are kept.
        grouping: Option<Grouping>,
        /// The aggregated query.
        inner: Box<Metric>,
    },
    /// An operation between two queries.
    Binary {
        /// The operation.
        op: BinaryOp,
        /// How series are matched.
        modifier: Box<BinaryModifier>,
        /// Left side.
        left: Box<Metric>,
        /// Right side.
        right: Box<Metric>,
    },
    /// A number.
    Literal(f64),
    /// A series without labels that always has this value.
    VectorLiteral(f64),
    /// `label_replace`.
    LabelReplace {
        /// The query whose labels are changed.
        inner: Box<Metric>,
        /// The label that is set.
        to: String,
        /// The new value, with `$1` and similar references.
        replacement: String,
        /// The label that the expression is matched against.
        from: String,
        /// The expression, which has to match the whole value.
        regex: Regex,
        /// The expression as written.
        pattern: String,
    },
}

/// An aggregation over the lines of a time window.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeAggregation {
    /// The operation.
    pub op: RangeOp,
    /// The number of `quantile_over_time`.
    pub parameter: Option<f64>,
    /// The label whose values `approx_count_distinct` counts.
    pub counted: Option<String>,
    /// The lines.
    pub query: LogQuery,
    /// The label whose value is the sample.
    pub unwrap: Option<Unwrap>,
    /// Length of the window, nanoseconds; positive.
    pub range_ns: i64,
    /// How far back the window lies, nanoseconds.
    pub offset_ns: i64,
    /// The labels that are kept.
    pub grouping: Option<Grouping>,
}

/// `unwrap`.
#[derive(Clone, Debug, PartialEq)]
pub struct Unwrap {
    /// The label.
    pub label: String,
    /// How its value is parsed.
    pub conversion: Conversion,
    /// Tests of labels behind `unwrap`.
    pub filters: Vec<LabelTest>,
}

/// How the value of a label is parsed as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// A plain number.
    Number,
    /// A size, in bytes.
    Bytes,
    /// A duration, in seconds; the keyword is kept as written.
    Duration(&'static str),
}

/// The labels that an aggregation keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// True: all labels except the named ones. False: only the named ones.
    pub without: bool,
    /// Names.
    pub labels: Vec<String>,
}

macro_rules! names {
    ($(#[$doc:meta])* $type:ident { $($variant:ident $text:literal $what:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $type {
            $(#[doc = $what] $variant,)*
        }

        impl $type {
            /// The keyword.
            pub fn name(self) -> &'static str {
                match self { $($type::$variant => $text,)* }
            }

            /// The variant with that keyword.
            pub fn named(name: &str) -> Option<$type> {
                match name { $($text => Some($type::$variant),)* _ => None }
            }
        }
    };
}

names! {
    /// Aggregations over lines.
    RangeOp {
        Count "count_over_time" "Lines.",
        RateCounter "rate_counter" "Increase of a counter per second.",
        Rate "rate" "Lines per second, or the sum of unwrapped values per second.",
        Bytes "bytes_over_time" "Bytes of lines.",
        BytesRate "bytes_rate" "Bytes of lines per second.",
        Sum "sum_over_time" "Sum of values.",
        Avg "avg_over_time" "Mean of values.",
        Min "min_over_time" "Least value.",
        Max "max_over_time" "Greatest value.",
        Stdvar "stdvar_over_time" "Population variance of values.",
        Stddev "stddev_over_time" "Population standard deviation of values.",
        Quantile "quantile_over_time" "Quantile of values.",
        First "first_over_time" "First value.",
        Last "last_over_time" "Last value.",
        Absent "absent_over_time" "1 where there is no line.",
        Distinct "approx_count_distinct" "Different values of a label; here they are exact.",
    }
}

impl RangeOp {
    /// Whether it needs `unwrap` (true), must not have it (false), or both are allowed (`None`).
    pub fn wants_unwrap(self) -> Option<bool> {
        match self {
            RangeOp::Count | RangeOp::Bytes | RangeOp::BytesRate | RangeOp::Distinct => Some(false),
            RangeOp::Rate | RangeOp::Absent => None,
            _ => Some(true),
        }
    }

    /// Whether it can have `by` and `without`.
    pub fn takes_grouping(self) -> bool {
        use RangeOp::{Avg, Distinct, First, Last, Max, Min, Quantile, Stddev, Stdvar};
        matches!(self, Avg | Distinct | First | Last | Max | Min | Quantile | Stddev | Stdvar)
    }
}

names! {
    /// Aggregations over series.
    VectorOp {
        Sum "sum" "Sum.",
        Avg "avg" "Mean.",
        Min "min" "Least.",
        Max "max" "Greatest.",
        Count "count" "How many.",
        Stddev "stddev" "Population standard deviation.",
        Stdvar "stdvar" "Population variance.",
        Topk "topk" "The greatest `k` series.",
        Bottomk "bottomk" "The least `k` series.",
        ApproxTopk "approx_topk" "The greatest `k` series; here they are exact.",
        Sort "sort" "Least first.",
        SortDesc "sort_desc" "Greatest first.",
    }
}

impl VectorOp {
    /// Whether it needs a number.
    pub fn takes_parameter(self) -> bool {
        matches!(self, VectorOp::Topk | VectorOp::Bottomk | VectorOp::ApproxTopk)
    }

    /// Whether it can have `by` and `without`.
    pub fn takes_grouping(self) -> bool {
        !matches!(self, VectorOp::Sort | VectorOp::SortDesc | VectorOp::ApproxTopk)
    }
}

names! {
    /// Operations between two values.
    BinaryOp {
        Or "or" "The series of both sides, the left ones first.",
        And "and" "The left series that have a match on the right.",
        Unless "unless" "The left series without a match on the right.",
        Equal "==" "Equal.",
        NotEqual "!=" "Not equal.",
        Greater ">" "Greater.",
        GreaterOrEqual ">=" "Greater or equal.",
        Less "<" "Less.",
        LessOrEqual "<=" "Less or equal.",
        Add "+" "Sum.",
        Subtract "-" "Difference.",
        Multiply "*" "Product.",
        Divide "/" "Quotient.",
        Modulo "%" "Rest.",
        Power "^" "Power.",
    }
}

impl BinaryOp {
    /// Operators that bind more tightly have a greater precedence.
    pub fn precedence(self) -> u8 {
        use BinaryOp::*;
        match self {
            Or => 1,
            And | Unless => 2,
            Equal | NotEqual | Greater | GreaterOrEqual | Less | LessOrEqual => 3,
            Add | Subtract => 4,
            Multiply | Divide | Modulo => 5,
            Power => 6,
        }
    }

    /// `and`, `or`, `unless`.
    pub fn is_set(self) -> bool {
        self.precedence() <= 2
    }

    /// `==` and the other comparisons.
    pub fn is_comparison(self) -> bool {
        self.precedence() == 3
    }
}

/// How a binary operation matches series.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BinaryModifier {
    /// A comparison returns 0 or 1 instead of dropping samples.
    pub bool: bool,
    /// `on`: the labels that have to be equal; `ignoring`: all others have to.
    pub matching: Option<Grouping>,
    /// Allows several series of one side for one of the other.
    pub group: Option<Group>,
}

/// `group_left`, `group_right`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The left side is the one with many.
    pub left: bool,
    /// Labels that are copied from the side of one.
    pub include: Vec<String>,
}

impl Grouping {
    /// Whether a label is kept.
    pub fn keeps(&self, name: &str) -> bool {
        self.labels.iter().any(|label| label == name) != self.without
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expr::Log(query) => write!(f, "{query}"),
            Expr::Metric(metric) => write!(f, "{metric}"),
        }
    }
}

impl fmt::Display for LogQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{{}}}", join(&self.matchers))?;
        self.stages.iter().try_for_each(|stage| write!(f, " {stage}"))
    }
}

impl fmt::Display for Grouping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.without { "without" } else { "by" };
        write!(f, "{word} ({})", self.labels.join(", "))
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Metric::Range(range) => write!(f, "{range}"),
            Metric::Vector { op, parameter, grouping, inner } => {
                f.write_str(op.name())?;
                if let Some(grouping) = grouping {
                    write!(f, " {grouping} ")?;
                }
                f.write_str("(")?;
                if let Some(parameter) = parameter {
                    write!(f, "{}, ", format_number(*parameter))?;
                }
                write!(f, "{inner})")
            }
            Metric::Binary { op, modifier, left, right } => {
                write!(f, "({left} {}{modifier} {right})", op.name())
            }
            Metric::Literal(value) => f.write_str(&format_number(*value)),
            Metric::VectorLiteral(value) => write!(f, "vector({})", format_number(*value)),
            Metric::LabelReplace { inner, to, replacement, from, pattern, .. } => {
                let texts = [to, replacement, from, pattern].map(|text| quote(text));
                write!(f, "label_replace({inner}, {})", texts.join(", "))
            }
        }
    }
}

impl fmt::Display for BinaryModifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.bool { " bool" } else { "" })?;
        if let Some(matching) = &self.matching {
            let word = if matching.without { "ignoring" } else { "on" };
            write!(f, " {word} ({})", matching.labels.join(", "))?;
        }
        if let Some(group) = &self.group {
            let word = if group.left { "group_left" } else { "group_right" };
            write!(f, " {word} ({})", group.include.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Display for RangeAggregation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.op.name())?;
        if let Some(parameter) = self.parameter {
            write!(f, "{}, ", format_number(parameter))?;
        }
        if let Some(counted) = &self.counted {
            write!(f, "{counted}, ")?;
        }
        write!(f, "{}", self.query)?;
        if let Some(unwrap) = &self.unwrap {
            write!(f, " {unwrap}")?;
        }
        write!(f, " [{}]", format_duration(self.range_ns))?;
        if self.offset_ns != 0 {
            write!(f, " offset {}", format_duration(self.offset_ns))?;
        }
        f.write_str(")")?;
        if let Some(grouping) = &self.grouping {
            write!(f, " {grouping}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Unwrap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.conversion {
            Conversion::Number => write!(f, "| unwrap {}", self.label)?,
            Conversion::Bytes => write!(f, "| unwrap bytes({})", self.label)?,
            Conversion::Duration(word) => write!(f, "| unwrap {word}({})", self.label)?,
        }
        self.filters.iter().try_for_each(|filter| write!(f, " | {filter}"))
    }
}

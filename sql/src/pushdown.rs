//! Lets Loginson compute aggregates, and find the newest or the oldest rows.
//!
//! An aggregate over a table becomes the pipe `stats`, if everything below it has an exact
//! counterpart in LogsQL. DataFusion then aggregates the groups of the answer once more: texts
//! that are the same value in SQL, such as `1.0` and `1.00`, or the NULLs of a column of numbers,
//! come as several groups. So counts come from the rollups of segments, and few rows cross the
//! network.
//!
//! Left out, because LogsQL would answer something else: `min` and `max` of texts (LogsQL puts
//! numbers first), and aggregates with an order. `count(DISTINCT x)` is a `GROUP BY x` for
//! DataFusion before it comes here.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, ScalarValue};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::expr::{AggregateFunction, Cast, ScalarFunction};
use datafusion::logical_expr::logical_plan::{TableScan, TableScanBuilder};
use datafusion::logical_expr::{
    Aggregate, Expr, LogicalPlan, LogicalPlanBuilder, Sort, cast, lit, when,
};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use crate::kind::{Kind, quoted};
use crate::rows::Field;
use crate::table::{First, LogTable, QueryTable};

/// Names of what is computed begin so. A table that has such a field is not pushed down.
const PREFIX: &str = "sql_";
/// Aggregates of one statement that go to Loginson.
const VALUES_MAX: usize = 100;

/// The rule that does this.
#[derive(Debug)]
pub struct PushDown;

impl OptimizerRule for PushDown {
    fn name(&self) -> &str {
        "loginson_push_down"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let changed = match &plan {
            LogicalPlan::Aggregate(aggregate) => push_aggregate(aggregate)?,
            LogicalPlan::Sort(sort) => push_sort(sort)?,
            _ => None,
        };
        Ok(changed.map_or_else(|| Transformed::no(plan), Transformed::yes))
    }
}

/// The scan of a table of Loginson, if that is what it is.
fn with_table<T>(scan: &TableScan, run: impl FnOnce(&LogTable) -> T) -> Option<T> {
    let provider = source_as_provider(&scan.source).ok()?;
    let provider: &dyn std::any::Any = provider.as_ref();
    let table = provider.downcast_ref::<LogTable>()?;
    (table.access().pushes_down && table.first().is_none()).then(|| run(table))
}

/// `expr` with the columns of a plan's output replaced by what the plan computes them from.
fn below(expr: Expr, schema: &DFSchema, inner: &dyn Fn(usize) -> Expr) -> Option<Expr> {
    let mut missing = false;
    let replaced = expr.transform(|expr| match &expr {
        Expr::Column(column) => match schema.maybe_index_of_column(column) {
            Some(at) => Ok(Transformed::yes(inner(at).unalias_nested().data)),
            None => {
                missing = true;
                Ok(Transformed::no(expr))
            }
        },
        _ => Ok(Transformed::no(expr)),
    });
    replaced.ok().filter(|_| !missing).map(|replaced| replaced.data)
}

/// Follows a plan down to the scan below it. The expressions change with each step so that they
/// speak of the columns of the scan. Conditions on the way are collected.
fn down_to_scan(
    plan: &LogicalPlan,
    exprs: &mut Vec<Expr>,
    conditions: &mut Vec<Expr>,
) -> Option<TableScan> {
    let mut step = |schema: &DFSchema, inner: &dyn Fn(usize) -> Expr| {
        for expr in exprs.iter_mut().chain(conditions.iter_mut()) {
            *expr = below(expr.clone(), schema, inner)?;
        }
        Some(())
    };
    match plan {
        LogicalPlan::TableScan(scan) => Some(scan.clone()),
        LogicalPlan::Projection(projection) => {
            step(&projection.schema, &|at| projection.expr[at].clone())?;
            down_to_scan(&projection.input, exprs, conditions)
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let columns = alias.input.schema().columns();
            step(&alias.schema, &|at| Expr::Column(columns[at].clone()))?;
            down_to_scan(&alias.input, exprs, conditions)
        }
        LogicalPlan::Filter(filter) => {
            conditions.push(filter.predicate.clone());
            down_to_scan(&filter.input, exprs, conditions)
        }
        _ => None,
    }
}

/// `ORDER BY _time LIMIT n`: only those rows are read. The order is computed again behind them.
fn push_sort(sort: &Sort) -> Result<Option<LogicalPlan>> {
    let (Some(rows), [key]) = (sort.fetch, sort.expr.as_slice()) else { return Ok(None) };
    let (mut keys, mut conditions) = (vec![key.expr.clone()], Vec::new());
    let Some(scan) = down_to_scan(&sort.input, &mut keys, &mut conditions) else {
        return Ok(None);
    };
    let is_time = matches!(&keys[0], Expr::Column(column) if column.name == "_time");
    if !is_time || !conditions.is_empty() || scan.fetch.is_some() {
        return Ok(None);
    }
    let first = First { descending: !key.asc, rows };
    let Some(table) = with_table(&scan, |table| table.with_first(first)) else { return Ok(None) };
    let source = provider_as_source(Arc::new(table));
    let input =
        Arc::unwrap_or_clone(Arc::clone(&sort.input)).transform_down(|plan| match plan {
            LogicalPlan::TableScan(mut scan) => {
                scan.source = Arc::clone(&source);
                Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
            }
            plan => Ok(Transformed::no(plan)),
        })?;
    Ok(Some(LogicalPlan::Sort(Sort { input: Arc::new(input.data), ..sort.clone() })))
}

/// What `stats` computes, and what DataFusion makes of it.
struct Stats<'a> {
    table: &'a LogTable,
    /// What the groups are: LogsQL behind `by`.
    by: Vec<String>,
    /// What is computed: LogsQL behind the groups.
    values: Vec<String>,
    /// Columns of the answer, groups first.
    columns: Vec<Field>,
}

fn push_aggregate(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let mut exprs: Vec<Expr> =
        aggregate.group_expr.iter().chain(&aggregate.aggr_expr).cloned().collect();
    let mut conditions = Vec::new();
    let Some(scan) = down_to_scan(&aggregate.input, &mut exprs, &mut conditions) else {
        return Ok(None);
    };
    if scan.fetch.is_some() {
        return Ok(None);
    }
    conditions.extend(scan.filters.iter().cloned());
    let groups = aggregate.group_expr.len();
    let pushed = with_table(&scan, |table| {
        let mut stats = Stats::new(table)?;
        for group in &exprs[..groups] {
            stats.group(group)?;
        }
        let outer: Option<Vec<Outer>> =
            exprs[groups..].iter().map(|value| stats.value(value)).collect();
        Some((
            stats.query(&table.selecting(&conditions)?),
            stats.columns,
            outer?,
            table.access().clone(),
        ))
    });
    let Some(Some((query, columns, outer, access))) = pushed else { return Ok(None) };

    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    let source = provider_as_source(Arc::new(QueryTable::new(&access, query, columns)));
    // The table has the name of the one it is computed from, which `EXPLAIN` shows.
    let scan = TableScanBuilder::new(scan.table_name.clone(), source).build()?;
    let column =
        |at: usize| Expr::Column(Column::new(Some(scan.table_name.clone()), names[at].clone()));
    let again: Vec<Expr> = outer.iter().flat_map(|outer| outer.again(&column)).collect();
    let again_names: Vec<Expr> = again
        .iter()
        .map(|expr| Expr::Column(Column::new_unqualified(expr.schema_name().to_string())))
        .collect();
    // Without groups and values there is nothing to ask for.
    if groups == 0 && again.is_empty() {
        return Ok(None);
    }
    let aggregated = LogicalPlanBuilder::from(LogicalPlan::TableScan(scan.clone()))
        .aggregate((0..groups).map(&column), again)?;
    let mut again_names = again_names.into_iter();
    let mut output = Vec::new();
    for (at, (qualifier, field)) in aggregate.schema.iter().enumerate() {
        let expr = match at.checked_sub(groups) {
            None => column(at),
            Some(value) => outer[value].result(&mut again_names)?,
        };
        let expr = cast(expr, field.data_type().clone());
        output.push(expr.alias_qualified(qualifier.cloned(), field.name()));
    }
    Ok(Some(aggregated.project(output)?.build()?))
}

/// What DataFusion computes of the values of the answer, given by their columns.
enum Outer {
    /// Adds up counts; 0 without rows.
    Count(usize),
    Sum(usize),
    Min(usize),
    Max(usize),
    /// A sum divided by a count.
    Avg(usize, usize),
}

impl Outer {
    /// The aggregates over the answer.
    fn again(&self, column: &dyn Fn(usize) -> Expr) -> Vec<Expr> {
        match self {
            Outer::Count(at) | Outer::Sum(at) => vec![sum(column(*at))],
            Outer::Min(at) => vec![min(column(*at))],
            Outer::Max(at) => vec![max(column(*at))],
            Outer::Avg(total, count) => vec![sum(column(*total)), sum(column(*count))],
        }
    }

    /// The result, made of those aggregates.
    fn result(&self, again: &mut impl Iterator<Item = Expr>) -> Result<Expr> {
        let mut next = || {
            again.next().ok_or_else(|| {
                datafusion::common::internal_datafusion_err!("an aggregate has no column")
            })
        };
        let first = next()?;
        match self {
            Outer::Count(_) => when(first.clone().is_null(), lit(0i64)).otherwise(first),
            Outer::Sum(_) | Outer::Min(_) | Outer::Max(_) => Ok(first),
            Outer::Avg(..) => {
                let count = cast(next()?, datafusion::arrow::datatypes::DataType::Float64);
                Ok(first / count)
            }
        }
    }
}

impl<'a> Stats<'a> {
    fn new(table: &'a LogTable) -> Option<Stats<'a>> {
        use datafusion::catalog::TableProvider;
        let reserved = table.schema().fields().iter().any(|f| f.name().starts_with(PREFIX));
        (!reserved).then(|| Stats { table, by: vec![], values: vec![], columns: vec![] })
    }

    fn query(&self, selecting: &str) -> String {
        let by = match self.by.as_slice() {
            [] => String::new(),
            by => format!("by ({}) ", by.join(", ")),
        };
        let values = match self.values.as_slice() {
            [] => format!("count() as {PREFIX}0"),
            values => values.join(", "),
        };
        format!("{selecting} | stats {by}{values}")
    }

    /// Adds what rows are grouped by.
    fn group(&mut self, expr: &Expr) -> Option<()> {
        let (by, name, kind) = match expr {
            Expr::Column(column) => match self.table.kind(&column.name)? {
                Kind::Time => return None,
                kind => (quoted(&column.name), column.name.clone(), kind),
            },
            Expr::ScalarFunction(function) => {
                (format!("_time:{}", step(function)?), "_time".to_owned(), Kind::Time)
            }
            _ => return None,
        };
        // The answer has one column of a name.
        if self.columns.iter().any(|column| column.name == name) {
            return None;
        }
        self.by.push(by);
        self.columns.push(Field { name, kind, is_sum: false });
        Some(())
    }

    /// Adds what is computed of each group.
    fn value(&mut self, expr: &Expr) -> Option<Outer> {
        let function = match expr {
            Expr::AggregateFunction(function) => function,
            Expr::Alias(alias) => return self.value(&alias.expr),
            _ => return None,
        };
        let AggregateFunction { func, params } = function;
        if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return None;
        }
        let only = match &params.filter {
            Some(condition) => Some(self.table.filter(condition)?),
            None => None,
        };
        let [arg] = params.args.as_slice() else { return None };
        if func.name() == "count"
            && let Expr::Literal(value, _) = arg
        {
            return (!value.is_null())
                .then(|| self.add("count()", only, Kind::Int, false))?
                .map(Outer::Count);
        }
        let (field, kind, is_double) = self.column(arg)?;
        let name = quoted(&field);
        let only = [(kind != Kind::Time).then(|| kind.is_value(&name)), only];
        let only: Vec<String> = only.into_iter().flatten().collect();
        let only = (!only.is_empty()).then(|| only.join(" and "));
        let name = if kind == Kind::Time { "_time".to_owned() } else { name };
        let is_number = matches!(kind, Kind::Int | Kind::Float);
        let sum_kind = if is_double { Kind::Float } else { kind };
        match func.name() {
            "count" => self.add("count()", only, Kind::Int, false).map(Outer::Count),
            "sum" if is_number => {
                self.add(&format!("sum({name})"), only, sum_kind, true).map(Outer::Sum)
            }
            "avg" if is_number => {
                let total = self.add(&format!("sum({name})"), only.clone(), Kind::Float, true)?;
                let count = self.add("count()", only, Kind::Int, false)?;
                Some(Outer::Avg(total, count))
            }
            "min" if kind != Kind::Text && !is_double => {
                self.add(&format!("min({name})"), only, kind, false).map(Outer::Min)
            }
            "max" if kind != Kind::Text && !is_double => {
                self.add(&format!("max({name})"), only, kind, false).map(Outer::Max)
            }
            _ => None,
        }
    }

    /// A column; whether it is one of whole numbers that is cast to doubles.
    fn column(&self, expr: &Expr) -> Option<(String, Kind, bool)> {
        match expr {
            Expr::Column(column) => {
                Some((column.name.clone(), self.table.kind(&column.name)?, false))
            }
            Expr::Cast(Cast { expr, field }) => {
                let (name, Kind::Int, false) = self.column(expr)? else { return None };
                let is_double =
                    field.data_type() == &datafusion::arrow::datatypes::DataType::Float64;
                is_double.then_some((name, Kind::Int, true))
            }
            _ => None,
        }
    }

    /// Adds a function of `stats` over the rows that pass the filter; gives its column.
    fn add(
        &mut self,
        function: &str,
        only: Option<String>,
        kind: Kind,
        is_sum: bool,
    ) -> Option<usize> {
        if self.values.len() >= VALUES_MAX {
            return None;
        }
        let name = format!("{PREFIX}{}", self.values.len());
        let only = only.map(|only| format!(" if ({only})")).unwrap_or_default();
        self.values.push(format!("{function}{only} as {name}"));
        self.columns.push(Field { name, kind, is_sum });
        Some(self.columns.len() - 1)
    }
}

/// The step of time that a function rounds `_time` to, as LogsQL writes it.
fn step(function: &ScalarFunction) -> Option<String> {
    let [what, Expr::Column(column)] = function.args.as_slice() else { return None };
    let Expr::Literal(what, _) = what else { return None };
    if column.name != "_time" {
        return None;
    }
    match (function.func.name(), what) {
        ("date_trunc", what) => {
            let unit = what.try_as_str().flatten()?.to_lowercase();
            let known = ["second", "minute", "hour", "day", "week", "month", "year"];
            known.contains(&unit.as_str()).then_some(match unit.as_str() {
                "second" => "1s".to_owned(),
                "minute" => "1m".to_owned(),
                "hour" => "1h".to_owned(),
                "day" => "1d".to_owned(),
                _ => unit,
            })
        }
        ("date_bin", ScalarValue::IntervalMonthDayNano(Some(interval))) => {
            let day_ms = 24 * 3600 * 1000i64;
            let ms = i64::from(interval.days)
                .checked_mul(day_ms)?
                .checked_add(interval.nanoseconds / 1_000_000)?;
            let whole = interval.months == 0 && interval.nanoseconds % 1_000_000 == 0 && ms > 0;
            whole.then(|| format!("{ms}ms"))
        }
        _ => None,
    }
}

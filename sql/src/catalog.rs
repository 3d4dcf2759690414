//! What drivers ask of PostgreSQL's catalog beyond the tables that `datafusion-postgres` has.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, ParamValues, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, EmptyRelation, LogicalPlan, Volatility, create_udf};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, SelectItem, SetExpr, Statement, visit_relations,
};
use datafusion_postgres::arrow_pg::datatypes::df::encode_dataframe;
use datafusion_postgres::hooks::{HookClient, QueryHook};
use datafusion_postgres::pgwire::api::ClientInfo;
use datafusion_postgres::pgwire::api::portal::Format;
use datafusion_postgres::pgwire::api::results::Response;
use datafusion_postgres::pgwire::error::{PgWireError, PgWireResult};

/// The version of PostgreSQL that is spoken, which clients look at before they ask further.
const VERSION: &str = "PostgreSQL 16.6";
/// What statements name that look for columns of keys and indexes (as the JDBC driver does), for
/// rights of tables and columns, for functions, and for further types (as psycopg does).
const ABSENT: [&str; 6] =
    ["_pg_expandarray(", ".confkey[pos.n]", "relacl", "attacl", "pg_proc", "to_regtype("];

/// Adds functions of PostgreSQL.
pub fn add_functions(context: &SessionContext) {
    // SQLAlchemy reads the version of PostgreSQL here.
    let version = ScalarValue::from(format!("{VERSION} (loginson-sql by DataFusion)"));
    let version = Arc::new(move |_: &[ColumnarValue]| Ok(ColumnarValue::Scalar(version.clone())));
    let kind = DataType::Utf8;
    context.register_udf(create_udf("version", vec![], kind, Volatility::Stable, version));
}

/// Answers statements about things that Loginson does not have, which DataFusion cannot plan: they
/// have no rows. Others pass.
pub struct Absent;

/// The plan for such a statement.
async fn plan(statement: &Statement, context: &SessionContext) -> Option<LogicalPlan> {
    let Statement::Query(query) = statement else { return None };
    let mut of_catalog = false;
    let foreign = visit_relations(statement, |name| {
        let schema = name.0.first().and_then(|part| part.as_ident());
        match schema.map(|schema| schema.value.to_lowercase()).as_deref() {
            Some("pg_catalog") => of_catalog = true,
            // A function that numbers columns.
            Some("generate_series") => {}
            _ => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    });
    if !of_catalog || foreign.is_break() {
        return None;
    }
    let text = statement.to_string().to_lowercase();
    let state = context.state();
    // The JDBC driver does not look for keys without a limit of their columns.
    if text.contains("'max_index_keys'") {
        return state.create_logical_plan("SELECT '32' AS setting").await.ok();
    }
    if !ABSENT.iter().any(|name| text.contains(name)) {
        return None;
    }
    let planned = state.statement_to_plan(DfStatement::Statement(Box::new(statement.clone())));
    // Some mistakes are found late.
    if planned.await.and_then(|plan| state.optimize(&plan)).is_ok() {
        return None;
    }
    let fields =
        columns(&query.body)?.into_iter().map(|name| Field::new(name, DataType::Utf8, true));
    let schema = DFSchema::from_unqualified_fields(fields.collect(), HashMap::new()).ok()?;
    Some(LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(schema),
    }))
}

/// Names of the columns of a query; `None` if it does not name them.
fn columns(body: &SetExpr) -> Option<Vec<String>> {
    let named = |ident: &Ident| match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    match body {
        SetExpr::Query(query) => columns(&query.body),
        SetExpr::SetOperation { left, .. } => columns(left),
        SetExpr::Select(select) => {
            let items = select.projection.iter().enumerate();
            items
                .map(|(at, item)| match item {
                    SelectItem::ExprWithAlias { alias, .. } => Some(named(alias)),
                    SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(named(ident)),
                    SelectItem::UnnamedExpr(Expr::CompoundIdentifier(idents)) => {
                        idents.last().map(named)
                    }
                    SelectItem::UnnamedExpr(_) => Some(format!("column{}", at + 1)),
                    _ => None,
                })
                .collect()
        }
        _ => None,
    }
}

#[async_trait]
impl QueryHook for Absent {
    async fn handle_simple_query(
        &self,
        statement: &Statement,
        context: &SessionContext,
        _client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        let plan = plan(statement, context).await?;
        let rows = match context.execute_logical_plan(plan).await {
            Ok(rows) => encode_dataframe(rows, &Format::UnifiedText, None).await,
            Err(e) => Err(PgWireError::ApiError(Box::new(e))),
        };
        Some(rows.map(Response::Query))
    }

    async fn handle_extended_parse_query(
        &self,
        statement: &Statement,
        context: &SessionContext,
        _client: &(dyn ClientInfo + Send + Sync),
    ) -> Option<PgWireResult<LogicalPlan>> {
        plan(statement, context).await.map(Ok)
    }

    /// The plan of the step before is run.
    async fn handle_extended_query(
        &self,
        _statement: &Statement,
        _plan: &LogicalPlan,
        _params: &ParamValues,
        _context: &SessionContext,
        _client: &mut dyn HookClient,
    ) -> Option<PgWireResult<Response>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use datafusion_postgres::datafusion_pg_catalog::pg_catalog::context::EmptyContextProvider;
    use datafusion_postgres::datafusion_pg_catalog::setup_pg_catalog;
    use datafusion_postgres::datafusion_pg_catalog::sql::PostgresCompatibilityParser;

    use super::*;

    #[tokio::test]
    async fn only_statements_of_the_catalog_are_answered() {
        let context = SessionContext::new();
        setup_pg_catalog(&context, "datafusion", EmptyContextProvider).unwrap();
        let keys = "SELECT r.A, r.\"B\", 1 FROM (\
                        SELECT (information_schema._pg_expandarray(i.indkey)).n AS A \
                        FROM pg_catalog.pg_index i) r";
        for (sql, columns) in [
            (keys, Some(vec!["a", "B", "column3"])),
            ("SELECT relacl AS x FROM pg_class", Some(vec!["x"])),
            (
                "SELECT conname FROM pg_constraint con, generate_series(1, 32) pos(n) \
                 WHERE 1 = con.confkey[pos.n]",
                Some(vec!["conname"]),
            ),
            (
                "SELECT setting FROM pg_catalog.pg_settings WHERE name='max_index_keys'",
                Some(vec!["setting"]),
            ),
            ("SELECT oid FROM pg_type t WHERE t.oid = to_regtype($1)", Some(vec!["oid"])),
            ("SELECT relacl FROM json", None),
            ("SELECT c.relacl FROM pg_catalog.pg_class c, json j", None),
            ("SELECT unknown FROM pg_catalog.pg_class", None),
            ("SELECT 'relacl' AS x FROM pg_catalog.pg_class", None),
            ("SELECT 'pg_proc'", None),
        ] {
            let statements = PostgresCompatibilityParser::new().parse(sql).unwrap();
            let found = plan(&statements[0], &context).await.map(|plan| {
                plan.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>()
            });
            let columns = columns.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(found, columns, "{sql}");
        }
    }
}

//! Searches of log lines in SQL: words and phrases by the full-text index, regular expressions by
//! reading the texts.

use tokio_postgres::types::Type;

use super::{KEY, Parameter, Shard, failed, parameter, quoted, sql_type};
use crate::driver::search::{Match, Search, Wanted};
use crate::driver::{Answer, StoreError};
use crate::row::{ColumnKind, Schema, Value};

/// The expression of the full-text index of a column, with words as they are.
pub fn words(column: &str) -> String {
    format!("to_tsvector('simple', {})", quoted(column))
}

/// The statement for a search, and its parameters.
fn sql(schema: &Schema, search: &Search) -> Result<(String, Vec<Value>), String> {
    let name = |column: usize| quoted(&schema.columns[column].name);
    let time = || schema.time().map(name).ok_or("the table has no time".to_owned());
    let mut values = Vec::new();
    let mut place = |value: Value| {
        values.push(value);
        format!("${}", values.len())
    };
    let mut conditions = Vec::new();
    match &search.text {
        None => {}
        Some((column, Match::Word(word))) => {
            let word = place(Value::Text(word.clone()));
            let words = words(&schema.columns[*column].name);
            conditions.push(format!("{words} @@ plainto_tsquery('simple', {word})"));
        }
        Some((column, Match::Phrase(phrase))) => {
            let phrase = place(Value::Text(phrase.clone()));
            let words = words(&schema.columns[*column].name);
            conditions.push(format!("{words} @@ phraseto_tsquery('simple', {phrase})"));
        }
        Some((column, Match::Regex(regex))) => {
            let regex = place(Value::Text(regex.clone()));
            conditions.push(format!("{} ~ {regex}", name(*column)));
        }
    }
    for (column, value) in &search.equals {
        conditions.push(format!("{} = {}", name(*column), place(value.clone())));
    }
    if let Some((from, to)) = search.time {
        let time = time()?;
        conditions.push(format!("{time} >= {}", place(Value::Integer(from))));
        conditions.push(format!("{time} < {}", place(Value::Integer(to))));
    }
    let filter = match conditions.is_empty() {
        true => String::new(),
        false => format!(" where {}", conditions.join(" and ")),
    };
    let from = format!("from {}{filter}", quoted(&schema.table));
    let sql = match &search.wanted {
        Wanted::Count => format!("select count(*) {from}"),
        Wanted::Latest { rows_max } => {
            let columns = (0..schema.columns.len()).map(name).collect::<Vec<_>>().join(", ");
            format!("select {KEY}, {columns} {from} order by {} desc limit {rows_max}", time()?)
        }
        Wanted::CountBy { column } => {
            format!("select {0}, count(*) {from} group by 1 order by 1", name(*column))
        }
        Wanted::CountOver { step_ms } => {
            let time = time()?;
            format!("select {time} / {step_ms} * {step_ms}, count(*) {from} group by 1 order by 1")
        }
    };
    Ok((sql, values))
}

impl Shard {
    /// Runs a search. It is not prepared, so that it is planned with its values, as for somebody
    /// who asks once.
    pub async fn run_search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        let (sql, values) = sql(&self.schema, search).map_err(|reason| self.answer(&reason))?;
        let typed: Vec<(Parameter<'_>, Type)> = values
            .iter()
            .map(|value| match value.kind() {
                ColumnKind::Integer => (parameter(value), Type::INT8),
                ColumnKind::Text => (parameter(value), Type::TEXT),
            })
            .collect();
        let store = self.store.clone();
        let open = self.open().await?;
        let rows = open.client.query_typed(&sql, &typed).await.map_err(|e| failed(&store, &e))?;
        let count = |row: &tokio_postgres::Row, at: usize| {
            let count = row.try_get::<_, i64>(at).ok().and_then(|count| u64::try_from(count).ok());
            count.ok_or_else(|| self.answer("a count is a number"))
        };
        let kind = match &search.wanted {
            Wanted::Count => {
                let row = rows.first().ok_or_else(|| self.answer("a count is one number"))?;
                return Ok(Answer::Count(count(row, 0)?));
            }
            Wanted::Latest { .. } => {
                let rows: Result<_, _> = rows.iter().map(|row| self.row(row)).collect();
                return Ok(Answer::Rows(rows?));
            }
            Wanted::CountBy { column } => self.schema.columns[*column].kind,
            Wanted::CountOver { .. } => ColumnKind::Integer,
        };
        let group = |row| {
            let value = match kind {
                ColumnKind::Integer => tokio_postgres::Row::try_get(row, 0).map(Value::Integer),
                ColumnKind::Text => tokio_postgres::Row::try_get(row, 0).map(Value::Text),
            };
            Ok((value.map_err(|e| self.answer(&e.to_string()))?, count(row, 1)?))
        };
        let mut groups = rows.iter().map(group).collect::<Result<Vec<_>, StoreError>>()?;
        // The database may have an order of its own for texts.
        groups.sort();
        Ok(Answer::Groups(groups))
    }
}

/// Statements that create the full-text indexes of a table, and those of `trigrams`.
pub fn create_indexes(schema: &Schema, trigrams: bool) -> String {
    let columns = schema.columns.iter().filter(|column| column.words);
    debug_assert!(schema.columns.iter().all(|c| !c.words || sql_type(c.kind) == "text"));
    let index = |column: &crate::row::Column| {
        let (table, name) = (quoted(&schema.table), quoted(&column.name));
        let words = format!(" create index on {table} using gin ({});", words(&column.name));
        match trigrams {
            false => words,
            // Two sessions that create the extension at once are an error for one of them.
            true => format!(
                " select pg_advisory_xact_lock(1); create extension if not exists pg_trgm;{words} \
                 create index on {table} using gin ({name} gin_trgm_ops);"
            ),
        }
    };
    columns.map(index).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::lines::line;

    #[test]
    fn searches_are_statements_with_parameters() {
        let schema = line::schema("lines");
        let text = |text: &str| Value::Text(text.to_owned());
        let search = Search {
            text: Some((line::MESSAGE, Match::Phrase("a b".into()))),
            equals: vec![(line::HOST, text("web01"))],
            time: Some((5, 9)),
            wanted: Wanted::CountOver { step_ms: 1000 },
        };
        let (statement, values) = sql(&schema, &search).unwrap();
        assert_eq!(
            statement,
            "select \"time\" / 1000 * 1000, count(*) from \"lines\" where to_tsvector('simple', \"message\") @@ \
             phraseto_tsquery('simple', $1) and \"host\" = $2 and \"time\" >= $3 and \"time\" < $4 group by 1 order by 1"
        );
        assert_eq!(values, [text("a b"), text("web01"), Value::Integer(5), Value::Integer(9)]);
        let indexes = create_indexes(&schema, true);
        assert!(indexes.contains("using gin (to_tsvector('simple', \"message\"))"), "{indexes}");
        assert!(indexes.contains("using gin (\"message\" gin_trgm_ops)"), "{indexes}");
        assert!(!create_indexes(&schema, false).contains("trgm"));
    }
}

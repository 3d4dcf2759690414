//! A program whose filter or query is parsed, ready to run.

use programs::{Definition, DefinitionError, Input, Language};
use query::{Filter, Query, Stats};
use text::quoted::quote;

use super::pending::Buckets;
use crate::storage::line_filter::SOME_TIMES_NS;

/// A program; see the module.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Its settings and text.
    pub definition: Definition,
    /// For AWK, the lines that the program gets, with the fields that it names; else the query that
    /// makes the rows.
    pub query: Query,
}

impl Compiled {
    /// Parses the filter or query of a definition. The error names its line in the file.
    pub fn new(definition: Definition) -> Result<Compiled, DefinitionError> {
        let query = match definition.language {
            Language::Awk => lines_of(&definition)?,
            Language::LogsQl => stats_of(&definition)?,
        };
        Ok(Compiled { definition, query })
    }

    /// The buckets of which it makes rows.
    pub fn buckets(&self) -> Buckets {
        Buckets::of_width(self.definition.width_s)
    }

    /// Whether lines of a type may be for the program.
    pub fn wants_type(&self, log_type: &[u8]) -> bool {
        self.definition.log_type.as_ref().is_none_or(|own| own.as_bytes() == log_type)
    }
}

/// The fields that a program reads; none where it reads the raw line.
pub fn columns(definition: &Definition) -> Option<&[String]> {
    match &definition.input {
        Input::Raw => None,
        Input::Fields(names) => Some(names),
    }
}

fn lines_of(definition: &Definition) -> Result<Query, DefinitionError> {
    let filter = definition.filter.as_deref().unwrap_or("*");
    let query = parse(definition, "filter", filter)?;
    if !query.pipes().is_empty() {
        let problem = "`filter` selects lines and has no pipes; the program itself makes the rows";
        return Err(error(definition, "filter", problem.to_owned()));
    }
    let filter = of_type(definition, query.filter())?;
    let names = columns(definition).map(|names| {
        let quoted: Vec<String> = names.iter().map(|name| quote(name).to_string()).collect();
        format!("* | fields {}", quoted.join(", "))
    });
    let Some(names) = names else { return Ok(Query::new(filter, Vec::new())) };
    let fields = parse(definition, "fields", &names)?;
    Ok(Query::new(filter, fields.pipes().to_vec()))
}

fn stats_of(definition: &Definition) -> Result<Query, DefinitionError> {
    let text = definition.code();
    let code = text.trim_start();
    let query = parse(definition, "", code)?;
    if !query.pipes().iter().any(|pipe| pipe.get::<Stats>().is_some()) {
        let problem = "a program has a `stats` pipe, which makes its rows; for example \
                       `* | stats by (hostname) count() lines`";
        return Err(error(definition, "", problem.to_owned()));
    }
    let filter = of_type(definition, query.filter())?;
    Ok(Query::new(filter, query.pipes().to_vec()).with_options(query.options()))
}

/// The filter for lines of the type of the program alone.
fn of_type(definition: &Definition, filter: &Filter) -> Result<Filter, DefinitionError> {
    let Some(log_type) = &definition.log_type else { return Ok(filter.clone()) };
    let text = format!("_type:={} ({filter})", quote(log_type));
    Ok(parse(definition, "type", &text)?.filter().clone())
}

/// Parses LogsQL that stands in the setting `key`, or behind the settings.
fn parse(definition: &Definition, key: &str, text: &str) -> Result<Query, DefinitionError> {
    let parsed = SOME_TIMES_NS.map(|now_ns| Query::parse(text, now_ns));
    let [query, later] = parsed.map(|parsed| {
        parsed.map_err(|problem| {
            let mut message = problem.message;
            if !problem.expected.is_empty() {
                message.push_str(&format!("; expected {}", problem.expected.join(" or ")));
            }
            let mut error = error(definition, key, message);
            if key.is_empty() {
                let at = problem.position.min(text.len());
                let before = text.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count();
                error.line += before;
            }
            error
        })
    });
    let query = query?;
    match query == later? {
        true => Ok(query),
        false => {
            let problem = "a program is read once and runs on the lines of each bucket, so no time \
                           in it is relative to now; leave `_time` out";
            Err(error(definition, key, problem.to_owned()))
        }
    }
}

/// An error at the line of a setting, or without one at the first line behind the settings.
fn error(definition: &Definition, key: &str, problem: String) -> DefinitionError {
    let is_line = |line: &str| {
        let line = line.trim_start();
        match key {
            "" => !line.is_empty() && !line.starts_with('#'),
            key => line
                .strip_prefix('#')
                .is_some_and(|comment| comment.trim_start().starts_with(&format!("{key}:"))),
        }
    };
    let line = definition.text.lines().position(is_line).map_or(1, |at| at + 1);
    DefinitionError { name: definition.name.clone(), line, problem }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(language: Language, text: &str) -> Result<Compiled, String> {
        let definition = Definition::parse_as("p", language, text).unwrap();
        Compiled::new(definition).map_err(|error| format!("{}: {}", error.line, error.problem))
    }

    #[test]
    fn the_type_and_the_filter_select_lines() {
        let query = |text| compile(Language::Awk, text).unwrap().query.to_string();
        assert!(query("# type: access\n{ n++ }").contains("_type:=\"access\""));
        let both = query("# type: access\n# filter: status:500 or status:503\n{ n++ }");
        assert!(both.contains("_type:=\"access\"") && both.contains(" or "), "{both}");
        let fields = query("# type: access\n# fields: status bytes\n{ n++ }");
        assert!(fields.ends_with("| fields status, bytes"), "{fields}");
    }

    #[test]
    fn errors_name_their_line() {
        let error = |language, text| compile(language, text).unwrap_err();
        assert!(error(Language::Awk, "# type: a\n# filter: (b\n{ n++ }").starts_with("2: "));
        for (language, text) in [
            (Language::Awk, "# type: a\n# filter: _time:5m b\n{ n++ }"),
            (Language::LogsQl, "# type: a\n_time:5m b | stats count() n"),
            (Language::LogsQl, "# type: a\nb:in(_time:1h c | fields b) | stats count() n"),
        ] {
            let found = error(language, text);
            assert!(found.starts_with("2: ") && found.contains("leave `_time` out"), "{found}");
        }
        let absolute = "# type: a\n_time:>=2026-01-31T12:00Z b | stats count() n";
        assert!(compile(Language::LogsQl, absolute).is_ok());
        let pipes = error(Language::Awk, "# filter: a | stats count()\n{ n++ }");
        assert!(pipes.starts_with("1: ") && pipes.contains("no pipes"), "{pipes}");
        let query = error(Language::LogsQl, "# type: a\n\n*\n| stats by (\n");
        assert!(query.starts_with("4: ") || query.starts_with("5: "), "{query}");
        let no_stats = error(Language::LogsQl, "# type: a\n* | fields a");
        assert!(no_stats.starts_with("2: ") && no_stats.contains("stats"), "{no_stats}");
    }

    #[test]
    fn a_query_is_restricted_to_the_type() {
        let query = compile(Language::LogsQl, "# type: access\n# bucket: 1m\n* | stats count() n");
        let query = query.unwrap();
        assert_eq!(query.definition.width_s, 60);
        assert!(query.query.to_string().contains("_type:=\"access\""), "{}", query.query);
        assert!(query.wants_type(b"access") && !query.wants_type(b"syslog"));
    }
}

//! Holds for every entry of the tables of pipes and of stats functions: it is documented, its
//! example is parsed and written back, and its description of itself is consistent.

use std::collections::HashSet;

use super::{Documentation, Merges, Mode, function_documentation, pipe_documentation};
use crate::{Query, Stats};

const PIPES_PAGE: &str = include_str!("../../../../../docs/logsql/pipes.md");
const FUNCTIONS_PAGE: &str = include_str!("../../../../../docs/logsql/functions.md");

fn parsed(text: &str) -> Query {
    Query::parse(text, 0).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Checks that the text of a query is parsed as an equal query.
fn check_written(text: &str) -> Query {
    let query = parsed(text);
    let written = query.to_string();
    assert_eq!(parsed(&written), query, "{text} is written as {written}");
    assert_eq!(parsed(&written).to_string(), written);
    query
}

/// Whether a page contains a name as a whole word in code.
fn names(page: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    page.match_indices(name).any(|(at, _)| {
        !page[..at].ends_with(is_part) && !page[at + name.len()..].starts_with(is_part)
    })
}

fn check_documentation(doc: &'static Documentation, seen: &mut HashSet<&'static str>, page: &str) {
    for name in [&doc.name].into_iter().chain(doc.aliases) {
        assert!(seen.insert(name), "{name} is there twice");
        assert!(names(page, name), "{name} is not in the documents");
    }
    assert!(doc.syntax.starts_with(doc.name), "the syntax of {} begins otherwise", doc.name);
    assert!(doc.example.starts_with(doc.name), "the example of {} begins otherwise", doc.name);
    assert!(!doc.summary.is_empty() && !doc.summary.ends_with('.'), "{}", doc.name);
}

#[test]
fn every_pipe_is_documented_and_written_back() {
    let mut seen = HashSet::new();
    for doc in pipe_documentation() {
        check_documentation(doc, &mut seen, PIPES_PAGE);
        let query = check_written(&format!("* | {}", doc.example));
        for alias in doc.aliases {
            let renamed = format!("* | {alias}{}", &doc.example[doc.name.len()..]);
            assert_eq!(parsed(&renamed), query, "{renamed}");
        }
        for pipe in query.pipes() {
            let known = pipe.documentation();
            assert!(pipe_documentation().any(|doc| doc == known), "{pipe}");
            let is_row_wise = pipe.row_wise().is_some();
            assert!(is_row_wise || pipe.mode() != Mode::RowWise, "{pipe} has nothing that runs it");
            // Only a collecting pipe can count rows without reading them.
            assert!(pipe.counted_by().is_none() || pipe.mode() == Mode::Collecting, "{pipe}");
            let is_merged = pipe.processor(&[]).collected().is_some();
            assert_eq!(is_merged, pipe.merges() != Merges::Never, "{pipe}");
            assert!(!is_merged || pipe.mode() == Mode::Collecting, "{pipe}");
        }
    }
}

#[test]
fn every_function_is_documented_and_written_back() {
    let mut seen = HashSet::new();
    for doc in function_documentation() {
        check_documentation(doc, &mut seen, FUNCTIONS_PAGE);
        let query = check_written(&format!("* | stats {}", doc.example));
        let stats: &Stats = query.pipes()[0].get().expect("it is a stats pipe");
        assert_eq!(stats.functions[0].function.name(), doc.name);
        // The call differs from one with other fields.
        let other = parsed(&format!("* | stats count_uniq(none) other, {}", doc.example));
        let other: &Stats = other.pipes()[0].get().expect("it is a stats pipe");
        assert_eq!(other.functions[1], stats.functions[0]);
        assert_ne!(other.functions[0].function, stats.functions[0].function);
    }
}

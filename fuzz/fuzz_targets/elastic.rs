//! Any text is a query in Lucene's syntax whose filter of LogsQL is read as the same, or an error
//! that points into it; and a body of a search, or a refusal.

#![no_main]

use elastic::lucene;
use elastic::search::Search;
use libfuzzer_sys::fuzz_target;
use query::Query;

fuzz_target!(|text: &str| {
    match lucene::to_logsql(text, 0) {
        Ok(written) if written.len() <= query::QUERY_BYTES_MAX => {
            let read = Query::parse(&written, 0).unwrap_or_else(|error| panic!("{written}: {error}"));
            assert_eq!(read.to_string(), written);
        }
        Ok(_) => {}
        Err(error) => assert!(error.position <= text.len()),
    }
    if let Ok(body) = serde_json::from_str(text) {
        let _ = Search::parse(&body, 0);
    }
});

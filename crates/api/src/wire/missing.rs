//! The header that names the stores whose lines an answer lacks.

use std::sync::Arc;

use axum::extract::Request;
use axum::http::HeaderValue;
use axum::middleware::Next;
use axum::response::Response;

use node::cluster::{Missing, Notice};

/// The header. Its value is the stores, separated by commas. Only answers to requests with
/// `allow_partial_response=1` have it.
const MISSING_STORES: &str = "x-loginson-missing-stores";

/// The header with one sentence about lines that the stores that were read lack: damaged blocks,
/// with segments, blocks and lines, and frames that another copy has. Only answers to requests with
/// `allow_partial_response=1` have it.
const MISSING_LINES: &str = "x-loginson-missing-lines";

/// The header with the age of the catalog's state that the answer is by, in seconds. Only answers
/// of a cluster whose catalog does not answer have it.
const CATALOG_AGE: &str = "x-loginson-catalog-age";

/// The header with what does not answer in a cluster, for the page: a JSON list of `what` (`log`,
/// `partition`, `objects`, `catalog`) and `text`, in ASCII.
const NOTICES: &str = "x-loginson-notices";

/// Bytes of the last header; beyond them the last notices are left out.
const NOTICES_BYTES_MAX: usize = 4 << 10;

/// Gives the request a list of stores, which the handler fills, and adds the header to the answer.
/// A query knows all stores of the list before its first row.
pub async fn name(mut request: Request, next: Next) -> Response {
    let missing = Arc::new(Missing::default());
    request.extensions_mut().insert(Arc::clone(&missing));
    let mut response = next.run(request).await;
    missing.tell();
    let stores = missing.stores();
    if !stores.is_empty() {
        response.headers_mut().insert(MISSING_STORES, in_ascii(&stores.join(", ")));
    }
    let lacks: Vec<String> = missing.damages.tell().into_iter().chain(missing.lacks()).collect();
    if !lacks.is_empty() {
        response.headers_mut().insert(MISSING_LINES, in_ascii(&lacks.join("; ")));
    }
    if let Some(age) = missing.catalog_age() {
        response.headers_mut().insert(CATALOG_AGE, age.as_secs().into());
    }
    if let Some(value) = shown(missing.notices()) {
        response.headers_mut().insert(NOTICES, value);
    }
    response
}

/// A text as the value of a header. Texts of other systems are in it, such as errors of PostgreSQL
/// in the language of its administrator: without what is not ASCII, it still says that lines are
/// missing.
fn in_ascii(text: &str) -> HeaderValue {
    let char = |char: char| match char {
        _ if char.is_ascii_graphic() => char,
        _ if char.is_whitespace() || char.is_control() => ' ',
        _ => '?',
    };
    let text: String = text.replace('…', "...").chars().map(char).collect();
    HeaderValue::from_str(&text).expect("it is ASCII without control characters")
}

/// Notices as the value of a header; none where there are none.
fn shown(mut notices: Vec<Notice>) -> Option<HeaderValue> {
    while !notices.is_empty() {
        let json = serde_json::to_string(&notices).ok()?;
        // Headers are ASCII.
        let json: String = json
            .chars()
            .flat_map(|char| match char.is_ascii() {
                true => vec![char],
                false => {
                    let mut units = [0; 2];
                    let units = char.encode_utf16(&mut units).iter();
                    units.flat_map(|u| format!("\\u{u:04x}").chars().collect::<Vec<_>>()).collect()
                }
            })
            .collect();
        if json.len() <= NOTICES_BYTES_MAX {
            return HeaderValue::from_str(&json).ok();
        }
        notices.pop();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_takes_its_header_away() {
        assert_eq!(in_ascii("store-1, a b … c"), "store-1, a b ... c");
        let error = "FATAL:  das Datenbanksystem fährt herunter\n\u{1b}[1m💥\u{2028}";
        assert_eq!(in_ascii(error), "FATAL:  das Datenbanksystem f?hrt herunter  [1m? ");
    }

    #[test]
    fn notices_are_json_in_ascii_of_bounded_length() {
        let notice = |text: &str| Notice { what: "log", text: text.to_owned() };
        assert_eq!(shown(Vec::new()), None);
        let value = shown(vec![notice("ö 💥 \"x\"\n")]).unwrap();
        let text = value.to_str().unwrap();
        let read: serde_json::Value = serde_json::from_str(text).unwrap();
        assert_eq!(read[0]["text"], "ö 💥 \"x\"\n");
        let long = "x".repeat(NOTICES_BYTES_MAX / 2);
        let value = shown(vec![notice(&long), notice(&long), notice(&long)]).unwrap();
        assert_eq!(value.to_str().unwrap().matches("\"what\"").count(), 1);
        assert_eq!(shown(vec![notice(&"x".repeat(NOTICES_BYTES_MAX))]), None);
    }
}

//! Several addresses, answers of other servers, and what requests that fail mean.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;
use sinks::{Batch, Delivered, Document, Outcome};

use crate::server::{Action, Server};
use crate::sink::{destination, document, run, samples, sink};

/// An address at which nothing listens.
fn nowhere() -> String {
    format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap())
}

/// A sink that waits for an answer longer than any machine takes for one.
fn json_lines(urls: &[&str]) -> String {
    json_lines_within("5m", urls)
}

fn json_lines_within(timeout: &str, urls: &[&str]) -> String {
    format!("name = \"x\"\ntimeout = \"{timeout}\"\nurls = {urls:?}\n[json_lines]")
}

#[test]
fn a_server_that_is_away_is_passed_over_at_once() {
    let server = Server::answering(204, "");
    let mut to = destination(&json_lines(&[&nowhere(), &server.url]));
    for _ in 0..3 {
        assert_eq!(to.deliver(&samples()), Delivered::accepted(2));
    }
    assert_eq!(server.requests().len(), 3);
}

#[test]
fn a_server_in_trouble_is_left_for_the_next_request() {
    let (broken, working) = (Server::answering(503, "busy"), Server::answering(200, ""));
    let mut to = destination(&json_lines(&[&broken.url, &working.url]));
    let Delivered::Unavailable { fault, .. } = to.deliver(&samples()) else { panic!() };
    let url = &broken.url;
    assert_eq!(
        fault.to_string(),
        format!("{url} answered with status 503: busy; see the log of the server")
    );
    assert_eq!(to.deliver(&samples()), Delivered::accepted(2));
}

#[test]
fn when_all_are_away_the_fault_says_so() {
    let (first, second) = (nowhere(), nowhere());
    let mut to = destination(&json_lines(&[&first, &second]));
    let Delivered::Unavailable { fault, .. } = to.deliver(&samples()) else { panic!() };
    assert_eq!(
        fault.to_string(),
        format!(
            "no server answers at {second}; check that the server runs, its address and the network"
        )
    );
}

/// What delivering means when the server acts so.
fn delivered(action: Action) -> String {
    let timeout = if action == Action::Stall { "300ms" } else { "5m" };
    let server = Server::start(move |_| action.clone());
    let mut to = destination(&json_lines_within(timeout, &[&server.url]));
    let text = match to.deliver(&samples()) {
        Delivered::Answered { outcomes, .. } => format!("answered {}", outcomes.len()),
        Delivered::Refused(fault) => format!("refused: {fault}"),
        Delivered::TimedOut(fault) => format!("timed out: {fault}"),
        Delivered::Unavailable { fault, retry_after } => format!("{retry_after:?}: {fault}"),
    };
    text.replace(&server.url, "SERVER")
}

#[test]
fn statuses_have_meanings_and_remedies() {
    let answer = |status, headers| Action::Answer(status, headers, "why".to_owned());
    for (action, expected) in [
        (answer(200, ""), "answered 2".to_owned()),
        (answer(400, ""), "refused: SERVER answered with status 400: why".to_owned()),
        (
            answer(413, ""),
            "refused: SERVER answered with status 413: why; lower `body_bytes_max`".to_owned(),
        ),
        (
            answer(504, ""),
            "timed out: SERVER answered with status 504: why; the server is overloaded".to_owned(),
        ),
        (
            answer(429, "Retry-After: 7\r\n"),
            format!("{:?}: SERVER answered with status 429", Some(Duration::from_secs(7))),
        ),
        (
            answer(401, ""),
            "None: SERVER answered with status 401: why; the server does not accept".to_owned(),
        ),
        (answer(404, ""), "None: SERVER answered with status 404: why; check the path".to_owned()),
        (
            answer(302, "Location: /login\r\n"),
            "None: SERVER answered with status 302: why; a proxy that requires a login".to_owned(),
        ),
        (
            Action::Stall,
            "timed out: SERVER did not answer in time; the server is overloaded".to_owned(),
        ),
        (Action::Close, "None: SERVER: ".to_owned()),
        (Action::CutShort("{}".to_owned()), "None: SERVER: ".to_owned()),
    ] {
        let found = delivered(action.clone());
        assert!(found.starts_with(&expected), "{action:?} gave: {found}\nnot: {expected}");
    }
}

#[test]
fn lines_that_another_loginson_kept_are_not_sent_again() {
    let server = Server::start(|_| {
        Action::json(507, json!({"error": "the disk is full", "lines": 1, "bytes": 10}))
    });
    let text = format!("name = \"x\"\nurls = [{:?}]\n[loginson]", server.url);
    let Delivered::Answered { outcomes, .. } = destination(&text).deliver(&samples()) else {
        panic!()
    };
    assert_eq!(outcomes[0], Outcome::Accepted);
    let Outcome::Retry(fault) = &outcomes[1] else { panic!() };
    assert!(fault.remedy.contains("free disk space on the server"), "{fault}");

    // A success that does not count the lines comes from something else.
    let server = Server::answering(200, "<html>");
    let text = format!("name = \"x\"\nurls = [{:?}]\n[loginson]", server.url);
    let Delivered::Unavailable { fault, .. } = destination(&text).deliver(&samples()) else {
        panic!()
    };
    assert!(fault.what.ends_with("which does not confirm 2 lines"), "{fault}");
}

#[test]
fn requests_are_bounded_and_larger_documents_rejected() {
    let large = |bytes| document("id", 0, &[("text", json!("x".repeat(bytes)))]);
    let documents: Vec<Document> = vec![large(350), large(350), large(350)];
    for table in ["[json_lines]", "[loki]"] {
        let server = Server::answering(200, "");
        let mut to = destination(&format!(
            "name = \"x\"\nbody_bytes_max = \"1KiB\"\nurls = [{:?}]\n{table}",
            server.url
        ));
        assert_eq!(to.deliver(&documents), Delivered::accepted(2), "{table}");
        assert_eq!(to.deliver(&documents[2..]), Delivered::accepted(1), "{table}");
        let Delivered::Answered { outcomes, .. } = to.deliver(&[large(2000), large(1)]) else {
            panic!()
        };
        let [Outcome::Rejected(reason)] = outcomes.as_slice() else { panic!("{outcomes:?}") };
        assert!(reason.contains("more than body_bytes_max (1024)"), "{reason}");
        let requests = server.requests();
        assert_eq!(requests.len(), 2, "{table}");
        assert!(requests.iter().all(|request| request.body.len() <= 1024), "{table}");
    }
}

#[test]
fn only_the_document_at_fault_is_rejected() {
    for (table, status) in [
        ("[elasticsearch]\nindex = \"logs\"", 400),
        ("[elasticsearch]\nindex = \"logs\"", 413),
        ("[elasticsearch]\nindex = \"logs\"", 422),
        ("[json_lines]", 400),
        ("[json_lines]", 413),
        ("[json_lines]", 422),
        ("[loki]", 400),
        ("[loki]", 422),
    ] {
        let server = Server::start(move |request| {
            if request.method != "POST" {
                return Action::json(200, json!({"version": {"number": "8.17.0"}}));
            }
            if request.body.contains("poison") {
                return Action::json(status, "malformed");
            }
            let items = vec![json!({"create": {"status": 201}}); request.body.lines().count() / 2];
            Action::json(200, json!({"errors": false, "items": items}))
        });
        let table = table.replace("logs\"", "logs\"\ntemplate = { enabled = false }");
        let sink = sink(&format!("name = \"x\"\nurls = [{:?}]\n{table}", server.url));
        let documents = (0..200).map(|n| {
            let text = if n == 77 { "poison" } else { "fine" };
            document(&format!("id-{n}"), n, &[("text", json!(text))])
        });
        let batch = Batch { documents: documents.collect(), cursor: "end".to_owned() };
        let folder = tempfile::tempdir().unwrap();
        let (state, cursors) = run(&sink, folder.path(), vec![batch]);
        assert_eq!((state.accepted, state.rejected), (199, 1), "{table} {status}");
        assert_eq!(cursors, ["end"]);
        let rejected = std::fs::read_to_string(folder.path().join("x-rejected.jsonl")).unwrap();
        assert!(rejected.contains("malformed") && rejected.contains("id-77"), "{rejected}");
    }
}

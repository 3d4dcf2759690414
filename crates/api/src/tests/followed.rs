//! Loki's tail over a WebSocket shows what its caller sees alone: of lines that were there before,
//! and of lines that arrive.

use serde_json::Value;

use super::restricted::with_restricted;
use super::tenants::{TENANTS, fixture};
use super::*;

/// Begins a tail; what follows the head are messages.
fn begin(address: SocketAddr, secret: &str, query: &str, more: &str) -> TcpStream {
    let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
    let request = format!(
        "GET /loki/api/v1/tail?query={query}&start=0&limit=1000 HTTP/1.1\r\nhost: localhost\r\n\
         connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
         sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\nauthorization: {secret}\r\n{more}\r\n"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream
}

/// The texts of messages until one has that word, which the tail has to show.
fn until(stream: &mut TcpStream, word: &str) -> String {
    let mut all = String::new();
    while !all.contains(word) {
        let mut head = [0; 2];
        stream.read_exact(&mut head).unwrap();
        let mut bytes = u64::from(head[1] & 0x7f);
        if bytes >= 126 {
            let mut long = [0; 8];
            let digits = if bytes == 126 { 2 } else { 8 };
            stream.read_exact(&mut long[8 - digits..]).unwrap();
            bytes = u64::from_be_bytes(long);
        }
        let mut message = vec![0; usize::try_from(bytes).unwrap()];
        stream.read_exact(&mut message).unwrap();
        let message = String::from_utf8_lossy(&message).into_owned();
        match head[0] & 0x0f {
            1 => {
                let parsed: Value = serde_json::from_str(&message).unwrap();
                assert!(parsed.is_object(), "{message}");
                all += &message;
            }
            8 => panic!("the tail ended: {message}"),
            _ => {}
        }
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restricted_caller_follows_what_it_sees() {
    let fixture = with_restricted();
    let line = |text: &str, app: &str| {
        format!(
            "{{\"_msg\":\"{text}\",\"app\":\"{app}\",\"client_ip\":\"10.0.0.7\",\
             \"hostname\":\"quincewort\"}}\n"
        )
    };
    let lines = |when: &str| {
        line(&format!("brackenfel {when}"), "mail") + &line(&format!("order {when}"), "shop")
    };
    fixture.push(lines("before").as_bytes());
    let address = fixture.listen().await;
    for (caller, hides) in [("filtered", false), ("limited", true)] {
        let secret = format!("Bearer {caller}");
        for query in ["{_type=\"json\"}", "{_type=~\".+\"} |= \"e\" | json"] {
            let secret = secret.clone();
            let began = tokio::task::spawn_blocking(move || begin(address, &secret, query, ""));
            let mut stream = began.await.unwrap();
            fixture.push(lines("live").as_bytes());
            let read = tokio::task::spawn_blocking(move || until(&mut stream, "order live"));
            let shown = read.await.unwrap();
            assert!(shown.contains("order before"), "{caller} {query}: {shown}");
            assert!(!shown.contains("brackenfel"), "{caller} {query}: {shown}");
            let is_hidden = !shown.contains("10.0.0.7") && !shown.contains("quincewort");
            assert_eq!(is_hidden, hides, "{caller} {query}: {shown}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_follows_its_own_lines() {
    let fixture = fixture();
    let address = fixture.listen().await;
    let push = |when: &'static str| {
        let fixture = &fixture;
        async move {
            for (name, _, word) in TENANTS {
                let line = format!("{{\"_msg\":\"{word} {when}\"}}\n");
                let token = format!("{name}-writes");
                fixture.as_token(&token, "POST", "/insert/jsonline", &[], line).await;
            }
        }
    };
    push("before").await;
    let org = "x-scope-orgid: bank\r\n";
    for (token, more, seen) in [
        ("shop-reads", "", "quincewort"),
        ("bank-reads", "", "brackenfel"),
        ("bank-reads", org, "brackenfel"),
        ("proxy-reads", org, "brackenfel"),
        ("admin", org, "brackenfel"),
        ("admin", "", "hazelmoor"),
        ("unsaid-reads", "", "hazelmoor"),
    ] {
        let secret = format!("Bearer {token}");
        let began = move || begin(address, &secret, "{_type=~\".+\"}", more);
        let mut stream = tokio::task::spawn_blocking(began).await.unwrap();
        push("live").await;
        let last = format!("{seen} live");
        let read = tokio::task::spawn_blocking(move || until(&mut stream, &last));
        let shown = read.await.unwrap();
        for (_, _, word) in TENANTS {
            assert_eq!(shown.contains(word), word == seen, "{token} {more}: {shown}");
        }
    }
}

//! The channels of services, against servers that check what the documentation of each demands.

use serde_json::{Value, json};

use super::tests::{http_server, made, notification, pairs};
use super::*;

/// A text from a line that means something in the markup of some service.
const EVIL: &str =
    "<!channel> @room @here *b* [x](http://evil) <at>all</at> & \"q\" \u{202e}\u{1b}[2J";

/// A file with a secret.
fn secret(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, text).unwrap();
    file
}

/// A notification with `count` alerts that fire, whose texts are long and hostile.
fn hostile(count: usize) -> Notification {
    let one = notification();
    let alerts = (0..count).map(|n| Notice {
        labels: pairs(&[("alertname", "Errors"), ("host", &format!("{n} {EVIL}"))]),
        annotations: pairs(&[("summary", EVIL), ("long", &"\"\\\n".repeat(9_000))]),
        is_firing: true,
        line: Some(format!("{EVIL}{}", "é".repeat(9_000))),
        ..one.alerts[0].clone()
    });
    Notification { rule: format!("Errors {EVIL}"), alerts: alerts.collect(), ..one }
}

/// All texts below `value`, with the keys that lead to each.
fn texts(value: &Value, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((path.to_owned(), text.clone())),
        Value::Array(all) => all.iter().for_each(|one| texts(one, path, found)),
        Value::Object(all) => {
            all.iter().for_each(|(key, one)| texts(one, &format!("{path}.{key}"), found));
        }
        _ => {}
    }
}

/// What Slack checks of a message with a block of rich text.
fn check_slack(body: &Value) {
    let text = body["text"].as_str().unwrap();
    assert!(!text.is_empty() && !text.contains(['<', '>']), "{text}");
    let blocks = body["blocks"].as_array().unwrap();
    assert!((1..=50).contains(&blocks.len()));
    assert!(body["blocks"].to_string().len() <= 13_200);
    for block in blocks {
        assert_eq!(block["type"], "rich_text");
        for part in block["elements"].as_array().unwrap() {
            let kind = part["type"].as_str().unwrap();
            assert!(["rich_text_section", "rich_text_preformatted"].contains(&kind), "{kind}");
            for element in part["elements"].as_array().unwrap() {
                let text = element["text"].as_str().unwrap();
                assert!(!text.is_empty());
                match element["type"].as_str().unwrap() {
                    "text" => {}
                    "link" => assert!(element["url"].as_str().unwrap().starts_with("http")),
                    other => panic!("{other} would mention or show more than text"),
                }
            }
        }
    }
}

#[test]
fn slack_gets_rich_text_without_mentions() {
    let (port, receiver) =
        http_server(&["200 OK\r\n\r\nok", "200 OK\r\n\r\nok", "404 No\r\n\r\nno_service"]);
    let file = secret(&format!("http://127.0.0.1:{port}/services/T000/B000/XXXXXXXX"));
    let text = format!("name = 's'\n[slack]\nurl_file = '{}'", file.path().display());
    let mut channel = made(&text);
    assert_eq!(channel.send(&notification()), Sent::Accepted);
    let (head, body) = receiver.recv().unwrap();
    assert!(head.starts_with("POST /services/T000/B000/XXXXXXXX HTTP/1.1"), "{head}");
    check_slack(&body);
    let shown = body.to_string();
    assert!(shown.contains("[firing: 1] Errors") && shown.contains("Resolved at 1970"), "{shown}");
    assert!(shown.contains(r#""url":"http://logs/?query=x""#), "{shown}");
    assert_eq!(channel.send(&hostile(40)), Sent::Accepted);
    let (_, body) = receiver.recv().unwrap();
    check_slack(&body);
    assert!(body.to_string().contains("more alerts are left out"));
    let Sent::Failed { fault, .. } = channel.send(&notification()) else { panic!() };
    assert!(fault.what.contains("no_service") && !fault.what.contains("XXXX"), "{fault}");
}

#[test]
fn teams_gets_a_card_whose_texts_are_no_markdown() {
    let (port, receiver) = http_server(&["202 Accepted", "202 Accepted"]);
    let file = secret(&format!("http://127.0.0.1:{port}/workflows/x/triggers?sig=S3CRET"));
    let mut channel = made(&format!("name = 't'\n[teams]\nurl_file = '{}'", file.path().display()));
    for (count, is_cut) in [(2, false), (40, true)] {
        assert_eq!(channel.send(&hostile(count)), Sent::Accepted);
        let (head, body) = receiver.recv().unwrap();
        assert!(head.starts_with("POST /workflows/x/triggers?sig=S3CRET HTTP/1.1"), "{head}");
        assert!(body.to_string().len() <= 28 << 10, "{}", body.to_string().len());
        assert_eq!(body["type"], "message");
        let attachment = &body["attachments"][0];
        assert_eq!(attachment["contentType"], "application/vnd.microsoft.card.adaptive");
        let card = &attachment["content"];
        assert_eq!((&card["type"], &card["version"]), (&json!("AdaptiveCard"), &json!("1.4")));
        assert!(card["msteams"].get("entities").is_none(), "an entity is a mention");
        for block in card["body"].as_array().unwrap() {
            assert_eq!(block["type"], "RichTextBlock", "a TextBlock reads Markdown");
            for run in block["inlines"].as_array().unwrap() {
                assert_eq!(run["type"], "TextRun");
                let text = run["text"].as_str().unwrap();
                assert!(!text.is_empty() && !text.contains(['\n', '\u{1b}', '\u{202e}']), "{text}");
            }
        }
        assert_eq!(card["actions"][0]["type"], "Action.OpenUrl");
        assert_eq!(card["body"].to_string().contains("more alerts are left out"), is_cut);
    }
}

/// What PagerDuty checks of an event.
fn check_pagerduty(event: &Value) {
    assert_eq!(event["routing_key"].as_str().unwrap().len(), 32);
    let dedup_key = event["dedup_key"].as_str().unwrap();
    assert!((1..=255).contains(&dedup_key.len()));
    assert!(event.to_string().len() <= 512 << 10);
    match event["event_action"].as_str().unwrap() {
        "acknowledge" | "resolve" => {}
        "trigger" => {
            let payload = &event["payload"];
            let summary = payload["summary"].as_str().unwrap();
            assert!((1..=1024).contains(&summary.chars().count()), "{summary}");
            assert!(!payload["source"].as_str().unwrap().is_empty());
            let severity = payload["severity"].as_str().unwrap();
            assert!(["critical", "error", "warning", "info"].contains(&severity), "{severity}");
            assert!(payload["custom_details"].is_object());
            assert!(payload["timestamp"].as_str().unwrap().ends_with('Z'));
            for link in event["links"].as_array().unwrap() {
                assert!(link["href"].as_str().unwrap().starts_with("http"));
            }
        }
        other => panic!("{other}"),
    }
}

const KEY: &str = "0123456789abcdef0123456789abcdef";

#[test]
fn pagerduty_gets_an_event_for_each_alert_with_news() {
    let (port, receiver) = http_server(&[
        "202 Accepted\r\n\r\n{\"status\":\"success\"}",
        "429 Slow\r\nretry-after: 7",
        "202 Accepted\r\n\r\n{\"status\":\"success\"}",
        "400 Bad\r\n\r\n{\"errors\":[\"routing_key 0123456789abcdef0123456789abcdef\"]}",
        "202 Accepted\r\n\r\n{\"status\":\"success\"}",
    ]);
    let file = secret(KEY);
    let mut channel = made(&format!(
        "name = 'p'\n[pagerduty]\nurl = 'http://127.0.0.1:{port}/'\nkey_file = '{}'",
        file.path().display()
    ));
    let mut of = hostile(1);
    let quiet =
        Notice { is_due: false, labels: pairs(&[("host", "quiet")]), ..of.alerts[0].clone() };
    of.alerts.push(quiet);
    of.alerts.extend(notification().alerts.into_iter().skip(1));
    of.alerts[0].labels.insert("severity".to_owned(), "page".to_owned());
    // The second event is refused for a while; the next attempt begins with it.
    let Sent::Failed { fault, retry_after } = channel.send(&of) else { panic!() };
    assert_eq!(retry_after, Some(Duration::from_secs(7)), "{fault}");
    assert_eq!(channel.send(&of), Sent::Accepted);
    let events: Vec<Value> = receiver
        .iter()
        .take(3)
        .map(|(head, event)| {
            assert!(head.starts_with("POST /v2/enqueue HTTP/1.1"), "{head}");
            check_pagerduty(&event);
            event
        })
        .collect();
    let actions: Vec<&str> =
        events.iter().map(|event| event["event_action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["trigger", "resolve", "resolve"]);
    assert_eq!(events[0]["payload"]["severity"], "critical");
    assert_eq!(events[1]["dedup_key"], events[2]["dedup_key"]);
    assert_ne!(events[0]["dedup_key"], events[1]["dedup_key"]);
    // An event that is refused keeps the next one from nothing, and no key is shown.
    of.time_ns += 1;
    of.alerts[0].is_acknowledged = true;
    let Sent::Refused(fault) = channel.send(&of) else { panic!() };
    assert!(fault.what.contains("answered 400") && !fault.what.contains(KEY), "{fault}");
    let (_, acknowledged) = receiver.recv().unwrap();
    check_pagerduty(&acknowledged);
    assert_eq!(acknowledged["event_action"], "acknowledge");
    assert_eq!(acknowledged["dedup_key"], events[0]["dedup_key"]);
    assert_eq!(receiver.recv().unwrap().1["event_action"], "resolve");
}

#[test]
fn opsgenie_opens_acknowledges_and_closes_by_alias() {
    let (port, receiver) = http_server(&["202 Accepted", "202 Accepted", "202 Accepted"]);
    let file = secret(KEY);
    let mut channel = made(&format!(
        "name = 'o'\n[opsgenie]\nurl = 'http://127.0.0.1:{port}'\nseverity = 'warning'\n\
         key_file = '{}'",
        file.path().display()
    ));
    let mut of = hostile(1);
    assert_eq!(channel.send(&of), Sent::Accepted);
    let (head, body) = receiver.recv().unwrap();
    assert!(head.starts_with("POST /v2/alerts HTTP/1.1"), "{head}");
    assert!(
        head.to_ascii_lowercase().contains(&format!("authorization: geniekey {KEY}")),
        "{head}"
    );
    let chars = |key: &str| body[key].as_str().unwrap().chars().count();
    assert!((1..=130).contains(&chars("message")) && chars("alias") <= 512);
    assert!(chars("description") <= 15_000 && chars("entity") <= 512 && chars("source") <= 100);
    assert_eq!(body["priority"], "P3");
    let details = body["details"].as_object().unwrap();
    let total: usize = details
        .iter()
        .map(|(name, value)| name.chars().count() + value.as_str().unwrap().chars().count())
        .sum();
    assert!(total <= 8_000, "{total}");
    let alias = body["alias"].as_str().unwrap().to_owned();
    for (action, is_firing) in [("acknowledge", true), ("close", false)] {
        of.time_ns += 1;
        of.alerts[0].is_acknowledged = true;
        of.alerts[0].is_firing = is_firing;
        assert_eq!(channel.send(&of), Sent::Accepted);
        let (head, _) = receiver.recv().unwrap();
        let path = format!("POST /v2/alerts/{alias}/{action}?identifierType=alias HTTP/1.1");
        assert!(head.starts_with(&path), "{head}");
    }
}

#[test]
fn a_test_of_a_service_of_incidents_closes_what_it_opened() {
    let (port, receiver) = http_server(&["202 Accepted", "202 Accepted"]);
    let file = secret(KEY);
    let config: NotifierConfig = toml::from_str(&format!(
        "name = 'p'\n[pagerduty]\nurl = 'http://127.0.0.1:{port}'\nkey_file = '{}'",
        file.path().display()
    ))
    .unwrap();
    config.check("").unwrap()[0].test(0).unwrap();
    let (opened, closed) = (receiver.recv().unwrap().1, receiver.recv().unwrap().1);
    assert_eq!(
        (&opened["event_action"], &closed["event_action"]),
        (&json!("trigger"), &json!("resolve"))
    );
    assert_eq!(opened["dedup_key"], closed["dedup_key"]);
}

#[test]
fn ntfy_gets_plain_texts_that_are_no_attachments() {
    let (port, receiver) = http_server(&["200 OK", "200 OK", "429 Slow\r\nretry-after: 3"]);
    let file = secret("tk_0123456789");
    let mut channel = made(&format!(
        "name = 'n'\n[ntfy]\nurl = 'http://127.0.0.1:{port}/'\ntopic = 'ops'\npriority = 5\n\
         token_file = '{}'",
        file.path().display()
    ));
    let mut resolved = notification();
    resolved.alerts.remove(0);
    for (of, priority) in [(hostile(9), 5), (resolved, 3)] {
        assert_eq!(channel.send(&of), Sent::Accepted);
        let (head, body) = receiver.recv().unwrap();
        assert!(head.starts_with("POST / HTTP/1.1"), "{head}");
        assert!(head.contains("Bearer tk_0123456789"), "{head}");
        assert_eq!((&body["topic"], &body["priority"]), (&json!("ops"), &json!(priority)));
        let message = body["message"].as_str().unwrap();
        assert!((1..=4096).contains(&message.len()), "{}", message.len());
        assert!(!body["title"].as_str().unwrap().is_empty() && body["tags"].is_array());
        assert!(body.get("markdown").is_none());
        assert_eq!(body["click"], "http://logs/?query=x");
        assert!(!message.contains(['\u{1b}', '\u{202e}']));
    }
    let Sent::Failed { retry_after, .. } = channel.send(&hostile(1)) else { panic!() };
    assert_eq!(retry_after, Some(Duration::from_secs(3)));
}

#[test]
fn matrix_gets_an_event_that_mentions_nobody() {
    let (port, receiver) = http_server(&[
        "429 Slow\r\n\r\n{\"errcode\":\"M_LIMIT_EXCEEDED\",\"retry_after_ms\":2500}",
        "200 OK\r\n\r\n{\"event_id\":\"$x\"}",
        "403 No\r\n\r\n{\"errcode\":\"M_FORBIDDEN\",\"error\":\"not in the room\"}",
    ]);
    let file = secret("syt_0123456789");
    let mut channel = made(&format!(
        "name = 'm'\n[matrix]\nurl = 'http://127.0.0.1:{port}/'\nroom = '!abc/d:example.org'\n\
         token_file = '{}'",
        file.path().display()
    ));
    let of = hostile(20);
    let Sent::Failed { retry_after, .. } = channel.send(&of) else { panic!() };
    assert_eq!(retry_after, Some(Duration::from_millis(2500)));
    assert_eq!(channel.send(&of), Sent::Accepted);
    let (first, _) = receiver.recv().unwrap();
    let (head, body) = receiver.recv().unwrap();
    let path = "PUT /_matrix/client/v3/rooms/%21abc%2Fd%3Aexample.org/send/m.room.message/";
    assert!(head.starts_with(path), "{head}");
    let line = |head: &str| head.lines().next().unwrap().to_owned();
    assert_eq!(line(&first), line(&head), "a repeated attempt has the id of the first one");
    assert!(head.contains("Bearer syt_0123456789"), "{head}");
    assert_eq!((&body["msgtype"], &body["m.mentions"]), (&json!("m.text"), &json!({})));
    let text = body["body"].as_str().unwrap();
    assert!(!text.contains("@room") && text.contains("<!channel>"), "{text}");
    assert!(body.get("formatted_body").is_none() && body.to_string().len() <= 60_000);
    let other = Notification { time_ns: 1, ..notification() };
    let Sent::Failed { fault, .. } = channel.send(&other) else { panic!() };
    assert!(fault.what.contains("not in the room") && fault.remedy.contains("token"), "{fault}");
    assert_ne!(line(&receiver.recv().unwrap().0), line(&head));
}

#[test]
fn mails_and_webhooks_have_the_line_and_mails_the_texts_of_their_templates() {
    let (port, receiver) = http_server(&["200 OK"]);
    let mut of = notification();
    of.alerts[0].line = Some("the line".to_owned());
    let text = format!("name = 'w'\n[webhook]\nurl = 'http://127.0.0.1:{port}/x'");
    assert_eq!(made(&text).send(&of), Sent::Accepted);
    let (_, body) = receiver.recv().unwrap();
    assert_eq!(body["alerts"][0]["annotations"]["line"], "the line");
    let mut found = Vec::new();
    texts(&body, "", &mut found);
    assert_eq!(found.iter().filter(|(_, text)| text == "the line").count(), 1, "{found:?}");
}

#[test]
fn receivers_made_over_the_api_do_not_reach_this_machine() {
    let (port, receiver) = http_server(&["200 OK"]);
    for host in ["127.0.0.1", "localhost"] {
        for (reach, is_taken) in [(Reach::Outside, false), (Reach::Local, host == "127.0.0.1")] {
            if host == "localhost" && reach == Reach::Local {
                continue;
            }
            let config = NotifierConfig {
                name: "w".to_owned(),
                ..toml::from_str(&format!("[webhook]\nurl = 'http://{host}:{port}/'")).unwrap()
            };
            let secrets = std::collections::BTreeMap::new();
            let options = config.check_with("", Secrets::Given(&secrets), reach).unwrap();
            let sent = options[0].channel().unwrap().send(&notification());
            match sent {
                Sent::Accepted => assert!(is_taken),
                Sent::Failed { fault, .. } => {
                    assert!(!is_taken && fault.what.contains("is refused"), "{fault}");
                }
                other => panic!("{other:?}"),
            }
        }
    }
    receiver.recv().unwrap();
    // Mail servers are looked up before they are asked.
    let mail = "server = '127.0.0.1:25'\ntls = 'none'\nfrom = 'a@b.c'\nto = ['a@b.c']";
    let config: NotifierConfig = toml::from_str(&format!("name = 'm'\n[email]\n{mail}")).unwrap();
    let secrets = std::collections::BTreeMap::new();
    let options = config.check_with("", Secrets::Given(&secrets), Reach::Outside).unwrap();
    let Sent::Failed { fault, .. } = options[0].channel().unwrap().send(&notification()) else {
        panic!()
    };
    assert!(fault.what.contains("is refused"), "{fault}");
}

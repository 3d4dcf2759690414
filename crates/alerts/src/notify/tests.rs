//! The channels against servers of the tests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};

use serde_json::Value;

use super::*;

/// Answers HTTP requests with `answers`, one after another; the bodies come through the receiver.
pub fn http_server(answers: &'static [&'static str]) -> (u16, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            loop {
                let mut line = String::new();
                reader.read_line(&mut line).unwrap();
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                if line == "\r\n" {
                    break;
                }
                head.push_str(&line);
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            // An answer may have headers, and a body behind an empty line.
            let (head_of, said) = answer.split_once("\r\n\r\n").unwrap_or((answer, "no"));
            let length = said.len();
            let text = format!(
                "HTTP/1.1 {head_of}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{said}"
            );
            stream.write_all(text.as_bytes()).unwrap();
            sender.send((head, serde_json::from_slice(&body).unwrap())).unwrap();
        }
    });
    (port, receiver)
}

pub fn pairs(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
}

pub fn notification() -> Notification {
    let notice = |host: &str, is_firing| Notice {
        labels: pairs(&[("alertname", "Errors"), ("h.ost", host)]),
        annotations: pairs(&[("summary", "many \"errors\"\r\nX-Evil: 1")]),
        is_firing,
        starts_at_ns: 0,
        ends_at_ns: 60_000_000_000,
        value: 12.0,
        source_url: "http://logs/?query=x".to_owned(),
        is_due: true,
        is_acknowledged: false,
        line: None,
    };
    Notification {
        rule_id: "id".to_owned(),
        rule: "Errors\r\nBcc: x@example.com".to_owned(),
        group: "web".to_owned(),
        alerts: vec![notice("a", true), notice("b", false)],
        left_out: Vec::new(),
        time_ns: 0,
    }
}

pub fn made(text: &str) -> Box<dyn Channel> {
    let config: NotifierConfig = toml::from_str(text).unwrap();
    config.check("http://logs").unwrap()[0].channel().unwrap()
}

#[test]
fn webhooks_get_what_alertmanager_sends() {
    let (port, receiver) = http_server(&["200 OK", "500 Oh", "400 Bad", "404 Gone"]);
    let text = format!("name = 'hook'\n[webhook]\nurl = 'http://127.0.0.1:{port}/services/s3cret'");
    let mut channel = made(&text);
    assert_eq!(channel.send(&notification()), Sent::Accepted);
    let (head, body) = receiver.recv().unwrap();
    assert!(head.starts_with("POST /services/s3cret HTTP/1.1"), "{head}");
    assert_eq!(body["version"], "4");
    assert_eq!(body["status"], "firing");
    assert_eq!(body["receiver"], "hook");
    assert_eq!(body["commonLabels"], serde_json::json!({"alertname": "Errors"}));
    assert_eq!(body["alerts"][0]["endsAt"], "0001-01-01T00:00:00Z");
    assert_eq!(body["alerts"][1]["status"], "resolved");
    assert_eq!(body["alerts"][1]["endsAt"], "1970-01-01T00:01:00Z");
    assert_eq!(body["alerts"][0]["fingerprint"].as_str().unwrap().len(), 16);
    let Sent::Failed { fault, .. } = channel.send(&notification()) else { panic!() };
    assert!(fault.what.ends_with("answered 500: no") && !fault.what.contains("s3cret"));
    assert!(matches!(channel.send(&notification()), Sent::Refused(_)));
    let Sent::Failed { fault, .. } = channel.send(&notification()) else { panic!() };
    assert!(fault.remedy.contains("address"), "{fault}");
    // The server is gone now.
    drop(receiver);
    let Sent::Failed { fault, .. } = channel.send(&notification()) else { panic!() };
    assert!(!fault.to_string().contains("s3cret"), "{fault}");
}

#[test]
fn a_test_says_what_it_is_and_why_it_failed() {
    let (port, receiver) = http_server(&["200 OK", "500 Oh"]);
    let text = format!("name = 'hook'\n[webhook]\nurl = 'http://127.0.0.1:{port}/x'");
    let config: NotifierConfig = toml::from_str(&text).unwrap();
    let options = config.check("http://logs").unwrap().remove(0);
    assert_eq!(options.kind(), "webhook");
    options.test(0).unwrap();
    let (_, body) = receiver.recv().unwrap();
    assert_eq!(body["alerts"][0]["labels"]["alertname"], "LoginsonTest");
    let summary = body["alerts"][0]["annotations"]["summary"].as_str().unwrap();
    assert!(summary.contains("test of the notifier hook"), "{summary}");
    let fault = options.test(0).unwrap_err().to_string();
    assert!(fault.contains("answered 500"), "{fault}");
}

#[test]
fn alertmanager_gets_its_alerts() {
    let (port, receiver) = http_server(&["200 OK"]);
    let text = format!("name = 'am'\n[alertmanager]\nurls = ['http://127.0.0.1:{port}/below/']");
    assert_eq!(made(&text).send(&notification()), Sent::Accepted);
    let (head, body) = receiver.recv().unwrap();
    assert!(head.starts_with("POST /below/api/v2/alerts HTTP/1.1"), "{head}");
    assert_eq!(body[0]["labels"], serde_json::json!({"alertname": "Errors", "h_ost": "a"}));
    assert_eq!(body[1]["endsAt"], "1970-01-01T00:01:00Z");
}

/// Answers to `RCPT`, each for the addresses that have a text in them.
type Answers = &'static [(&'static str, &'static str)];

/// Speaks SMTP with one client after another; the mails come through the receiver.
pub fn smtp_server(answers: Answers) -> (u16, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            speak_smtp(stream.unwrap(), answers, &sender);
        }
    });
    (port, receiver)
}

fn speak_smtp(mut stream: TcpStream, answers: Answers, mails: &Sender<String>) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut say = |text: &str| stream.write_all(format!("{text}\r\n").as_bytes()).unwrap();
    say("220 test");
    let mut commands = String::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap() == 0 {
            return;
        }
        commands.push_str(&line);
        let answer = answers.iter().find(|(address, _)| line.contains(address));
        match (line.get(..4).unwrap_or_default(), answer) {
            ("EHLO", _) => say("250 test"),
            ("RCPT", Some((_, answer))) => say(answer),
            ("DATA", _) => {
                say("354 go");
                let mut mail = String::new();
                while !mail.ends_with("\r\n.\r\n") {
                    reader.read_line(&mut mail).unwrap();
                }
                // The client goes on once it has the answer.
                mails.send(format!("{commands}{mail}")).unwrap();
                say("250 taken");
            }
            _ => say("250 ok"),
        }
    }
}

/// A sender of mails to `to`, addresses in quotes.
fn mails(port: u16, to: &str) -> NotifierOptions {
    let config: NotifierConfig = toml::from_str(&format!(
        "name = 'm'\n[email]\nserver = '127.0.0.1:{port}'\ntls = 'none'\n\
         from = 'Logs <logs@example.com>'\nto = [{to}]"
    ))
    .unwrap();
    config.check("").unwrap().remove(0)
}

fn mail(port: u16) -> Box<dyn Channel> {
    mails(port, "'ops@example.com'").channel().unwrap()
}

#[test]
fn mails_arrive_and_have_no_more_headers() {
    let (port, receiver) = smtp_server(&[]);
    assert_eq!(mail(port).send(&notification()), Sent::Accepted);
    let mail = receiver.recv().unwrap();
    assert!(mail.contains("RCPT TO:<ops@example.com>") && !mail.contains("RCPT TO:<x@"), "{mail}");
    assert!(mail.contains("Subject: [firing: 1] Errors  Bcc: x@example.com (web)"), "{mail}");
    assert!(!mail.contains("\r\nBcc:") && !mail.contains("\r\nX-Evil"), "{mail}");
    assert!(mail.contains("Firing since 1970-01-01T00:00:00Z, value"), "{mail}");
    assert!(mail.contains("Resolved at 1970-01-01T00:01:00Z"), "{mail}");
}

#[test]
fn answers_of_mail_servers_are_judged() {
    let (port, _receiver) = smtp_server(&[("", "550 no such user")]);
    assert!(matches!(mail(port).send(&notification()), Sent::Refused(_)));
    let (port, _receiver) = smtp_server(&[("", "451 try later")]);
    assert!(matches!(mail(port).send(&notification()), Sent::Failed { .. }));
    let (port, _receiver) = smtp_server(&[("", "535 wrong password")]);
    let Sent::Failed { fault, .. } = mail(port).send(&notification()) else { panic!() };
    assert!(fault.remedy.contains("password"), "{fault}");
}

#[test]
fn an_address_that_is_refused_keeps_the_mail_from_no_other() {
    let (port, receiver) = smtp_server(&[("gone@", "550 no such user")]);
    let options = mails(port, "'gone@example.com', 'ops@example.com'");
    let mut channel = options.channel().unwrap();
    let Sent::Refused(fault) = channel.send(&notification()) else { panic!() };
    assert!(fault.what.contains("gone@example.com: permanent error (550)"), "{fault}");
    assert!(!fault.what.contains("ops@") && fault.remedy.contains("other receivers"), "{fault}");
    assert_eq!(channel.taken(), BTreeSet::from([0, 1]));
    let mail = receiver.recv().unwrap();
    assert!(mail.contains("RCPT TO:<ops@example.com>") && mail.contains("Firing since"), "{mail}");
    // So it is with a mail that is no notification.
    let to = vec!["gone@example.com".to_owned(), "ann@example.com".to_owned()];
    let (text, html) = ("plain".to_owned(), "<p>rich</p>".to_owned());
    let sent = options.send_mail(&Mail { subject: "Shop".to_owned(), to, text, html, pdf: None });
    let Sent::Refused(fault) = sent else { panic!() };
    assert!(fault.what.contains("gone@") && !fault.what.contains("ann@"), "{fault}");
    assert!(receiver.recv().unwrap().contains("RCPT TO:<ann@example.com>"));
    // Nobody has it.
    let mut channel = mails(port, "'gone@example.com'").channel().unwrap();
    assert!(matches!(channel.send(&notification()), Sent::Refused(_)));
    assert!(channel.taken().is_empty());
}

#[test]
fn an_address_that_takes_mails_later_makes_no_second_mail_for_others() {
    let (port, receiver) = smtp_server(&[("late@", "451 try later")]);
    let options = mails(port, "'late@example.com', 'ops@example.com'");
    let mut channel = options.channel().unwrap();
    let mut of = notification();
    for second in 0..3 {
        // An evaluation later, the news are the same.
        of.time_ns = second * 1_000_000_000;
        let Sent::Failed { fault, .. } = channel.send(&of) else { panic!() };
        assert!(fault.what.contains("late@example.com: transient error (451)"), "{fault}");
        assert!(channel.taken().is_empty());
    }
    assert!(receiver.recv().unwrap().contains("RCPT TO:<ops@example.com>"));
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    // Other news are for all.
    of.alerts[0].is_firing = false;
    assert!(matches!(channel.send(&of), Sent::Failed { .. }));
    assert!(receiver.recv().unwrap().contains("RCPT TO:<ops@example.com>"));
}

#[test]
fn answers_that_may_change_are_failures() {
    let (port, receiver) = http_server(&[
        "302 Found\r\nlocation: http://127.0.0.1:1/",
        "407 Proxy",
        "409 Conflict",
        "410 Gone",
        "423 Locked",
        "425 Early",
        "200 OK",
    ]);
    let mut channel = made(&format!("name = 'hook'\n[webhook]\nurl = 'http://127.0.0.1:{port}/x'"));
    for status in [302, 407, 409, 410, 423, 425] {
        let Sent::Failed { fault, .. } = channel.send(&notification()) else { panic!() };
        assert!(fault.what.contains(&format!("answered {status}")), "{fault}");
    }
    assert_eq!(channel.send(&notification()), Sent::Accepted);
    assert_eq!(receiver.iter().count(), 7);
}

#[test]
fn a_mail_with_a_file_arrives_and_has_no_more_headers() {
    let (port, receiver) = smtp_server(&[]);
    let options = mails(port, "'ops@example.com'");
    let mail = super::Mail {
        subject: "Shop\r\nBcc: x@example.com".to_owned(),
        to: vec!["ann@example.com".to_owned()],
        text: "plain".to_owned(),
        html: "<p>rich</p>".to_owned(),
        pdf: Some(("shop.pdf".to_owned(), b"%PDF-1.7".to_vec())),
    };
    assert_eq!(options.send_mail(&mail), Sent::Accepted);
    let mail = receiver.recv().unwrap();
    assert!(mail.contains("RCPT TO:<ann@example.com>") && !mail.contains("ops@"), "{mail}");
    assert!(mail.contains("Subject: Shop  Bcc: x@example.com"), "{mail}");
    assert!(!mail.contains("\r\nBcc:"), "{mail}");
    for part in ["plain", "<p>rich</p>", "application/pdf", "filename=\"shop.pdf\"", "JVBERi0xLjc="]
    {
        assert!(mail.contains(part), "{part}: {mail}");
    }
    assert!(super::Mail::check_address("ann@example.com").is_ok());
    assert!(super::Mail::check_address("ann").is_err());
}

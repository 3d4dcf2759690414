//! E-mail by SMTP: one mail for each notification, as plain text.
//!
//! An address that the server refuses keeps the mail from no other one: the notification counts as
//! told, and the address is shown as an error. What the server may take later for some addresses is
//! tried again for those alone.
//!
//! Values of log lines stand in the body alone, which the library encodes. Of the subject, which
//! has the names of rule and group, control characters are replaced, so that no text can add a
//! header.
//!
//! The same servers send dashboards ([`Mail`]): as HTML, as plain text, and as an attached file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use cluster::engines::Secret;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Attachment, Body, Mailbox, Message, MultiPart};
use sinks::Fault;
use text::duration::ns;

use super::endpoint::Reach;
use super::message::{Templates, cut_chars, one_line, state_line};
use super::smtp::{Encryption, Smtp};
use super::{Channel, Notice, Notification, Sent};
use crate::labels::id_of;

/// Bytes of a body; the rest of a longer one is left out.
const BODY_BYTES_MAX: usize = 256 << 10;
/// Characters of an error that names receivers.
const ERROR_CHARS_MAX: usize = 2_000;
/// Rules of which it is known who has the news. Of one beyond, some may get a mail twice.
const RULES_MAX: usize = 1_000;
/// How long those who have the news of a rule get it no second time, while others do not.
const KNOWN: Duration = Duration::from_secs(4 * 3600);

/// How mails are sent.
#[derive(Debug, Clone)]
pub struct EmailOptions {
    /// The mail server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The encryption.
    pub encryption: Encryption,
    /// Name and password, if the server asks for them.
    pub login: Option<(String, Secret)>,
    /// The sender.
    pub from: Mailbox,
    /// The receivers.
    pub to: Vec<Mailbox>,
}

/// A mail that is no notification.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The subject; control characters in it are replaced.
    pub subject: String,
    /// To whom; nobody: the addresses of the receiver.
    pub to: Vec<String>,
    /// The body as plain text.
    pub text: String,
    /// The body as HTML.
    pub html: String,
    /// A file of PDF with its name, if there is one.
    pub pdf: Option<(String, Vec<u8>)>,
}

impl Mail {
    /// Checks an address of a receiver of mail.
    ///
    /// # Errors
    /// It is none; the text says how one is written.
    pub fn check_address(text: &str) -> Result<(), String> {
        match text.parse::<Mailbox>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("'{}' is no address; write NAME@HOST", one_line(text))),
        }
    }

    fn message(&self, from: &Mailbox, receivers: &[Mailbox]) -> Result<Message, String> {
        let mut message = Message::builder().from(from.clone()).subject(one_line(&self.subject));
        let own = self.to.iter().map(|to| to.parse().map_err(|_| format!("'{to}' is no address")));
        let own = own.collect::<Result<Vec<Mailbox>, String>>()?;
        for to in if own.is_empty() { receivers } else { &own } {
            message = message.to(to.clone());
        }
        let body = MultiPart::alternative_plain_html(self.text.clone(), self.html.clone());
        let message = match &self.pdf {
            None => message.multipart(body),
            Some((name, bytes)) => {
                let kind = ContentType::parse("application/pdf").expect("it is a media type");
                let base64 = ContentTransferEncoding::Base64;
                let bytes = Body::new_with_encoding(bytes.clone(), base64)
                    .map_err(|_| "the attached file cannot be encoded".to_owned())?;
                let file = Attachment::new(one_line(name)).body(bytes, kind);
                message.multipart(MultiPart::mixed().multipart(body).singlepart(file))
            }
        };
        message.map_err(|error| error.to_string())
    }
}

/// Sends mails.
pub struct Email {
    smtp: Smtp,
    from: Mailbox,
    to: Vec<Mailbox>,
    templates: Templates,
    /// Who has the news of a rule, while the server may take them for others later.
    known: BTreeMap<String, Known>,
    /// The places of the alerts that somebody has of a mail that is refused for others.
    taken: BTreeSet<usize>,
}

/// Who of the receivers has some news.
struct Known {
    /// An id of the news.
    news: String,
    /// The time of the notification that they came with first.
    since_ns: i64,
    /// Places among the receivers.
    receivers: BTreeSet<usize>,
}

impl Email {
    /// A sender of mails; `ca` names a file of certificates in place of those of the system.
    /// Connects to nothing yet.
    pub fn new(
        options: &EmailOptions,
        ca: Option<&Path>,
        reach: Reach,
        templates: Templates,
    ) -> Result<Email, Fault> {
        Ok(Email {
            smtp: Smtp::new(options, ca, reach)?,
            from: options.from.clone(),
            to: options.to.clone(),
            templates,
            known: BTreeMap::new(),
            taken: BTreeSet::new(),
        })
    }

    /// Sends a mail that is no notification. Blocks up to the time limits of the protocol. It is
    /// refused if the server took it for some receivers alone: another attempt would send it to
    /// them again.
    pub fn send_mail(&self, mail: &Mail) -> Sent {
        let message = match mail.message(&self.from, &self.to) {
            Ok(message) => message,
            Err(error) => {
                let what = format!("the mail cannot be written: {}", one_line(&error));
                return Sent::Refused(Fault::new(what, "correct the addresses"));
            }
        };
        let handed = self.smtp.send(&message, &BTreeSet::new());
        match (handed.failed, handed.taken.is_empty()) {
            (Some(fault), true) => Sent::Failed { fault, retry_after: None },
            (Some(fault), false) => {
                let mut refused = handed.refused;
                refused.push(fault.what);
                Sent::Refused(refusal(&refused, true))
            }
            (None, _) if handed.refused.is_empty() => Sent::Accepted,
            (None, is_empty) => Sent::Refused(refusal(&handed.refused, !is_empty)),
        }
    }

    /// Who has the news of a notification.
    fn known(&mut self, notification: &Notification) -> Known {
        let (news, time_ns) = (news(notification), notification.time_ns);
        let known = self.known.remove(&notification.rule_id);
        let known = known.filter(|known| {
            let age_ns = time_ns.saturating_sub(known.since_ns).saturating_abs();
            known.news == news && age_ns < ns(KNOWN)
        });
        known.unwrap_or_else(|| Known { news, since_ns: time_ns, receivers: BTreeSet::new() })
    }
}

/// Why a mail is refused for some receivers or all.
fn refusal(refused: &[String], others_have_it: bool) -> Fault {
    let remedy = match others_have_it {
        true => "the other receivers have the mail; correct these addresses, or remove them",
        false => "the server does not take this mail; see its log",
    };
    Fault::new(cut_chars(&refused.join("; "), ERROR_CHARS_MAX), remedy)
}

/// An id of what is new in a notification.
fn news(notification: &Notification) -> String {
    let news = notification.alerts.iter().filter(|notice| notice.is_due).map(|notice| {
        let state = (notice.is_firing, notice.is_acknowledged, notice.starts_at_ns);
        format!("{} {state:?}", notice.fingerprint())
    });
    let left_out = format!("{} left out", notification.left_out.len());
    let news: Vec<String> = news.chain([left_out]).collect();
    id_of(news.iter().map(String::as_str))
}

impl Channel for Email {
    fn send(&mut self, notification: &Notification) -> Sent {
        self.taken.clear();
        let subject = self.templates.subject(notification);
        let body = body(notification, &self.templates);
        let mut message = Message::builder().from(self.from.clone()).subject(subject);
        for to in &self.to {
            message = message.to(to.clone());
        }
        let message = match message.header(ContentType::TEXT_PLAIN).body(body) {
            Ok(message) => message,
            Err(error) => {
                let what = format!("the mail cannot be written: {error}");
                return Sent::Refused(Fault::new(what, "correct `from` and `to` of the notifier"));
            }
        };
        let mut known = self.known(notification);
        let handed = self.smtp.send(&message, &known.receivers);
        known.receivers.extend(handed.taken);
        let somebody_has_it = !known.receivers.is_empty();
        if let Some(fault) = handed.failed {
            if somebody_has_it {
                if self.known.len() >= RULES_MAX {
                    self.known.pop_first();
                }
                self.known.insert(notification.rule_id.clone(), known);
            }
            return Sent::Failed { fault, retry_after: None };
        }
        if handed.refused.is_empty() {
            return Sent::Accepted;
        }
        if somebody_has_it {
            self.taken = (0..notification.alerts.len()).collect();
        }
        Sent::Refused(refusal(&handed.refused, somebody_has_it))
    }

    fn taken(&self) -> BTreeSet<usize> {
        self.taken.clone()
    }
}

fn body(notification: &Notification, templates: &Templates) -> String {
    let mut text = String::new();
    for is_firing in [true, false] {
        let alerts = notification.alerts.iter().filter(|notice| notice.is_firing == is_firing);
        for notice in alerts {
            if text.len() > BODY_BYTES_MAX {
                text.push_str("(more alerts are left out)\n");
                return text;
            }
            if templates.has_text() {
                // Writing to a text cannot fail.
                let _ = writeln!(text, "{}", templates.text(notification, notice));
            } else {
                default_text(notice, &mut text);
            }
            if let Some(line) = notice.shown_line() {
                let _ = writeln!(text, "  Line: {}", indented(&line));
            }
            if !notice.source_url.is_empty() {
                let _ = writeln!(text, "  Query: {}", notice.source_url);
            }
            text.push('\n');
        }
    }
    if !notification.left_out.is_empty() {
        let _ = writeln!(text, "{} more alerts are left out.", notification.left_out.len());
    }
    text
}

fn default_text(notice: &Notice, text: &mut String) {
    // Writing to a text cannot fail.
    let _ = writeln!(text, "{}", state_line(notice));
    for (name, value) in &notice.annotations {
        let _ = writeln!(text, "  {name}: {}", indented(value));
    }
    text.push_str("  Labels:\n");
    for (name, value) in &notice.labels {
        let _ = writeln!(text, "    {name} = {}", indented(value));
    }
}

/// A value of several lines, with its further lines moved to the right, so that they cannot be
/// taken for lines of this mail.
fn indented(value: &str) -> String {
    let lines = value.lines().map(one_line);
    lines.collect::<Vec<String>>().join("\n      ")
}

#[cfg(test)]
mod tests {
    use super::super::LeftOut;
    use super::*;

    #[test]
    fn no_value_leaves_its_place() {
        let evil = "x\r\nBcc: all@example.com\r\n\r\n.\r\nQUIT";
        let pairs = || [("host".to_owned(), evil.to_owned())].into();
        let notification = Notification {
            rule_id: String::new(),
            rule: evil.to_owned(),
            group: "g".to_owned(),
            alerts: vec![Notice {
                labels: pairs(),
                annotations: pairs(),
                is_firing: true,
                starts_at_ns: 0,
                ends_at_ns: 0,
                value: 1.5,
                source_url: String::new(),
                is_due: true,
                is_acknowledged: false,
                line: None,
            }],
            left_out: vec![LeftOut { labels: pairs(), is_firing: true, is_acknowledged: false }; 2],
            time_ns: 0,
        };
        let mailbox: Mailbox = "a@example.com".parse().unwrap();
        let message = Message::builder()
            .from(mailbox.clone())
            .to(mailbox)
            .subject(Templates::default().subject(&notification))
            .header(ContentType::TEXT_PLAIN)
            .body(body(&notification, &Templates::default()))
            .unwrap();
        let mail = String::from_utf8(message.formatted()).unwrap();
        let (head, rest) = mail.split_once("\r\n\r\n").unwrap();
        let names: Vec<&str> = head
            .lines()
            .filter(|line| !line.starts_with(' '))
            .map(|line| line.split_once(':').unwrap().0)
            .collect();
        assert!(!names.contains(&"Bcc"), "{head}");
        assert!(
            Templates::default()
                .subject(&notification)
                .starts_with("[firing: 3] x  Bcc: all@example.com")
        );
        assert!(!rest.lines().any(|line| line.starts_with("Bcc") || line == "." || line == "QUIT"));
        assert!(rest.contains("Firing since 1970-01-01T00:00:00Z, value 1.5"), "{rest}");
    }
}

//! E-mail by SMTP: one mail for each notification, as plain text.
//!
//! Values of log lines stand in the body alone, which the library encodes. Of the subject, which
//! has the names of rule and group, control characters are replaced, so that no text can add a
//! header.
//!
//! The same servers send dashboards ([`Mail`]): as HTML, as plain text, and as an attached file.

use std::fmt::Write as _;
use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::time::Duration;

use cluster::engines::Secret;
use lettre::message::header::{ContentTransferEncoding, ContentType};
use lettre::message::{Attachment, Body, Mailbox, Message, MultiPart};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, CertificateStore, Tls, TlsParameters};
use lettre::{SmtpTransport, Transport};
use sinks::Fault;

use super::endpoint::Reach;
use super::message::{Templates, one_line, state_line};
use super::{Channel, Notice, Notification, Sent};

/// Bytes of a body; the rest of a longer one is left out.
const BODY_BYTES_MAX: usize = 256 << 10;
/// The longest time for each step of the protocol.
const STEP: Duration = Duration::from_secs(20);

/// How the connection to a mail server is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// From the start, as on port 465.
    Tls,
    /// By STARTTLS, as on port 587; a server without it is refused.
    StartTls,
    /// Not at all.
    None,
}

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
    transport: SmtpTransport,
    from: Mailbox,
    to: Vec<Mailbox>,
    password: Option<Secret>,
    host: String,
    port: u16,
    reach: Reach,
    templates: Templates,
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
        let tls = match options.encryption {
            Encryption::None => Tls::None,
            Encryption::Tls => Tls::Wrapper(parameters(&options.host, ca)?),
            Encryption::StartTls => Tls::Required(parameters(&options.host, ca)?),
        };
        let mut builder = SmtpTransport::builder_dangerous(&options.host)
            .port(options.port)
            .tls(tls)
            .timeout(Some(STEP));
        if let Some((user, password)) = &options.login {
            let password = password.expose().to_owned();
            builder = builder.credentials(Credentials::new(user.clone(), password));
        }
        Ok(Email {
            transport: builder.build(),
            from: options.from.clone(),
            to: options.to.clone(),
            password: options.login.as_ref().map(|(_, password)| password.clone()),
            host: options.host.clone(),
            port: options.port,
            reach,
            templates,
        })
    }

    /// Why the mail server may not be asked, by the addresses that its name has now.
    fn refusal(&self) -> Option<Fault> {
        if self.reach == Reach::Any {
            return None;
        }
        // A name without an address is reported by the attempt itself.
        let addresses = (self.host.as_str(), self.port).to_socket_addrs().ok()?;
        let refused = addresses.map(|address| address.ip()).find(|ip| !self.reach.allows(*ip))?;
        Some(Fault::new(
            format!("the mail server {}: {}", self.host, self.reach.refusal(refused)),
            "",
        ))
    }

    /// Sends a mail that is no notification. Blocks up to the time limits of the protocol.
    pub fn send_mail(&self, mail: &Mail) -> Sent {
        match mail.message(&self.from, &self.to) {
            Ok(message) => self.transmit(&message),
            Err(error) => {
                let what = format!("the mail cannot be written: {}", one_line(&error));
                Sent::Refused(Fault::new(what, "correct the addresses"))
            }
        }
    }

    fn transmit(&self, message: &Message) -> Sent {
        if let Some(fault) = self.refusal() {
            return Sent::Failed { fault, retry_after: None };
        }
        let Err(error) = self.transport.send(message) else { return Sent::Accepted };
        let mut text = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        if let Some(password) = &self.password {
            text = password.hidden_in(&text);
        }
        let (host, port) = (&self.host, self.port);
        let what = format!("the mail server {host}:{port}: {}", one_line(&text));
        // A permanent answer to the login may be corrected; one to the mail itself stays.
        let is_login =
            error.status().is_some_and(|code| matches!(u16::from(code), 530 | 534 | 535 | 538));
        if error.is_permanent() && !is_login {
            let remedy = "the server does not take this mail; see its log";
            return Sent::Refused(Fault::new(what, remedy));
        }
        let remedy = match (is_login, error.is_tls()) {
            (true, _) => "correct user and password of the notifier",
            (_, true) => "check `tls` and `ca` of the notifier",
            _ => "check that the server runs, its address and the network",
        };
        Sent::Failed { fault: Fault::new(what, remedy), retry_after: None }
    }
}

impl Channel for Email {
    fn send(&mut self, notification: &Notification) -> Sent {
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
        self.transmit(&message)
    }
}

fn parameters(host: &str, ca: Option<&Path>) -> Result<TlsParameters, Fault> {
    let pem = cluster::engines::roots::pem(ca)?;
    let failed = |error: lettre::transport::smtp::Error| {
        Fault::new(format!("TLS cannot be set up: {error}"), "check the certificates of `ca`")
    };
    TlsParameters::builder(host.to_owned())
        .certificate_store(CertificateStore::None)
        .add_root_certificate(Certificate::from_pem(&pem).map_err(failed)?)
        .build_rustls()
        .map_err(failed)
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
    if notification.left_out > 0 {
        let _ = writeln!(text, "{} more alerts are left out.", notification.left_out);
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
            left_out: 2,
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

//! A mail server: whom it takes a mail for, by the protocol SMTP.
//!
//! The name of the server is looked up once for each mail. The addresses that are checked are those
//! that are connected to, so that a name that means another address a moment later gets nowhere;
//! the name itself is what the certificate of the server has to be for.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::time::{Duration, Instant};

use cluster::engines::Secret;
use lettre::message::Message;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, DEFAULT_MECHANISMS};
use lettre::transport::smtp::client::{
    Certificate, CertificateStore, SmtpConnection, Tls, TlsParameters,
};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::{ClientId, Extension, MailBodyParameter, MailParameter};
use sinks::Fault;

use super::email::EmailOptions;
use super::endpoint::Reach;
use super::message::{cut_chars, one_line};

/// The longest time for each step of the protocol.
const STEP: Duration = Duration::from_secs(20);
/// How long the receivers of a mail are named to the server; the others are named by the next
/// attempt.
const RECEIVERS_TIME: Duration = Duration::from_secs(60);
/// Characters of an answer of the server that a message shows.
const ANSWER_CHARS_MAX: usize = 300;

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

/// For whom the server took a mail. Those that are named nowhere it may take it for later.
#[derive(Debug, Default)]
pub struct Handed {
    /// The places of the receivers.
    pub taken: BTreeSet<usize>,
    /// Why it does not take it for others, or not at all.
    pub refused: Vec<String>,
    /// Why it may take it later.
    pub failed: Option<Fault>,
}

/// Why a step was not done.
enum Undone {
    /// The server does not take this mail.
    Refused(String),
    /// It may do so later.
    Failed(Fault),
}

/// Finds the addresses of a name.
type LookUp = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// A mail server.
pub struct Smtp {
    host: String,
    port: u16,
    tls: Tls,
    credentials: Option<Credentials>,
    password: Option<Secret>,
    reach: Reach,
    look_up: LookUp,
}

impl Smtp {
    /// The server of `options`; `ca` names a file of certificates in place of those of the system.
    /// Connects to nothing yet.
    pub fn new(options: &EmailOptions, ca: Option<&Path>, reach: Reach) -> Result<Smtp, Fault> {
        let tls = match options.encryption {
            Encryption::None => Tls::None,
            Encryption::Tls => Tls::Wrapper(parameters(&options.host, ca)?),
            Encryption::StartTls => Tls::Required(parameters(&options.host, ca)?),
        };
        let credentials = options
            .login
            .as_ref()
            .map(|(user, password)| Credentials::new(user.clone(), password.expose().to_owned()));
        Ok(Smtp {
            host: options.host.clone(),
            port: options.port,
            tls,
            credentials,
            password: options.login.as_ref().map(|(_, password)| password.clone()),
            reach,
            look_up: |host, port| Ok((host, port).to_socket_addrs()?.collect()),
        })
    }

    /// Sends a mail to its receivers but those at the places `without`. Blocks up to the time
    /// limits of the protocol.
    pub fn send(&self, message: &Message, without: &BTreeSet<usize>) -> Handed {
        let mut handed = Handed::default();
        match self.try_send(message, without, &mut handed) {
            Ok(()) => {}
            Err(Undone::Refused(what)) => handed.refused.push(what),
            Err(Undone::Failed(fault)) => handed.failed = Some(fault),
        }
        handed
    }

    fn try_send(
        &self,
        message: &Message,
        without: &BTreeSet<usize>,
        handed: &mut Handed,
    ) -> Result<(), Undone> {
        let addresses = self.addresses().map_err(Undone::Failed)?;
        let connected = self.connected(&addresses);
        let mut connection = connected.map_err(|error| self.undone(&error, ""))?;
        let done = self.transact(&mut connection, message, without, handed);
        connection.abort();
        done
    }

    /// The addresses of the server, all of which may be asked.
    fn addresses(&self) -> Result<Vec<SocketAddr>, Fault> {
        let what = |what: &str| format!("the mail server {}: {what}", self.host);
        let remedy = "check the address of the server and the name server";
        let addresses = (self.look_up)(&self.host, self.port)
            .map_err(|error| Fault::new(what(&one_line(&error.to_string())), remedy))?;
        if addresses.is_empty() {
            return Err(Fault::new(what("its name has no address"), remedy));
        }
        match addresses.iter().map(SocketAddr::ip).find(|ip| !self.reach.allows(*ip)) {
            Some(refused) => Err(Fault::new(what(&self.reach.refusal(refused)), "")),
            None => Ok(addresses),
        }
    }

    fn connected(&self, addresses: &[SocketAddr]) -> Result<SmtpConnection, Error> {
        let name = ClientId::default();
        let wrapper = match &self.tls {
            Tls::Wrapper(parameters) => Some(parameters),
            _ => None,
        };
        let mut connection = SmtpConnection::connect(addresses, Some(STEP), &name, wrapper, None)?;
        if let Tls::Required(parameters) = &self.tls {
            connection.starttls(parameters, &name)?;
        }
        if let Some(credentials) = &self.credentials {
            connection.auth(DEFAULT_MECHANISMS, credentials)?;
        }
        Ok(connection)
    }

    /// Names the sender and the receivers, and sends the mail if the server takes it for any.
    fn transact(
        &self,
        connection: &mut SmtpConnection,
        message: &Message,
        without: &BTreeSet<usize>,
        handed: &mut Handed,
    ) -> Result<(), Undone> {
        let (envelope, bytes) = (message.envelope(), message.formatted());
        let server = connection.server_info();
        let takes_utf8 = server.supports_feature(Extension::SmtpUtfEight);
        let takes_8bit = server.supports_feature(Extension::EightBitMime);
        let mut parameters = Vec::new();
        let mut named = envelope.from().into_iter().chain(envelope.to());
        if takes_utf8 && named.any(|address| !address.to_string().is_ascii()) {
            parameters.push(MailParameter::SmtpUtfEight);
        }
        if takes_8bit && !bytes.is_ascii() {
            parameters.push(MailParameter::Body(MailBodyParameter::EightBitMime));
        }
        let sender = Mail::new(envelope.from().cloned(), parameters);
        connection.command(sender).map_err(|error| self.undone(&error, ""))?;
        let begun = Instant::now();
        let mut accepted = BTreeSet::new();
        let receivers = envelope.to().iter().enumerate();
        for (place, address) in receivers.filter(|(place, _)| !without.contains(place)) {
            let of = format!(" for {address}");
            if !takes_utf8 && !of.is_ascii() {
                let why = "the server takes no address with such letters (SMTPUTF8)";
                handed.refused.push(self.what(&of, why));
                continue;
            }
            if begun.elapsed() > RECEIVERS_TIME {
                let fault = Fault::new(self.what(&of, "the server takes too long"), "");
                handed.failed = Some(fault);
                break;
            }
            let Err(error) = connection.command(Rcpt::new(address.clone(), Vec::new())) else {
                accepted.insert(place);
                continue;
            };
            match self.undone(&error, &of) {
                // Without an answer there is no connection any more.
                undone if error.status().is_none() => return Err(undone),
                Undone::Refused(what) => handed.refused.push(what),
                Undone::Failed(fault) => handed.failed = Some(fault),
            }
        }
        if accepted.is_empty() {
            return Ok(());
        }
        connection.command(Data).map_err(|error| self.undone(&error, ""))?;
        connection.message(&bytes).map_err(|error| self.undone(&error, ""))?;
        handed.taken = accepted;
        Ok(())
    }

    /// What an error means, `of` a receiver.
    fn undone(&self, error: &Error, of: &str) -> Undone {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            // Writing to a text cannot fail.
            let _ = write!(text, ": {cause}");
            source = cause.source();
        }
        if let Some(password) = &self.password {
            text = password.hidden_in(&text);
        }
        let what = self.what(of, &text);
        // A permanent answer to the login may be corrected; one to the mail itself stays.
        let is_login =
            error.status().is_some_and(|code| matches!(u16::from(code), 530 | 534 | 535 | 538));
        if error.is_permanent() && !is_login {
            return Undone::Refused(what);
        }
        let remedy = match (is_login, error.is_tls()) {
            (true, _) => "correct user and password of the notifier",
            (_, true) => "check `tls` and `ca` of the notifier",
            _ => "check that the server runs, its address and the network",
        };
        Undone::Failed(Fault::new(what, remedy))
    }

    fn what(&self, of: &str, why: &str) -> String {
        let why = cut_chars(&one_line(why), ANSWER_CHARS_MAX);
        format!("the mail server {}:{}{}: {why}", self.host, self.port, one_line(of))
    }
}

fn parameters(host: &str, ca: Option<&Path>) -> Result<TlsParameters, Fault> {
    let pem = cluster::engines::roots::pem(ca)?;
    let failed = |error: Error| {
        Fault::new(format!("TLS cannot be set up: {error}"), "check the certificates of `ca`")
    };
    TlsParameters::builder(host.to_owned())
        .certificate_store(CertificateStore::None)
        .add_root_certificate(Certificate::from_pem(&pem).map_err(failed)?)
        .build_rustls()
        .map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU16, AtomicUsize, Ordering};

    use super::super::tests::smtp_server;
    use super::*;

    static PORT: AtomicU16 = AtomicU16::new(0);
    static LOOK_UPS: AtomicUsize = AtomicUsize::new(0);

    fn smtp(reach: Reach, look_up: LookUp) -> Smtp {
        let mailbox: lettre::message::Mailbox = "a@example.com".parse().unwrap();
        let options = EmailOptions {
            // No name server knows it.
            host: "mail.invalid".to_owned(),
            port: 25,
            encryption: Encryption::None,
            login: None,
            from: mailbox.clone(),
            to: vec![mailbox],
        };
        Smtp { look_up, ..Smtp::new(&options, None, reach).unwrap() }
    }

    fn message() -> Message {
        let mailbox: lettre::message::Mailbox = "a@example.com".parse().unwrap();
        let message = Message::builder().from(mailbox.clone()).to(mailbox);
        message.body("text".to_owned()).unwrap()
    }

    #[test]
    fn the_address_that_is_checked_is_the_one_that_is_asked() {
        let (port, receiver) = smtp_server(&[]);
        PORT.store(port, Ordering::SeqCst);
        let smtp = smtp(Reach::Local, |host, _| {
            assert_eq!(host, "mail.invalid");
            // A second look-up would find an address that is refused.
            Ok(vec![match LOOK_UPS.fetch_add(1, Ordering::SeqCst) {
                0 => ([127, 0, 0, 1], PORT.load(Ordering::SeqCst)).into(),
                _ => ([169, 254, 169, 254], 25).into(),
            }])
        });
        let handed = smtp.send(&message(), &BTreeSet::new());
        assert_eq!(handed.taken, BTreeSet::from([0]), "{handed:?}");
        receiver.recv().unwrap();
        assert_eq!(LOOK_UPS.load(Ordering::SeqCst), 1);
        let handed = smtp.send(&message(), &BTreeSet::new());
        assert!(handed.failed.unwrap().what.contains("169.254.169.254 is refused"));
    }

    #[test]
    fn a_name_that_cannot_be_looked_up_is_not_asked() {
        fn failing(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
            Err(io::Error::other("no name server"))
        }
        fn empty(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
            Ok(Vec::new())
        }
        for (look_up, part) in
            [(failing as LookUp, "no name server"), (empty as LookUp, "no address")]
        {
            let handed = smtp(Reach::Outside, look_up).send(&message(), &BTreeSet::new());
            let fault = handed.failed.unwrap();
            assert!(fault.what.contains(part) && handed.taken.is_empty(), "{fault}");
        }
    }
}

//! Users by certificates of clients, over real connections: curl shows certificates to the real
//! binary.

use std::path::PathBuf;
use std::process::{Command, Output};

use rcgen::{DnType, ExtendedKeyUsagePurpose, SanType};
use serde_json::{Value, json};

use crate::common::{Answer, Server};
use crate::senders::authority::{Authority, Issued};

/// A token whose SHA-256 is in the configuration.
const TOKEN: &str = "lgs_a-token-of-this-test";
const SHA256: &str = "4cac7d74ac4e8a01b09d3db7c46970133562d91e891ced6729d859fb3d0e5a48";

fn config(server: &Issued, clients: &Authority, more: &str) -> String {
    format!(
        "[http_tls]\ncertificate = '{}'\nkey = '{}'\nclient_ca = '{}'\n{more}\n\
         [[tokens]]\nname = 'reader'\nsha256 = '{SHA256}'\nrole = 'read'\n\
         [[access.groups]]\ngroup = 'senders'\nfrom = 'certificate'\nrole = 'ingest'\n\
         [[access.groups]]\ngroup = 'ops'\nfrom = 'certificate'\nrole = 'operate'\n",
        server.certificate.display(),
        server.key.display(),
        clients.certificate().display(),
    )
}

/// A certificate of a client with a common name, a unit and an address.
fn client(authority: &Authority, name: &str, unit: &str) -> Issued {
    authority.issue_as(name, |params| {
        params.distinguished_name.push(DnType::OrganizationalUnitName, unit);
        let email = format!("{name}@example.com").try_into().unwrap();
        params.subject_alt_names = vec![SanType::Rfc822Name(email)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    })
}

/// curl, which trusts an authority and may have a certificate.
struct Curl<'a> {
    server: &'a Server,
    ca: PathBuf,
}

impl Curl<'_> {
    fn run(&self, client: Option<&Issued>, paths: &[&str], arguments: &[&str]) -> Output {
        let mut command = Command::new("curl");
        command.args(["-s", "-S", "-i", "--raw", "--max-time", "300", "--cacert"]).arg(&self.ca);
        if let Some(client) = client {
            command.arg("--cert").arg(&client.certificate).arg("--key").arg(&client.key);
        }
        command.args(arguments);
        command.args(paths.iter().map(|path| format!("https://{}{path}", self.server.http)));
        command.output().unwrap()
    }

    fn get(&self, client: Option<&Issued>, path: &str, arguments: &[&str]) -> Answer {
        let output = self.run(client, &[path], arguments);
        assert!(output.status.success(), "{path}: {output:?}");
        Answer::read(&*output.stdout).unwrap()
    }

    /// Name and role that the server sees.
    fn me(&self, client: Option<&Issued>, arguments: &[&str]) -> (Value, Value) {
        let me = self.get(client, "/api/v1/me", arguments).json();
        (me["name"].clone(), me["role"].clone())
    }

    /// Whether a connection with that certificate is refused.
    fn is_refused(&self, client: Option<&Issued>) -> bool {
        !self.run(client, &["/health"], &[]).status.success()
    }
}

#[test]
fn a_certificate_names_its_user() {
    let (ours, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let issued = ours.issue("server");
    let optional = config(&issued, &clients, "client_certificates = 'optional'");
    let server = Server::start_with(&[], &optional);
    let curl = Curl { server: &server, ca: ours.certificate() };
    let sender = client(&clients, "shipper", "senders");
    let operator = client(&clients, "ann", "ops");
    let cook = client(&clients, "eve", "cooks");

    assert_eq!(curl.me(Some(&sender), &[]), (json!("shipper@certificate"), json!("ingest")));
    assert_eq!(curl.me(Some(&operator), &[]), (json!("ann@certificate"), json!("operate")));
    assert_eq!(curl.me(None, &[]), (Value::Null, Value::Null));
    let lines = ["--data-binary", "a line\n"];
    assert_eq!(curl.get(Some(&sender), "/insert/lines", &lines).status, 200);
    assert_eq!(curl.get(None, "/insert/lines", &lines).status, 401);
    assert_eq!(curl.get(Some(&sender), "/api/v1/status", &[]).status, 403);
    assert_eq!(curl.get(Some(&operator), "/api/v1/status", &[]).status, 200);
    // Each request of a connection that stays open has the user of the connection.
    let twice = curl.run(
        Some(&operator),
        &["/api/v1/status", "/api/v1/status"],
        &["-o", "/dev/null", "-o", "/dev/null", "-w", "%{http_code} "],
    );
    assert_eq!(twice.stdout, b"200 200 ", "{twice:?}");
    // Old and new versions of TLS.
    for version in [&["--tls-max", "1.2"][..], &["--tlsv1.3"]] {
        assert_eq!(curl.me(Some(&operator), version).0, "ann@certificate", "{version:?}");
    }
    // A rule is needed; without one the certificate is refused, and said so in the log.
    let refused = curl.get(Some(&cook), "/api/v1/status", &[]);
    assert_eq!(refused.status, 403);
    server.wait_for_log("no group of eve@certificate may log in here");
    // A token counts before it, and a wrong one is wrong.
    let bearer = format!("Authorization: Bearer {TOKEN}");
    assert_eq!(curl.me(Some(&operator), &["-H", &bearer]), (json!("reader"), json!("read")));
    let wrong = ["-H", "Authorization: Bearer wrong"];
    assert_eq!(curl.get(Some(&operator), "/api/v1/status", &wrong).status, 401);

    // Certificates that nobody vouches for make no connection, whatever they say.
    let stranger = client(&strangers, "ann", "ops");
    let expired = clients.issue_as("old", |params| {
        params.distinguished_name.push(DnType::OrganizationalUnitName, "ops");
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let of_server = clients.issue_as("site", |params| {
        params.distinguished_name.push(DnType::OrganizationalUnitName, "ops");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    for (what, issued) in [("stranger", stranger), ("expired", expired), ("server", of_server)] {
        assert!(curl.is_refused(Some(&issued)), "{what}");
    }
    assert!(!curl.is_refused(None));

    // A rule that is taken away ends what it allowed at once.
    let file = server.data_dir().join("loginson.toml");
    std::fs::write(&file, optional.replace("group = 'ops'", "group = 'nobody'")).unwrap();
    let pid = rustix::process::Pid::from_raw(server.pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    server.wait_for("the other rules", |_| {
        curl.get(Some(&operator), "/api/v1/status", &[]).status == 403
    });
    assert_eq!(curl.me(Some(&sender), &[]).1, "ingest");
}

#[test]
fn certificates_that_are_required() {
    let (ours, clients) = (Authority::new(), Authority::new());
    let issued = ours.issue("server");
    let more = "client_certificates = 'required'\nclient_name = 'email'";
    let server = Server::start_with(&[], &config(&issued, &clients, more));
    let curl = Curl { server: &server, ca: ours.certificate() };
    assert!(curl.is_refused(None));
    let operator = client(&clients, "ann", "ops");
    let name = json!("ann@example.com@certificate");
    assert_eq!(curl.me(Some(&operator), &[]), (name, json!("operate")));
    // Without a name of the kind that is asked for nobody is named.
    let nameless = clients.issue_as("ann", |params| {
        params.distinguished_name.push(DnType::OrganizationalUnitName, "ops");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    });
    assert_eq!(curl.get(Some(&nameless), "/api/v1/status", &[]).status, 403);
}

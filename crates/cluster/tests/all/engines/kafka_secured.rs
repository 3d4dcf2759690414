//! TLS, logins and certificates of clients, on a real broker.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::engines::kafka::{Config, Log, Mechanism, Sasl, Tls};
use cluster::engines::roots::Identity;
use cluster::engines::{ErrorKind, Secret};

use super::kafka::{patient, settings};
use super::server::Server;

/// Files of a certificate of `localhost` and its key.
struct Certificate {
    certificate: PathBuf,
    key: PathBuf,
}

fn certificate(folder: &Path, name: &str) -> Certificate {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = |kind: &str, text: &str| {
        let file = folder.join(format!("{name}-{kind}.pem"));
        std::fs::write(&file, text).unwrap();
        file
    };
    // Kafka wants both in one file.
    let both = issued.signing_key.serialize_pem() + &issued.cert.pem();
    Certificate { certificate: file("certificate", &issued.cert.pem()), key: file("key", &both) }
}

/// Starts a broker that also listens for TLS with logins (the port above the first one), and for
/// TLS with certificates of clients (the next one).
fn start(folder: &Path, server: &mut Server) -> (Certificate, Certificate) {
    let (own, client) = (certificate(folder, "broker"), certificate(folder, "client"));
    let port = server.port;
    let module = "org.apache.kafka.common.security";
    let login = |kind: &str, rest: &str| {
        format!("listener.name.logins.{kind}.sasl.jaas.config={module}.{rest}")
    };
    let settings = [
        format!(
            "listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{},\
             LOGINS://127.0.0.1:{},CERTIFICATES://127.0.0.1:{}",
            port + 100,
            port + 1,
            port + 2
        ),
        format!(
            "advertised.listeners=PLAINTEXT://127.0.0.1:{port},LOGINS://localhost:{},\
             CERTIFICATES://localhost:{}",
            port + 1,
            port + 2
        ),
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,LOGINS:SASL_SSL,\
         CERTIFICATES:SSL"
            .to_owned(),
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512".to_owned(),
        login("plain", "plain.PlainLoginModule required user_loginson=\"hunter22\";"),
        login("scram-sha-256", "scram.ScramLoginModule required;"),
        login("scram-sha-512", "scram.ScramLoginModule required;"),
        "ssl.keystore.type=PEM".to_owned(),
        format!("ssl.keystore.location={}", own.key.display()),
        "listener.name.certificates.ssl.client.auth=required".to_owned(),
        "listener.name.certificates.ssl.truststore.type=PEM".to_owned(),
        format!(
            "listener.name.certificates.ssl.truststore.location={}",
            client.certificate.display()
        ),
    ];
    let file = folder.join("settings");
    std::fs::write(&file, settings.join("\n") + "\n").unwrap();
    server.set("KAFKA_SETTINGS", file.to_str().unwrap());
    server.run("start");
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let password = format!("{mechanism}=[password=hunter22]");
        let user = ["--alter", "--entity-type", "users", "--entity-name", "loginson"];
        let arguments = [user.as_slice(), &["--add-config", &password]].concat();
        server.tool("kafka.admin.ConfigCommand", &arguments);
    }
    (own, client)
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn tls_logins_and_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = Server::kafka(3);
    let (own, client) = start(folder.path(), &mut server);
    let config = |port: u16, tls: Option<Tls>, sasl: Option<Sasl>| Config {
        tls,
        sasl,
        ..patient(format!("localhost:{port}"), "secure")
    };
    let trusting = Tls { ca: Some(own.certificate.clone()), identity: None };
    let sasl = |mechanism, password: &str| {
        let password = Secret::new(password);
        Some(Sasl { mechanism, user: "loginson".to_owned(), password })
    };
    let mut stored = 0;
    for mechanism in [Mechanism::Plain, Mechanism::ScramSha256, Mechanism::ScramSha512] {
        let with =
            |password| config(server.port + 1, Some(trusting.clone()), sasl(mechanism, password));
        let log = Log::connect(with("hunter22")).unwrap();
        log.create_topic(&settings(1, 1)).unwrap();
        assert_eq!(log.append(0, &[b"message"]).unwrap(), stored);
        stored += 1;
        assert_eq!(log.read(0, 0, 1, Duration::from_secs(300)).unwrap()[0].offset, 0);
        let error = Log::connect(with("hunter33")).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Refused, "{error}");
        assert!(error.remedy.contains("check `user` and its password"), "{error}");
        assert!(!error.to_string().contains("hunter33"), "{error}");
    }
    let logins = server.port + 1;
    let certificates = server.port + 2;
    let user = || sasl(Mechanism::Plain, "hunter22");
    let system = Some(Tls::default());
    // Each configuration is wrong in one way.
    let mut wrong = Vec::new();
    for (what, config, remedy) in [
        ("nobody vouches for the broker", config(logins, system, user()), "with `ca`"),
        ("a login without TLS", config(logins, None, user()), "set `tls = true`"),
        ("no TLS", config(certificates, None, None), "set `tls = true`"),
        ("no login", config(logins, Some(trusting.clone()), None), "`user` and its password"),
        ("TLS", config(server.port, Some(trusting.clone()), None), "expects TLS"),
        ("no certificate", config(certificates, Some(trusting.clone()), None), "certificate"),
    ] {
        match Log::connect(config) {
            Ok(_) => wrong.push(format!("{what}: connected")),
            Err(error) if !error.remedy.contains(remedy) => wrong.push(format!("{what}: {error}")),
            Err(_) => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");

    // A certificate of the client is a login.
    let identity = Identity { certificate: client.certificate.clone(), key: client.key.clone() };
    let known = Tls { identity: Some(identity), ..trusting.clone() };
    let log = Log::connect(config(certificates, Some(known), None)).unwrap();
    assert_eq!(log.append(0, &[b"message"]).unwrap(), stored);
    // Files are looked at before anything is sent.
    let identity = Identity { certificate: client.certificate, key: own.certificate.clone() };
    let keyless = Tls { identity: Some(identity), ..trusting };
    let error = Log::connect(config(certificates, Some(keyless), None)).unwrap_err();
    assert!(error.what.starts_with("there is no private key in "), "{error}");
}

//! HTTPS with a certificate that only the file in `ca` vouches for.

use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use sinks::Delivered;

use crate::server::read_request;
use crate::sink::{destination, samples};

/// A server for `localhost` that answers each request with 200; its address and certificate.
fn start() -> (String, String) {
    let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let pem = issued.cert.pem();
    let certificate = CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let key = issued.signing_key.serialize_pem();
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut reader = BufReader::new(StreamOwned::new(connection, stream.unwrap()));
            // A client that does not trust the certificate ends the connection.
            while let Ok(Some(_)) = read_request(&mut reader) {
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                if reader.get_mut().write_all(answer).is_err() {
                    break;
                }
            }
        }
    });
    (url, pem)
}

#[test]
fn a_certificate_of_ones_own_is_trusted_if_it_is_given() {
    let (url, pem) = start();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let config = format!("name = \"x\"\nurls = [{url:?}]\nca = {ca:?}\n[json_lines]");
    std::fs::write(&ca, pem).unwrap();
    assert_eq!(destination(&config).deliver(&samples()), Delivered::accepted(2));

    // Another certificate for the same name.
    std::fs::write(&ca, start().1).unwrap();
    let Delivered::Unavailable { fault, .. } = destination(&config).deliver(&samples()) else {
        panic!()
    };
    assert!(fault.what.starts_with(&url), "{fault}");
    assert!(fault.remedy.contains("with `ca`"), "{fault}");
}

#[test]
fn a_file_without_certificates_is_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    let config = format!("name = \"x\"\nurls = [\"https://h\"]\nca = {ca:?}\n[json_lines]");
    for content in [None, Some("nothing"), Some("-----BEGIN CERTIFICATE-----\nx\n")] {
        if let Some(content) = content {
            std::fs::write(&ca, content).unwrap();
        }
        let fault = crate::sink::sink(&config).destination().err().unwrap();
        assert!(fault.remedy.contains("`ca` names a file of certificates"), "{fault}");
    }
}

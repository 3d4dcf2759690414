//! The two ends of an ingest benchmark over TLS. `bulk` is the limit that a collector is compared
//! with: rustls to rustls over loopback, counting the lines only. The only protocol is TLS 1.3 with
//! AES-256-GCM.
//!
//! ```text
//! tls_limit bulk FILE [N]                     sends FILE N times to a sink of its own, large reads decrypted in
//!                                             place (the unbuffered interface); prints what arrived and when
//! tls_limit bulk-buffered FILE [N]            the same with the library's buffered interface
//! tls_limit sink ADDRESS CERTIFICATE KEY      counts lines until the connection ends
//! tls_limit send ADDRESS FILE [N] [--ca CERTIFICATE]
//!                                             sends FILE N times from memory; the server must present exactly the
//!                                             first certificate of the file, if one is given
//! ```

use std::io::{Error, Read, Result, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, ServerConfig, ServerConnection,
    SignatureScheme, StreamOwned,
};

use crate::traffic::{count_lines, number, report};

/// Bytes read and decrypted at once.
const READ_BYTES: usize = 1 << 20;
/// Bytes written at once; the library makes records of 16 KiB of them.
const WRITE_BYTES: usize = 256 << 10;

type Sink = fn(TcpStream, Arc<ServerConfig>) -> Result<(u64, u64)>;

pub(crate) fn main() -> Result<()> {
    let mut args: Vec<String> = crate::arguments().collect();
    let ca = args.iter().position(|arg| arg == "--ca").map(|at| args.drain(at..).nth(1));
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["bulk", file] => bulk(file, 1, unbuffered),
        ["bulk", file, n] => bulk(file, number(n), unbuffered),
        ["bulk-buffered", file] => bulk(file, 1, buffered),
        ["bulk-buffered", file, n] => bulk(file, number(n), buffered),
        ["sink", address, certificate, key] => {
            sink(address, certificate.as_ref(), key.as_ref(), unbuffered)
        }
        ["send", address, file] => send(address, file, 1, ca.flatten()),
        ["send", address, file, n] => send(address, file, number(n), ca.flatten()),
        _ => {
            eprintln!(
                "usage: tls_limit bulk|bulk-buffered FILE [N] | tls_limit sink ADDRESS CERTIFICATE KEY | \
                 tls_limit send ADDRESS FILE [N] [--ca CERTIFICATE]"
            );
            std::process::exit(2);
        }
    }
}

fn bulk(file: &str, times: u64, sink: Sink) -> Result<()> {
    let key = rcgen::KeyPair::generate().map_err(Error::other)?;
    let names = vec!["localhost".to_owned()];
    let params = rcgen::CertificateParams::new(names).map_err(Error::other)?;
    let certificate = params.self_signed(&key).map_err(Error::other)?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(Error::other)?;
    let config = server_config(certificate.der().clone(), key)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| send_to(&address, file, times, None));
        let (socket, _) = listener.accept()?;
        let started = Instant::now();
        let (lines, bytes) = sink(socket, config)?;
        report("bulk", lines, bytes, started.elapsed(), "");
        sending.join().expect("sending does not panic").map(drop)
    })
}

fn sink(address: &str, certificate: &Path, key: &Path, sink: Sink) -> Result<()> {
    let certificate = CertificateDer::from_pem_file(certificate).map_err(Error::other)?;
    let key = PrivateKeyDer::from_pem_file(key).map_err(Error::other)?;
    let config = server_config(certificate, key)?;
    let listener = TcpListener::bind(address)?;
    println!("listening on {}", listener.local_addr()?);
    let (socket, _) = listener.accept()?;
    let started = Instant::now();
    let (lines, bytes) = sink(socket, config)?;
    report("sink", lines, bytes, started.elapsed(), "");
    Ok(())
}

fn send(address: &str, file: &str, times: u64, ca: Option<String>) -> Result<()> {
    let pinned = ca.map(CertificateDer::from_pem_file).transpose().map_err(Error::other)?;
    let started = Instant::now();
    let (lines, bytes) = send_to(address, file, times, pinned)?;
    report("sender", lines, bytes, started.elapsed(), "");
    Ok(())
}

/// Returns once the other side has read everything and closed.
fn send_to(
    address: &str,
    file: &str,
    times: u64,
    pinned: Option<CertificateDer<'static>>,
) -> Result<(u64, u64)> {
    let content = std::fs::read(file)?;
    let provider = Arc::new(provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Pinned { pinned, provider }))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(Error::other)?;
    let connection = ClientConnection::new(Arc::new(config), name).map_err(Error::other)?;
    let mut stream = StreamOwned::new(connection, TcpStream::connect(address)?);
    stream.conn.set_buffer_limit(Some(2 * WRITE_BYTES));
    for _ in 0..times {
        content.chunks(WRITE_BYTES).try_for_each(|chunk| stream.write_all(chunk))?;
    }
    stream.conn.send_close_notify();
    stream.flush()?;
    let _ = stream.read(&mut [0]);
    Ok((count_lines(&content) * times, content.len() as u64 * times))
}

/// Large reads, each decrypted in place.
fn unbuffered(mut socket: TcpStream, config: Arc<ServerConfig>) -> Result<(u64, u64)> {
    let mut tls = UnbufferedServerConnection::new(config).map_err(Error::other)?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut waiting, mut lines, mut bytes) = (0, 0, 0);
    loop {
        let read = socket.read(&mut buffer[waiting..])?;
        if read == 0 {
            return Ok((lines, bytes));
        }
        let (mut from, end) = (0, waiting + read);
        loop {
            let status = tls.process_tls_records(&mut buffer[from..end]);
            let UnbufferedStatus { mut discard, state } = status;
            let mut needs_more = false;
            match state.map_err(Error::other)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(Error::other)?;
                        lines += count_lines(record.payload);
                        bytes += record.payload.len() as u64;
                        discard += record.discard;
                    }
                }
                ConnectionState::EncodeTlsData(mut data) => {
                    let mut wire = Vec::new();
                    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut wire) {
                        wire.resize(size.required_size, 0);
                        data.encode(&mut wire).map_err(Error::other)?;
                    }
                    socket.write_all(&wire)?;
                }
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => return Ok((lines, bytes)),
                _ => needs_more = true,
            }
            from += discard;
            if needs_more {
                break;
            }
        }
        buffer.copy_within(from..end, 0);
        waiting = end - from;
    }
}

/// Small reads, as most programs do.
fn buffered(mut socket: TcpStream, config: Arc<ServerConfig>) -> Result<(u64, u64)> {
    let mut tls = ServerConnection::new(config).map_err(Error::other)?;
    let mut buffer = vec![0; READ_BYTES];
    let (mut lines, mut bytes) = (0, 0);
    loop {
        let state = match tls.wants_read() {
            true if tls.read_tls(&mut socket)? == 0 => return Ok((lines, bytes)),
            _ => tls.process_new_packets().map_err(Error::other)?,
        };
        while tls.wants_write() {
            tls.write_tls(&mut socket)?;
        }
        let mut left = state.plaintext_bytes_to_read();
        while left > 0 {
            let read = tls.reader().read(&mut buffer)?;
            lines += count_lines(&buffer[..read]);
            bytes += read as u64;
            left -= read;
        }
        if state.peer_has_closed() {
            return Ok((lines, bytes));
        }
    }
}

fn server_config(
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>> {
    let config = ServerConfig::builder_with_provider(Arc::new(provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(Error::other)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key);
    Ok(Arc::new(config.map_err(Error::other)?))
}

fn provider() -> CryptoProvider {
    let suites = vec![ring::cipher_suite::TLS13_AES_256_GCM_SHA384];
    CryptoProvider { cipher_suites: suites, ..ring::default_provider() }
}

/// Trusts one certificate, or any: the sent lines are synthetic.
#[derive(Debug)]
struct Pinned {
    pinned: Option<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _chain: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        match &self.pinned {
            Some(pinned) if pinned.as_ref() != shown.as_ref() => {
                Err(rustls::Error::General("the server shows another certificate".into()))
            }
            _ => Ok(ServerCertVerified::assertion()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

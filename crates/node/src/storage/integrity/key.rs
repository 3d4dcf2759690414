//! Keys of Ed25519, as `openssl genpkey -algorithm ed25519` writes them.

use std::fmt;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::storage::backup::destination::Sum;

/// Signs heads. It is shown nowhere.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// A private key as PEM, in PKCS #8.
    pub fn parse(pem: &str) -> Result<SigningKey> {
        let remedy = "make one: openssl genpkey -algorithm ed25519 -out FILE";
        let der = pem_body(pem, "PRIVATE KEY")
            .with_context(|| format!("it is no private key; {remedy}"))?;
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der);
        // What is wrong with it would say something about it.
        let pair =
            pair.ok().with_context(|| format!("it is no private key of Ed25519; {remedy}"))?;
        Ok(SigningKey(pair))
    }

    /// A new one, for tests.
    #[cfg(test)]
    pub(super) fn random() -> SigningKey {
        let document = Ed25519KeyPair::generate_pkcs8(&ring::rand::SystemRandom::new()).unwrap();
        SigningKey(Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap())
    }

    /// The key that its signatures are checked with.
    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key().as_ref().try_into().expect("32 bytes"))
    }

    pub(super) fn sign(&self, message: &[u8]) -> String {
        STANDARD.encode(self.0.sign(message))
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the key of {}", self.public())
    }
}

/// Checks signatures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// A public key as 64 digits, or as PEM.
    pub fn parse(text: &str) -> Result<PublicKey> {
        if let Some(Sum(bytes)) = Sum::parse(text.trim()) {
            return Ok(PublicKey(bytes));
        }
        let remedy =
            "write its 64 digits, or name a file: openssl pkey -in PRIVATE -pubout -out FILE";
        let der = pem_body(text, "PUBLIC KEY")
            .with_context(|| format!("it is no public key; {remedy}"))?;
        // The header of Ed25519 in X.509, then the key (RFC 8410).
        const HEADER: [u8; 12] = [0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
        let key = der.strip_prefix(&HEADER).and_then(|key| key.try_into().ok());
        Ok(PublicKey(key.with_context(|| format!("it is no public key of Ed25519; {remedy}"))?))
    }

    pub(super) fn verifies(&self, message: &[u8], signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, &signature).is_ok()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Sum(self.0).fmt(f)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for PublicKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PublicKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PublicKey, D::Error> {
        let text = String::deserialize(deserializer)?;
        let bytes = Sum::parse(&text).ok_or_else(|| de::Error::custom("a key has 64 digits"))?;
        Ok(PublicKey(bytes.0))
    }
}

/// The bytes between `-----BEGIN kind-----` and its end.
fn pem_body(text: &str, kind: &str) -> Result<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {kind}-----")).context("no PEM")?;
    let (body, _) = rest.split_once(&format!("-----END {kind}-----")).context("no end of PEM")?;
    let body: String = body.split_whitespace().collect();
    ensure!(body.len() < 10_000, "too long");
    STANDARD.decode(body).ok().context("no base64")
}

#[cfg(test)]
mod tests {
    use super::*;

    // By `openssl genpkey -algorithm ed25519`, and `openssl pkey -pubout` of it.
    const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\n\
        MC4CAQAwBQYDK2VwBCIEIHbB2uMUHGJEwv0DqxsBQkM39nJ0hJc0lVn3ndl6B0Jr\n-----END PRIVATE KEY-----\n";

    #[test]
    fn keys_of_openssl_are_read() {
        let key = SigningKey::parse(PRIVATE).unwrap();
        let public = key.public();
        let signature = key.sign(b"text");
        assert!(public.verifies(b"text", &signature));
        assert!(!public.verifies(b"texs", &signature));
        assert!(!SigningKey::random().public().verifies(b"text", &signature));
        assert_eq!(PublicKey::parse(&public.to_string()).unwrap(), public);
        let mut der = vec![0x30, 0x2a, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 3, 0x21, 0];
        der.extend(public.0);
        let pem = format!(
            "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
            STANDARD.encode(der)
        );
        assert_eq!(PublicKey::parse(&pem).unwrap(), public);
        for wrong in ["", "abc", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"] {
            assert!(SigningKey::parse(wrong).unwrap_err().to_string().contains("openssl genpkey"));
            assert!(PublicKey::parse(wrong).unwrap_err().to_string().contains("-pubout"));
        }
        assert!(!format!("{key:?}").contains("HbB2"));
    }
}

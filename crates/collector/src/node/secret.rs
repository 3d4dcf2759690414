//! The secret that stores share with their collectors, and how each side proves that it knows it.
//!
//! The secret itself is never sent. Each side proves it by an HMAC-SHA256 over both greetings,
//! which hold a nonce of each side, and over its next message. So a proof is valid only on its
//! connection, and the proof of one side is not valid for the other.
//!
//! Left out: encryption, and integrity of the data behind the greeting. An attacker who can change
//! bytes in transit can change that data; use a tunnel against this.

use std::fmt;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 16;
/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;
/// The shortest secret. An overheard proof must not allow finding the secret by brute force.
pub const SECRET_BYTES_MIN: usize = 16;
/// A longer text is probably the wrong file.
pub const SECRET_BYTES_MAX: usize = 4096;

/// A number that is used once.
pub type Nonce = [u8; NONCE_BYTES];
/// The proof that a side knows the secret.
pub type Proof = [u8; PROOF_BYTES];

/// The side that proves; a proof of a collector is not valid for a store.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    /// A collector; the proof covers the first number it may send.
    Collector,
    /// A store; the proof covers the number up to which it holds frames.
    Store,
}

/// The shared secret.
pub struct Secret(hmac::Key);

/// The secret is not printed.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Takes the text of a file or variable, without the white space around it.
    pub fn new(text: &[u8]) -> Result<Secret, String> {
        let secret = text.trim_ascii();
        match secret.len() {
            SECRET_BYTES_MIN..=SECRET_BYTES_MAX => {
                Ok(Secret(hmac::Key::new(hmac::HMAC_SHA256, secret)))
            }
            bytes => Err(format!(
                "a secret of {bytes} bytes; it must have {SECRET_BYTES_MIN} to \
                 {SECRET_BYTES_MAX}: make one by `openssl rand -hex 32`"
            )),
        }
    }

    /// The proof of a side over the greetings and a number.
    pub fn prove(&self, side: Side, greetings: &[u8], number: u64) -> Proof {
        let tag = hmac::sign(&self.0, &message(side, greetings, number));
        tag.as_ref().try_into().expect("the tag of SHA-256 has 32 bytes")
    }

    /// Whether `proof` is the proof of that side. Runs in constant time.
    pub fn verify(&self, side: Side, greetings: &[u8], number: u64, proof: &Proof) -> bool {
        hmac::verify(&self.0, &message(side, greetings, number), proof).is_ok()
    }
}

fn message(side: Side, greetings: &[u8], number: u64) -> Vec<u8> {
    let label: &[u8] = match side {
        Side::Collector => b"loginson node 2, collector\0",
        Side::Store => b"loginson node 2, store\0",
    };
    [label, greetings, &number.to_le_bytes()].concat()
}

/// Draws a nonce.
pub fn nonce() -> Nonce {
    let mut nonce = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut nonce).expect("the operating system has random numbers");
    nonce
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_good_for_its_side_and_connection_alone() {
        let secret = Secret::new(b" 0123456789abcdef\n").unwrap();
        let same = Secret::new(b"0123456789abcdef").unwrap();
        let other = Secret::new(b"0123456789abcdeg").unwrap();
        let proof = secret.prove(Side::Collector, b"greetings", 7);
        assert!(same.verify(Side::Collector, b"greetings", 7, &proof));
        assert!(!other.verify(Side::Collector, b"greetings", 7, &proof));
        assert!(!same.verify(Side::Store, b"greetings", 7, &proof));
        assert!(!same.verify(Side::Collector, b"greetingt", 7, &proof));
        assert!(!same.verify(Side::Collector, b"greetings", 8, &proof));
        for at in 0..PROOF_BYTES {
            let mut changed = proof;
            changed[at] ^= 1;
            assert!(!same.verify(Side::Collector, b"greetings", 7, &changed));
        }
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_ne!(nonce(), nonce());
    }

    #[test]
    fn short_and_long_secrets_are_refused() {
        for (bytes, is_taken) in [(0, false), (15, false), (16, true), (4096, true), (4097, false)]
        {
            let text = vec![b'x'; bytes];
            assert_eq!(Secret::new(&text).is_ok(), is_taken, "{bytes}");
            let error = Secret::new(&text).err().unwrap_or_default();
            assert!(is_taken || error.contains("openssl rand"), "{error}");
        }
        assert!(Secret::new(&[b' '; 40]).is_err(), "white space is none");
    }
}

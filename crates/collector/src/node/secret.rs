//! The secret that stores share with their collectors, and how each side proves that it knows it.
//!
//! Neither side sends it: each proves it by an HMAC-SHA256 over both greetings, with a nonce of
//! either side, and over what it says next. So a proof is of use on its connection alone, and one
//! side's is none of the other's.
//!
//! Left out: encryption, and protection of what comes behind the greeting. Whoever can change bytes
//! on the way can do so; for that there are tunnels.

use std::fmt;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 16;
/// Bytes of a proof.
pub const PROOF_BYTES: usize = 32;
/// The shortest secret: a proof that is overheard must not be found by trying.
pub const SECRET_BYTES_MIN: usize = 16;
/// A longer one is none, but another file.
pub const SECRET_BYTES_MAX: usize = 4096;

/// A number that is used once.
pub type Nonce = [u8; NONCE_BYTES];
/// What shows that a side knows the secret.
pub type Proof = [u8; PROOF_BYTES];

/// Which side proves; a collector's proof is no proof of a store.
#[derive(Clone, Copy, Debug)]
pub enum Side {
    /// A collector, over the number of its start.
    Collector,
    /// A store, over what it holds.
    Store,
}

/// A secret.
pub struct Secret(hmac::Key);

/// It is not shown.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

impl Secret {
    /// Takes it as it stands in a file or variable: without white space around it.
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

    /// A side's proof over the greetings and a number.
    pub fn prove(&self, side: Side, greetings: &[u8], number: u64) -> Proof {
        let tag = hmac::sign(&self.0, &message(side, greetings, number));
        tag.as_ref().try_into().expect("the tag of SHA-256 has 32 bytes")
    }

    /// Whether it is that side's proof; it takes as long whichever byte differs.
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

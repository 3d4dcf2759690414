//! SASL SCRAM (RFC 5802, RFC 7677): proves the password without sending it, and verifies that the
//! broker knows it too. Left out: preparation of passwords beyond ASCII, and channel binding.

use std::num::NonZeroU32;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

use crate::secret::Secret;

/// A broker that asks for more rounds of hashing is refused; they would take a second and more.
const ITERATIONS_MAX: u32 = 1_000_000;

/// The hash of the mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hash {
    Sha256,
    Sha512,
}

impl Hash {
    fn digest(self) -> &'static digest::Algorithm {
        match self {
            Hash::Sha256 => &digest::SHA256,
            Hash::Sha512 => &digest::SHA512,
        }
    }

    fn hmac(self, key: &[u8], message: &[u8]) -> hmac::Tag {
        let algorithm = match self {
            Hash::Sha256 => hmac::HMAC_SHA256,
            Hash::Sha512 => hmac::HMAC_SHA512,
        };
        hmac::sign(&hmac::Key::new(algorithm, key), message)
    }

    fn derive(self, password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Vec<u8> {
        let algorithm = match self {
            Hash::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Hash::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let mut derived = vec![0; self.digest().output_len()];
        pbkdf2::derive(algorithm, iterations, salt, password, &mut derived);
        derived
    }
}

/// A login under way.
pub struct Scram {
    hash: Hash,
    nonce: String,
    first: String,
}

/// The last message of the client, and what the broker has to answer.
pub struct Last {
    pub message: String,
    pub answer: String,
}

impl Scram {
    /// A login; `nonce` is printable, without commas, and never used before.
    pub fn new(hash: Hash, user: &str, nonce: String) -> Scram {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let first = format!("n={user},r={nonce}");
        Scram { hash, nonce, first }
    }

    /// The first message of the client.
    pub fn first(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// Answers the broker's first message; `None` if that message is not one of SCRAM.
    pub fn last(&self, password: &Secret, server_first: &str) -> Option<Last> {
        let (mut nonce, mut salt, mut iterations) = (None, None, None);
        for part in server_first.split(',') {
            match part.split_once('=')? {
                ("r", value) => nonce = Some(value),
                ("s", value) => salt = STANDARD.decode(value).ok(),
                ("i", value) => iterations = value.parse::<u32>().ok(),
                _ => {}
            }
        }
        let nonce = nonce.filter(|nonce| nonce.starts_with(&self.nonce))?;
        let iterations = iterations.filter(|count| *count <= ITERATIONS_MAX)?;
        let salted =
            self.hash.derive(password.expose().as_bytes(), &salt?, NonZeroU32::new(iterations)?);
        let without_proof = format!("c=biws,r={nonce}");
        let message = format!("{},{server_first},{without_proof}", self.first);
        let client_key = self.hash.hmac(&salted, b"Client Key");
        let stored_key = digest::digest(self.hash.digest(), client_key.as_ref());
        let signature = self.hash.hmac(stored_key.as_ref(), message.as_bytes());
        let proof: Vec<u8> =
            client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        let server_key = self.hash.hmac(&salted, b"Server Key");
        let answer = self.hash.hmac(server_key.as_ref(), message.as_bytes());
        Some(Last {
            message: format!("{without_proof},p={}", STANDARD.encode(proof)),
            answer: format!("v={}", STANDARD.encode(answer)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 7677.
    #[test]
    fn a_login_with_sha256() {
        let scram = Scram::new(Hash::Sha256, "user", "rOprNGfwEbeRWgbNEkqO".to_owned());
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let server_first = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                            s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";
        let last = scram.last(&Secret::new("pencil"), server_first).unwrap();
        assert_eq!(
            last.message,
            "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
             p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        );
        assert_eq!(last.answer, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn other_messages_are_refused() {
        let scram = Scram::new(Hash::Sha512, "a,b", "nonce".to_owned());
        assert_eq!(scram.first(), "n,,n=a=2Cb,r=nonce");
        for message in [
            "",
            "e=unknown-user",
            "r=other,s=W22Z,i=4096",
            "r=nonce1,s=W22Z,i=0",
            "r=nonce1,s=W22Z,i=1000001",
            "r=nonce1,s=?,i=1",
        ] {
            assert!(scram.last(&Secret::new("pencil"), message).is_none(), "{message}");
        }
    }
}

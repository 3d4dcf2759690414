//! Signed tokens for tests, by keys of each kind.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256,
    RSA_PSS_SHA256, RsaKeyPair,
};
use serde_json::{Value, json};

use crate::wire::clock::now_ns;

/// Made with `openssl genpkey`, for these tests alone; `ring` makes no RSA keys.
const RSA: &[u8] = include_bytes!("../../../../../testdata/oidc/rsa-2048.pk8");

/// A private key.
pub(crate) enum Signer {
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
    Rsa(RsaKeyPair),
}

pub(crate) fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

impl Signer {
    pub(crate) fn ec() -> Signer {
        let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        Signer::Ec(EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).unwrap())
    }

    pub(crate) fn ed() -> Signer {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Signer::Ed(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    pub(crate) fn rsa() -> Signer {
        Signer::Rsa(RsaKeyPair::from_pkcs8(RSA).unwrap())
    }

    /// The public key as a provider tells it.
    pub(crate) fn key(&self, kid: &str) -> Value {
        let mut key = match self {
            Signer::Ec(pair) => {
                let point = pair.public_key().as_ref();
                json!({
                    "kty": "EC", "crv": "P-256", "x": encoded(&point[1..33]),
                    "y": encoded(&point[33..]),
                })
            }
            Signer::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": encoded(pair.public_key()) })
            }
            Signer::Rsa(pair) => {
                let parts = PublicKeyComponents::<Vec<u8>>::from(pair.public());
                json!({ "kty": "RSA", "n": encoded(parts.n), "e": encoded(parts.e) })
            }
        };
        key["kid"] = kid.into();
        key["use"] = "sig".into();
        key
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let (bytes, random) = (message.as_bytes(), SystemRandom::new());
        let signature = match self {
            Signer::Ec(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
            Signer::Ed(pair) => pair.sign(bytes).as_ref().to_vec(),
            Signer::Rsa(pair) => {
                let mut signature = vec![0; pair.public().modulus_len()];
                let padding: &dyn ring::signature::RsaEncoding = match header["alg"] == "PS256" {
                    true => &RSA_PSS_SHA256,
                    false => &RSA_PKCS1_SHA256,
                };
                pair.sign(padding, &random, bytes, &mut signature).unwrap();
                signature
            }
        };
        format!("{message}.{}", encoded(signature))
    }
}

/// The claims of a token that is as expected.
pub(crate) fn claims(issuer: &str, nonce: &str) -> Value {
    let now_s = now_ns() / 1_000_000_000;
    json!({
        "iss": issuer, "aud": "loginson", "sub": "7", "nonce": nonce, "iat": now_s,
        "exp": now_s + 300, "preferred_username": "ann", "groups": ["ops", "staff"],
    })
}

//! ID tokens: JSON Web Tokens (RFC 7519) with a signature of one of [`ALGORITHMS`].
//!
//! `ring` verifies signatures. The header chooses among keys and algorithms, but the list of
//! algorithms is ours: there is none without a signature, and none with a shared secret, so a token
//! cannot be signed with the public key as a secret. Claims are read only after the signature was
//! verified. docs/decisions has the comparison with libraries.
//!
//! Left out: encrypted tokens (JWE), `at_hash` (the access token comes in the same answer over
//! TLS), keys on other curves.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
    RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
    RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512, RsaParameters, RsaPublicKeyComponents,
    UnparsedPublicKey, VerificationAlgorithm,
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// How far the clocks of provider and server may differ, in seconds.
const SKEW_S: i64 = 60;
/// Keys of a provider. Further ones are not looked at.
const KEYS_MAX: usize = 100;
/// Bytes of a token. A longer one is refused.
const TOKEN_BYTES_MAX: usize = 256 << 10;

enum Family {
    Rsa(&'static RsaParameters),
    Ec(&'static str, usize, &'static dyn VerificationAlgorithm),
    Ed,
}

/// The algorithms by their names in headers.
fn family(algorithm: &str) -> Option<Family> {
    Some(match algorithm {
        "RS256" => Family::Rsa(&RSA_PKCS1_2048_8192_SHA256),
        "RS384" => Family::Rsa(&RSA_PKCS1_2048_8192_SHA384),
        "RS512" => Family::Rsa(&RSA_PKCS1_2048_8192_SHA512),
        "PS256" => Family::Rsa(&RSA_PSS_2048_8192_SHA256),
        "PS384" => Family::Rsa(&RSA_PSS_2048_8192_SHA384),
        "PS512" => Family::Rsa(&RSA_PSS_2048_8192_SHA512),
        "ES256" => Family::Ec("P-256", 32, &ECDSA_P256_SHA256_FIXED),
        "ES384" => Family::Ec("P-384", 48, &ECDSA_P384_SHA384_FIXED),
        "EdDSA" | "Ed25519" => Family::Ed,
        _ => return None,
    })
}

/// The public keys of a provider (RFC 7517).
#[derive(Debug, Deserialize)]
pub struct Keys {
    keys: Vec<Value>,
}

/// A key; one that lacks a field of these is of a kind that is not supported.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Key {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    purpose: Option<String>,
    alg: Option<String>,
    crv: String,
    n: String,
    e: String,
    x: String,
    y: String,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

/// What a token must say.
pub struct Expected<'a> {
    /// Who made it.
    pub issuer: &'a str,
    /// For whom.
    pub client_id: &'a str,
    /// For which login; `None` for one that came with a refresh.
    pub nonce: Option<&'a str>,
    /// The time, in seconds since 1970.
    pub now_s: i64,
}

/// Why a token is refused.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// No key of the provider fits, or its signature is wrong: perhaps the keys are new.
    Signature(String),
    /// It is of no use with any key.
    Wrong(String),
}

/// The claims of a token that is as expected.
pub fn verified(
    token: &str,
    keys: &Keys,
    expected: &Expected<'_>,
) -> Result<Map<String, Value>, Fault> {
    let wrong = |why: &str| Fault::Wrong(format!("its ID token {why}"));
    if token.len() > TOKEN_BYTES_MAX {
        return Err(wrong("is too long"));
    }
    let malformed = || wrong("is no signed JSON Web Token");
    let (message, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
    let (header, claims) = message.split_once('.').ok_or_else(malformed)?;
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| malformed());
    let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| malformed())?;
    if header.crit.is_some() {
        return Err(wrong("demands an extension (crit), of which none is supported"));
    }
    let Some(family) = family(&header.alg) else {
        let shown: String = header.alg.chars().take(20).collect();
        return Err(wrong(&format!(
            "is signed by '{shown}'; have the provider sign with RS256, PS256, ES256 or EdDSA"
        )));
    };
    let signature = decode(signature)?;
    let mut fitting = keys.fitting(&header, &family).peekable();
    if fitting.peek().is_none() {
        return Err(Fault::Signature("no key of it fits its ID token".to_owned()));
    }
    if !fitting.any(|key| is_signed(&key, &family, message.as_bytes(), &signature)) {
        return Err(Fault::Signature("the signature of its ID token is wrong".to_owned()));
    }
    let claims: Map<String, Value> =
        serde_json::from_slice(&decode(claims)?).map_err(|_| malformed())?;
    check(&claims, expected).map_err(|why| wrong(&why))?;
    Ok(claims)
}

impl Keys {
    /// The keys that may have signed a token with that header.
    fn fitting(&self, header: &Header, family: &Family) -> impl Iterator<Item = Key> {
        let (kind, curve) = match family {
            Family::Rsa(_) => ("RSA", None),
            Family::Ec(curve, ..) => ("EC", Some(*curve)),
            Family::Ed => ("OKP", Some("Ed25519")),
        };
        // A key that cannot be read is one of others.
        let keys = self.keys.iter().take(KEYS_MAX);
        let keys = keys.filter_map(|key| serde_json::from_value::<Key>(key.clone()).ok());
        keys.filter(move |key| {
            key.kty == kind
                && curve.is_none_or(|curve| key.crv == curve)
                && key.purpose.as_deref().is_none_or(|purpose| purpose == "sig")
                && key.alg.as_deref().is_none_or(|algorithm| algorithm == header.alg)
                && (header.kid.is_none() || header.kid == key.kid)
        })
    }
}

fn is_signed(key: &Key, family: &Family, message: &[u8], signature: &[u8]) -> bool {
    let part = |text: &str| URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    let without_zeros =
        |number: Vec<u8>| -> Vec<u8> { number.into_iter().skip_while(|&byte| byte == 0).collect() };
    match family {
        Family::Rsa(parameters) => {
            let (n, e) = (without_zeros(part(&key.n)), without_zeros(part(&key.e)));
            RsaPublicKeyComponents { n, e }.verify(parameters, message, signature).is_ok()
        }
        Family::Ec(_, bytes, algorithm) => {
            let (x, y) = (part(&key.x), part(&key.y));
            let point = [&[4], &x[..], &y[..]].concat();
            x.len() == *bytes
                && y.len() == *bytes
                && UnparsedPublicKey::new(*algorithm, point).verify(message, signature).is_ok()
        }
        Family::Ed => {
            UnparsedPublicKey::new(&ED25519, part(&key.x)).verify(message, signature).is_ok()
        }
    }
}

/// OpenID Connect Core 1.0, 3.1.3.7.
fn check(claims: &Map<String, Value>, expected: &Expected<'_>) -> Result<(), String> {
    let text = |name: &str| claims.get(name).and_then(Value::as_str);
    if text("iss") != Some(expected.issuer) {
        return Err("is of another issuer".to_owned());
    }
    let client = Some(expected.client_id);
    let (is_ours, several) = match claims.get("aud") {
        Some(Value::String(audience)) => (Some(audience.as_str()) == client, false),
        Some(Value::Array(all)) => (all.iter().any(|one| one.as_str() == client), all.len() > 1),
        _ => (false, false),
    };
    if !is_ours {
        return Err("is for another client".to_owned());
    }
    if (several || claims.contains_key("azp")) && text("azp") != client {
        return Err("is for another client, too, and was given to that one".to_owned());
    }
    let time = |name: &str| claims.get(name).and_then(Value::as_f64).map(|s| s as i64);
    let now_s = expected.now_s;
    let clocks = "compare the clocks of both machines";
    match time("exp") {
        None => return Err("does not say when it expires".to_owned()),
        Some(s) if s.saturating_add(SKEW_S) <= now_s => {
            return Err(format!("has expired; {clocks}"));
        }
        Some(_) => {}
    }
    match time("iat") {
        None => return Err("does not say when it was made".to_owned()),
        Some(s) if s > now_s.saturating_add(SKEW_S) => {
            return Err(format!("was made in the future; {clocks}"));
        }
        Some(_) => {}
    }
    if time("nbf").is_some_and(|s| s > now_s.saturating_add(SKEW_S)) {
        return Err(format!("is not valid yet; {clocks}"));
    }
    if expected.nonce.is_some_and(|nonce| text("nonce") != Some(nonce)) {
        return Err("is of another login (nonce)".to_owned());
    }
    match text("sub") {
        Some(subject) if !subject.is_empty() && subject.len() <= 255 => Ok(()),
        _ => Err("names no user (sub)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use ring::hmac;
    use serde_json::json;

    use super::*;
    use crate::access::oidc::testing::{Signer, claims, encoded};

    const ISSUER: &str = "https://id.example";
    const NOW_S: i64 = 2_000_000_000;

    fn at_now(mut claims: Value) -> Value {
        claims["iat"] = NOW_S.into();
        claims["exp"] = (NOW_S + 300).into();
        claims
    }

    fn check(token: &str, keys: &[Value]) -> Result<Map<String, Value>, Fault> {
        let keys = Keys { keys: keys.to_vec() };
        let expected = Expected {
            issuer: ISSUER,
            client_id: "loginson",
            nonce: Some("the nonce"),
            now_s: NOW_S,
        };
        verified(token, &keys, &expected)
    }

    fn good() -> Value {
        at_now(claims(ISSUER, "the nonce"))
    }

    #[test]
    fn signatures_of_each_kind() {
        let (ec, ed, rsa) = (Signer::ec(), Signer::ed(), Signer::rsa());
        let keys = [ec.key("ec"), ed.key("ed"), rsa.key("rsa")];
        for (signer, kid, algorithm) in [
            (&ec, "ec", "ES256"),
            (&ed, "ed", "EdDSA"),
            (&ed, "ed", "Ed25519"),
            (&rsa, "rsa", "RS256"),
            (&rsa, "rsa", "PS256"),
        ] {
            let token = signer.sign(&json!({"alg": algorithm, "kid": kid}), &good());
            assert_eq!(check(&token, &keys).unwrap()["sub"], "7", "{algorithm}");
            // Without a name, each key that fits is tried.
            let token = signer.sign(&json!({"alg": algorithm}), &good());
            assert!(check(&token, &keys).is_ok(), "{algorithm}");
            let of_another = [keys[0].clone(), keys[1].clone(), keys[2].clone()].map(|mut key| {
                key["kid"] = "another".into();
                key
            });
            let token = signer.sign(&json!({"alg": algorithm, "kid": kid}), &good());
            assert!(matches!(check(&token, &of_another), Err(Fault::Signature(_))), "{algorithm}");
        }
    }

    #[test]
    fn what_is_not_signed_by_the_key_is_refused() {
        let (rsa, ec) = (Signer::rsa(), Signer::ec());
        let keys = [rsa.key("1"), ec.key("2")];
        let signed = |header: Value| rsa.sign(&header, &good());
        let token = signed(json!({"alg": "RS256", "kid": "1"}));
        let [header, claims, signature] = token.split('.').collect::<Vec<_>>()[..] else {
            panic!()
        };
        // Nothing of it can be changed.
        for at in 0..token.len() {
            let mut changed = token.clone().into_bytes();
            changed[at] = if changed[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).unwrap();
            // Bits of the last character of a part that stand for nothing must be zero.
            assert!(check(&changed, &keys).is_err(), "{at}");
        }
        for at in 0..token.len() {
            assert!(check(&token[..at], &keys).is_err(), "{at}");
        }
        let none = |name: &str| encoded(json!({"alg": name}).to_string());
        let hs = encoded(json!({"alg": "HS256", "kid": "1"}).to_string());
        let by_public_key = |secret: &[u8]| {
            let message = format!("{hs}.{claims}");
            let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
            format!("{message}.{}", encoded(hmac::sign(&key, message.as_bytes())))
        };
        let n = keys[0]["n"].as_str().unwrap();
        for (token, why) in [
            (format!("{}.{claims}.", none("none")), "is signed by 'none'"),
            (format!("{}.{claims}.{signature}", none("None")), "is signed by 'None'"),
            (format!("{}.{claims}.", none("")), "is signed by ''"),
            (by_public_key(n.as_bytes()), "is signed by 'HS256'"),
            (by_public_key(&URL_SAFE_NO_PAD.decode(n).unwrap()), "is signed by 'HS256'"),
            (format!("{header}.{claims}"), "no signed JSON Web Token"),
            (format!("{token}.x"), "no signed JSON Web Token"),
            (format!("{header}..{signature}"), "signature of its ID token is wrong"),
            (String::new(), "no signed JSON Web Token"),
            ("..".to_owned(), "no signed JSON Web Token"),
            ("x".repeat(TOKEN_BYTES_MAX + 1), "too long"),
            (signed(json!({"alg": "RS256", "kid": "2"})), "no key of it fits"),
            (signed(json!({"alg": "ES256", "kid": "2"})), "signature of its ID token is wrong"),
            (signed(json!({"alg": "RS256", "kid": "1", "crit": ["b64"], "b64": false})), "crit"),
            (signed(json!({"alg": ["RS256"], "kid": "1"})), "no signed JSON Web Token"),
            // A key in the header counts for nothing.
            (
                ec.sign(&json!({"alg": "ES256", "kid": "3", "jwk": ec.key("3")}), &good()),
                "no key of it fits",
            ),
        ] {
            let fault = check(&token, &keys).unwrap_err();
            assert!(format!("{fault:?}").contains(why), "{fault:?} {token:.80}");
        }
        let encrypts = |mut key: Value| {
            key["use"] = "enc".into();
            key
        };
        assert!(check(&signed(json!({"alg": "RS256"})), &[encrypts(rsa.key("1"))]).is_err());
        let for_another = |mut key: Value| {
            key["alg"] = "RS512".into();
            key
        };
        assert!(check(&signed(json!({"alg": "RS256"})), &[for_another(rsa.key("1"))]).is_err());
        // Keys of no use harm no other.
        let odd = [json!(7), json!({}), json!({"kty": 3}), json!({"kty": "RSA", "n": "", "e": ""})];
        let odd = [&odd[..], &keys[..]].concat();
        assert!(check(&signed(json!({"alg": "RS256"})), &odd).is_ok());
    }

    #[test]
    fn what_claims_must_say() {
        let signer = Signer::ed();
        let keys = [signer.key("1")];
        let with = |changes: Value| {
            let mut claims = good();
            for (name, value) in changes.as_object().unwrap() {
                match value.is_null() {
                    true => drop(claims.as_object_mut().unwrap().remove(name)),
                    false => claims[name] = value.clone(),
                }
            }
            let token = signer.sign(&json!({"alg": "EdDSA"}), &claims);
            check(&token, &keys).map_err(|fault| format!("{fault:?}"))
        };
        for good in [
            json!({}),
            json!({"aud": ["loginson"]}),
            json!({"aud": ["other", "loginson"], "azp": "loginson"}),
            // Clocks may differ by a minute.
            json!({"exp": NOW_S - SKEW_S + 1}),
            json!({"iat": NOW_S + SKEW_S, "nbf": NOW_S + SKEW_S}),
            json!({"exp": NOW_S as f64 + 0.5}),
        ] {
            assert!(with(good.clone()).is_ok(), "{good}");
        }
        for (bad, why) in [
            (json!({"iss": "https://id.example/"}), "another issuer"),
            (json!({"iss": null}), "another issuer"),
            (json!({"aud": "other"}), "another client"),
            (json!({"aud": []}), "another client"),
            (json!({"aud": null}), "another client"),
            (json!({"aud": ["other", "loginson"]}), "another client, too"),
            (json!({"azp": "other"}), "another client, too"),
            (json!({"exp": NOW_S - SKEW_S}), "has expired"),
            (json!({"exp": null}), "when it expires"),
            (json!({"exp": "never"}), "when it expires"),
            (json!({"exp": -1e300}), "has expired"),
            (json!({"iat": NOW_S + SKEW_S + 1}), "in the future"),
            (json!({"iat": null}), "when it was made"),
            (json!({"nbf": NOW_S + SKEW_S + 1}), "not valid yet"),
            (json!({"nonce": "another"}), "another login"),
            (json!({"nonce": null}), "another login"),
            (json!({"sub": ""}), "names no user"),
            (json!({"sub": 7}), "names no user"),
            (json!({"sub": "x".repeat(256)}), "names no user"),
        ] {
            let fault = with(bad.clone()).unwrap_err();
            assert!(fault.contains(why), "{bad}: {fault}");
        }
    }
}

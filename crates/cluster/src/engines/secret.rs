//! Passwords and keys: values that no message, log or debug output shows.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// Shorter secrets are not searched for in texts, because they would match ordinary words.
const SEARCHED_BYTES_MIN: usize = 4;
/// What stands in a text in place of a secret.
const HIDDEN: &str = "[secret]";

/// A text that is shown nowhere. There is no `Display`, and `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides `text`.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The secret itself, for the request that it authorises.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// `text` without this secret: servers and proxies repeat parts of requests in their errors.
    pub fn hidden_in(&self, text: &str) -> String {
        if self.0.len() < SEARCHED_BYTES_MIN {
            return text.to_owned();
        }
        text.replace(&self.0, HIDDEN)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        deserializer.deserialize_any(SecretVisitor)
    }
}

/// Reads a text, and refuses other types without repeating their value, as serde would.
struct SecretVisitor;

impl<'de> Visitor<'de> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a secret as text in quotes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::new(text))
    }

    fn visit_i64<E: de::Error>(self, _: i64) -> Result<Secret, E> {
        Err(E::custom("a secret is text; write it in quotes"))
    }

    fn visit_u64<E: de::Error>(self, _: u64) -> Result<Secret, E> {
        Err(E::custom("a secret is text; write it in quotes"))
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Secret, E> {
        Err(E::custom("a secret is text; write it in quotes"))
    }

    fn visit_bool<E: de::Error>(self, _: bool) -> Result<Secret, E> {
        Err(E::custom("a secret is text; write it in quotes"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_and_errors_hide_the_secret() {
        let secret = Secret::new("hunter22");
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert_eq!(secret.hidden_in("bad key hunter22!"), "bad key [secret]!");
        let error = serde_json::from_str::<Secret>("31337").unwrap_err().to_string();
        assert!(!error.contains("31337"), "{error}");
        assert_eq!(serde_json::from_str::<Secret>("\"hunter22\"").unwrap(), secret);
    }
}

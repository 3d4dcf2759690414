//! Makes the secrets of users and tokens, and checks their hashes.
//!
//! Only hashes are kept: argon2id of passwords, which people choose, and SHA-256 of tokens, which
//! are random. No message shows a hash or a secret.

use argon2::password_hash::PasswordHasher;
use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, Params};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

/// Bytes of a password. A longer one is refused where it is set, and wrong where it is given.
pub const PASSWORD_BYTES_MAX: usize = 1024;
/// The least number of characters of a password.
const PASSWORD_CHARS_MIN: usize = 8;
const SALT_BYTES: usize = 16;
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;
/// The first characters of every token, so that scanners find tokens that leaked into other files.
pub const TOKEN_PREFIX: &str = "lgs_";
/// The most that computing a hash may cost: KiB of memory, passes, lanes. Beyond it, a few logins
/// could exhaust the memory of the machine.
const HASH_KIB_MAX: u32 = 256 << 10;
const HASH_PASSES_MAX: u32 = 64;
const HASH_LANES_MAX: u32 = 16;
/// Secrets whose hashes are refused, and what they are. The gate refuses an empty token as well.
const GUESSED: [(&str, &str); 3] =
    [("", "an empty text"), ("\n", "an empty line"), ("test", "`test`")];

/// Why a password cannot be set.
pub fn check_password(password: &str) -> Result<(), String> {
    if password.chars().count() < PASSWORD_CHARS_MIN {
        return Err(format!("a password needs at least {PASSWORD_CHARS_MIN} characters"));
    }
    if password.len() > PASSWORD_BYTES_MAX {
        return Err(format!("a password may have at most {PASSWORD_BYTES_MAX} bytes"));
    }
    Ok(())
}

/// The argon2id hash of a password, with a salt of its own. Takes 19 MiB and tens of milliseconds.
pub fn hash_password(password: &str) -> Result<PasswordHash, String> {
    let salt = random::<SALT_BYTES>()?;
    let argon2 = Argon2::from(Params::default());
    let hash = argon2.hash_password_with_salt(password.as_bytes(), &salt);
    hash.map_err(|error| format!("cannot compute the hash: {error}"))
}

/// A new token, and its SHA-256.
pub fn new_token() -> Result<(String, [u8; 32]), String> {
    let token = format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(random::<TOKEN_BYTES>()?));
    let hash = sha256(token.as_bytes());
    Ok((token, hash))
}

/// The SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    digest(&SHA256, bytes).as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// A hash in hexadecimal.
pub fn hex(hash: &[u8; 32]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses the hash of a password, and checks what computing it costs.
pub fn parse_password_hash(text: &str) -> Result<PasswordHash, String> {
    let wrong = || {
        "the password_hash is not one of argon2id, which begins with $argon2id$; make it with \
         `loginson hash-password`"
            .to_owned()
    };
    let hash = PasswordHash::new(text).map_err(|_| wrong())?;
    if hash.algorithm.as_str() != "argon2id" || hash.hash.is_none() {
        return Err(wrong());
    }
    let params = Params::try_from(&hash).map_err(|_| wrong())?;
    if params.m_cost() > HASH_KIB_MAX
        || params.t_cost() > HASH_PASSES_MAX
        || params.p_cost() > HASH_LANES_MAX
    {
        return Err(format!(
            "the password_hash takes too much to compute (m={},t={},p={}); at most \
             m={HASH_KIB_MAX},t={HASH_PASSES_MAX},p={HASH_LANES_MAX} are taken",
            params.m_cost(),
            params.t_cost(),
            params.p_cost()
        ));
    }
    Ok(hash)
}

/// Parses the SHA-256 of a token.
pub fn parse_token_hash(text: &str) -> Result<[u8; 32], String> {
    let wrong = || {
        "sha256 must be a hash of 64 hexadecimal digits; `loginson make-token` prints a token and \
         its hash"
            .to_owned()
    };
    if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    let mut hash = [0; 32];
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
        *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
    }
    match GUESSED.iter().find(|(secret, _)| sha256(secret.as_bytes()) == hash) {
        Some((_, what)) => Err(format!(
            "sha256 is the hash of {what}, which everybody can guess; `loginson make-token` \
             prints a token and its hash"
        )),
        None => Ok(hash),
    }
}

fn random<const N: usize>() -> Result<[u8; N], String> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "the system provides no random numbers".to_owned())?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use argon2::password_hash::PasswordVerifier;

    use super::*;

    #[test]
    fn a_hash_is_of_its_password() {
        let hash = hash_password("correct horse").unwrap();
        let text = hash.to_string();
        assert!(text.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{text}");
        assert_ne!(text, hash_password("correct horse").unwrap().to_string());
        let parsed = parse_password_hash(&text).unwrap();
        let verify = |password: &[u8]| Argon2::default().verify_password(password, &parsed).is_ok();
        assert!(verify(b"correct horse") && !verify(b"correct horse "));
        assert!(check_password("1234567").is_err() && check_password("12345678").is_ok());
        assert!(check_password(&"x".repeat(PASSWORD_BYTES_MAX)).is_ok());
        assert!(check_password(&"x".repeat(PASSWORD_BYTES_MAX + 1)).is_err());
    }

    #[test]
    fn tokens_are_long_and_different() {
        let ((first, hash), (second, _)) = (new_token().unwrap(), new_token().unwrap());
        assert!(first.starts_with(TOKEN_PREFIX) && first.len() == TOKEN_PREFIX.len() + 43);
        assert!(first != second && parse_token_hash(&hex(&hash)).unwrap() == hash);
    }
}

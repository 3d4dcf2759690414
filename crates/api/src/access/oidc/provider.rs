//! A provider: what it says of itself, its keys, and the calls to it. All of them block.
//!
//! What it says of itself is kept for an hour, and longer while it cannot be reached. Its keys are
//! fetched again when none verifies a token, so it may change them at any time. A provider that was
//! away is not asked again for [`AWAY`], so that callers do not wait for it one after another.
//!
//! No message contains a token, a code, or the secret of the client.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use form_urlencoded::byte_serialize;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use ureq::Agent;
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};

use super::jwt::{self, Expected, Keys};
use super::options::{OidcOptions, check_url};
use super::pending::Given;
use crate::access::outside::Told;
use crate::access::secrets::sha256;
use crate::wire::clock::now_ns;

/// The longest time for connecting, and for a whole call.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
const CALL_TIME_MAX: Duration = Duration::from_secs(10);
/// Bytes of an answer. A longer one counts as broken.
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// How long what a provider says of itself is taken for true.
const METADATA_AGE_MAX: Duration = Duration::from_secs(3_600);
/// How long a provider that could not be reached is left alone.
const AWAY: Duration = Duration::from_secs(5);
/// The least time between two messages in the log that a provider is away.
const LOGGED: Duration = Duration::from_secs(60);
/// Characters that are shown of what a provider says.
const SHOWN_CHARS_MAX: usize = 200;

/// A provider.
pub struct Provider {
    /// Its settings.
    pub options: OidcOptions,
    agent: Agent,
    /// Held while it is asked what it says of itself, so that many callers ask once.
    turn: Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    metadata: Option<(Arc<Metadata>, Instant)>,
    keys: Option<Arc<Keys>>,
    away: Option<(Instant, String)>,
    /// When the log was last told that it is away.
    logged: Option<Instant>,
}

/// What a provider says of itself (OpenID Connect Discovery 1.0).
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    userinfo_endpoint: Option<String>,
    end_session_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// Why there is no login, or no session any more.
#[derive(Debug, PartialEq)]
pub enum Fault {
    /// The provider cannot be asked now.
    Away(String),
    /// It refuses, or what it says is refused.
    Refused(String),
}

#[derive(Deserialize)]
struct Tokens {
    access_token: Option<String>,
    id_token: Option<String>,
    refresh_token: Option<String>,
}

/// An error of the token endpoint (RFC 6749, 5.2).
#[derive(Default, Deserialize)]
#[serde(default)]
struct Refusal {
    error: String,
    error_description: String,
}

impl Provider {
    /// The provider with these settings.
    ///
    /// # Errors
    /// The certificates that it is verified with cannot be read.
    pub fn new(options: OidcOptions) -> Result<Provider, String> {
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIME_MAX))
            .timeout_global(Some(CALL_TIME_MAX))
            .max_idle_connections_per_host(2);
        if options.issuer.starts_with("https://") {
            let tls = node::cluster::tls_config(options.ca.as_deref());
            config = config.tls_config(tls.map_err(|error| format!("{error:#}"))?);
        }
        let agent = config.build().into();
        Ok(Provider { options, agent, turn: Mutex::default(), known: Mutex::default() })
    }

    /// Tells the log that the provider is away, once a minute: callers and sessions may be many.
    pub fn log_away(&self, why: &str) {
        let mut known = self.lock();
        if known.logged.is_some_and(|at| at.elapsed() < LOGGED) {
            return;
        }
        known.logged = Some(Instant::now());
        let name = &self.options.name;
        tracing::warn!(
            "the provider '{name}' cannot be asked: nobody can log in by it, and its sessions end \
             an hour after it last confirmed them: {why}"
        );
    }

    /// Where a browser is sent to log in.
    pub fn login_url(&self, given: &Given) -> Result<String, Fault> {
        let metadata = self.metadata()?;
        let options = &self.options;
        let challenge = URL_SAFE_NO_PAD.encode(sha256(given.verifier.as_bytes()));
        let scope = options.scopes.join(" ");
        let redirect = options.redirect_uri();
        let mut fields = vec![
            ("response_type", "code"),
            ("client_id", &options.client_id),
            ("redirect_uri", &redirect),
            ("scope", &scope),
            ("state", &given.state),
            ("nonce", &given.nonce),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
        ];
        // OpenID Connect Core 1.0, 11: a provider may ignore the scope without it.
        if options.scopes.iter().any(|scope| scope == "offline_access") {
            fields.push(("prompt", "consent"));
        }
        Ok(with_fields(&metadata.authorization_endpoint, &fields))
    }

    /// Where a browser is sent to log out there as well; none if the provider has no such address,
    /// or has not been asked for it.
    pub fn logout_url(&self, id_token: Option<&str>) -> Option<String> {
        let metadata = self.lock().metadata.as_ref().map(|(metadata, _)| Arc::clone(metadata))?;
        let endpoint = metadata.end_session_endpoint.as_ref()?;
        let back = format!("{}/", self.options.external_url);
        let mut fields =
            vec![("client_id", &*self.options.client_id), ("post_logout_redirect_uri", &back)];
        fields.extend(id_token.map(|token| ("id_token_hint", token)));
        Some(with_fields(endpoint, &fields))
    }

    /// Exchanges the code that a browser brought back.
    pub fn by_code(&self, code: &str, verifier: &str, nonce: &str) -> Result<Told, Fault> {
        let redirect = self.options.redirect_uri();
        let fields = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", &redirect),
            ("code_verifier", verifier),
        ];
        let tokens = self.tokens(&fields)?;
        let id_token = tokens.id_token.clone().ok_or_else(|| {
            Fault::Refused("it gave no ID token; let the scopes contain openid".to_owned())
        })?;
        let claims = self.verified(&id_token, Some(nonce))?;
        self.told(claims, tokens)
    }

    /// Asks whether the session of a user may go on, and what holds for the user now.
    pub fn by_refresh(&self, refresh: &str, subject: &str) -> Result<Told, Fault> {
        let fields = [("grant_type", "refresh_token"), ("refresh_token", refresh)];
        let tokens = self.tokens(&fields)?;
        let claims = match &tokens.id_token {
            Some(token) => self.verified(token, None)?,
            // It need not give another one; then the rest is in what it says of the user.
            None => Map::from_iter([("sub".to_owned(), Value::from(subject))]),
        };
        if claims.get("sub").and_then(Value::as_str) != Some(subject) {
            return Err(Fault::Refused("it answered for another user".to_owned()));
        }
        self.told(claims, tokens)
    }

    /// The claims of an ID token that is verified, with new keys if need be.
    fn verified(&self, token: &str, nonce: Option<&str>) -> Result<Map<String, Value>, Fault> {
        let expected = Expected {
            issuer: &self.options.issuer,
            client_id: &self.options.client_id,
            nonce,
            now_s: now_ns() / 1_000_000_000,
        };
        let known = self.lock().keys.clone();
        let found = known.map(|keys| jwt::verified(token, &keys, &expected));
        let found = match found {
            None | Some(Err(jwt::Fault::Signature(_))) => {
                jwt::verified(token, &*self.new_keys()?, &expected)
            }
            Some(found) => found,
        };
        found.map_err(|fault| match fault {
            jwt::Fault::Signature(why) | jwt::Fault::Wrong(why) => Fault::Refused(why),
        })
    }

    /// Who the user is, by the claims, and by the provider's answer where they lack something.
    fn told(&self, mut claims: Map<String, Value>, tokens: Tokens) -> Result<Told, Fault> {
        let options = &self.options;
        let lacks = |claims: &Map<String, Value>| {
            claim(claims, &options.name_claim).is_none()
                || claim(claims, &options.groups_claim).is_none()
                || !options.email_domains.is_empty() && claim(claims, "email").is_none()
        };
        if lacks(&claims)
            && let Some(endpoint) = &self.metadata()?.userinfo_endpoint
            && let Some(access) = &tokens.access_token
        {
            let more: Map<String, Value> = self.fetch(endpoint, Some(access))?;
            if more.get("sub") != claims.get("sub") {
                return Err(Fault::Refused("it answered for another user".to_owned()));
            }
            for (name, value) in more {
                claims.entry(name).or_insert(value);
            }
        }
        let refused = |why: String| Err(Fault::Refused(why));
        let text = |name: &str| claim(&claims, name).and_then(Value::as_str);
        let is_verified = claims.get("email_verified");
        let is_verified = is_verified.map(|given| *given == true || *given == "true");
        if options.name_claim == "email" && is_verified == Some(false) {
            return refused("it has not verified the address of the user".to_owned());
        }
        if !options.email_domains.is_empty() {
            let domain = text("email").and_then(|email| Some(email.rsplit_once('@')?.1));
            let is_known = domain.is_some_and(|domain| {
                options.email_domains.iter().any(|known| known.eq_ignore_ascii_case(domain))
            });
            if !is_known || is_verified != Some(true) {
                return refused(
                    "the user has no verified address in a domain of email_domains".to_owned(),
                );
            }
        }
        let Some(name) = text(&options.name_claim).filter(|name| !name.trim().is_empty()) else {
            return refused(format!(
                "it does not tell the claim '{}'; have it do so, or set another name_claim",
                options.name_claim
            ));
        };
        let groups = match claim(&claims, &options.groups_claim) {
            Some(Value::String(one)) => vec![one.clone()],
            Some(Value::Array(all)) => {
                all.iter().filter_map(|one| one.as_str().map(str::to_owned)).collect()
            }
            _ => Vec::new(),
        };
        Ok(Told {
            name: name.to_owned(),
            subject: text("sub").unwrap_or_default().to_owned(),
            groups,
            refresh: tokens.refresh_token,
            id_token: tokens.id_token,
        })
    }

    /// What the provider says of itself; what it said before while it cannot be reached.
    fn metadata(&self) -> Result<Arc<Metadata>, Fault> {
        if let Some(found) = self.known_metadata() {
            return found;
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = self.known_metadata() {
            return found;
        }
        let found = self.discovered();
        let mut known = self.lock();
        match found {
            Ok(metadata) => known.metadata = Some((Arc::new(metadata), Instant::now())),
            Err(why) => known.away = Some((Instant::now(), why)),
        }
        drop(known);
        self.known_metadata().unwrap_or_else(|| Err(Fault::Away("it is away".to_owned())))
    }

    /// What is known without asking; `None` if it has to be asked.
    fn known_metadata(&self) -> Option<Result<Arc<Metadata>, Fault>> {
        let known = self.lock();
        let away = known.away.as_ref().filter(|(at, _)| at.elapsed() < AWAY);
        match (&known.metadata, away) {
            (Some((metadata, at)), away) if at.elapsed() < METADATA_AGE_MAX || away.is_some() => {
                Some(Ok(Arc::clone(metadata)))
            }
            (None, Some((_, why))) => Some(Err(Fault::Away(why.clone()))),
            _ => None,
        }
    }

    fn discovered(&self) -> Result<Metadata, String> {
        let issuer = self.options.issuer.trim_end_matches('/');
        let url = format!("{issuer}/.well-known/openid-configuration");
        let metadata: Metadata = self.fetch(&url, None).map_err(|fault| match fault {
            Fault::Away(why) | Fault::Refused(why) => why,
        })?;
        if metadata.issuer != self.options.issuer {
            return Err(format!(
                "it calls itself '{}', not '{}'; set issuer to that",
                shown(&metadata.issuer),
                self.options.issuer
            ));
        }
        let optional = [&metadata.userinfo_endpoint, &metadata.end_session_endpoint];
        let needed =
            [&metadata.authorization_endpoint, &metadata.token_endpoint, &metadata.jwks_uri];
        for url in needed.into_iter().chain(optional.into_iter().flatten()) {
            check_url(url)
                .map_err(|why| format!("it names an address of no use: {}", shown(&why)))?;
        }
        Ok(metadata)
    }

    fn new_keys(&self) -> Result<Arc<Keys>, Fault> {
        let url = self.metadata()?.jwks_uri.clone();
        let keys: Arc<Keys> = Arc::new(self.fetch(&url, None)?);
        self.lock().keys = Some(Arc::clone(&keys));
        Ok(keys)
    }

    /// Calls the token endpoint.
    fn tokens(&self, fields: &[(&str, &str)]) -> Result<Tokens, Fault> {
        let metadata = self.metadata()?;
        let options = &self.options;
        let mut fields = fields.to_vec();
        let methods = metadata.token_endpoint_auth_methods_supported.as_deref();
        let by_header = methods.is_none_or(|all| all.iter().any(|m| m == "client_secret_basic"));
        let mut request = self.agent.post(&metadata.token_endpoint);
        let secret = options.client_secret.as_ref().map(|secret| secret.expose());
        match secret {
            Some(secret) if by_header => {
                let coded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", coded(&options.client_id), coded(secret));
                request = request.header(AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)));
            }
            _ => {
                fields.push(("client_id", &options.client_id));
                fields.extend(secret.map(|secret| ("client_secret", secret)));
            }
        }
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let request = request
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(ACCEPT, "application/json");
        let mut answer = request
            .send(body.as_bytes())
            .map_err(|error| self.away(&metadata.token_endpoint, &error))?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let text = text.map_err(|error| self.away(&metadata.token_endpoint, &error))?;
        if status != 200 {
            let refusal: Refusal = serde_json::from_slice(&text).unwrap_or_default();
            let Refusal { error, error_description } = refusal;
            return Err(match matches!(status, 400 | 401 | 403) && !error.is_empty() {
                true => Fault::Refused(format!(
                    "it says {} {}",
                    shown(&error),
                    shown(&error_description)
                )),
                false => Fault::Away(format!("it answered {status}")),
            });
        }
        serde_json::from_slice(&text)
            .map_err(|_| Fault::Away("its answer is no JSON with tokens".to_owned()))
    }

    /// Fetches JSON.
    fn fetch<T: DeserializeOwned>(&self, url: &str, token: Option<&str>) -> Result<T, Fault> {
        let mut request = self.agent.get(url).header(ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let mut answer = request.call().map_err(|error| self.away(url, &error))?;
        let status = answer.status().as_u16();
        if status != 200 {
            return Err(match token.is_some() && matches!(status, 401 | 403) {
                true => Fault::Refused(format!("{url} answered {status}")),
                false => Fault::Away(format!("{url} answered {status}")),
            });
        }
        let text = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec();
        let text = text.map_err(|error| self.away(url, &error))?;
        serde_json::from_slice(&text)
            .map_err(|_| Fault::Away(format!("{url} answered something else than is specified")))
    }

    fn away(&self, url: &str, error: &ureq::Error) -> Fault {
        Fault::Away(format!("{url} cannot be reached: {error}"))
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A claim by its name, or by a path such as `realm_access.roles`.
fn claim<'a>(claims: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    rest.split('.').try_fold(claims.get(first)?, |value, name| value.get(name))
}

fn with_fields(url: &str, fields: &[(&str, &str)]) -> String {
    let joint = if url.contains('?') { '&' } else { '?' };
    let fields = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    format!("{url}{joint}{fields}")
}

/// What a provider says, fit for a message.
pub fn shown(text: &str) -> String {
    text::terminal::escaped(&text.chars().take(SHOWN_CHARS_MAX).collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_have_paths() {
        let claims = serde_json::json!({
            "a": {"b": {"c": [1]}}, "https://example.com/groups": 2, "a.b": 3,
        });
        let claims = claims.as_object().unwrap();
        let found = |name: &str| claim(claims, name).map(Value::to_string);
        assert_eq!(found("a.b.c").as_deref(), Some("[1]"));
        assert_eq!(found("a.b").as_deref(), Some("3"));
        assert_eq!(found("https://example.com/groups").as_deref(), Some("2"));
        assert_eq!(found("a.x.c"), None);
        assert_eq!(found("x"), None);
    }

    #[test]
    fn fields_are_added_to_an_address() {
        let fields = [("a", "b c&d")];
        assert_eq!(with_fields("https://x/y", &fields), "https://x/y?a=b+c%26d");
        assert_eq!(with_fields("https://x/y?z=1", &fields), "https://x/y?z=1&a=b+c%26d");
    }
}

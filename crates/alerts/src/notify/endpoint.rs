//! An address that is sent requests, and what its answers mean.
//!
//! No message has a secret: neither the address, whose path is one at many services, nor a key in
//! the body, which services repeat in their errors.

use std::net::IpAddr;
use std::time::Duration;

use cluster::engines::Secret;
use serde_json::Value;
use sinks::{Client, ClientOptions, Fault, Method, Request, Trouble};

use super::Sent;

/// Characters of an answer that a message shows.
const ANSWER_CHARS_MAX: usize = 300;

/// Which addresses of the network a receiver may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// All: whoever writes the configuration can reach them anyway.
    Any,
    /// None of which only this machine can be reached, nor that of a cloud's metadata.
    Outside,
    /// As `Outside`, and this machine.
    Local,
}

impl Reach {
    /// Whether a receiver may have this address.
    pub fn allows(self, address: IpAddr) -> bool {
        if self == Reach::Any {
            return true;
        }
        let address = embedded(address);
        let is_refused = match address {
            IpAddr::V4(v4) => {
                // Link-local addresses have the metadata of most clouds.
                v4.is_link_local()
                    || v4.is_unspecified()
                    || v4.octets()[0] == 0
                    || v4.is_multicast()
                    || v4.is_broadcast()
                    // Alibaba Cloud, and Oracle's classic metadata.
                    || v4.octets() == [100, 100, 100, 200]
                    || v4.octets() == [192, 0, 0, 192]
                    // Azure's wire server.
                    || v4.octets() == [168, 63, 129, 16]
            }
            IpAddr::V6(v6) => {
                v6.is_unicast_link_local()
                    || v6.is_unspecified()
                    || v6.is_multicast()
                    // AWS, and Google Cloud.
                    || v6.segments() == [0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254]
                    || v6.segments() == [0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254]
            }
        };
        !is_refused && (self == Reach::Local || !address.is_loopback())
    }

    /// Says why an address is refused.
    pub fn refusal(self, address: IpAddr) -> String {
        let remedy = match (self, embedded(address).is_loopback()) {
            (Reach::Outside, true) => {
                "a receiver that is made over the API may not be on this machine, unless \
                 `alerts.receivers` is \"local\""
            }
            _ => "give a receiver of this address in the configuration file",
        };
        format!("the address {address} is refused; {remedy}")
    }
}

/// The address of version 4 inside one of version 6, by which a gateway would reach it.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let segments = v6.segments();
    let last = || {
        let [.., a, b] = segments;
        let ([a, b], [c, d]) = (a.to_be_bytes(), b.to_be_bytes());
        IpAddr::from([a, b, c, d])
    };
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => last(),
        // IPv4-compatible addresses, but for `::` and `::1`.
        [0, 0, 0, 0, 0, 0, a, b] if a > 0 || b > 1 => last(),
        _ => address.to_canonical(),
    }
}

/// One address with its connection.
pub struct Endpoint {
    client: Client,
    url: String,
    secrets: Vec<Secret>,
}

impl Endpoint {
    /// The address of `options`, of which `secrets` may be in no message. Connects to nothing yet.
    ///
    /// Errors: the certificates cannot be read.
    pub fn new(
        options: &ClientOptions,
        reach: Reach,
        mut secrets: Vec<Secret>,
    ) -> Result<Endpoint, Fault> {
        let client = match reach {
            Reach::Any => Client::new(options)?,
            reach => Client::limited(options, move |address| match reach.allows(address) {
                true => Ok(()),
                false => Err(reach.refusal(address)),
            })?,
        };
        let url = options.urls.concat();
        // What follows the server in the address often is a secret.
        let path = url[server(&url).len()..].trim_matches('/');
        if path.len() >= 16 {
            secrets.push(Secret::new(path));
        }
        Ok(Endpoint { client, url, secrets })
    }

    /// Posts a document below the address, and judges the answer.
    pub fn post(&mut self, path: &str, body: &Value) -> Sent {
        self.send(Method::Post, path, body)
    }

    /// Sends a document below the address, and judges the answer.
    pub fn send(&mut self, method: Method, path: &str, body: &Value) -> Sent {
        let body = body.to_string();
        let request = Request {
            method,
            path,
            content_type: "application/json",
            encoding: sinks::Encoding::Plain,
            body: body.as_bytes(),
        };
        let reply = match self.client.send(request) {
            Ok(reply) => reply,
            Err(Trouble::TimedOut(fault) | Trouble::Broken(fault)) => {
                return Sent::Failed { fault: self.hidden(fault), retry_after: None };
            }
        };
        let text: String = self.shown(&reply.body).chars().take(ANSWER_CHARS_MAX).collect();
        let what = format!("{} answered {}: {}", server(&reply.url), reply.status, text.trim());
        let failed = |remedy: &str, retry_after| Sent::Failed {
            fault: Fault::new(what.clone(), remedy),
            retry_after,
        };
        match reply.status {
            200..=299 => Sent::Accepted,
            429 => failed("", reply.retry_after.or_else(|| asked_wait(&reply.body))),
            408 | 409 | 423 | 425 | 500.. => failed("", reply.retry_after),
            401 | 403 | 407 => {
                failed("correct the token, key or password of the notifier", reply.retry_after)
            }
            // Redirects are not followed.
            300..=399 | 404 | 405 | 410 => {
                failed("correct the address of the notifier", reply.retry_after)
            }
            _ => Sent::Refused(Fault::new(what, "the receiver does not take this notification")),
        }
    }

    fn hidden(&self, fault: Fault) -> Fault {
        Fault { what: self.shown(&fault.what), remedy: fault.remedy }
    }

    /// `text` without secrets and control characters.
    fn shown(&self, text: &str) -> String {
        let text = self.client.redacted(text).replace(&self.url, server(&self.url));
        let text = self.secrets.iter().fold(text, |text, secret| secret.hidden_in(&text));
        super::message::one_line(&text)
    }
}

/// How long Matrix asks to wait: it says so in the body, and older servers there alone.
fn asked_wait(body: &str) -> Option<Duration> {
    let answer: Value = serde_json::from_str(body).ok()?;
    answer.get("retry_after_ms")?.as_u64().map(Duration::from_millis)
}

/// The address without what may hold a secret: a webhook often has one in its path.
pub fn server(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    &url[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_this_machine_and_of_metadata_are_refused() {
        for (address, outside, local) in [
            ("127.0.0.1", false, true),
            ("::1", false, true),
            ("::ffff:127.0.0.1", false, true),
            ("127.9.9.9", false, true),
            ("0.0.0.0", false, false),
            ("0.1.2.3", false, false),
            ("::", false, false),
            ("169.254.169.254", false, false),
            ("::ffff:169.254.169.254", false, false),
            ("64:ff9b::a9fe:a9fe", false, false),
            ("::a9fe:a9fe", false, false),
            ("64:ff9b::7f00:1", false, true),
            ("fe80::1", false, false),
            ("fd00:ec2::254", false, false),
            ("100.100.100.200", false, false),
            ("168.63.129.16", false, false),
            ("224.0.0.1", false, false),
            ("255.255.255.255", false, false),
            ("ff02::1", false, false),
            ("10.1.2.3", true, true),
            ("192.168.1.1", true, true),
            ("fd12::1", true, true),
            ("8.8.8.8", true, true),
            ("2001:db8::1", true, true),
        ] {
            let address: IpAddr = address.parse().unwrap();
            assert_eq!(Reach::Outside.allows(address), outside, "{address}");
            assert_eq!(Reach::Local.allows(address), local, "{address}");
            assert!(Reach::Any.allows(address));
        }
        let refusal = Reach::Outside.refusal("127.0.0.1".parse().unwrap());
        assert!(refusal.contains("\"local\""), "{refusal}");
        let refusal = Reach::Local.refusal("169.254.0.1".parse().unwrap());
        assert!(refusal.contains("configuration file"), "{refusal}");
    }

    #[test]
    fn servers_are_named_without_their_paths() {
        for (url, expected) in [
            ("https://h:1/a/b?c", "https://h:1"),
            ("https://h?c=d", "https://h"),
            ("https://h", "https://h"),
        ] {
            assert_eq!(server(url), expected);
        }
        assert_eq!(asked_wait(r#"{"retry_after_ms":1500}"#), Some(Duration::from_millis(1500)));
        assert_eq!(asked_wait("slow down"), None);
    }
}

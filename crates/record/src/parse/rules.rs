//! Rules that determine the type of lines.
//!
//! A rule holds if all of its conditions do; the first one that holds determines the type. Rules
//! with a condition on the application are found by hash, so that a hundred of them cost a line no
//! more than one. Left out: conditions on fields of the message, which are only known once the type
//! has determined how to parse it.

use std::collections::HashMap;
use std::net::IpAddr;

use memchr::memmem;
use serde::Deserialize;

use crate::batch::OWN_TYPES;
use crate::frame::{Hints, MessageFormat};
use crate::zone::{UnknownZone, Zone};

/// Rules of one configuration. More are an error when the configuration is read.
pub const TYPE_RULES_MAX: usize = 1_000;
/// Length of a type's name. A longer one is an error when the configuration is read.
pub const TYPE_NAME_BYTES_MAX: usize = 64;

/// Keys that can be configured for the time, for the message, and for the level. More are an error
/// when the configuration is read.
pub const NAMES_MAX: usize = 16;

/// Names of keys, one or several in order of preference: `"ts"` or `["ts", "time"]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMany")]
pub struct FieldNames(pub Vec<String>);

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl From<OneOrMany> for FieldNames {
    fn from(given: OneOrMany) -> Self {
        match given {
            OneOrMany::One(name) => FieldNames(vec![name]),
            OneOrMany::Many(names) => FieldNames(names),
        }
    }
}

impl FieldNames {
    /// The names, if they are valid.
    ///
    /// # Errors
    /// If there are too many, or one is empty; the error says so.
    pub fn checked(&self) -> Result<Vec<String>, String> {
        if self.0.len() > NAMES_MAX {
            return Err(format!("names {} keys, but there can be {NAMES_MAX}", self.0.len()));
        }
        if self.0.iter().any(String::is_empty) {
            return Err("has an empty name; write for example \"ts\", or leave it out".to_owned());
        }
        Ok(self.0.clone())
    }
}

/// Keys that the source or a rule configured for time, message, level and host.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Names<'a> {
    pub time: &'a [String],
    pub msg: &'a [String],
    pub level: &'a [String],
    pub host: &'a [String],
    pub ignore: &'a [String],
    /// Index of the rule, if it names any, or a zone.
    pub rule: Option<u16>,
}

impl<'a> Names<'a> {
    /// The names in the hints of the lines.
    #[inline]
    pub fn of(hints: &'a Hints) -> Names<'a> {
        Names {
            time: &hints.time_fields,
            msg: &hints.msg_fields,
            level: &hints.level_fields,
            host: &[],
            ignore: &hints.ignore_fields,
            rule: None,
        }
    }
}

/// A type: which lines have it, and how their message is parsed; `[[types]]` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TypeRule {
    /// The type.
    pub name: String,
    /// Holds when the application is one of these.
    #[serde(default)]
    pub app_name: Vec<String>,
    /// Holds when the host is one of these.
    #[serde(default)]
    pub hostname: Vec<String>,
    /// Holds when the sender's address is one of these, or in one of these networks (`10.0.0.0/8`).
    #[serde(default)]
    pub remote_ip: Vec<String>,
    /// Holds when the line contains this text.
    #[serde(default)]
    pub contains: Option<String>,
    /// Holds when this regular expression matches somewhere in the line.
    #[serde(default)]
    pub regex: Option<String>,
    /// How to parse the message.
    #[serde(default)]
    pub format: MessageFormat,
    /// Keys of the message that hold the time.
    #[serde(default)]
    pub time_field: FieldNames,
    /// Keys of the message whose value becomes `_msg`.
    #[serde(default)]
    pub msg_field: FieldNames,
    /// Keys of the message that hold the level.
    #[serde(default)]
    pub level_field: FieldNames,
    /// Keys of the message that hold the host.
    #[serde(default)]
    pub host_field: FieldNames,
    /// Whether lines of common servers are taken apart; as for all lines if it is missing.
    #[serde(default)]
    pub fields: Option<bool>,
    /// Zone of times that name none, as [`Zone::parse`] reads it.
    #[serde(default)]
    pub zone: Option<String>,
}

/// Why rules are invalid.
#[derive(Debug, thiserror::Error)]
pub enum RuleError {
    /// An invalid name of a type.
    #[error(
        "type rule {number}: '{name}' is no name for a type; use 1 to {TYPE_NAME_BYTES_MAX} letters, digits, \
         '.', '_' or '-' (but not 'summary', 'alert' and 'audit', which Loginson uses itself)"
    )]
    Name {
        /// Number of the rule, from 1.
        number: usize,
        /// The name given.
        name: String,
    },
    /// An invalid address.
    #[error(
        "type rule '{rule}': remote_ip '{given}' is not an address or network; write for example 10.1.2.3, \
         10.0.0.0/8 or 2001:db8::/32"
    )]
    RemoteIp {
        /// Name of the rule.
        rule: String,
        /// The invalid text.
        given: String,
    },
    /// An invalid regular expression.
    #[error(
        "type rule '{rule}': regex cannot be used: {error}; special characters are escaped with \\"
    )]
    Regex {
        /// Name of the rule.
        rule: String,
        /// The reason.
        error: Box<regex::Error>,
    },
    /// An empty text to search, which every line would contain.
    #[error("type rule '{rule}': 'contains' is empty and would hold for every line; leave it out")]
    EmptyContains {
        /// Name of the rule.
        rule: String,
    },
    /// An unknown time zone.
    #[error("type rule '{rule}': zone {error}")]
    Zone {
        /// Name of the rule.
        rule: String,
        /// The reason.
        error: UnknownZone,
    },
    /// Invalid names of keys.
    #[error("type rule '{rule}': {key} {error}")]
    Fields {
        /// Name of the rule.
        rule: String,
        /// The setting.
        key: &'static str,
        /// The reason.
        error: String,
    },
    /// Too many rules.
    #[error(
        "{found} type rules, but there can be {TYPE_RULES_MAX}; put several app_name or hostname values into \
         one rule"
    )]
    TooMany {
        /// The number of rules.
        found: usize,
    },
}

/// The properties of a line that rules test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    pub app_name: &'a [u8],
    pub hostname: &'a [u8],
    pub remote_ip: Option<IpAddr>,
    pub line: &'a [u8],
}

/// Rules prepared for evaluation.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Vec<Rule>,
    /// Indexes of the rules with a condition on the application, by application; ascending.
    by_app: HashMap<Box<[u8]>, Vec<u16>, foldhash::fast::RandomState>,
    /// Indexes of the other rules; ascending.
    others: Vec<u16>,
    /// Whether a rule tests more of a line than its head and sender.
    look_at_lines: bool,
    have_names: bool,
    may_change_times: bool,
}

#[derive(Debug)]
struct Rule {
    name: String,
    asks_for_head: bool,
    hostname: Vec<String>,
    remote_ip: Vec<(IpAddr, u8)>,
    contains: Option<memmem::Finder<'static>>,
    regex: Option<regex::bytes::Regex>,
    format: MessageFormat,
    fields: Option<bool>,
    time: Vec<String>,
    msg: Vec<String>,
    level: Vec<String>,
    host: Vec<String>,
    zone: Option<Zone>,
}

impl Rules {
    pub(crate) fn new(given: &[TypeRule]) -> Result<Rules, RuleError> {
        if given.len() > TYPE_RULES_MAX {
            return Err(RuleError::TooMany { found: given.len() });
        }
        let mut rules = Rules::default();
        for (index, rule) in given.iter().enumerate() {
            rules.rules.push(ready(index, rule)?);
            rules.have_names |= rules.rules[index].has_names();
            rules.look_at_lines |= rule.contains.is_some() || rule.regex.is_some();
            rules.may_change_times |= rules.rules[index].may_change_times();
            let index = index as u16;
            if rule.app_name.is_empty() {
                rules.others.push(index);
            }
            for app_name in &rule.app_name {
                rules.by_app.entry(app_name.as_bytes().into()).or_default().push(index);
            }
        }
        Ok(rules)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether lines with the same head and sender may match different rules.
    pub(crate) fn look_at_lines(&self) -> bool {
        self.look_at_lines
    }

    /// Whether a rule names keys or a zone.
    pub(crate) fn have_names(&self) -> bool {
        self.have_names
    }

    /// Whether a rule decides where the time of a line stands, or in which zone: a line with a head
    /// may then have another time than the head.
    pub(crate) fn may_change_times(&self) -> bool {
        self.may_change_times
    }

    /// The keys that a rule names; if it names none for a purpose, those of the source.
    pub(crate) fn names<'a>(&'a self, index: usize, hints: &'a Hints) -> Names<'a> {
        let rule = &self.rules[index];
        let of_hints = Names::of(hints);
        if !rule.has_names() {
            return of_hints;
        }
        let first = |rule: &'a [String], other| if rule.is_empty() { other } else { rule };
        Names {
            time: first(&rule.time, of_hints.time),
            msg: first(&rule.msg, of_hints.msg),
            level: first(&rule.level, of_hints.level),
            host: &rule.host,
            ignore: of_hints.ignore,
            rule: Some(index as u16),
        }
    }

    /// Index and format of the first rule that holds.
    pub(crate) fn find(&self, subject: Subject<'_>) -> Option<(usize, MessageFormat)> {
        let of_app = self.by_app.get(subject.app_name).map(Vec::as_slice).unwrap_or_default();
        let (mut of_app, mut others) = (of_app.iter().peekable(), self.others.iter().peekable());
        loop {
            // Both lists ascend: the smaller index is next in the order of the rules.
            let index = match (of_app.peek(), others.peek()) {
                (Some(a), Some(b)) if a < b => of_app.next(),
                (Some(_), None) => of_app.next(),
                _ => others.next(),
            };
            let index = usize::from(*index?);
            let rule = &self.rules[index];
            if rule.holds(subject) {
                return Some((index, rule.format));
            }
        }
    }

    /// The zone of times that name none, if the rule has one.
    pub(crate) fn zone(&self, index: usize) -> Option<Zone> {
        self.rules[index].zone
    }

    /// Whether a rule has conditions on the parts of a head.
    pub(crate) fn asks_for_head(&self, index: usize) -> bool {
        self.rules[index].asks_for_head
    }

    /// Whether a rule says that lines of common servers are taken apart, or that they are not.
    pub(crate) fn fields(&self, index: usize) -> Option<bool> {
        self.rules[index].fields
    }

    pub(crate) fn name(&self, index: usize) -> &str {
        &self.rules[index].name
    }

    pub(crate) fn len(&self) -> usize {
        self.rules.len()
    }
}

impl Rule {
    /// Texts as they are have no head, unless the rule asks for its parts.
    fn may_change_times(&self) -> bool {
        let has_no_head = self.format == MessageFormat::Plain && !self.asks_for_head;
        has_no_head || self.zone.is_some() || !self.time.is_empty()
    }

    fn has_names(&self) -> bool {
        self.zone.is_some()
            || [&self.time, &self.msg, &self.level, &self.host].iter().any(|n| !n.is_empty())
    }

    /// Whether the conditions other than that on the application hold; tests the cheap ones first.
    fn holds(&self, subject: Subject<'_>) -> bool {
        let host = || self.hostname.iter().any(|h| h.as_bytes() == subject.hostname);
        let sender = |ip: IpAddr| self.remote_ip.iter().any(|(net, bits)| within(ip, *net, *bits));
        (self.hostname.is_empty() || host())
            && (self.remote_ip.is_empty() || subject.remote_ip.is_some_and(sender))
            && self.contains.as_ref().is_none_or(|finder| finder.find(subject.line).is_some())
            && self.regex.as_ref().is_none_or(|regex| regex.is_match(subject.line))
    }
}

fn ready(index: usize, given: &TypeRule) -> Result<Rule, RuleError> {
    let name = given.name.clone();
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if name.is_empty()
        || name.len() > TYPE_NAME_BYTES_MAX
        || !name.bytes().all(allowed)
        || OWN_TYPES.contains(&name.as_str())
    {
        return Err(RuleError::Name { number: index + 1, name });
    }
    if given.contains.as_deref() == Some("") {
        return Err(RuleError::EmptyContains { rule: name });
    }
    let network = |text: &String| {
        let error = || RuleError::RemoteIp { rule: given.name.clone(), given: text.clone() };
        network(text).ok_or_else(error)
    };
    let names = |key: &'static str, names: &FieldNames| {
        names.checked().map_err(|error| RuleError::Fields { rule: given.name.clone(), key, error })
    };
    let zone = |text: &str| {
        Zone::parse(text).map_err(|error| RuleError::Zone { rule: given.name.clone(), error })
    };
    let regex = given.regex.as_deref().map(regex::bytes::Regex::new).transpose();
    Ok(Rule {
        asks_for_head: !(given.app_name.is_empty() && given.hostname.is_empty()),
        hostname: given.hostname.clone(),
        remote_ip: given.remote_ip.iter().map(network).collect::<Result<_, _>>()?,
        contains: given.contains.as_ref().map(|t| memmem::Finder::new(t.as_bytes()).into_owned()),
        regex: regex.map_err(|e| RuleError::Regex { rule: name.clone(), error: Box::new(e) })?,
        format: given.format,
        fields: given.fields,
        time: names("time_field", &given.time_field)?,
        msg: names("msg_field", &given.msg_field)?,
        level: names("level_field", &given.level_field)?,
        host: names("host_field", &given.host_field)?,
        zone: given.zone.as_deref().map(zone).transpose()?,
        name,
    })
}

/// An address, or an address and a prefix length.
fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(bits_max);
    (bits <= bits_max).then_some((address, bits))
}

fn within(ip: IpAddr, network: IpAddr, bits: u8) -> bool {
    let number = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => (32, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (128, v6.to_bits()),
    };
    let ((width, ip), (network_width, network)) = (number(ip), number(network));
    width == network_width && (bits == 0 || (ip ^ network) >> (width - u32::from(bits)) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, change: impl Fn(&mut TypeRule)) -> TypeRule {
        let mut rule = TypeRule { name: name.into(), ..TypeRule::default() };
        change(&mut rule);
        rule
    }

    #[test]
    fn the_first_rule_that_holds_names_the_type() {
        let rules = Rules::new(&[
            rule("vpn", |r| (r.app_name, r.contains) = (vec!["sshd".into()], Some("vpn".into()))),
            rule("dmz", |r| r.remote_ip = vec!["10.1.0.0/16".into(), "2001:db8::/32".into()]),
            rule("ssh", |r| r.app_name = vec!["sshd".into(), "ssh".into()]),
            rule("web", |r| r.hostname = vec!["web1".into(), "web2".into()]),
            rule("oom", |r| r.regex = Some("(?i)out of memory|oom-".into())),
        ])
        .unwrap();
        let check =
            |app: &str, host: &str, ip: Option<&str>, line: &str, expected: Option<&str>| {
                let subject = Subject {
                    app_name: app.as_bytes(),
                    hostname: host.as_bytes(),
                    remote_ip: ip.map(|ip| ip.parse().unwrap()),
                    line: line.as_bytes(),
                };
                let found = rules.find(subject).map(|(index, _)| rules.name(index));
                assert_eq!(found, expected, "{app} {host} {ip:?} {line}");
            };
        check("sshd", "", None, "a vpn line", Some("vpn"));
        check("sshd", "", None, "a line", Some("ssh"));
        check("sshd", "web1", Some("10.1.2.3"), "a line", Some("dmz"));
        check("sshd", "web1", Some("10.2.2.3"), "a line", Some("ssh"));
        check("ssh", "web1", None, "a vpn line", Some("ssh"));
        check("cron", "web2", Some("2001:db9::1"), "", Some("web"));
        check("cron", "web3", Some("2001:db8::1"), "", Some("dmz"));
        check("", "", None, "kernel: Out of Memory: x", Some("oom"));
        check("", "", None, "\u{fffd}", None);
    }

    #[test]
    fn networks() {
        let rows = [
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.2", "10.0.0.1", false),
            ("10.255.0.1", "10.0.0.0/8", true),
            ("11.0.0.1", "10.0.0.0/8", false),
            ("11.0.0.1", "0.0.0.0/0", true),
            ("::1", "0.0.0.0/0", false),
            ("::1", "::/0", true),
        ];
        for (ip, net, inside) in rows {
            let (address, bits) = network(net).unwrap();
            assert_eq!(within(ip.parse().unwrap(), address, bits), inside, "{ip} in {net}");
        }
    }

    #[test]
    fn errors_name_the_invalid_rule_and_the_remedy() {
        let rows = [
            (rule("", |_| ()), "type rule 1"),
            (rule("summary", |_| ()), "Loginson uses itself"),
            (rule("alert", |_| ()), "Loginson uses itself"),
            (rule("a b", |_| ()), "'a b'"),
            (rule(&"x".repeat(TYPE_NAME_BYTES_MAX + 1), |_| ()), "1 to 64"),
            (rule("x", |r| r.remote_ip = vec!["10.0.0.0/33".into()]), "10.0.0.0/33"),
            (rule("x", |r| r.remote_ip = vec!["host".into()]), "for example 10.1.2.3"),
            (rule("x", |r| r.regex = Some("(".into())), "'x'"),
            (rule("x", |r| r.contains = Some(String::new())), "leave it out"),
            (rule("x", |r| r.time_field.0 = vec![String::new()]), "'x': time_field has an empty"),
            (rule("x", |r| r.level_field.0 = vec!["a".into(); 17]), "level_field names 17 keys"),
            (
                rule("x", |r| r.zone = Some("Europe/Rom".into())),
                "'x': zone 'Europe/Rom' is no time",
            ),
            (rule("x", |r| r.zone = Some("Europe/Rom".into())), "did you mean 'Europe/Rome'?"),
        ];
        for (rule, expected) in rows {
            let error = Rules::new(std::slice::from_ref(&rule)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(Rules::new(&[rule(&"x".repeat(TYPE_NAME_BYTES_MAX), |_| ())]).is_ok());
        let many = vec![rule("x", |_| ()); TYPE_RULES_MAX + 1];
        assert!(Rules::new(&many[1..]).is_ok());
        assert!(Rules::new(&many).is_err());
    }

    #[test]
    fn unknown_keys_are_errors() {
        let parse = serde_json::from_str::<TypeRule>;
        assert!(parse(r#"{"name":"x","format":"json","app_name":["a"]}"#).is_ok());
        assert!(parse(r#"{"name":"x","app":["a"]}"#).is_err());
        assert!(parse(r#"{"name":"x","format":"xml"}"#).is_err());
        let named =
            parse(r#"{"name":"x","format":"logfmt","time_field":"t","msg_field":["a","b"]}"#);
        let named = named.unwrap();
        assert_eq!((named.time_field.0.len(), named.msg_field.0.len()), (1, 2));
        assert_eq!(named.format, MessageFormat::Logfmt);
        assert!(parse(r#"{"name":"x","time_fields":"t"}"#).is_err());
    }
}

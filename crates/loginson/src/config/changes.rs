//! What differs between two configurations, in words, and what of it can change while the process
//! runs: users, tokens, limits of queries, retention, rules at ingest. All else holds from the
//! start on.
//!
//! Values are shown only of settings that can change; none of these is a secret.

use std::sync::Arc;

use api::access::users::AccessOptions;

use crate::config::RawConfig;

/// Sections that can change.
const CHANGE: [&str; 4] = ["access", "limits", "query", "retention"];
/// Keys of these sections that cannot: they size what is made at the start.
const FIXED: [&str; 3] = ["query.answers_bytes_max", "query.client_idle_max", "query.pages_max"];

/// Adds what differs between the users and tokens.
pub fn of_access(before: &AccessOptions, after: &AccessOptions, changed: &mut Vec<String>) {
    let users = |access: &AccessOptions| {
        let named = access.users.iter().map(|user| {
            let secret = user.hash.to_string().into_bytes();
            (format!("user {}", user.name), Arc::clone(&user.rights), secret)
        });
        let tokens = access.tokens.iter().map(|token| {
            (format!("token {}", token.name), Arc::clone(&token.rights), token.digest.to_vec())
        });
        named.chain(tokens).collect::<Vec<_>>()
    };
    if before.oidc != after.oidc {
        let names: Vec<&str> = after.oidc.iter().map(|oidc| &*oidc.name).collect();
        let shown = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        changed.push(format!("access.oidc: {shown}"));
    }
    if before.ldap != after.ldap {
        let names: Vec<&str> = after.ldap.iter().map(|ldap| &*ldap.name).collect();
        let shown = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        changed.push(format!("access.ldap: {shown}"));
    }
    if before.groups != after.groups {
        changed.push(format!("access.groups: {} rules", after.groups.0.len()));
    }
    let (before, after) = (users(before), users(after));
    for (name, rights, secret) in &after {
        let role = rights.role.name();
        match before.iter().find(|(other, ..)| other == name) {
            None => changed.push(format!("{name}: new, role {role}")),
            Some((_, was, had)) => {
                if was.role != rights.role {
                    changed.push(format!("{name}: role {} → {role}", was.role.name()));
                }
                if (&was.filter, &was.hidden) != (&rights.filter, &rights.hidden) {
                    changed.push(format!("{name}: another filter, or other hidden fields"));
                }
                if was.tenant != rights.tenant {
                    changed.push(format!("{name}: another tenant"));
                }
                if was.limits != rights.limits {
                    changed.push(format!("{name}: other limits"));
                }
                if had != secret {
                    changed.push(format!("{name}: another secret"));
                }
            }
        }
    }
    let gone = before.iter().filter(|(name, ..)| !after.iter().any(|(other, ..)| other == name));
    changed.extend(gone.map(|(name, ..)| format!("{name}: removed")));
}

/// Adds the settings that differ and can change, with their values.
pub fn of_settings(before: &RawConfig, after: &RawConfig, changed: &mut Vec<String>) {
    for (key, was, is) in differing(before, after) {
        if can_change(&key) {
            changed.push(format!("{key}: {was} → {is}"));
        }
    }
    if before.retention.rules != after.retention.rules {
        let rules = &after.retention.rules;
        let shown = rules.iter().map(|rule| format!("{} after {}", rule.filter, rule.age));
        let shown = shown.collect::<Vec<_>>().join(", ");
        let shown = if shown.is_empty() { "none".to_owned() } else { shown };
        changed.push(format!("retention.rules: {shown}"));
    }
    of_rules(before, after, changed);
}

/// Adds the rules at ingest, the tables, the macros and the derived fields, if they differ.
pub fn of_rules(before: &RawConfig, after: &RawConfig, changed: &mut Vec<String>) {
    if before.rules != after.rules {
        let names: Vec<&str> = after.rules.iter().map(|rule| &*rule.name).collect();
        let shown = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        changed.push(format!("rules: {shown}"));
    }
    if before.lookups != after.lookups {
        let names: Vec<&str> = after.lookups.iter().map(|lookup| &*lookup.name).collect();
        let shown = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        changed.push(format!("lookups: {shown}"));
    }
    if before.macros != after.macros {
        let names: Vec<String> =
            after.macros.iter().map(|known| format!("@{}", known.name)).collect();
        let shown = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        changed.push(format!("macros: {shown}"));
    }
    if before.fields != after.fields {
        let names: Vec<String> = after
            .fields
            .iter()
            .map(|field| format!("{} of {}", field.name, field.log_type))
            .collect();
        let shown = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        changed.push(format!("fields: {shown}"));
    }
}

/// The names of the settings that differ and cannot change.
pub fn needs_restart(start: &RawConfig, after: &RawConfig) -> Vec<String> {
    let mut keys: Vec<String> = differing(start, after)
        .into_iter()
        .map(|(key, ..)| key)
        .filter(|key| !can_change(key))
        .collect();
    for (key, differs) in [
        ("[[types]]", start.types != after.types),
        ("[[tenants]]", start.tenants != after.tenants),
        ("[[files]]", start.files != after.files),
        ("[[kafka]]", start.kafka != after.kafka),
        ("[[programs]]", start.programs != after.programs),
        ("[[sinks]]", start.sinks != after.sinks),
        ("[[alerts.notifiers]]", start.alerts.notifiers != after.alerts.notifiers),
    ] {
        if differs {
            keys.push(key.to_owned());
        }
    }
    keys
}

fn can_change(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    CHANGE.contains(&section) && !FIXED.contains(&key)
}

/// Keys with different values, both as text.
fn differing(before: &RawConfig, after: &RawConfig) -> Vec<(String, String, String)> {
    let table = |raw| toml::Table::try_from(raw).expect("settings are plain values");
    let (before, after) = (table(before), table(after));
    let mut found = Vec::new();
    compare("", &before, &after, &mut found);
    found
}

fn compare(
    prefix: &str,
    before: &toml::Table,
    after: &toml::Table,
    found: &mut Vec<(String, String, String)>,
) {
    let absent = toml::Value::String("none".to_owned());
    let more = after.keys().filter(|key| !before.contains_key(*key));
    for key in before.keys().chain(more) {
        let (was, is) = (before.get(key).unwrap_or(&absent), after.get(key).unwrap_or(&absent));
        let name = format!("{prefix}{key}");
        match (was, is) {
            (toml::Value::Table(was), toml::Value::Table(is)) => {
                compare(&format!("{name}."), was, is, found);
            }
            _ if was == is => {}
            _ => found.push((name, text(was), text(is))),
        }
    }
}

fn text(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn both(text: &str) -> (RawConfig, Config) {
        let raw = RawConfig::parse(text).unwrap();
        (raw.clone(), Config::try_from(raw).unwrap())
    }

    #[test]
    fn changes_are_named_and_secrets_are_not_shown() {
        let hash = |fill: &str| fill.repeat(32);
        let before = format!(
            "http_hosts = ['a.example']\nretention.age = '30d'\n\
             [[tokens]]\nname = 'one'\nsha256 = '{}'\nrole = 'read'\n\
             [[tokens]]\nname = 'two'\nsha256 = '{}'\nrole = 'read'\n",
            hash("01"),
            hash("02")
        );
        let after = format!(
            "http_hosts = ['b.example']\nretention.age = '60d'\nquery.run_max = '2m'\n\
             query.pages_max = 8\nsyslog.zone = '+01:00'\n\
             [[files]]\npaths = ['/a']\n\
             [[retention.rules]]\nfilter = 'debug'\nage = '1d'\n\
             [[tokens]]\nname = 'one'\nsha256 = '{}'\nrole = 'operate'\n\
             [[tokens]]\nname = 'three'\nsha256 = '{}'\nrole = 'read'\n",
            hash("03"),
            hash("04")
        );
        let ((before, was), (after, is)) = (both(&before), both(&after));
        let mut changed = Vec::new();
        of_access(&was.api.access, &is.api.access, &mut changed);
        of_settings(&before, &after, &mut changed);
        assert_eq!(
            changed,
            [
                "token one: role read → operate",
                "token one: another secret",
                "token three: new, role read",
                "token two: removed",
                "query.run_max: 1m → 2m",
                "retention.age: 30d → 60d",
                "retention.rules: debug after 1d",
            ]
        );
        assert_eq!(
            needs_restart(&before, &after),
            ["http_hosts", "query.pages_max", "syslog.zone", "[[files]]"]
        );
        assert!(needs_restart(&after, &after).is_empty());
    }

    #[test]
    fn another_tenant_is_a_change() {
        let of = |tenant: &str| {
            let (_, config) = both(&format!(
                "[[tenants]]\nid = '12:0'\nname = 'shop'\n\
                 [[tenants]]\nid = '13:0'\nname = 'bank'\n\
                 [[tokens]]\nname = 'one'\nsha256 = '{}'\nrole = 'read'\ntenant = '{tenant}'\n",
                "01".repeat(32)
            ));
            config.api.access
        };
        let mut changed = Vec::new();
        of_access(&of("shop"), &of("shop"), &mut changed);
        assert!(changed.is_empty(), "{changed:?}");
        of_access(&of("shop"), &of("bank"), &mut changed);
        assert_eq!(changed, ["token one: another tenant"]);
    }
}

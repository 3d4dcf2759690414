//! `[[tenants]]`: whom lines can belong to, and what each may send and how long it is kept.

use std::sync::Arc;

use anyhow::{Context, Error, Result, anyhow, ensure};
use node::ingest::rules::RuleSpec;
use node::ingest::tenants::{LISTENERS, TenantOptions, Tenants};
use record::Tenant;
use record::batch::TENANT;
use store::RetentionRule;

use crate::config::raw::RawTenant;
use crate::config::{bytes, duration};

/// Least limit of disk of a tenant: lines leave by whole segments, whose parts are no smaller.
const DISK_BYTES_MIN: u64 = 64 << 20;

/// The tenants, and the rules of retention that they make.
pub fn check(raw: &[RawTenant]) -> Result<(Arc<Tenants>, Vec<RetentionRule>)> {
    let (mut all, mut rules) = (Vec::with_capacity(raw.len()), Vec::new());
    for tenant in raw {
        let (options, rule) = one(tenant).with_context(|| format!("tenants: {}", tenant.id))?;
        all.push(options);
        rules.extend(rule);
    }
    let tenants = Tenants::new(all).map_err(|why| anyhow!("tenants: {why}"))?;
    Ok((Arc::new(tenants), rules))
}

fn one(raw: &RawTenant) -> Result<(TenantOptions, Option<RetentionRule>)> {
    let id: Tenant = raw.id.parse().map_err(|why| anyhow!("id: '{}': {why}", raw.id))?;
    let listener = |name: &String| {
        let known = LISTENERS.iter().find(|(known, _)| known == name);
        known.map(|(_, transport)| *transport).ok_or_else(|| {
            let known = LISTENERS.map(|(name, _)| name).join(", ");
            anyhow!("listeners: '{name}' is not one of {known}")
        })
    };
    let rule = raw.retention.as_deref().map(|text| {
        let age = duration("retention", text)?;
        ensure!(!age.is_zero(), "retention must be above zero");
        let filter = format!("{TENANT}:=\"{}\"", id.field_value());
        Ok(RetentionRule { filter, age_ns: text::duration::ns(age) })
    });
    let bytes_of =
        |key, text: &Option<String>| text.as_deref().map(|text| bytes(key, text)).transpose();
    let disk_bytes_max = bytes_of("disk_bytes_max", &raw.disk_bytes_max)?;
    ensure!(
        disk_bytes_max.is_none_or(|bytes| bytes >= DISK_BYTES_MIN),
        "disk_bytes_max must be at least {}MiB, because lines leave by whole segments",
        DISK_BYTES_MIN >> 20
    );
    let options = TenantOptions {
        id,
        name: raw.name.clone(),
        listeners: raw.listeners.iter().map(listener).collect::<Result<_>>()?,
        bytes_per_s: bytes_of("bytes_per_s", &raw.bytes_per_s)?,
        lines_per_s: raw.lines_per_s,
        queries_max: raw.queries_max,
        query_memory_bytes_max: bytes_of("query_memory_bytes_max", &raw.query_memory_bytes_max)?,
        tails_max: raw.tails_max,
        background_max: raw.background_max,
        results_bytes_max: bytes_of("results_bytes_max", &raw.results_bytes_max)?,
        disk_bytes_max,
    };
    Ok((options, rule.transpose()?))
}

/// The rules at ingest, with the ids of the tenants that they name.
pub fn resolved(mut rules: Vec<RuleSpec>, tenants: &Tenants) -> Result<Vec<RuleSpec>> {
    for rule in rules.iter_mut().filter(|rule| !rule.tenant.is_empty()) {
        let tenant = tenants.find(&rule.tenant).map_err(Error::msg);
        rule.tenant =
            tenant.with_context(|| format!("[[rules]]: rule '{}'", rule.name))?.to_string();
    }
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(id: &str) -> RawTenant {
        RawTenant {
            id: id.into(),
            name: Some("shop".into()),
            listeners: Vec::new(),
            retention: None,
            bytes_per_s: None,
            lines_per_s: None,
            queries_max: None,
            query_memory_bytes_max: None,
            tails_max: None,
            background_max: None,
            results_bytes_max: None,
            disk_bytes_max: None,
        }
    }

    #[test]
    fn a_tenant_has_a_name_rates_and_a_retention() {
        let raw = RawTenant {
            retention: Some("30d".into()),
            bytes_per_s: Some("1MiB".into()),
            disk_bytes_max: Some("64MiB".into()),
            tails_max: Some(3),
            listeners: vec!["syslog_udp".into()],
            ..tenant("12:3")
        };
        let (tenants, rules) = check(&[raw]).unwrap();
        assert_eq!(tenants.find("shop").unwrap().to_string(), "12:3");
        let (options, _) = tenants.all().next().unwrap();
        assert_eq!(options.bytes_per_s, Some(1 << 20));
        assert_eq!((options.disk_bytes_max, options.tails_max), (Some(64 << 20), Some(3)));
        assert_eq!(rules.len(), 1);
        assert_eq!(rules[0].filter, "_tenant:=\"12:3\"");
        let of_default = RawTenant { retention: Some("1d".into()), ..tenant("0:0") };
        assert_eq!(check(&[of_default]).unwrap().1[0].filter, "_tenant:=\"\"");
        assert!(check(&[]).unwrap().0.is_off());
        let spec = RuleSpec { name: "r".into(), tenant: "shop".into(), ..RuleSpec::default() };
        assert_eq!(resolved(vec![spec.clone()], &tenants).unwrap()[0].tenant, "12:3");
        let error = format!("{:#}", resolved(vec![spec], &Tenants::default()).unwrap_err());
        assert!(error.contains("rule 'r': there is no tenant 'shop'"), "{error}");
    }

    #[test]
    fn mistakes_name_the_tenant() {
        for (raw, expected) in [
            (tenant("12:3:4"), "tenants: 12:3:4: id: '12:3:4': a tenant is two numbers"),
            (
                RawTenant { listeners: vec!["udp".into()], ..tenant("1:0") },
                "listeners: 'udp' is not one of syslog_udp, ",
            ),
            (RawTenant { retention: Some("soon".into()), ..tenant("1:0") }, "retention: 'soon'"),
            (RawTenant { retention: Some("0s".into()), ..tenant("1:0") }, "above zero"),
            (RawTenant { bytes_per_s: Some("x".into()), ..tenant("1:0") }, "bytes_per_s: 'x'"),
            (
                RawTenant { disk_bytes_max: Some("63MiB".into()), ..tenant("1:0") },
                "disk_bytes_max must be at least 64MiB",
            ),
        ] {
            let error = format!("{:#}", check(&[raw]).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}

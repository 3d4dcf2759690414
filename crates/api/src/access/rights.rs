//! Rights: what a user or a token may do, and which lines and fields it sees.
//!
//! Rights are texts in the configuration, in `access.json` and in calls of the API
//! ([`RightsText`]). They are checked once, when they become [`Rights`].
//!
//! Only the role `read` can be restricted: those of `ingest` and `node` read no lines for
//! themselves, auditors read what was made of all lines, and operators and administrators change
//! what everybody sees.

use std::sync::Arc;

use query::{Filter, HiddenFields, Restriction};
use serde::{Deserialize, Serialize};

use super::limits::{LimitsText, UserLimits};
use super::principal::Role;
use super::tenants::TenantRight;

/// Longest filter. A longer one is refused.
pub const FILTER_BYTES_MAX: usize = 16 << 10;

/// Rights as they are written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RightsText {
    /// The name of the role.
    pub role: String,
    /// The lines that are seen, as a filter of LogsQL; none: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// The fields that are hidden; `NAME*` for all that begin with a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hide_fields: Vec<String>,
    /// Limits of its queries.
    #[serde(default, skip_serializing_if = "LimitsText::is_empty")]
    pub limits: LimitsText,
    /// The tenant that it is bound to, by name or id; `named`: each request names one; `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// What a user or a token may do.
#[derive(Clone, Debug, PartialEq)]
pub struct Rights {
    /// The role.
    pub role: Role,
    /// The lines that are seen; none: all.
    pub filter: Option<Arc<Filter>>,
    /// The fields that are hidden.
    pub hidden: Option<Arc<HiddenFields>>,
    /// Limits of its queries; what is missing is the default.
    pub limits: UserLimits,
    /// The tenants whose lines it writes and reads, where there are tenants.
    pub tenant: TenantRight,
}

impl From<Role> for Rights {
    fn from(role: Role) -> Rights {
        Rights {
            role,
            filter: None,
            hidden: None,
            limits: UserLimits::default(),
            tenant: TenantRight::default(),
        }
    }
}

impl RightsText {
    /// Only a role.
    pub fn of_role(role: &str) -> RightsText {
        RightsText { role: role.to_owned(), ..RightsText::default() }
    }

    /// Checks the rights.
    ///
    /// # Errors
    /// Which of them is wrong, and why.
    pub fn checked(&self) -> Result<Rights, String> {
        let role = Role::parse(&self.role).ok_or_else(|| {
            let known = Role::ALL.map(Role::name).join(", ");
            format!("the role '{}' is not one of {known}", self.role)
        })?;
        let hidden =
            HiddenFields::parse(&self.hide_fields).map_err(|why| format!("hide_fields: {why}"))?;
        let filter = self.filter.as_deref().map(|text| {
            if text.len() > FILTER_BYTES_MAX {
                return Err(format!("filter: it is longer than {FILTER_BYTES_MAX} bytes"));
            }
            let parsed = Filter::of_restriction(text, hidden.as_deref());
            parsed.map(Arc::new).map_err(|why| format!("filter: '{text}': {why}"))
        });
        let limits = self.limits.checked()?;
        let tenant = TenantRight::parse(self.tenant.as_deref().unwrap_or_default());
        if let Some(why) = tenant.refusal(role) {
            return Err(format!("tenant: {why}"));
        }
        let rights = Rights { role, filter: filter.transpose()?, hidden, limits, tenant };
        match rights.is_restricted() && role != Role::Read {
            true => Err(format!(
                "the role {} cannot be restricted by filter or hide_fields; only the role read can",
                role.name()
            )),
            false => Ok(rights),
        }
    }
}

impl Rights {
    /// Whether some lines or fields are not seen.
    pub fn is_restricted(&self) -> bool {
        self.filter.is_some() || self.hidden.is_some()
    }

    /// What is seen of the lines. Loginson's own lines are made of all lines, so they are not seen
    /// with any restriction.
    pub fn restriction(&self) -> Restriction {
        if !self.is_restricted() {
            return Restriction::default();
        }
        let of_lines = Restriction { filter: self.filter.clone(), hidden: self.hidden.clone() };
        Restriction::from(Arc::new(Filter::without_own())).and(&of_lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(role: &str, filter: Option<&str>, hide_fields: &[&str]) -> RightsText {
        RightsText {
            role: role.to_owned(),
            filter: filter.map(str::to_owned),
            hide_fields: hide_fields.iter().map(|name| (*name).to_owned()).collect(),
            limits: LimitsText::default(),
            tenant: None,
        }
    }

    #[test]
    fn rights_are_checked() {
        let rights = text("read", Some("_type:=access"), &["client_ip"]).checked().unwrap();
        let restriction = rights.restriction();
        assert_eq!(
            restriction.filter.unwrap().to_string(),
            "!_type:in(\"summary\", \"alert\", \"audit\") _type:=\"access\""
        );
        assert!(restriction.hidden.unwrap().hides("client_ip"));
        let free = text("admin", None, &[]).checked().unwrap();
        assert!(!free.is_restricted() && free.restriction().is_none());
        let long = "x".repeat(FILTER_BYTES_MAX + 1);
        for (role, filter, hide_fields, expected) in [
            ("root", None, &[][..], "the role 'root' is not one of"),
            ("read", Some("("), &[], "filter: '('"),
            ("read", Some(""), &[], "filter: ''"),
            ("read", Some(&*long), &[], "longer than"),
            ("read", Some("client_ip:1"), &["client_ip"], "which is hidden"),
            ("read", None, &["_time"], "hide_fields: the field '_time'"),
            ("ingest", Some("a"), &[], "the role ingest cannot be restricted"),
            ("auditor", None, &["a"], "cannot be restricted"),
            ("node", None, &["a"], "cannot be restricted"),
            ("operate", Some("a"), &[], "cannot be restricted"),
            ("admin", Some("a"), &[], "cannot be restricted"),
        ] {
            let why = text(role, filter, hide_fields).checked().unwrap_err();
            assert!(why.contains(expected), "{role} {filter:?}: {why}");
        }
    }
}

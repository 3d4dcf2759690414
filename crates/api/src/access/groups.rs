//! What groups of other systems may do here: the one place that gives rights to users whom another
//! system vouches for.
//!
//! A user whom no rule covers is not let in. Of several rules that cover a user, that with the most
//! powerful role holds, and of those the one that was written first.

use std::sync::Arc;

use super::principal::Role;
use super::rights::Rights;

/// Rules of groups. A configuration with more is refused.
pub const GROUP_RULES_MAX: usize = 1_000;

/// Gives rights to the members of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupRule {
    /// The system that must vouch for the user; `None` for each.
    pub from: Option<Arc<str>>,
    /// The group; `None` for every user of that system.
    pub group: Option<Arc<str>>,
    /// The rights.
    pub rights: Arc<Rights>,
}

/// All rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Groups(pub Vec<GroupRule>);

impl Groups {
    /// The rights of a user of that system with these groups; `None` if no rule lets the user in.
    pub fn rights(&self, source: &str, groups: &[Arc<str>]) -> Option<Arc<Rights>> {
        let rules = self.of(source).filter(|rule| match &rule.group {
            Some(group) => groups.contains(group),
            None => true,
        });
        // The first of several that are equal.
        let best = rules.min_by_key(|rule| std::cmp::Reverse(rule.rights.role));
        best.map(|rule| Arc::clone(&rule.rights))
    }

    /// Those of these groups that rules name. The others are not kept: a user may have thousands.
    pub fn named<'a>(
        &self,
        source: &str,
        groups: impl Iterator<Item = &'a str>,
    ) -> Arc<[Arc<str>]> {
        let given: std::collections::HashSet<&str> = groups.collect();
        let named = self.of(source).filter_map(|rule| rule.group.as_ref());
        let mut named: Vec<_> = named.filter(|group| given.contains(&***group)).cloned().collect();
        named.dedup();
        named.into()
    }

    /// Whether a rule makes administrators.
    pub fn has_admin(&self) -> bool {
        self.0.iter().any(|rule| rule.rights.role == Role::Admin)
    }

    fn of(&self, source: &str) -> impl Iterator<Item = &GroupRule> {
        self.0.iter().filter(move |rule| rule.from.as_deref().is_none_or(|from| from == source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::rights::RightsText;

    #[test]
    fn the_most_powerful_role_holds() {
        let rule = |from: &str, group: &str, role: Role| GroupRule {
            from: (!from.is_empty()).then(|| from.into()),
            group: (!group.is_empty()).then(|| group.into()),
            rights: Arc::new(role.into()),
        };
        let groups = Groups(vec![
            rule("", "ops", Role::Operate),
            rule("", "staff", Role::Read),
            rule("corp", "ops", Role::Admin),
            rule("partner", "", Role::Ingest),
        ]);
        let role = |source: &str, of: &[&str]| {
            let rights = groups.rights(source, &groups.named(source, of.iter().copied()));
            rights.map(|rights| rights.role)
        };
        assert_eq!(role("corp", &["ops", "staff"]), Some(Role::Admin));
        assert_eq!(role("other", &["staff", "ops"]), Some(Role::Operate));
        assert_eq!(role("other", &["staff", "cooks"]), Some(Role::Read));
        assert_eq!(role("other", &["cooks", "OPS", "ops "]), None);
        assert_eq!(role("other", &[]), None);
        assert_eq!(role("partner", &[]), Some(Role::Ingest));
        // Of equal roles the first one holds.
        let text = |filter: &str| RightsText {
            filter: Some(filter.to_owned()),
            ..RightsText::of_role("read")
        };
        let mut equal = Groups(vec![rule("", "a", Role::Read), rule("", "b", Role::Read)]);
        equal.0[0].rights = Arc::new(text("x").checked().unwrap());
        let of = equal.named("corp", ["b", "a"].into_iter());
        assert!(equal.rights("corp", &of).unwrap().is_restricted());
        equal.0.reverse();
        assert!(!equal.rights("corp", &of).unwrap().is_restricted());
        assert_eq!(groups.named("corp", ["cooks", "ops"].into_iter()).len(), 1);
    }
}

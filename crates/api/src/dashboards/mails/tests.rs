//! Tests of what can be chosen for a schedule, and by whom it is changed.

use super::send::leave_audit_out;
use super::*;
use crate::access::principal::Role;

fn sent(parts: &Value) -> Value {
    let mut all = json!({
        "receiver": "ops", "every": "day", "hour": 7, "zone": "Europe/Berlin", "range": "24h",
    });
    for (name, value) in parts.as_object().unwrap() {
        all[name] = value.clone();
    }
    all
}

#[test]
fn what_is_chosen_is_checked() {
    let of = |role: Role| Principal::named("ann".into(), Arc::new(role.into()));
    let long = "x".repeat(VALUE_CHARS_MAX + 1);
    for (parts, role, expected) in [
        (json!({}), Role::Read, ""),
        (json!({"addresses": ["Ann <ann@example.com>"]}), Role::Operate, ""),
        (json!({"addresses": ["ann@example.com"]}), Role::Read, "needs the role operate"),
        (json!({"addresses": ["ann"]}), Role::Operate, "'ann' is no address"),
        (json!({"addresses": ["a@b.c\nBcc: d@e.f"]}), Role::Operate, "is no address"),
        (
            json!({"addresses": vec!["a@example.com"; ADDRESSES_MAX + 1]}),
            Role::Operate,
            "at most 50",
        ),
        (json!({"range": "1s"}), Role::Read, "range: write a duration"),
        (json!({"range": "101d"}), Role::Read, "range: write a duration"),
        (json!({"range": "a day"}), Role::Read, "range: write a duration"),
        (json!({"zone": "Nowhere"}), Role::Read, "is no time zone"),
        (json!({"variables": {"host": [long]}}), Role::Read, "at most 50 values"),
        (
            json!({"variables": {"host": vec!["a"; VALUES_MAX + 1]}}),
            Role::Read,
            "at most 50 values",
        ),
    ] {
        let wanted: Wanted = serde_json::from_value(sent(&parts)).unwrap();
        let found = check(&of(role), &wanted).err().unwrap_or_default();
        assert!(
            found.contains(expected) && found.is_empty() == expected.is_empty(),
            "{parts} {found}"
        );
    }
    for parts in [json!({"every": "year"}), json!({"hour": -1}), json!({"more": 1})] {
        assert!(serde_json::from_value::<Wanted>(sent(&parts)).is_err(), "{parts}");
    }
}

#[test]
fn readers_change_their_own_schedules() {
    let of = |name: &str, role: Role| Principal::named(name.into(), Arc::new(role.into()));
    let by = |name: Option<&str>| Schedule {
        id: "a".to_owned(),
        owner: Owner { name: name.map(str::to_owned), tenant: None },
        wanted: serde_json::from_value(sent(&json!({}))).unwrap(),
        state: MailState::default(),
    };
    assert!(may_change(&of("ann", Role::Read), &by(Some("ann"))));
    assert!(!may_change(&of("ann", Role::Read), &by(Some("bob"))));
    assert!(!may_change(&of("ann", Role::Read), &by(None)));
    assert!(may_change(&of("olga", Role::Operate), &by(Some("bob"))));
    assert!(may_change(&Principal::anybody(), &by(None)));
}

#[test]
fn mails_lack_the_audit_log_where_operators_choose_what_is_shown() {
    let of_audit = json!({"panels": [{"query": "_type:=audit | stats count() n"}]});
    let mut provided = of_audit.clone();
    provided["provided"] = json!(true);
    let other = json!({"panels": [{"query": "*"}, {"text": "audit"}]});
    let auditor = Principal::named("ann".into(), Arc::new(Role::Auditor.into()));
    for (document, principal, filter, is_noted) in [
        (&of_audit, &auditor, Some("!_type:=\"audit\""), true),
        (&other, &auditor, Some("!_type:=\"audit\""), false),
        (&provided, &auditor, None, false),
        // Where nobody logs in, everybody reads everything.
        (&of_audit, &Principal::anybody(), None, false),
    ] {
        let mut principal = principal.clone();
        let note = leave_audit_out(&mut principal, document.as_object().unwrap());
        let found = principal.restriction.filter.map(|filter| filter.to_string());
        assert_eq!((found.as_deref(), note.is_some()), (filter, is_noted), "{document}");
    }
}

//! Rules on frames, against a slow model that does one line after another.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use record::{Format, Frame, FrameBuilder, Origin, Parser, ParserConfig, Transport};

use super::*;
use crate::lookups::Lookups;
use crate::storage::stored::Parsers;

fn parsers() -> Parsers {
    Parsers::new(Parser::new(&ParserConfig::default()).unwrap())
}

fn rules(text: &str) -> Result<RuleSet, String> {
    RuleSet::of_text(text, &Lookups::default())
}

fn frame(lines: &[&str]) -> Frame {
    let mut frame = FrameBuilder::new();
    let origin = Origin::new(Transport::Http, Format::Auto, None);
    lines.iter().for_each(|line| {
        frame.push_line(&origin, 1_700_000_000_000_000_000, line.as_bytes(), false)
    });
    frame.finish(7, 1).unwrap()
}

/// Raw lines, each with the fields that are not empty.
type Seen = Vec<(String, BTreeMap<String, String>)>;

fn seen(frame: Option<Frame>) -> Seen {
    let Some(frame) = frame else { return Vec::new() };
    // As it is read from disk.
    let frame = Frame::decode(frame.bytes().to_vec()).unwrap();
    let batch = parsers().parse(Arc::new(frame));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    batch
        .rows()
        .map(|row| {
            let fields = row.fields().filter(|(_, value)| !value.is_empty());
            let fields = fields.map(|(id, value)| (batch.name(id).to_owned(), text(value)));
            (text(row.raw()), fields.collect())
        })
        .collect()
}

/// The raw lines, and the values of one field.
fn check(config: &str, lines: &[&str], field: &str, expected: &[(&str, &str)]) {
    let rules = rules(config).unwrap();
    let seen = seen(rules.apply(frame(lines), &parsers()));
    let found: Vec<(&str, &str)> = seen
        .iter()
        .map(|(raw, fields)| (&**raw, fields.get(field).map_or("", |value| value)))
        .collect();
    assert_eq!(found, expected, "{config}");
}

const SHOP: [&str; 4] = [
    "<14>1 - web1 nginx - - - 10.0.0.1 GET /a",
    "<15>1 - web1 cart - - - debug: nothing",
    r#"{"app":"cart","msg":"paid","card":4111111111111111,"took":"12ms"}"#,
    "plain",
];

#[test]
fn lines_are_left_out_and_counted() {
    let config = "[[rules]]\nname='d'\nfilter='app_name:=cart'\ndrop=true";
    check(config, &SHOP, "", &[(SHOP[0], ""), (SHOP[2], ""), (SHOP[3], "")]);
    let dropped = rules(config).unwrap();
    dropped.apply(frame(&SHOP), &parsers()).unwrap();
    let counts = dropped.counts().next().unwrap();
    assert_eq!((counts.selected.load(Relaxed), counts.dropped.load(Relaxed)), (1, 1));
    assert!(
        rules("[[rules]]\nname='all'\ndrop=true")
            .unwrap()
            .apply(frame(&SHOP), &parsers())
            .is_none()
    );
}

#[test]
fn every_nth_line_is_kept() {
    let one = rules("[[rules]]\nname='s'\nfilter='x'\nkeep_one_in=3").unwrap();
    let mut kept = Vec::new();
    for lines in [["x 1", "y", "x 2"], ["x 3", "x 4", "x 5"], ["x 6", "x 7", "y"]] {
        kept.extend(seen(one.apply(frame(&lines), &parsers())).into_iter().map(|line| line.0));
    }
    assert_eq!(kept, ["x 1", "y", "x 4", "x 7", "y"]);
    assert_eq!(one.counts().next().unwrap().dropped.load(Relaxed), 4);
}

#[test]
fn masked_lines_stay_json_and_hold_no_trace() {
    let config = "[[rules]]\nname='m'\nmask=['cards']";
    let masked = SHOP[2].replace("4111111111111111", "\"[card]\"");
    check(
        config,
        &SHOP,
        "card",
        &[(SHOP[0], ""), (SHOP[1], ""), (&masked, "[card]"), (SHOP[3], "")],
    );
    // A rule before the mask may have given the line a field with it.
    let config = "[[rules]]\nname='e'\npipes='extract \"\\\"card\\\":<n>,\" from _msg | extract \"card\\\":<raw>,\" from _msg'\n\
                  [[rules]]\nname='c'\nfilter='card:*'\npipes='copy card as number'\n\
                  [[rules]]\nname='m'\nmask=['cards']";
    let set = rules(config).unwrap();
    let frame = set.apply(frame(&SHOP), &parsers()).unwrap();
    assert!(memchr::memmem::find(frame.bytes(), b"4111111111111111").is_none());
    assert_eq!(seen(Some(frame))[2].1["number"], "[card]");
}

#[test]
fn fields_are_made_by_pipes_in_order() {
    let config = r#"
        [[rules]]
        name = "access"
        filter = "app_name:=nginx"
        pipes = 'extract "<ip> <method> <path>" from _msg | format "<ip>:<method>" as key | delete method'
        type = "web"
        level = "warn"
        [[rules]]
        name = "who"
        filter = "ip:=10.0.0.1"
        set = { team = "shop", hostname = "other" }
        [[rules]]
        name = "rename"
        filter = "took:*"
        pipes = "rename took as duration"
    "#;
    let set = rules(config).unwrap();
    let seen = seen(set.apply(frame(&SHOP), &parsers()));
    let fields = &seen[0].1;
    for (name, value) in [
        ("ip", "10.0.0.1"),
        ("path", "/a"),
        ("key", "10.0.0.1:GET"),
        ("team", "shop"),
        ("hostname", "other"),
        ("_type", "web"),
        ("_level", "warning"),
    ] {
        assert_eq!(fields.get(name).map(|v| &**v), Some(value), "{name}: {fields:?}");
    }
    assert!(!fields.contains_key("method"));
    assert_eq!(seen[0].0, SHOP[0]);
    assert_eq!(seen[2].1.get("duration").map(|v| &**v), Some("12ms"));
    assert!(!seen[2].1.contains_key("took"));
    assert_eq!(seen[3].1.len(), 2, "{:?}", seen[3]);
}

#[test]
fn rules_see_each_version_of_a_table() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("hosts.csv");
    std::fs::write(&file, "host,owner\nweb1,ann\n").unwrap();
    let spec = format!("name = 'hosts'\nfile = '{}'", file.display());
    let lookups = Lookups::open(&[toml::from_str(&spec).unwrap()]).unwrap();
    let config = "[[rules]]\nname='l'\npipes='lookup hosts on (hostname)'";
    let set = RuleSet::of_text(config, &lookups.for_rules()).unwrap();
    let owner = || {
        let seen = seen(set.apply(frame(&SHOP[..1]), &parsers()));
        seen[0].1.get("owner").cloned()
    };
    assert_eq!(owner().as_deref(), Some("ann"));
    std::fs::write(&file, "host,owner\nweb1,barbara\n").unwrap();
    lookups.refresh();
    assert_eq!(owner().as_deref(), Some("barbara"));
    let missing = config.replace("hosts", "host");
    let error = RuleSet::of_text(&missing, &lookups.for_rules()).err().unwrap();
    assert!(error.contains("did you mean 'hosts'"), "{error}");
}

#[test]
fn a_rule_that_stops_hides_its_lines_from_later_ones() {
    let config = "[[rules]]\nname='keep'\nfilter='paid'\nstop=true\n[[rules]]\nname='d'\ndrop=true";
    check(config, &SHOP, "", &[(SHOP[2], "")]);
}

#[test]
fn wrong_rules_are_named_with_the_remedy() {
    for (config, part) in [
        ("name='a'", "does nothing"),
        ("name='a'\ndrop=true\nmask=['cards']", "does one thing"),
        ("name=''\ndrop=true", "name has"),
        ("name='a'\nfilter='('\ndrop=true", "not LogsQL"),
        ("name='a'\nfilter='_time:5m'\ndrop=true", "_time"),
        ("name='a'\nfilter='a:in(b | fields a)'\ndrop=true", "one line at a time"),
        ("name='a'\nfilter='b | limit 1'\ndrop=true", "stand in 'pipes'"),
        ("name='a'\npipes='sort by (x)'", "cannot stand in a rule"),
        ("name='a'\npipes='unroll by (x)'", "cannot stand in a rule"),
        ("name='a'\nkeep_one_in=1", "at least 2"),
        ("name='a'\nmask=['card']", "not a kind of mask"),
        ("name='a'\nmask=[{regex='('}]", "cannot be used"),
        ("name='a'\nset={_time='1'}", "cannot be given"),
        ("name='a'\nzone='Nowhere'", "zone"),
        ("name='a'\ntype='a b'", "type has"),
        ("name='a'\ntenant='x'", "tenant"),
        ("name='a'\ndrop=true\n[[rules]]\nname='a'\ndrop=true", "there twice"),
    ] {
        let error = rules(&format!("[[rules]]\n{config}")).err();
        assert!(error.as_ref().is_some_and(|error| error.contains(part)), "{config}: {error:?}");
    }
}

/// Rules whose lines are found by what they hold.
const FOUND: [&str; 16] = [
    "mask=['cards']",
    "mask=['tokens']",
    "mask=['emails', 'ipv4']",
    "mask=['ipv6', 'cards']",
    "mask=[{regex='^[a-z]+'}]",
    "filter='error'\ndrop=true",
    "filter='i(error)'\nset={f='any case'}",
    "filter='i(skip)'\nset={g='kelvin'}",
    "filter='err*'\nset={h='begins'}",
    "filter='\"@\"'\nmask=['emails']",
    "filter='app_name:=shop'\nset={app_name='error'}",
    "filter='hostname:a1 or ab'\nstop=true",
    "filter='abc'\nkeep_one_in=2",
    "filter='level:error'\nset={i='level'}",
    "filter='f:*'\npipes='format \"<f> pin=12\" as j'",
    "pipes='extract \"pin=<pin> \" from _msg'",
];

/// Lines that hold what these rules need, or nearly.
fn found_line() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "(error|ERROR|Errors|err0r|abc|ab|ABC|s\u{212a}ip|skip|SKIP|warn)",
        "(4111111111111111|4111 1111 1111 1111|4111111111111112|123456789012345)",
        "(pwd|Token|api_key|monkey)(=|: ?|\": \"|x)[a-z]{0,3}",
        "(a@b.c|@|x@|@y\\.z|10\\.0\\.0\\.1|fe80::1|12:30:45|pin=12 )",
        Just(r"\u0065rror \x41 \u0040".to_owned()),
        "[ ,.\n\r]",
    ];
    let pieces = proptest::collection::vec(piece, 0..6);
    (pieces, 0..8_u8).prop_map(|(pieces, form)| {
        let text = pieces.join(" ");
        let line = match form {
            0 => format!("<14>1 - a1 shop - - - {text}"),
            1 => format!(r#"{{"app_name":"shop","_msg":"{text}","n":4111111111111111}}"#),
            2 => format!("{}{text}", " ".repeat(70)),
            3 => format!("{text}\r"),
            4 => format!(r#"{{"MESSAGE":[101,114,114,111,114],"x":"{text}"}}"#),
            5 => format!("level=error msg=\"{text}\""),
            _ => text,
        };
        line.into_bytes()
    })
}

/// Rules, and what each does to one line: the text, a field `f`, and whether it is kept.
#[derive(Clone, Copy, Debug)]
enum Simple {
    DropIf(char),
    MaskDigits(char),
    SetIf(char, char),
    CopyField,
    StopIf(char),
}

impl Simple {
    fn written(self, index: usize) -> String {
        let action = match self {
            Simple::DropIf(word) => format!("filter='word{word}'\ndrop=true"),
            Simple::MaskDigits(word) => {
                format!("filter='word{word}'\nmask=[{{regex='[0-9]+', with='wordz'}}]")
            }
            Simple::SetIf(word, value) => {
                format!("filter='word{word} or f:=word{word}'\nset={{f='word{value}'}}")
            }
            Simple::CopyField => "filter='f:*'\npipes='copy f as g'".to_owned(),
            Simple::StopIf(word) => format!("filter='word{word}'\nstop=true"),
        };
        format!("[[rules]]\nname='r{index}'\n{action}\n")
    }
}

fn simple() -> impl Strategy<Value = Simple> {
    let word = || prop_oneof![Just('a'), Just('b'), Just('c'), Just('z')];
    prop_oneof![
        word().prop_map(Simple::DropIf),
        word().prop_map(Simple::MaskDigits),
        (word(), word()).prop_map(|(word, value)| Simple::SetIf(word, value)),
        Just(Simple::CopyField),
        word().prop_map(Simple::StopIf),
    ]
}

/// One line after another, one rule after another, on plain text.
fn model(rules: &[Simple], lines: &[String]) -> Vec<(String, String, String)> {
    let digits = regex::Regex::new("[0-9]+").unwrap();
    let mut kept = Vec::new();
    'lines: for line in lines {
        let (mut text, mut f, mut g) = (line.clone(), String::new(), String::new());
        for rule in rules {
            let holds = |word: char| text.split(' ').any(|found| found == format!("word{word}"));
            match *rule {
                Simple::DropIf(word) if holds(word) => continue 'lines,
                Simple::StopIf(word) if holds(word) => break,
                Simple::MaskDigits(word) if holds(word) => {
                    text = digits.replace_all(&text, "wordz").into();
                }
                Simple::SetIf(word, value) if holds(word) || f == format!("word{word}") => {
                    f = format!("word{value}");
                }
                Simple::CopyField if !f.is_empty() => g.clone_from(&f),
                _ => {}
            }
        }
        kept.push((text, f, g));
    }
    kept
}

proptest! {
    #[test]
    fn lines_are_found_as_if_all_were_looked_at(
        given in proptest::sample::subsequence(FOUND.to_vec(), 1..8).prop_shuffle(),
        lines in proptest::collection::vec(found_line(), 1..24),
        extra in proptest::sample::select(vec!["", "", "f", "_msg", "card"]),
        repeated in 1..300_usize,
    ) {
        let rule = |(number, rule): (usize, &&str)| format!("[[rules]]\nname='r{number}'\n{rule}\n");
        let config: String = given.iter().enumerate().map(rule).collect();
        let mut origin = Origin::new(Transport::Http, Format::Auto, None);
        if !extra.is_empty() {
            let extra_fields = vec![(extra.to_owned(), "4111111111111111 error".to_owned())];
            origin.hints = record::Hints { extra_fields, ..Default::default() }.into();
        }
        let mut frame = FrameBuilder::new();
        // Enough for several parts of the search.
        for line in lines.iter().cycle().take(lines.len() * repeated) {
            frame.push_line(&origin, 1_700_000_000_000_000_000, line, false);
        }
        let frame = frame.finish(7, 1).unwrap();
        let (quick, mut slow) = (rules(&config).unwrap(), rules(&config).unwrap());
        slow.finder = find::Finder::of_all_lines(given.len());
        let ruled = quick.apply(frame.clone(), &parsers());
        prop_assert_eq!(seen(ruled), seen(slow.apply(frame, &parsers())), "{}", config);
        for (quick, slow) in quick.counts().zip(slow.counts()) {
            let counts = |of: &RuleCounts| {
                let all = [&of.selected, &of.dropped, &of.masked, &of.changed, &of.failed];
                all.map(|count| count.load(Relaxed))
            };
            prop_assert_eq!(counts(quick), counts(slow), "{} of {}", quick.name, config);
        }
    }

    #[test]
    fn rules_do_what_the_model_does(
        given in proptest::collection::vec(simple(), 1..6),
        lines in proptest::collection::vec("(word[abc] |[0-9]{1,3} |x ){0,4}[a-c0-9]", 1..12),
    ) {
        let config: String = given.iter().enumerate().map(|(n, rule)| rule.written(n)).collect();
        let set = rules(&config).unwrap();
        let texts: Vec<&str> = lines.iter().map(String::as_str).collect();
        let found: Vec<(String, String, String)> = seen(set.apply(frame(&texts), &parsers()))
            .into_iter()
            .map(|(raw, mut fields)| {
                let mut take = |name| fields.remove(name).unwrap_or_default();
                (raw, take("f"), take("g"))
            })
            .collect();
        prop_assert_eq!(found, model(&given, &lines), "{}", config);
        // The trial says the same.
        let set = rules(&config).unwrap();
        let traced = trace(&set, frame(&texts), &parsers());
        prop_assert_eq!(traced.len(), lines.len());
        let kept = traced.iter().filter_map(|line| line.after.as_ref());
        let kept: Vec<_> = kept.map(|(batch, row)| batch.row(*row).raw().to_vec()).collect();
        let expected: Vec<_> = model(&given, &lines).into_iter().map(|l| l.0.into_bytes()).collect();
        prop_assert_eq!(kept, expected);
    }
}

/// A rule gives lines a tenant that nobody had given one: what a line contains must not take it
/// from the tenant that sent it.
#[test]
fn a_tenant_is_given_to_lines_that_have_none() {
    let set = rules(
        "[[rules]]\nname = 'shop'\nfilter = 'shop'\ntenant = '12:3'\n\
         [[rules]]\nname = 'bank'\nfilter = 'bank'\ntenant = '13:0'\nset = { tier = 'gold' }\n",
    )
    .unwrap();
    let [shop, bank] = [(12, 3), (13, 0)].map(|(account, project)| Tenant { account, project });
    let mut builder = FrameBuilder::new();
    for (tenant, line) in [
        (Tenant::DEFAULT, "of the shop"),
        (Tenant::DEFAULT, "of the bank"),
        (Tenant::DEFAULT, "of the shop and the bank"),
        (Tenant::DEFAULT, "of nobody"),
        (bank, "of the shop"),
    ] {
        let mut origin = Origin::new(Transport::Http, Format::Auto, None);
        origin.hints = record::Hints { tenant, ..Default::default() }.into();
        builder.push_line(&origin, 1_700_000_000_000_000_000, line.as_bytes(), false);
    }
    let frame = set.apply(builder.finish(7, 1).unwrap(), &parsers()).unwrap();
    let tenants: Vec<Tenant> = frame.lines().map(|line| line.origin.hints.tenant).collect();
    assert_eq!(tenants, [shop, bank, shop, Tenant::DEFAULT, bank]);
    for (config, expected) in [
        ("tenant = 'shop'", "tenant: a tenant is two numbers"),
        ("set = { _tenant = '1:1' }", "'_tenant' cannot be given"),
        ("drop = true\ntenant = '1:1'", "does one thing"),
    ] {
        let error = rules(&format!("[[rules]]\nname = 'r'\n{config}\n")).err().unwrap();
        assert!(error.contains(expected), "{error}");
    }
    // Pipes cannot give one either.
    let piped = "[[rules]]\nname = 'r'\npipes = 'format \"1:1\" as _tenant'\n";
    let frame = rules(piped).unwrap().apply(frame, &parsers()).unwrap();
    let tenants: Vec<Tenant> = frame.lines().map(|line| line.origin.hints.tenant).collect();
    assert_eq!(tenants, [shop, bank, shop, Tenant::DEFAULT, bank]);
    let fields: Vec<_> = frame.origins().iter().flat_map(|o| &o.hints.extra_fields).collect();
    assert!(fields.iter().all(|(name, _)| name != "_tenant"), "{fields:?}");
}

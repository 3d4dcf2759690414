//! Types from rules, on whole lines.

use super::*;

fn types_of(config: &ParserConfig, origin: &Origin, lines: &[&str]) -> Vec<String> {
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let batch = parse_with(config, origin, &lines);
    let value = |row: crate::batch::Row<'_>| row.get_by_name("_type").map(<[u8]>::to_vec);
    batch.rows().map(|row| String::from_utf8(value(row).unwrap()).unwrap()).collect()
}

#[test]
fn rules_name_types_and_formats() {
    let rule = |name: &str, app: &str, format| TypeRule {
        name: name.into(),
        app_name: if app.is_empty() { vec![] } else { vec![app.into()] },
        format,
        ..TypeRule::default()
    };
    let all = TypeRule { contains: Some("shop".into()), ..rule("shop", "", MessageFormat::Auto) };
    let config = ParserConfig {
        types: vec![
            rule("text", "raw", MessageFormat::Plain),
            rule("billing", "bill", MessageFormat::Json),
            rule("web", "httpd", MessageFormat::Access),
            all,
        ],
        ..ParserConfig::default()
    };
    let lines = [
        "<13>raw: {\"a\":1}",
        "<13>bill: {\"a\":1}",
        "<13>bill: a",
        "<13>httpd: a",
        "<13>other: the shop",
        "<13>other: {\"a\":1}",
        "{\"app_name\":\"bill\"}",
        "{\"a\":\"shop\"}",
        "x",
    ];
    let expected =
        ["text", "billing", "billing", "web", "shop", "json", "billing", "shop", "plain"];
    assert_eq!(types_of(&config, &syslog_udp(), &lines), expected);
    let lines: Vec<&[u8]> = lines.iter().map(|line| line.as_bytes()).collect();
    let batch = parse_with(&config, &syslog_udp(), &lines);
    let get = |row: usize, name: &str| {
        batch.row(row).get_by_name(name).map(|v| String::from_utf8_lossy(v).into_owned())
    };
    assert_eq!(get(0, "a"), None);
    assert_eq!(get(1, "a").as_deref(), Some("1"));
    assert_eq!(get(2, "_note").as_deref(), Some("not JSON: broken or cut off"));
    assert_eq!(get(3, "_note").as_deref(), Some("not an access line"));
    // A type that came with the lines precedes rules.
    let hints = Hints { log_type: Some("mine".into()), ..Hints::default() };
    assert_eq!(types_of(&config, &http(Format::Auto, hints), &["shop"]), ["mine"]);
}

/// A rule for plain texts holds for heads, containers and objects as well.
#[test]
fn plain_texts_are_left_as_they_are() {
    let rule = |change: fn(&mut TypeRule)| {
        let mut rule =
            TypeRule { name: "text".into(), format: MessageFormat::Plain, ..TypeRule::default() };
        change(&mut rule);
        ParserConfig { types: vec![rule], ..ParserConfig::default() }
    };
    let of_text = rule(|rule| rule.contains = Some("x".into()));
    let of_app = rule(|rule| rule.app_name = vec!["app".into()]);
    let lines = [
        "2026-01-31T12:00:00Z web1 app[7]: x",
        "<13>Jan 31 12:00:00 web1 app[7]: x",
        "2026-01-31T12:00:00Z stdout F x",
        "{\"app_name\":\"app\",\"msg\":\"x\"}",
        "level=info msg=x",
    ];
    for line in lines {
        // Twice: the second time the head could be cached.
        let twice = [line.as_bytes(); 2];
        for row in parse_with(&of_text, &file(), &twice).rows() {
            assert_eq!(row.get_by_name("_msg"), Some(line.as_bytes()));
            assert_eq!(row.get_by_name("_type"), Some(&b"text"[..]));
            assert_eq!(row.get_by_name("app_name"), None, "{line}");
        }
    }
    // A rule for an application needs the head, and then leaves the message as it is.
    let lines = [lines[0].as_bytes(), lines[3].as_bytes()];
    let batch = parse_with(&of_app, &file(), &lines);
    assert_eq!(batch.row(0).get_by_name("_msg"), Some(&b"x"[..]));
    assert_eq!(batch.row(1).get_by_name("_msg"), Some(lines[1]));
    assert_eq!(batch.row(1).get_by_name("msg"), None);
}

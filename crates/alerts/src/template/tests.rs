//! Templates: what they make, what is refused, arbitrary text.

use proptest::prelude::*;

use super::*;

fn labels() -> Labels {
    [("host", "web-1:80"), ("a.b", "dotted"), ("n", "2.5"), ("evil", "{{ $value }}\r\nX: y")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

fn expand(text: &str, value: f64) -> Result<String, String> {
    let labels = labels();
    let data = Data {
        labels: &labels,
        value,
        expr: "* | stats count() n",
        active_at_ns: 0,
        hold: Duration::from_secs(300),
        external_url: "http://logs",
    };
    Template::parse(text).map(|template| template.expand(&data, 1000))
}

#[test]
fn templates_are_expanded() {
    for (text, value, expected) in [
        ("plain } text", 1.0, "plain } text"),
        ("{{ $labels.host }} {{.Labels.host}}", 1.0, "web-1:80 web-1:80"),
        ("a{{ $labels.none }}b", 1.0, "ab"),
        ("{{ $value }} {{ .Value }}", 0.25, "0.25 0.25"),
        ("{{ $expr }}", 1.0, "* | stats count() n"),
        ("{{ $activeAt }} {{ $for }}", 1.0, "1970-01-01T00:00:00Z 300s"),
        (
            "{{ $externalURL }}/?q={{ $expr | queryEscape }}",
            1.0,
            "http://logs/?q=*+%7C+stats+count%28%29+n",
        ),
        ("{{ index $labels \"a.b\" }}", 1.0, "dotted"),
        ("{{ $value | humanize }}", 1234567.0, "1.235M"),
        ("{{ $value | humanize }}", 0.0012, "1.2m"),
        ("{{ $value | humanize }}", -1500.0, "-1.5k"),
        ("{{ $value | humanize }}", 0.0, "0"),
        ("{{ $value | humanize1024 }}", 1048576.0, "1Mi"),
        ("{{ $value | humanizePercentage }}", 0.1234567, "12.35%"),
        ("{{ $value | humanizeDuration }}", 90061.0, "1d 1h 1m 1s"),
        ("{{ $value | humanizeDuration }}", 61.5, "1m 1s"),
        ("{{ $value | humanizeDuration }}", 12.5, "12.5s"),
        ("{{ $value | humanizeDuration }}", 0.005, "5ms"),
        ("{{ $value | humanizeDuration }}", -3600.0, "-1h 0m 0s"),
        ("{{ $value | humanizeTimestamp }}", 60.0, "1970-01-01T00:01:00Z"),
        ("{{ $labels.n | humanize }} {{ $labels.host | humanize }}", 1.0, "2.5 web-1:80"),
        ("{{ $labels.host | stripPort | toUpper }}", 1.0, "WEB-1"),
        ("{{ \"some words\" | title }} {{ toLower \"ABC\" }}", 1.0, "Some Words abc"),
        ("{{ printf \"%.2f of %s: %d%%\" $value $labels.host 7 }}", 1.0, "1.00 of web-1:80: 7%"),
        (
            "{{ $value | printf \"%06.1f|%-4s|%4s|%q\" 2.5 `a` \"b\" }}",
            1.0,
            "0002.5|a   |   b|\"1\"",
        ),
        ("{{ (printf \"%.1f\" $value) | toUpper }}", 1.25, "1.2"),
        ("{{ printf \"}}\" }}", 1.0, "}}"),
        ("a \n{{- $value -}}\n b", 1.0, "a1b"),
        ("{{/* a comment */}}x", 1.0, "x"),
        // Values are data: they are not expanded again.
        ("{{ $labels.evil }}", 1.0, "{{ $value }}\r\nX: y"),
    ] {
        assert_eq!(expand(text, value).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn what_is_not_supported_is_named_when_it_is_read() {
    for (text, part) in [
        ("{{ if gt $value 1 }}x{{ end }}", "'if' is not supported"),
        ("{{ range $labels }}", "'range'"),
        ("{{ query \"up\" | first }}", "'query'"),
        ("{{ $value | humanise }}", "function 'humanise'"),
        ("{{ $value", "not closed"),
        ("{{ }}", "a value is missing"),
        ("{{ $labels }}", "all labels"),
        ("{{ $labels.a.b }}", "index $labels \"a.b\""),
        ("{{ $labels. }}", "'$labels.' is not supported"),
        ("{{ $x := 1 }}", "'$x' is not supported"),
        ("{{ $other }}", "'$other' is not supported"),
        ("{{ $value | }}", "no function behind"),
        ("{{ $value $value }}", "without '|'"),
        ("{{ humanize }}", "takes 1 argument, and gets 0"),
        ("{{ humanize 1 2 }}", "takes 1 argument, and gets 2"),
        ("{{ humanize $labels }}", "index $labels"),
        ("{{ index \"a\" \"b\" }}", "index $labels"),
        ("{{ printf $value }}", "text in quotes"),
        ("{{ printf \"%s\" }}", "takes 1 arguments, and gets 0"),
        ("{{ printf \"%y\" 1 }}", "%y"),
        ("{{ printf \"%999s\" 1 }}", "above 100"),
        ("{{ printf \"%", "not closed"),
        ("{{ (humanize 1 }}", "')' is missing"),
        ("{{ humanize 1) }}", "')' too many"),
        ("{{ 1x }}", "'1x' is no number"),
        ("{{ humanize toUpper 1 }}", "parentheses"),
    ] {
        let error = expand(text, 1.0).expect_err(text);
        assert!(error.contains(part), "{text}: {error}");
    }
    let deep = format!("{{{{ {}1{} }}}}", "(".repeat(40), ")".repeat(40));
    assert!(expand(&deep, 1.0).unwrap_err().contains("deeper"));
    assert!(expand(&"x".repeat(20_000), 1.0).unwrap_err().contains("longer"));
}

#[test]
fn results_are_bounded() {
    let text = "{{ printf \"%100s\" $value }}".repeat(40);
    assert_eq!(expand(&text, 1.0).unwrap().len(), 1000 + "\u{2026}".len());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,40}", value in any::<f64>()) {
        let _ = expand(&text, value);
    }

    #[test]
    fn no_action_panics(
        parts in prop::collection::vec(prop::sample::select(vec![
            "{{", "}}", "{{-", "-}}", "$labels", ".Labels.x", "$value", "|", "humanize", "printf",
            "\"%5.2f\"", "\"", "`", "\\", "(", ")", " ", "-", "1", "%", "é", "index", "/*", "*/",
        ]), 0..12),
        value in any::<f64>(),
    ) {
        let _ = expand(&parts.concat(), value);
    }

    #[test]
    fn text_without_actions_stays(text in "[^{]{0,40}") {
        prop_assert_eq!(expand(&text, 1.0).unwrap(), text);
    }
}

//! The texts of a notification: a subject, and a text for each alert, from templates of a receiver
//! or as they are by default.
//!
//! The language is that of annotations ([`crate::template`]), with other variables. What a label,
//! an annotation or a line holds is data: it is never read as a template. How a receiver keeps it
//! from being read as markup is the matter of each channel.

use std::borrow::Cow;
use std::fmt::Write as _;

use text::template::{Function, Language, Term, Value};
use text::time::format_time;

use super::{Notice, Notification};
use crate::labels::{Labels, cut};
use crate::template::{check_maps, language};

/// Bytes of a template.
const TEMPLATE_BYTES_MAX: usize = 4 << 10;
/// Characters of a subject.
pub const SUBJECT_CHARS_MAX: usize = 200;
/// Bytes of the text of one alert.
pub const TEXT_BYTES_MAX: usize = 4 << 10;
/// Alerts that a message shows; those beyond are counted in it.
///
/// limits.md, Alerts: alerts that a message to Slack, Teams, ntfy or Matrix shows; bytes of the
/// text of one | {}; {TEXT_BYTES_MAX} | the rest is counted in the message; cut off
pub const SHOWN_MAX: usize = 10;
/// Characters of the line that a message shows as an example.
///
/// limits.md, Alerts: characters of the example line of a notification | {} | the rest is cut off
pub const LINE_CHARS_MAX: usize = 500;

/// The templates of a receiver.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Templates {
    subject: Option<Template>,
    text: Option<Template>,
}

type Template = text::template::Template<Variable>;

#[derive(Debug, Clone, PartialEq)]
enum Variable {
    Status,
    Rule,
    Group,
    Firing,
    Resolved,
    Labels,
    Label(String),
    Annotations,
    Annotation(String),
    Value,
    Since,
    Url,
    Line,
}

static LANGUAGE: Language<Variable> = language(variable, check, TEMPLATE_BYTES_MAX);

impl Templates {
    /// Reads the templates. The error names the key and what is not supported.
    pub fn parse(
        subject: Option<&str>,
        text: Option<&str>,
    ) -> Result<Templates, (&'static str, String)> {
        let parse = |key, template: Option<&str>| {
            let parsed = template.map(|template| Template::parse(template, &LANGUAGE));
            parsed.transpose().map_err(|what| (key, what))
        };
        Ok(Templates { subject: parse("subject", subject)?, text: parse("text", text)? })
    }

    /// Whether alerts have a text of their own.
    pub fn has_text(&self) -> bool {
        self.text.is_some()
    }

    /// Whether there is a subject of its own.
    pub fn has_subject(&self) -> bool {
        self.subject.is_some()
    }

    /// One line without control characters, of at most [`SUBJECT_CHARS_MAX`] characters.
    pub fn subject(&self, notification: &Notification) -> String {
        let firing = notification.firing();
        let subject = match (&self.subject, firing) {
            (Some(template), _) => {
                let first = notification.alerts.first();
                render(template, notification, first, SUBJECT_CHARS_MAX * 4)
            }
            (None, 0) => format!("[resolved] {} ({})", notification.rule, notification.group),
            (None, _) => {
                format!("[firing: {firing}] {} ({})", notification.rule, notification.group)
            }
        };
        one_line(&subject).chars().take(SUBJECT_CHARS_MAX).collect()
    }

    /// The text of one alert, at most [`TEXT_BYTES_MAX`] bytes and a mark that it was cut. Its line
    /// and its link are apart, unless the template names them.
    pub fn text(&self, notification: &Notification, notice: &Notice) -> String {
        match &self.text {
            Some(template) => plain(&render(template, notification, Some(notice), TEXT_BYTES_MAX)),
            None => cut(default_text(notice), TEXT_BYTES_MAX),
        }
    }
}

/// When an alert began or ended, with its value.
pub fn state_line(notice: &Notice) -> String {
    let (state, time_ns) = match notice.is_firing {
        true => ("Firing since", notice.starts_at_ns),
        false => ("Resolved at", notice.ends_at_ns),
    };
    format!("{state} {}, value {}", format_time(time_ns), notice.value)
}

fn default_text(notice: &Notice) -> String {
    let mut text = state_line(notice);
    for (name, value) in &notice.annotations {
        // Writing to a text cannot fail.
        let _ = write!(text, "\n{}: {}", one_line(name), plain(value));
    }
    let labels = notice.labels.iter().map(|(name, value)| format!("{name}={value}"));
    let labels: Vec<String> = labels.map(|label| one_line(&label)).collect();
    let _ = write!(text, "\n{}", labels.join(", "));
    text
}

/// `text` without control characters.
pub fn one_line(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

/// `text` without control characters other than ends of lines.
pub fn plain(text: &str) -> String {
    let lines = text.lines().map(one_line);
    lines.collect::<Vec<String>>().join("\n")
}

/// Control characters, and those that change the direction of the text around them.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// `text`, or its first `chars_max` characters, of which the last one says that it was cut.
pub fn cut_chars(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        None => text.to_owned(),
        Some(_) => {
            let kept = text.chars().take(chars_max.saturating_sub(1));
            kept.chain(std::iter::once('\u{2026}')).collect()
        }
    }
}

fn render(
    template: &Template,
    notification: &Notification,
    notice: Option<&Notice>,
    bytes_max: usize,
) -> String {
    static NONE: Labels = Labels::new();
    let labels = notice.map_or(&NONE, |notice| &notice.labels);
    let annotations = notice.map_or(&NONE, |notice| &notice.annotations);
    let of = |map: &'static str| -> Value<'_> { map.into() };
    let value = |variable: &Variable| match variable {
        Variable::Status => match notice.is_some_and(|notice| notice.is_firing) {
            true => of("firing"),
            false => of("resolved"),
        },
        Variable::Rule => Value::Text(Cow::Borrowed(&notification.rule)),
        Variable::Group => Value::Text(Cow::Borrowed(&notification.group)),
        Variable::Firing => Value::Float(notification.firing() as f64),
        Variable::Resolved => Value::Float(notification.resolved() as f64),
        Variable::Labels => Value::Map(labels),
        Variable::Annotations => Value::Map(annotations),
        Variable::Label(name) => {
            Value::Text(Cow::Borrowed(labels.get(name).map_or("", String::as_str)))
        }
        Variable::Annotation(name) => {
            Value::Text(Cow::Borrowed(annotations.get(name).map_or("", String::as_str)))
        }
        Variable::Value => Value::Float(notice.map_or(0.0, |notice| notice.value)),
        Variable::Since => {
            format_time(notice.map_or(notification.time_ns, |notice| notice.starts_at_ns)).into()
        }
        Variable::Url => Value::Text(Cow::Borrowed(notice.map_or("", |notice| &notice.source_url))),
        Variable::Line => Value::Text(Cow::Borrowed(
            notice.and_then(|notice| notice.line.as_deref()).unwrap_or_default(),
        )),
    };
    // No function fails.
    let text = template.render(&value, bytes_max).unwrap_or_else(|error| error);
    cut(text, bytes_max)
}

fn variable(written: &str) -> Result<Option<Variable>, String> {
    Ok(Some(match written {
        "$status" => Variable::Status,
        "$rule" => Variable::Rule,
        "$group" => Variable::Group,
        "$firing" => Variable::Firing,
        "$resolved" => Variable::Resolved,
        "$labels" => Variable::Labels,
        "$annotations" => Variable::Annotations,
        "$value" => Variable::Value,
        "$since" => Variable::Since,
        "$url" => Variable::Url,
        "$line" => Variable::Line,
        word if !word.starts_with(['$', '.']) => return Ok(None),
        path => {
            let label = path.strip_prefix("$labels.").map(|name| (name, true));
            let annotation = path.strip_prefix("$annotations.").map(|name| (name, false));
            match label.or(annotation) {
                Some((name, _)) if name.contains('.') => {
                    return Err(format!("write index $labels \"{name}\" for a name with dots"));
                }
                Some((name, true)) if !name.is_empty() => Variable::Label(name.to_owned()),
                Some((name, false)) if !name.is_empty() => Variable::Annotation(name.to_owned()),
                _ => {
                    return Err(format!(
                        "'{path}' is not supported; there are $status, $rule, $group, $firing, \
                         $resolved, $labels.NAME, $annotations.NAME, $value, $since, $url and $line"
                    ));
                }
            }
        }
    }))
}

fn check(
    function: Option<&Function>,
    arguments: &[Term<Variable>],
    given: usize,
) -> Result<(), String> {
    check_maps(function, arguments, given, |variable| {
        matches!(variable, Variable::Labels | Variable::Annotations)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::notification;
    use super::*;

    #[test]
    fn templates_show_alerts_and_nothing_of_them_is_a_template() {
        let mut notification = notification();
        notification.alerts[0]
            .annotations
            .insert("summary".to_owned(), "{{ $rule }}\n*x*".to_owned());
        notification.alerts[0].line = Some("the line".to_owned());
        for (subject, text, expected) in [
            (None, None, "[firing: 1] Errors  Bcc: x@example.com (web)"),
            (Some("{{ $status | toUpper }} {{ $firing }}/{{ $resolved }}"), None, "FIRING 1/1"),
            (Some("{{ $labels.alertname }}\r\n{{ $group }}"), None, "Errors  web"),
            (None, Some("{{ $annotations.summary }} {{ $line }}"), "{{ $rule }}\n*x* the line"),
            (None, Some("{{ index $labels \"h.ost\" }}: {{ printf \"%.1f\" $value }}"), "a: 12.0"),
            (None, Some("{{ $url }} {{ $since }}"), "http://logs/?query=x 1970-01-01T00:00:00Z"),
        ] {
            let templates = Templates::parse(subject, text).unwrap();
            let shown = match text {
                None => templates.subject(&notification),
                Some(_) => templates.text(&notification, &notification.alerts[0]),
            };
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn wrong_templates_are_refused_with_their_key() {
        for (subject, text, key, part) in [
            (Some("{{ $nothing }}"), None, "subject", "there are $status"),
            (None, Some("{{ if $line }}x{{ end }}"), "text", ""),
            (None, Some("{{ $labels }}"), "text", "index"),
            (None, Some("{{ $labels.a.b }}"), "text", "index $labels \"a.b\""),
            (None, Some("{{ printf \"%d %d\" $value }}"), "text", "takes 2"),
        ] {
            let (found, what) = Templates::parse(subject, text).unwrap_err();
            assert!(found == key && what.contains(part), "{found}: {what}");
        }
    }

    #[test]
    fn texts_are_bounded_and_have_no_hidden_characters() {
        let mut notification = notification();
        let notice = &mut notification.alerts[0];
        notice.annotations.insert("a".to_owned(), format!("\u{202e}\u{7}{}", "x".repeat(9_999)));
        let text = Templates::default().text(&notification, &notification.alerts[0]);
        assert!(text.len() <= TEXT_BYTES_MAX + '\u{2026}'.len_utf8() && text.ends_with('\u{2026}'));
        assert!(!text.contains(['\u{202e}', '\u{7}']));
        let templates = Templates::parse(Some(&"x".repeat(300)), None).unwrap();
        assert_eq!(templates.subject(&notification).chars().count(), SUBJECT_CHARS_MAX);
        assert_eq!(cut_chars("äbc", 2), "ä\u{2026}");
        assert_eq!(cut_chars("äb", 2), "äb");
    }
}

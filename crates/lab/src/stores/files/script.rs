//! A search as somebody at a terminal writes it: `rg` finds the lines that have a text, `awk`
//! compares fields and counts, and `sort` finds the newest lines: lines of several writers are not
//! in the order of their times.
//!
//! The script is fixed text and numbers. Everything that comes from a request is in the
//! environment, where neither the shell nor awk takes it for a part of the program.

use super::protocol::{Find, Print, Text};

/// A script for `sh`, and its environment.
pub struct Script {
    pub text: String,
    pub environment: Vec<(String, String)>,
}

/// Runs in the directory of the table.
pub fn script(find: &Find) -> Script {
    let mut environment = vec![("LC_ALL".to_owned(), "C".to_owned())];
    let search = find.text.as_ref().map(|text| {
        let (options, text) = match text {
            Text::Word(text) => ("--word-regexp --fixed-strings ", text),
            Text::Fixed(text) => ("--fixed-strings ", text),
            Text::Regex(text) => ("", text),
        };
        environment.push(("TEXT".to_owned(), text.clone()));
        format!("rg --no-config --no-filename --no-line-number --text {options}")
    });
    let mut conditions = Vec::new();
    for (at, (field, value)) in find.equals.iter().enumerate() {
        environment.push((format!("VALUE{at}"), value.clone()));
        // With an empty text behind them both are texts: `1` and `1.0` differ.
        conditions.push(format!("(${field} \"\") == (ENVIRON[\"VALUE{at}\"] \"\")"));
    }
    if let Some((field, from, to)) = find.range {
        conditions.push(format!("${field} >= {from} && ${field} < {to}"));
    }
    let filter = match conditions.is_empty() {
        true => "1".to_owned(),
        false => conditions.join(" && "),
    };
    let awk = |action: &str| format!("awk -F '\\t' '{filter} {action}'");
    let group =
        |key: &str| awk(&format!("{{ n[{key}]++ }} END {{ for (k in n) print k \"\\t\" n[k] }}"));
    let all = |program: String| match &search {
        Some(search) => format!("{search} -e \"$TEXT\" -- *.log | {program}"),
        None => format!("cat -- *.log | {program}"),
    };
    let text = match find.print {
        Print::Count => match (&search, conditions.is_empty()) {
            (Some(search), true) => format!(
                "{search} --count -e \"$TEXT\" -- *.log | awk '{{ n += $1 }} END {{ print n + 0 }}'"
            ),
            _ => all(awk("{ n++ } END { print n + 0 }")),
        },
        Print::CountBy(field) => all(group(&format!("${field}"))),
        Print::CountOver(field, step) => {
            // %d of some awks has 32 bits.
            all(group(&format!("sprintf(\"%.0f\", ${field} - ${field} % {step})")))
        }
        Print::First => all(awk("{ print; exit }")),
        Print::Highest(field, lines) => {
            // `sort` knows no `\t`; the shell passes it the byte itself.
            let sort = format!("sort -t '\t' -k {field},{field}nr | head -n {lines}");
            all(format!("{} | {sort}", awk("{ print }")))
        }
    };
    Script { text, environment }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: Option<Text>, print: Print) -> Find {
        Find { table: "t".to_owned(), text, equals: Vec::new(), range: None, print }
    }

    #[test]
    fn searches_are_what_somebody_would_type() {
        let word = || Some(Text::Word("failed".to_owned()));
        let made = script(&find(word(), Print::Count));
        assert_eq!(
            made.text,
            "rg --no-config --no-filename --no-line-number --text --word-regexp --fixed-strings  --count -e \"$TEXT\" -- *.log | awk '{ n += $1 } END { print n + 0 }'"
        );
        let made = script(&Find {
            equals: vec![(3, "web01".to_owned())],
            range: Some((2, 5, 9)),
            ..find(None, Print::CountOver(2, 1_000))
        });
        assert_eq!(
            made.text,
            "cat -- *.log | awk -F '\\t' '($3 \"\") == (ENVIRON[\"VALUE0\"] \"\") && $2 >= 5 && $2 < 9 { n[sprintf(\"%.0f\", $2 - $2 % 1000)]++ } END { for (k in n) print k \"\\t\" n[k] }'"
        );
        let made = script(&find(word(), Print::Highest(2, 7)));
        assert!(made.text.ends_with("| sort -t '\t' -k 2,2nr | head -n 7"), "{}", made.text);
    }

    #[test]
    fn what_a_request_says_is_never_a_part_of_the_script() {
        let evil = "'; touch /tmp/x; \" $(reboot) `id` }";
        let made = script(&Find {
            equals: vec![(3, evil.to_owned())],
            ..find(Some(Text::Regex(evil.to_owned())), Print::First)
        });
        assert!(!made.text.contains("reboot") && !made.text.contains("touch"), "{}", made.text);
        assert_eq!(made.environment.iter().filter(|(_, value)| value == evil).count(), 2);
    }
}

//! Each built-in program makes rows of lines like those that it is for.

use programs::{BUILTIN, Builtin, Helper, Launcher};
use record::{Parser, ParserConfig};

use crate::programs::compiled::Compiled;
use crate::programs::trial;

/// Rows of a built-in program as lines of JSON, sorted.
fn rows(name: &str, log_type: Option<&str>, lines: &[&str]) -> Vec<String> {
    let compiled = Compiled::new(Builtin::named(name).unwrap().loaded().definition.unwrap());
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    let lines = lines.iter().map(|line| line.as_bytes());
    let sample = trial::parse(&mut parser, log_type, lines, 1);
    let launcher = Launcher::new(Helper::own_binary("unused")).unwrap();
    let tried = trial::run(&compiled.unwrap(), sample, &launcher, |_| None).unwrap();
    assert_eq!((tried.error, tried.rejected.lines), (None, 0), "{name}");
    let row = |row: &programs::Row| {
        let mut text = Vec::new();
        row.write_json(&mut text);
        String::from_utf8(text).unwrap()
    };
    let mut rows: Vec<String> = tried.rows.iter().map(row).collect();
    rows.sort();
    rows
}

#[test]
fn each_says_what_it_is_and_makes_rows() {
    for builtin in &BUILTIN {
        assert!(builtin.about().ends_with(['.', ',']) || !builtin.about().is_empty());
    }
    let access =
        "10.0.0.1 - - [17/May/2015:10:05:03 +0000] \"GET /a?b HTTP/1.1\" 200 12 \"-\" \"x\"";
    assert_eq!(rows("access", Some("access"), &[access, access]).len(), 1);
    let paths = rows("paths", Some("access"), &[access, access]);
    assert!(paths[0].contains("\"requests\":2"), "{paths:?}");
    let ssh = |text: &str| format!("<38>Jan 10 06:55:46 web1 sshd[1]: {text}");
    let lines = [
        ssh("Failed password for invalid user bob from 10.0.0.7 port 1 ssh2"),
        ssh("Failed password for invalid user bob from 10.0.0.7 port 2 ssh2"),
        ssh("Accepted publickey for eve from 10.0.0.8 port 3 ssh2"),
        ssh("Failed to do something else"),
    ];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    assert_eq!(
        rows("logins", None, &lines),
        [
            r#"{"result":"Accepted","user":"eve","address":"10.0.0.8","attempts":1}"#,
            r#"{"result":"Failed","user":"bob","address":"10.0.0.7","attempts":2}"#,
        ]
    );
    assert_eq!(rows("levels", None, &lines).len(), 1);
    assert!(rows("hosts", None, &lines)[0].contains("\"hostname\":\"web1\""));
    let took = [r#"{"app_name":"shop","duration":"0.25","_msg":"m"}"#];
    let durations = rows("durations", None, &took);
    assert!(durations[0].contains("dd1:"), "{durations:?}");
}

//! Programs in VRL on lines.

use super::*;
use crate::definition::Language;

fn compiled(code: &str) -> Result<VrlProgram, String> {
    let text = format!("# type: t\n{code}");
    let definition = Definition::parse_as("p", Language::Vrl, &text).map_err(|e| e.to_string())?;
    VrlProgram::compile(&definition).map_err(|error| error.to_string())
}

fn feed(run: &mut VrlRun, fields: &[(&str, &str)]) -> Result<(), ProgramError> {
    fields.iter().for_each(|(name, value)| run.push_field(name, value.as_bytes()));
    run.end_line()
}

/// The rows and the rejected lines of a program on one line.
fn check(code: &str, fields: &[(&str, &str)], expected: &str) {
    let mut run = VrlRun::start(&compiled(code).unwrap(), &Limits::default());
    feed(&mut run, fields).unwrap();
    let (rows, rejected) = run.finish();
    let mut out = Vec::new();
    rows.iter().for_each(|row| row.write_json(&mut out));
    rejected.first.iter().for_each(|error| out.extend(error.to_string().bytes()));
    assert_eq!(String::from_utf8(out).unwrap(), expected, "{code}");
}

#[test]
fn the_event_at_the_end_is_the_row() {
    let line =
        [("_time", "2026-01-01T00:00:00Z"), ("_msg", "m"), ("status", "200"), ("_line", "l")];
    check(".status = to_int!(.status)", &line, r#"{"status":200}"#);
    check(".copy = ._msg\n.raw = ._line", &line, r#"{"copy":"m","raw":"l","status":"200"}"#);
    check(
        ". = {\"a\": {\"b\": 1.5, \"c\": null}, \"t\": true}",
        &line,
        r#"{"a.b":1.5,"a.c":null,"t":true}"#,
    );
    check(
        ".at = parse_timestamp!(._time, \"%+\")\ndel(.status)",
        &line,
        r#"{"at":"2026-01-01T00:00:00Z"}"#,
    );
    check("if .status != \"500\" { abort }", &line, "");
    check(". = {}", &line, "");
    check("return null", &line, r#"{"status":"200"}"#);
}

#[test]
fn names_with_dots_are_objects() {
    check(".a.b = upcase!(.a.b)", &[("a.b", "x"), ("a.c", "y")], r#"{"a.b":"X","a.c":"y"}"#);
    let both = r#"{"a":"x","a.b":"y","a.b.c":"z"}"#;
    check("true", &[("a", "x"), ("a.b", "y"), ("a.b.c", "z")], both);
    check("true", &[("a.b.c", "z"), ("a.b", "y"), ("a", "x")], both);
    check("true", &[("a..b", "1"), ("a.b.c.d.e", "2")], r#"{"a..b":"1","a.b.c.d.e":"2"}"#);
    check(".n = .a.b.c.d", &[("a.b.c.d", "1")], r#"{"a.b.c.d":"1","n":"1"}"#);
}

#[test]
fn own_names_of_the_line_are_left_out_and_those_of_the_program_are_refused() {
    check(
        "true",
        &[("program", "cron"), ("_type", "t"), ("_a.b", "x"), ("n", "1")],
        r#"{"n":"1"}"#,
    );
    check(
        "._x = 1",
        &[("_line", "raw")],
        "input line 1: the name `_x` is one of Loginson's own fields; give the field another one: raw",
    );
    check(
        ".a = [1]",
        &[("_line", "raw")],
        "input line 1: `a` is an array; make a text of it with join!, or delete it: raw",
    );
}

#[test]
fn an_error_at_run_time_rejects_its_line() {
    let mut run = VrlRun::start(&compiled("\n.n = to_int!(.n)").unwrap(), &Limits::default());
    for n in ["1", "x", "3"] {
        feed(&mut run, &[("n", n), ("_line", n)]).unwrap();
    }
    let (rows, rejected) = run.finish();
    assert_eq!((rows.len(), rejected.lines), (2, 1));
    let text = rejected.first[0].to_string();
    assert!(text.starts_with("input line 2: "), "{text}");
    assert!(text.contains("to_int") && text.contains("line 3 of the program"), "{text}");
}

#[test]
fn mistakes_name_their_line() {
    let error = |code| compiled(code).map(|_| ()).unwrap_err();
    for (code, part) in [
        (".a = 1\n.b = (", "p, line 3"),
        ("\n.n = to_int(.n)\n", "p, line 3"),
        (".n = nonsense(1)", "undefined function"),
        (".n = get_env_var!(\"HOME\")", "no functions that reach outside"),
        ("log(\"x\")", "no functions that reach outside"),
        (".n = decode_zstd!(.a)", "no functions that reach outside"),
        (".n = parse_groks!(.a, patterns: [\"x\"])", "no functions that reach outside"),
    ] {
        let found = error(code);
        assert!(found.contains(part), "{code}: {found}");
        assert!(!found.contains('\n'), "{found}");
    }
    assert!(error(&format!(".a = {}1", "(".repeat(9000))).contains("nests deeper"));
    let warned = compiled(".a = 1\n1 + 1\n.b = 2").unwrap();
    assert!(
        warned.warnings().iter().any(|one| one.starts_with("line 3: ")),
        "{:?}",
        warned.warnings()
    );
}

#[test]
fn no_denied_function_is_left() {
    let all = ::vrl::stdlib::all();
    let outside = ["env", "dns", "http", "host", "file", "exec", "enrichment", "proto", "schema"];
    for function in all.iter().map(|function| function.identifier()) {
        let is_suspect = outside.iter().any(|part| function.contains(part));
        assert!(!is_suspect || DENIED.contains(&function), "{function}");
    }
}

#[test]
fn rows_and_time_are_bounded() {
    let mut limits = Limits::default();
    limits.output.rows_max = 2;
    let program = compiled(".n = 1").unwrap();
    let mut run = VrlRun::start(&program, &limits);
    feed(&mut run, &[]).unwrap();
    feed(&mut run, &[]).unwrap();
    let error = feed(&mut run, &[]).unwrap_err().to_string();
    assert!(error.contains("more than 2 rows") && error.contains("# filter:"), "{error}");

    limits.output.bytes_max = 100;
    let mut run = VrlRun::start(&program, &limits);
    let error = feed(&mut run, &[("a", &"x".repeat(200))]).unwrap_err().to_string();
    assert!(error.contains("100 bytes of rows"), "{error}");

    limits.timeout = Duration::from_millis(20);
    let endless = "for_each(range!(0, 100000)) -> |_i, _v| {\nfor_each(range!(0, 100000)) -> |_j, w| { .n = w } }";
    let mut run = VrlRun::start(&compiled(endless).unwrap(), &limits);
    let error = feed(&mut run, &[]).unwrap_err();
    assert_eq!(error, ProgramError::LineTimedOut { timeout: limits.timeout });

    limits.cpu_s_max = 0;
    let mut run = VrlRun::start(&program, &limits);
    let error = feed(&mut run, &[]).unwrap_err().to_string();
    assert!(error.contains("the lines of one bucket"), "{error}");
}

/// The deepest programs that are let through, on the stack that a thread has.
#[test]
fn the_stack_is_enough_for_the_deepest_program() {
    let depth = nesting::DEPTH_MAX - 4;
    let programs = [
        format!(".a = {}1{}", "(".repeat(depth), ")".repeat(depth)),
        format!(".a = {}true", "!".repeat(depth)),
        format!(".a = 1{}", " + 1".repeat(depth)),
        format!(".a = {}1{}", "[".repeat(depth), "]".repeat(depth)),
        format!(".a = {}1{}", "{\"a\": ".repeat(depth), "}".repeat(depth)),
        format!("x = \"y\"\n.a = \"{}\"", "{{ x }}".repeat(depth)),
        format!("if .a == 1 {{ .b = 1 }}{}", " else if .a == 2 { .b = 2 }".repeat(depth / 2 - 2)),
        format!("{}.a = 1{}", "if .b == 1 {\n".repeat(depth / 3 - 2), "\n}".repeat(depth / 3 - 2)),
    ];
    for code in programs {
        let start = code.chars().take(20).collect::<String>();
        let run = move || {
            let mut run = VrlRun::start(&compiled(&code).unwrap(), &Limits::default());
            feed(&mut run, &[]).unwrap();
        };
        let done = std::thread::Builder::new().stack_size(1 << 20).spawn(run).unwrap().join();
        assert!(done.is_ok(), "{start}");
    }
}

#[test]
fn a_panic_of_a_function_rejects_the_line() {
    // The text would be longer than memory can be.
    let code = ".a = \"abc\" * to_int!(.n)";
    let mut run = VrlRun::start(&compiled(code).unwrap(), &Limits::default());
    feed(&mut run, &[("n", "9223372036854775807")]).unwrap();
    feed(&mut run, &[("n", "2")]).unwrap();
    let (rows, rejected) = run.finish();
    assert_eq!((rows.len(), rejected.lines), (1, 1));
}

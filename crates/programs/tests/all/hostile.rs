//! Programs that mean harm, or go wrong as badly as if they did.

use std::time::Duration;

use crate::common::{
    children, error, interpreter, interpreters, launcher, processes_with, rows, run, spec,
    wait_until,
};
use programs::{BucketRun, InputBlock, Kind, OutputError, ProgramError};

/// A run must not take longer, whatever the machine does meanwhile.
const GENEROUS: Duration = Duration::from_secs(600);

#[test]
fn endless_loops_are_killed() {
    let launcher = launcher();
    let input = "x\n".repeat(1_000_000);
    for awk in interpreters() {
        let kind = awk.kind();
        let killed = |program, timeout_s| {
            let mut spec = spec(awk.clone(), program);
            spec.limits.timeout = Duration::from_secs(timeout_s);
            let failed = error(run(&launcher, &spec, input.as_bytes()));
            let ProgramError::TimedOut { is_input_ended, .. } = failed else {
                panic!("{kind:?}: {failed:?}")
            };
            is_input_ended
        };
        assert!(!killed("BEGIN { while (1) n++ }", 1), "{kind:?}");
        // The program reads all lines first; a busy machine may need several times as long.
        assert!(
            [1, 4, 16, 64, 256].into_iter().any(|s| killed("END { while (1) n++ }", s)),
            "{kind:?}"
        );
    }
}

#[test]
fn the_kernel_ends_what_uses_up_its_processor_time() {
    let launcher = launcher();
    let mut spec = spec(interpreter(Kind::Gawk), "BEGIN { while (1) n++ }");
    spec.limits.cpu_s_max = 1;
    let failed = error(run(&launcher, &spec, b""));
    assert!(failed.to_string().contains("used up its processor time"), "{failed}");
}

#[test]
fn endless_output_is_cut_off() {
    let launcher = launcher();
    for awk in interpreters() {
        let kind = awk.kind();
        let check = |program: &str, rows_max| {
            let mut spec = spec(awk.clone(), program);
            spec.limits.output.rows_max = rows_max;
            match error(run(&launcher, &spec, b"x\n")) {
                ProgramError::Output(error) => error,
                other => panic!("{kind:?}: {other:?}"),
            }
        };
        let row = "BEGIN { while (1) print \"a=1 b=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" }";
        assert_eq!(check(row, 1000), OutputError::Rows { rows_max: 1000 });
        assert_eq!(check(row, u64::MAX), OutputError::Bytes { bytes_max: 16 << 20 });
        let line = "BEGIN { while (1) printf \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" }";
        assert_eq!(check(line, 1000), OutputError::Bytes { bytes_max: 16 << 20 });
        let garbage = check("BEGIN { while (1) print \"garbage\" }", 1000);
        let OutputError::Garbage { lines: 101, first } = garbage else { panic!("{garbage:?}") };
        assert_eq!(first.line, "garbage");
    }
}

#[test]
fn endless_stderr_neither_blocks_nor_grows() {
    let launcher = launcher();
    let program = "# gawk-sandbox: off\nBEGIN { for (i = 0; i < 200000; i++) print \"noise \" i > \"/dev/stderr\" } END { print \"a=1\" }";
    let outcome = run(&launcher, &spec(interpreter(Kind::Gawk), program), b"x\n");
    assert_eq!(rows(&outcome), "{\"a\":1}\n");
    assert!(outcome.stderr.ends_with("noise 199999\n"), "{}", outcome.stderr);
    assert!(outcome.stderr.len() <= 4100);
    assert!(outcome.sandbox.is_some());
}

#[test]
fn no_process_can_be_started() {
    let launcher = launcher();
    let marker = "86399.25";
    let settings = "# gawk-sandbox: off\n# timeout: 2s\n";
    for awk in interpreters() {
        let kind = awk.kind();
        for program in [
            format!("BEGIN {{ system(\"sleep {marker} &\") ; print \"a=1\" }}"),
            format!("BEGIN {{ print \"x\" | \"sleep {marker}\"; print \"a=1\" }}"),
            format!("BEGIN {{ \"sleep {marker}; echo hello\" | getline x; print \"a=\" x }}"),
            format!("BEGIN {{ while (1) system(\"(while :; do sleep {marker} & done) &\") }}"),
            format!("BEGIN {{ for (i = 0; i < 100; i++) print \"x\" | (\"sleep {marker}\" i) }}"),
        ] {
            let outcome =
                run(&launcher, &spec(awk.clone(), &format!("{settings}{program}")), b"x\n");
            assert_eq!(processes_with(marker), Vec::<String>::new(), "{kind:?}: {program}");
            if let Ok(rows) = &outcome.result {
                let text = crate::common::json(rows);
                assert!(!text.contains("hello"), "{kind:?}: {text}");
            }
        }
    }
}

#[test]
fn files_can_neither_be_read_nor_written() {
    let launcher = launcher();
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    let target = folder.path().join("target");
    std::fs::write(&secret, "hunter2\n").unwrap();
    let (secret, target_text) = (secret.display(), target.display());
    for awk in interpreters() {
        let kind = awk.kind();
        let read = format!(
            "# gawk-sandbox: off\nBEGIN {{ while ((getline x < \"{secret}\") > 0) print \"got=\" x; print \"end=1\" }}"
        );
        let outcome = run(&launcher, &spec(awk.clone(), &read), b"");
        let files = outcome.sandbox.as_ref().unwrap().step("files").unwrap().clone();
        assert_eq!(
            files.part,
            programs::sandbox::Part::Full,
            "{}: this test needs landlock",
            files.note
        );
        assert_eq!(rows(&outcome), "{\"end\":1}\n", "{kind:?}");
        let write = format!("# gawk-sandbox: off\nBEGIN {{ print \"x\" > \"{target_text}\" }}");
        let failed = error(run(&launcher, &spec(awk.clone(), &write), b""));
        assert!(matches!(failed, ProgramError::Failed { .. }), "{kind:?}: {failed:?}");
        assert!(!target.exists(), "{kind:?}");
    }
}

#[test]
fn sockets_of_gawk_are_refused() {
    let launcher = launcher();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let program = format!(
        "# gawk-sandbox: off\nBEGIN {{ s = \"/inet/tcp/0/127.0.0.1/{port}\"; print \"x\" |& s; close(s); print \"end=1\" }}"
    );
    let outcome = run(&launcher, &spec(interpreter(Kind::Gawk), &program), b"");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err(), "the program has connected");
    assert!(outcome.result.is_err(), "{:?}", outcome.result);
}

#[test]
fn memory_has_a_limit() {
    let launcher = launcher();
    for awk in interpreters() {
        let kind = awk.kind();
        let mut spec =
            spec(awk, "BEGIN { while (1) x[n++] = sprintf(\"%1000d\", n) } END { print \"a=1\" }");
        spec.limits.memory_bytes_max = 64 << 20;
        let failed = error(run(&launcher, &spec, b""));
        let is_expected =
            matches!(failed, ProgramError::Failed { .. } | ProgramError::Killed { .. });
        assert!(is_expected, "{kind:?}: {failed:?}");
    }
}

#[test]
fn endless_recursion_is_an_error() {
    let launcher = launcher();
    for awk in interpreters() {
        let kind = awk.kind();
        let program = "function f(x) { return f(x + 1) + 1 } BEGIN { f(1) }";
        let mut spec = spec(awk, program);
        spec.limits.memory_bytes_max = 64 << 20;
        let failed = error(run(&launcher, &spec, b""));
        let is_expected =
            matches!(failed, ProgramError::Failed { .. } | ProgramError::Killed { .. });
        assert!(is_expected, "{kind:?}: {failed:?}");
    }
}

#[test]
fn a_process_has_few_rights() {
    let launcher = launcher();
    let mut run = BucketRun::start(&launcher, &spec(interpreter(Kind::Gawk), "{ n++ }")).unwrap();
    let pid = run.process_id();
    let mut block = InputBlock::new();
    block.push_raw(b"x");
    run.feed(&mut block).unwrap();
    let file = |name: &str| {
        let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    wait_until("exec", || file("comm") == "gawk\n");
    let status = file("status");
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2", "Threads:\t1"] {
        assert!(status.contains(line), "{line}: {status}");
    }
    let limits = file("limits");
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(limit("Max file size"), "0");
    assert_eq!(limit("Max core file size"), "0");
    assert_eq!(limit("Max processes"), "0");
    assert_eq!(limit("Max open files"), "16");
    assert_eq!(limit("Max cpu time"), "60");
    assert_eq!(limit("Max address space"), (512 << 20).to_string());
    let environment = file("environ");
    let mut names: Vec<&str> =
        environment.split('\0').filter_map(|v| v.split_once('=').map(|(name, _)| name)).collect();
    names.sort_unstable();
    assert_eq!(names, ["AWKBUFSIZE", "LC_ALL", "TZ"]);
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap().to_str(), Some("/"));
    // While it starts, the loader opens libraries; what it inherited would stay open.
    let open_files = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    wait_until("three open files: input, output, errors", || open_files() == 3);
    let outcome = run.finish();
    let sandbox = outcome.sandbox.unwrap();
    assert!(sandbox.is_full(), "{sandbox}");
}

#[test]
fn a_missing_helper_or_interpreter_is_explained() {
    let helper = programs::Helper { program: "/nowhere/loginson".into(), arguments: Vec::new() };
    let nowhere = programs::Launcher::new(helper).unwrap();
    let spec = spec(interpreter(Kind::Gawk), "{ n++ }");
    let failed = BucketRun::start(&nowhere, &spec).unwrap_err();
    assert!(matches!(failed, ProgramError::Start { .. }), "{failed:?}");
    // A binary that knows nothing of sandboxes must not count as a program that printed nothing.
    let other = programs::Helper { program: "/bin/true".into(), arguments: Vec::new() };
    let other = programs::Launcher::new(other).unwrap();
    let failed = error(run(&other, &spec, b""));
    assert!(matches!(failed, ProgramError::Sandbox { .. }), "{failed:?}");
}

/// Name of the variable that makes the test below act as a server.
const SERVER: &str = "LOGINSON_TEST_SERVER";

#[test]
fn a_server_that_starts_a_run_and_waits() {
    if std::env::var_os(SERVER).is_none() {
        return;
    }
    let launcher = launcher();
    let program = "BEGIN { while (1) n++ }";
    let run = BucketRun::start(&launcher, &spec(interpreter(Kind::Gawk), program)).unwrap();
    println!("program {} ", run.process_id());
    std::thread::sleep(GENEROUS);
}

#[test]
fn no_program_survives_its_server() {
    use std::io::{BufRead as _, BufReader};
    let mut server = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hostile::a_server_that_starts_a_run_and_waits", "--nocapture"])
        .env(SERVER, "1")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let line = lines.find_map(|line| {
        line.unwrap().split_once("program ").map(|(_, pid)| pid.trim().to_owned())
    });
    let pid: u32 = line.expect("the server prints the process").parse().unwrap();
    assert!(children(server.id()).contains(&pid));
    wait_until("exec", || {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name == "gawk\n")
    });
    server.kill().unwrap();
    server.wait().unwrap();
    wait_until("the death of the program", || {
        // Where nobody reaps orphans it stays as a zombie.
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .map_or(true, |stat| stat.rsplit_once(')').unwrap().1.starts_with(" Z"))
    });
}

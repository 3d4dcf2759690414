//! Complete studies, at the scale of tests, on real servers: installed, started, loaded, measured,
//! reported.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use lab::measure::speed::ROUNDS_PER_S;
use lab::results::{Directory, End, Line, Outcome};
use lab::trial::Role;

/// `loginson-lab`, with the servers' software in the default directory.
fn lab(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loginson-lab"));
    command.args(arguments).stdin(Stdio::null());
    command
}

/// Waits until no other test runs a study, also of another process: all use the default ports.
fn turn() -> File {
    let lock = File::create(Path::new(env!("CARGO_TARGET_TMPDIR")).join("studies.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// A value of a trial.
fn value(lines: &[Line], wanted: &str) -> Option<f64> {
    lines.iter().find_map(|line| match line {
        Line::Value { name, value } if name == wanted => Some(*value),
        _ => None,
    })
}

/// Runs a study, and checks each trial and the report. Returns what the program said.
fn study(name: &str, stores: &str, supported: &dyn Fn(&str, &str) -> bool) -> String {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    let ran = lab(&["run", name, "--scale", "smoke", "--stores", stores, "--out", path]).output();
    let ran = ran.unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    let (directory, run) = Directory::open(&out).unwrap();
    assert_eq!(run.stores.len(), stores.split(',').count(), "{:?}", run.stores);
    let (mut measured, mut use_known) = (0, 0);
    for trial in directory.trials().unwrap() {
        let lines = directory.read(&trial).unwrap();
        let (Some(Line::Header(header)), Some(Line::End(end))) = (lines.first(), lines.last())
        else {
            panic!("{trial}: it has no header or no end");
        };
        let (experiment, store) = (&header.trial.experiment, &header.trial.store.name);
        match &end.outcome {
            Outcome::Completed => assert!(supported(experiment, store), "{trial}"),
            Outcome::NotSupported { ability } => {
                assert!(!supported(experiment, store), "{trial}: {ability}");
                continue;
            }
            other => panic!("{trial}: {other:?}"),
        }
        if (name, &**store, header.trial.role) == ("ycsb", "redis", Role::Prepare) {
            // Redis tells the size of all its tables: those of earlier experiments are empty.
            let records = if experiment.ends_with("-large") { 1000.0 } else { 500.0 };
            let bytes = value(&lines, "table_bytes_flushed").expect(&trial) / records;
            assert!((1000.0..3000.0).contains(&bytes), "{trial}: {bytes} bytes a record");
        }
        if header.trial.role == Role::Measure {
            measured += 1;
            let answers = |line: &Line| matches!(line, Line::Second(s) if s.count > 0);
            assert!(lines.iter().any(answers), "{trial} has no answer");
            let label = &header.trial.store.label;
            let used = |line: &Line| matches!(line, Line::Resource(r) if r.process == *label);
            // Even for a trial that is shorter than a second.
            assert!(lines.iter().any(used), "{trial} does not say what the servers used");
            use_known += 1;
            assert!(value(&lines, ROUNDS_PER_S).expect(&trial) > 0.0, "{trial}");
        }
    }
    assert!(measured > 0 && use_known > 0);
    for report in ["report.html", "report.md"] {
        let text = std::fs::read_to_string(out.join(report)).unwrap();
        for store in stores.split(',') {
            assert!(text.contains(store), "{report} does not speak of {store}");
        }
    }
    for store in stores.split(',') {
        let servers = out.join("servers").join(store);
        assert!(!servers.join("data").exists(), "the data of {store} is removed");
        assert!(servers.join("log").exists(), "the logs of {store} stay");
    }
    said
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn logs() {
    study("study1", "postgres,elasticsearch,cassandra,loginson", &|_, _| true);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn ycsb() {
    // Loginson has no update, and no scan in the order of keys.
    study("ycsb", "postgres,redis,loginson", &|experiment, store| {
        let without = ["load", "c", "d"];
        let name = experiment.strip_suffix("-large").unwrap_or(experiment);
        store != "loginson" || without.contains(&name)
    });
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn apm() {
    // Redis computes nothing over its values.
    study("apm", "redis,postgres", &|experiment, store| {
        store != "redis" || !["online", "historical"].contains(&experiment)
    });
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn logstores() {
    study("logstores", "postgres,loginson,files", &|_, _| true);
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn collectors() {
    // rsyslog keeps no rows that could be searched.
    study("collectors", "loginson,rsyslog", &|experiment, store| {
        store != "rsyslog" || !experiment.starts_with("reading")
    });
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn containers() {
    let groups = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
    let may_write = |path: &str| rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok();
    if !rustix::process::geteuid().is_root() || !groups.into_iter().any(may_write) {
        println!(
            "not tested: control groups and containers need root, and groups that it may make"
        );
        return;
    }
    let stores = "redis@host,redis@lxc,redis@runc";
    let said = study("containers", stores, &|_, _| true);
    let starts = said.matches("starts redis1\n").count();
    assert_eq!(starts, 3 * 2, "each is started for each repetition: {said}");
}

/// The servers of a finished run are removed with their data: a repeated trial needs both.
#[test]
#[ignore = "takes minutes: make test-long"]
fn a_failed_trial_of_a_finished_run_is_done_again_with_its_data() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    let stores = "redis,loginson";
    let arguments =
        ["run", "study1", "--scale", "smoke", "--stores", stores, "--experiments", "reads"];
    let ran = lab(&arguments).args(["--out", path]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let directory = Directory::open(&out).unwrap().0;
    for again in 0..2 {
        for store in stores.split(',') {
            let is_last = |name: &String| name.contains(store) && name.ends_with("-r02");
            let name = directory.trials().unwrap().into_iter().find(is_last).unwrap();
            let mut lines = directory.read(&name).unwrap();
            let Some(Line::End(end)) = lines.last_mut() else { panic!("{name}: no end") };
            end.outcome = Outcome::Failed { message: "planted".to_owned() };
            let text: String =
                lines.iter().map(|l| serde_json::to_string(l).unwrap() + "\n").collect();
            std::fs::write(out.join("trials").join(format!("{name}.jsonl")), text).unwrap();
        }
        let retried = lab(&["resume", "--retry-failed", path]).output().unwrap();
        let said = String::from_utf8_lossy(&retried.stderr).into_owned();
        assert!(retried.status.success(), "try {again}: {said}");
        assert!(said.contains("2 trials that failed"), "{said}");
        for name in directory.trials().unwrap() {
            let lines = directory.read(&name).unwrap();
            let Some(Line::End(end)) = lines.last() else { panic!("{name}: no end") };
            assert_eq!(end.outcome, Outcome::Completed, "{name}");
        }
    }
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_run_that_was_stopped_goes_on() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    let arguments = [
        "run",
        "study1",
        "--scale",
        "smoke",
        "--stores",
        "postgres",
        "--experiments",
        "writes,reads",
    ];
    let mut child = lab(&arguments).args(["--out", path]).spawn().unwrap();
    let first = |folder: &Path| {
        let files = std::fs::read_dir(folder.join("trials")).ok()?;
        let complete = |name: String| name.ends_with(".jsonl") && !name.contains("-limit");
        files.flatten().find(|f| complete(f.file_name().to_string_lossy().into_owned()))
    };
    while first(&out).is_none() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was stopped");
        std::thread::yield_now();
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    assert_eq!(child.wait().unwrap().code(), Some(2));
    let kept: Vec<String> = Directory::open(&out).unwrap().0.trials().unwrap();
    let resumed = lab(&["resume", path]).output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let all = Directory::open(&out).unwrap().0.trials().unwrap();
    assert!(kept.iter().all(|trial| all.contains(trial)) && kept.len() < all.len());
    assert!(out.join("report.html").exists());
}

#[test]
fn a_property_file_of_ycsb_is_taken_as_it_is() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let (file, out) = (folder.path().join("workloadf"), folder.path().join("results"));
    std::fs::copy("workloads/ycsb/f.properties", &file).unwrap();
    let (file, out) = (file.to_str().unwrap(), out.to_str().unwrap());
    let given = ["-p", "operationcount=300", "-p", "threadcount=4", "--repetitions", "1"];
    let arguments = ["run", file, "--stores", "redis", "--out", out];
    let ran = lab(&arguments).args(given).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed = lab(&["report", out, "--ycsb"]).output().unwrap();
    let text = String::from_utf8(printed.stdout).unwrap();
    let (load, run) =
        text.split_once("-load\n").and_then(|(_, rest)| rest.split_once("# ")).unwrap();
    assert!(load.contains("[INSERT-MANY], Operations, 10\n"), "{load}");
    let count = |section: &str| -> u64 {
        let line = format!("[{section}], Operations, ");
        run.lines().find_map(|l| l.strip_prefix(&line)).expect(section).parse().unwrap()
    };
    // A read-modify-write is a read and an update, and counts as one of the requested operations.
    let both = count("READ-MODIFY-WRITE");
    assert!((100..200).contains(&both), "half of the operations: {both}");
    assert_eq!((count("READ"), count("UPDATE")), (300, both));
}

/// The `INFO` of Redis at the default port; 0 if there is none.
fn redis_says(name: &str) -> u64 {
    let ask = || -> std::io::Result<String> {
        let mut stream = std::net::TcpStream::connect("127.0.0.1:16379")?;
        stream.write_all(b"INFO\r\nQUIT\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    let text = ask().unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn a_server_that_dies_fails_its_trial_and_is_started_again_for_the_next() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    let mut run = lab(&["run", "workloads/ycsb/c.properties", "--stores", "redis", "--out", path]);
    run.args(["-p", "recordcount=500", "-p", "operationcount=4000", "-p", "threadcount=4"]);
    run.args(["-p", "target=500", "--repetitions", "2"]).stderr(Stdio::piped());
    let mut run = run.spawn().unwrap();
    let mut wait_until = |is_so: &dyn Fn() -> bool| {
        while !is_so() {
            assert!(run.try_wait().unwrap().is_none(), "it ended before");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    // Loaded rows are read before a trial too, so reads count from the begin of the first one.
    let has_begun = || {
        let trials = std::fs::read_dir(out.join("trials")).into_iter().flatten().flatten();
        trials.into_iter().any(|file| file.file_name().to_string_lossy().contains("r01.jsonl"))
    };
    wait_until(&has_begun);
    let before = redis_says("keyspace_hits");
    wait_until(&|| redis_says("keyspace_hits") >= before + 1_500);
    let pid = redis_says("process_id").to_string();
    assert!(Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let ended = run.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{text}");
    assert!(text.contains("redis") && text.contains("resume --retry-failed"), "{text}");
    let (directory, _) = Directory::open(&out).unwrap();
    let read = |end: &str| {
        let names = directory.trials().unwrap().into_iter();
        let name = names.filter(|name| name.contains("redis")).find(|name| name.ends_with(end));
        directory.read(&name.unwrap()).unwrap()
    };
    let count = |lines: &[Line]| -> u64 {
        let of = |line: &Line| if let Line::Second(second) = line { second.count } else { 0 };
        lines.iter().map(of).sum()
    };
    let (first, second) = (read("r01"), read("r02"));
    let Some(Line::End(end)) = first.last() else { panic!("{first:?}") };
    let Outcome::Failed { message } = &end.outcome else { panic!("{end:?}") };
    assert!(message.contains("Start redis again"), "{message}");
    let kept = count(&first);
    assert!((500..4_000).contains(&kept), "what was measured before is kept: {kept}");
    let Some(Line::End(end)) = second.last() else { panic!("{second:?}") };
    assert_eq!((&end.outcome, count(&second)), (&Outcome::Completed, 4_000));
    let report = std::fs::read_to_string(out.join("report.md")).unwrap();
    assert!(report.contains("(1 of 2 repetitions): failed"), "{report}");
}

/// Rows that are not there would make right answers look wrong.
#[test]
fn a_load_with_failed_inserts_has_no_number() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    let mut run = lab(&["run", "workloads/ycsb/c.properties", "--stores", "redis", "--out", path]);
    // 20,000 records of about 2 kB are 40 MB: the last batches are refused, too few to end the
    // load.
    run.args(["--set", "redis.maxmemory=38mb", "-p", "recordcount=20000"]);
    let ended = run.args(["-p", "operationcount=100", "--repetitions", "1"]).output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    let directory = Directory::open(&out).unwrap().0;
    for (end, expected) in
        [("-load", "of its inserts failed"), ("-r01", "its data could not be loaded")]
    {
        let names = directory.trials().unwrap().into_iter();
        let name = names.filter(|name| name.contains("redis")).find(|name| name.ends_with(end));
        let lines = directory.read(&name.unwrap()).unwrap();
        let Some(Line::End(End { outcome: Outcome::Failed { message }, .. })) = lines.last() else {
            panic!("{lines:?}")
        };
        assert!(message.contains(expected), "{message}");
    }
}

/// The server of an instance is stopped, and started again with its data.
#[test]
#[ignore = "takes minutes: make test-long"]
fn first_queries_after_a_restart_of_an_instance() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    let mut run = lab(&["run", "logstores", "--scale", "smoke", "--experiments", "cold"]);
    let ran = run.args(["--stores", "loginson@one,postgres@two", "--out", path]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let directory = Directory::open(&out).unwrap().0;
    let mut instances = 0;
    for name in directory.trials().unwrap() {
        let lines = directory.read(&name).unwrap();
        let Some(Line::Header(header)) = lines.first() else { panic!("{name}: no header") };
        if header.trial.role == Role::Measure {
            instances += 1;
            assert!(value(&lines, "start_s").expect(&name) > 0.0, "{name}");
            let Some(Line::End(end)) = lines.last() else { panic!("{name}: no end") };
            assert_eq!(end.outcome, Outcome::Completed, "{name}");
        }
    }
    assert_eq!(instances, 2);
}

/// A server that is about to start when the run is stopped is stopped too.
#[test]
#[ignore = "takes minutes: make test-long"]
fn a_run_that_is_stopped_while_a_server_starts_goes_on_later() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    let mut run = lab(&["run", "study1", "--scale", "smoke", "--experiments", "reads"]);
    run.args(["--stores", "cassandra", "--out", path]).stderr(Stdio::piped());
    let mut child = run.spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let starts = |line: std::io::Result<String>| line.unwrap() == "starts cassandra1";
    assert!(said.any(starts), "it ended before it started the server");
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest:?}");
    let is_ours = |arguments: &[u8]| {
        let arguments = String::from_utf8_lossy(arguments).into_owned();
        arguments.contains("CassandraDaemon") && arguments.contains(path)
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let mut lines =
        processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    assert!(!lines.any(|line| is_ours(&line)), "the server was left running: {rest:?}");
    let resumed = lab(&["resume", path]).output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    assert!(out.join("report.html").exists());
}

/// The warm-up of a repetition was that of another process, if the run is resumed in its middle.
#[test]
fn a_server_that_is_started_in_the_middle_of_a_repetition_is_named() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    let mut run = lab(&["run", "containers", "--scale", "smoke", "--stores", "redis"]);
    let mut child = run.args(["--out", path]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    let measured = |line: std::io::Result<String>| line.unwrap().contains("-redis-n1-r01: ");
    assert!(said.any(measured), "it ended before it was stopped");
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(interrupt.success());
    let rest: Vec<String> = said.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(2), "{rest:?}");
    let resumed = lab(&["resume", path]).output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let directory = Directory::open(&out).unwrap().0;
    let is_named = |name: &String| {
        let named =
            |line: &Line| matches!(line, Line::Note { text } if text.contains("in the middle"));
        directory.read(name).unwrap().iter().any(named)
    };
    let names: Vec<String> = directory.trials().unwrap().into_iter().filter(is_named).collect();
    assert!(names.len() == 1 && names[0].ends_with("-redis-n1-r01"), "{names:?}");
}

#[test]
#[ignore = "takes minutes: make test-long"]
fn a_full_disk_ends_the_run_and_it_goes_on_later() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let path = out.to_str().unwrap();
    // Writing the file of this trial fails because the disk is full.
    let part = out.join("trials/0002-d-redis-n1-t500-r01.jsonl.part");
    std::fs::create_dir_all(part.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink("/dev/full", &part).unwrap();
    let mut run = lab(&["run", "ycsb", "--scale", "smoke", "--stores", "redis", "--out", path]);
    let ended = run.args(["--experiments", "c,d"]).output().unwrap();
    let text = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{text}");
    assert!(text.contains("No space left") && text.contains("loginson-lab resume"), "{text}");
    let kept = Directory::open(&out).unwrap().0.trials().unwrap();
    std::fs::remove_file(&part).unwrap();
    let resumed = lab(&["resume", path]).output().unwrap();
    assert!(resumed.status.success(), "{}", String::from_utf8_lossy(&resumed.stderr));
    let all = Directory::open(&out).unwrap().0.trials().unwrap();
    assert!(!kept.is_empty() && kept.len() < all.len(), "{kept:?} {all:?}");
    assert!(kept.iter().all(|trial| all.contains(trial)));
}

#[test]
fn mistakes_are_named() {
    for (arguments, expected) in [
        (&["run", "study9"][..], "study1, ycsb, apm"),
        (&["run", "study1", "--stores", "oracle"], "oracle"),
        (&["run", "study1", "--experiments", "reeds"], "writes, reads"),
        (&["run", "study1", "--stores", "redis+aof"], "STORE+OPTION=VALUE"),
        (&["run", "study1", "--set", "heap=1g"], "STORE.OPTION=VALUE"),
        (&["run", "study1", "--stores", "postgres+sync=off"], "there are: timeout_s"),
        (&["run", "study1", "--stores", "cassandra+index=b"], "one of: 2i, sai, none"),
        (&["run", "study1", "--stores", "redis", "--set", "redis.fsync=no"], "appendfsync"),
        (&["run", "study1", "--stores", "redis", "--set", "postgres.port=7000"], "not measured"),
        (&["run", "study1", "--stores", "loginson", "--durability", "none"], "it has each"),
        (&["run", "study1", "--stores", "redis", "--durability", "some"], "each, interval, none"),
        (&["run", "ycsb", "-p", "recordcount=10"], "property file"),
        (&["resume", "/nowhere"], "/nowhere"),
        (&["compare", "/nowhere", "/nowhere"], "/nowhere"),
        (&["compare", "/nowhere"], "--paper"),
        (&["show", "./nothing/mine.toml"], "./nothing/mine.toml"),
        (&["stores", "start", "oracle"], "redis"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let output = lab(arguments).current_dir(folder.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(expected), "{arguments:?}: {text}");
        assert!(!folder.path().join("lab-results").exists(), "{arguments:?} began to measure");
    }
}

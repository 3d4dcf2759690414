//! Many runs at once leave neither processes nor open files.

use std::time::Duration;

use crate::common::{children, interpreters, launcher, rows, run, spec, wait_until};
use programs::{BucketRun, InputBlock, ProgramError};

const THREADS: usize = 4;
const ROUNDS: usize = 8;

/// Name of the variable that says that this process runs the test below alone.
const ALONE: &str = "LOGINSON_TEST_ALONE";

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

#[test]
fn many_runs_leave_nothing_behind() {
    // It counts the open files and children of its process, so it needs one without other tests.
    if std::env::var_os(ALONE).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "leaks::many_runs_leave_nothing_behind", "--nocapture"])
            .env(ALONE, "1")
            .status();
        assert!(alone.unwrap().success());
        return;
    }
    let launcher = launcher();
    let awks = interpreters();
    // Whatever is opened once is open now.
    run(&launcher, &spec(awks[0].clone(), "END { print \"a=1\" }"), b"x\n");
    let files = open_files();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (launcher, awks) = (&launcher, &awks);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let awk = &awks[(thread + round) % awks.len()];
                    // Ten buckets are open at once, fed in turn.
                    let counting = spec(awk.clone(), "END { print \"lines=\" NR }");
                    let mut runs: Vec<BucketRun> =
                        (0..10).map(|_| BucketRun::start(launcher, &counting).unwrap()).collect();
                    for _ in 0..20 {
                        for run in &mut runs {
                            let mut block = InputBlock::new();
                            block.push_text("a line of some length\n".repeat(500).as_bytes());
                            run.feed(&mut block).unwrap();
                        }
                    }
                    // One is given up, the others finish.
                    drop(runs.pop());
                    for run in runs {
                        assert_eq!(rows(&run.finish()), "{\"lines\":10000}\n");
                    }
                    let mut hanging = spec(awk.clone(), "BEGIN { while (1) n++ }");
                    hanging.limits.timeout = Duration::from_millis(100);
                    let failed = crate::common::error(run(launcher, &hanging, b"x\n"));
                    assert!(matches!(failed, ProgramError::TimedOut { .. }), "{failed:?}");
                }
            });
        }
    });
    wait_until("the end of all processes", || children(std::process::id()).is_empty());
    assert_eq!(open_files(), files);
}

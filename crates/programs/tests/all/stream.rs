//! Streams: rows while the input is open, restarts with back-off, lag, and a full pipe.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{interpreter, interpreters, json, launcher, spec, wait_until};
use programs::{
    Fed, InputBlock, Interpreter, Kind, Launcher, ManualClock, OutputError, ProgramError,
    RestartPolicy, StreamRun, StreamState,
};

struct Stream {
    run: StreamRun,
    clock: Arc<ManualClock>,
}

fn start(launcher: &Arc<Launcher>, awk: Interpreter, program: &str) -> Stream {
    let clock = Arc::new(ManualClock::default());
    let mut spec = spec(awk, &format!("# mode: stream\n{program}"));
    spec.limits.output.rows_max = 1000;
    let policy = RestartPolicy::default();
    let run = StreamRun::start(launcher, spec, policy, Arc::clone(&clock) as _);
    Stream { run, clock }
}

impl Stream {
    fn feed(&mut self, text: &str) -> Fed {
        let mut block = InputBlock::new();
        block.push_text(text.as_bytes());
        self.run.try_feed(&mut block, Duration::from_secs(30))
    }

    /// Waits for `count` rows.
    fn rows(&mut self, count: usize) -> String {
        let mut rows = Vec::new();
        let started = Instant::now();
        while rows.len() < count && started.elapsed() < Duration::from_secs(60) {
            self.run.wait(Duration::from_millis(100));
            rows.extend(self.run.take_rows());
        }
        json(&rows)
    }

    fn wait_down(&mut self) -> Duration {
        let mut retry = Duration::ZERO;
        wait_until("the end of the process", || {
            self.run.wait(Duration::from_millis(10));
            match self.run.status().state {
                StreamState::Down { retry_in } => {
                    retry = retry_in;
                    true
                }
                StreamState::Running => false,
            }
        });
        retry
    }
}

#[test]
fn rows_come_while_the_input_is_open() {
    let launcher = launcher();
    for awk in interpreters() {
        let kind = awk.kind();
        let mut stream =
            start(&launcher, awk, "/error/ { print \"line=\" NR; print \"again=\" NR; fflush() }");
        assert_eq!(stream.feed("fine\nerror\n"), Fed::Taken);
        assert_eq!(stream.rows(2), "{\"line\":2}\n{\"again\":2}\n", "{kind:?}");
        assert_eq!(stream.feed("error\n"), Fed::Taken);
        assert_eq!(stream.rows(2), "{\"line\":3}\n{\"again\":3}\n", "{kind:?}");
        let status = stream.run.status();
        assert_eq!((status.lines, status.lines_lost, status.lines_waiting), (3, 0, 0), "{kind:?}");
        assert_eq!((status.restarts, status.rows, status.error), (0, 4, None), "{kind:?}");
        assert_eq!(stream.feed("last error"), Fed::Taken);
        let (rows, status) = stream.run.finish();
        assert_eq!((json(&rows).as_str(), status.error), ("{\"line\":4}\n{\"again\":4}\n", None));
        assert!(status.sandbox.is_some());
    }
}

#[test]
fn each_process_gets_the_header() {
    let launcher = launcher();
    let program = "# fields: a b\nNR == 1 { second = $2; next } $1 == \"die\" { exit 1 } { print second \"=\" $2; fflush() }";
    let mut stream = start(&launcher, interpreter(Kind::Gawk), program);
    for _ in 0..2 {
        let mut block = InputBlock::new();
        block.push_fields([b"x".as_slice(), b"1"]);
        block.push_fields([b"die".as_slice(), b""]);
        assert_eq!(stream.run.try_feed(&mut block, Duration::from_secs(30)), Fed::Taken);
        assert_eq!(stream.rows(1), "{\"b\":1}\n");
        let pause = stream.wait_down();
        stream.clock.advance(pause);
        stream.run.poll();
        assert_eq!(stream.run.status().state, StreamState::Running);
    }
    assert_eq!(stream.run.status().restarts, 2);
}

#[test]
fn pauses_double_up_to_a_limit_and_start_anew_after_health() {
    let launcher = launcher();
    let mut stream = start(&launcher, interpreter(Kind::Mawk), "BEGIN { exit 7 }");
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let pause = stream.wait_down();
        pauses.push(pause.as_secs());
        // A moment too early nothing starts.
        stream.clock.advance(pause - Duration::from_millis(1));
        assert!(matches!(stream.feed("x"), Fed::Down { .. }));
        stream.clock.advance(Duration::from_millis(1));
        stream.run.poll();
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    let status = stream.run.status();
    assert!(matches!(status.error, Some(ProgramError::Failed { code: 7, .. })), "{status:?}");

    let mut stream = start(&launcher, interpreter(Kind::Gawk), "/die/ { exit }");
    for _ in 0..3 {
        stream.clock.advance(Duration::from_secs(60));
        stream.run.poll();
        // It runs for a minute, then ends.
        stream.clock.advance(Duration::from_secs(60));
        assert_eq!(stream.feed("die\n"), Fed::Taken);
        assert_eq!(stream.wait_down(), Duration::from_secs(1));
        assert_eq!(stream.run.status().error, Some(ProgramError::Ended));
    }
}

#[test]
fn a_full_pipe_says_so_and_a_stall_ends_the_process() {
    let launcher = launcher();
    let mut stream = start(&launcher, interpreter(Kind::Gawk), "BEGIN { while (1) n++ }");
    let text = "a line that nobody reads\n".repeat(10_000);
    let mut block = InputBlock::new();
    let mut taken = 0;
    let fed = loop {
        block.clear();
        block.push_text(text.as_bytes());
        match stream.run.try_feed(&mut block, Duration::from_millis(20)) {
            Fed::Taken => taken += 10_000,
            other => break other,
        }
        assert!(taken < 1_000_000, "the pipe never fills");
    };
    assert_eq!(fed, Fed::Full);
    assert!(!block.is_empty(), "a block that is not taken stays");
    let status = stream.run.status();
    assert_eq!((status.lines, status.lines_waiting), (taken, taken));
    assert_eq!(status.bytes_waiting, taken * 25);
    // The timeout of the test is a minute.
    stream.clock.advance(Duration::from_secs(59));
    stream.run.poll();
    assert_eq!(stream.run.status().state, StreamState::Running);
    stream.clock.advance(Duration::from_secs(2));
    stream.run.poll();
    let status = stream.run.status();
    let is_stall =
        matches!(status.error, Some(ProgramError::TimedOut { is_input_ended: false, .. }));
    assert!(is_stall, "{status:?}");
    // Lines in the pipe are lost; those behind them wait for the next process.
    assert_eq!(status.lines_lost + status.lines_waiting, taken);
    assert!(status.lines_lost > 0 && status.lines_waiting > 0, "{status:?}");
}

#[test]
fn rows_that_nobody_takes_are_bounded_and_no_stall() {
    let launcher = launcher();
    let mut stream = start(&launcher, interpreter(Kind::Gawk), "{ print \"line=\" NR }");
    let text = "x\n".repeat(1000);
    let mut block = InputBlock::new();
    let mut taken = 0u64;
    loop {
        block.clear();
        block.push_text(text.as_bytes());
        if stream.run.try_feed(&mut block, Duration::from_millis(200)) == Fed::Full {
            break;
        }
        taken += 1000;
        assert!(taken < 10_000_000, "the program is never held back");
    }
    for _ in 0..5 {
        stream.clock.advance(Duration::from_secs(600));
        stream.run.poll();
        assert_eq!(stream.run.status().state, StreamState::Running);
    }
    let mut rows = stream.run.take_rows().len() as u64;
    wait_until("all rows", || {
        stream.run.wait(Duration::from_millis(10));
        rows += stream.run.take_rows().len() as u64;
        // The rest is in the buffer of the program.
        stream.run.status().lines_waiting == 0
    });
    let (rest, status) = stream.run.finish();
    assert_eq!(rows + rest.len() as u64, taken);
    assert_eq!((status.rows, status.error), (taken, None));
}

#[test]
fn garbage_without_end_ends_the_process() {
    let launcher = launcher();
    let mut stream =
        start(&launcher, interpreter(Kind::Busybox), "{ while (1) print \"garbage\" }");
    assert_eq!(stream.feed("x\n"), Fed::Taken);
    stream.wait_down();
    let status = stream.run.status();
    let is_garbage =
        matches!(status.error, Some(ProgramError::Output(OutputError::Garbage { .. })));
    assert!(is_garbage, "{status:?}");
    assert_eq!(status.rejected.lines, 101);
    assert_eq!(status.rejected.first[0].line, "garbage");
}

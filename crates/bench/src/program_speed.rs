//! Lines a processor second through a run per bucket, beside the same AWK on the plain file.
//!
//! ```text
//! loginson-bench program_speed target/release/programs-sandbox
//! ```
//!
//! A million access lines of 100 bytes go through two programs: one that counts bytes and lines of
//! each status, one that only counts lines, so that it shows what pipe and process cost. Ways take
//! turns, five times; the medians are printed. The processor time of a run is that of the program
//! and of the feeding thread; the answers of both ways are compared.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use programs::{
    BucketRun, Definition, Helper, InputBlock, Interpreter, Kind, Launcher, Limits, RunSpec,
};

const LINES: usize = 1_000_000;
const LINE_BYTES: usize = 100;
const ROUNDS: usize = 5;
const BLOCK_BYTES: usize = 1 << 20;

const PROGRAMS: [(&str, &str); 2] = [
    (
        "by status",
        "{ lines[$9]++; bytes[$9] += $10 } END { for (s in lines) print \"status=\" s, \"lines=\" lines[s], \"bytes=\" bytes[s] }",
    ),
    ("count", "END { print \"lines=\" NR }"),
];

pub(crate) fn main() {
    let helper = crate::arguments().next().expect("the path of programs-sandbox");
    let helper = Helper { program: std::fs::canonicalize(helper).unwrap(), arguments: Vec::new() };
    let launcher = Launcher::new(helper).unwrap();
    let text = access_lines();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("access.log");
    File::create(&path).unwrap().write_all(&text).unwrap();
    println!(
        "| program | awk | plain, lines/CPU-s | run, lines/CPU-s | ratio | of it the program alone | plain, lines/s | run, lines/s | ratio |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (name, program) in PROGRAMS {
        for kind in Kind::ALL {
            let Some(awk) = Interpreter::find_kind(kind, &Interpreter::system_folders()) else {
                panic!("{kind:?} is missing: install {}", kind.package());
            };
            let spec = spec(awk, program);
            let (mut plain, mut run) = (Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                let (rows, times) = run_plain(&spec, program, &path);
                plain.push(times);
                let (other, times) = run_bucket(&launcher, &spec, &text);
                run.push(times);
                assert_eq!(rows, other, "{kind:?}: the answers differ");
            }
            let [plain_cpu, _, plain_wall] = medians(plain);
            let [run_cpu, alone_cpu, run_wall] = medians(run);
            println!(
                "| {name} | {kind:?} | {plain_cpu:.0} | {run_cpu:.0} | {:.3} | {alone_cpu:.0} | {plain_wall:.0} | {run_wall:.0} | {:.3} |",
                run_cpu / plain_cpu,
                run_wall / plain_wall
            );
        }
    }
}

fn spec(interpreter: Interpreter, program: &str) -> RunSpec {
    let definition =
        Definition::parse("throughput", &format!("# type: access\n{program}\n")).unwrap();
    let limits = Limits { timeout: Duration::from_secs(120), nice: 0, ..Limits::default() };
    RunSpec { interpreter, definition, limits, variables: Vec::new() }
}

/// Processor seconds of both, of the program alone, and seconds.
type Times = [f64; 3];

/// Medians, as lines a second.
fn medians(mut times: Vec<Times>) -> Times {
    [0, 1, 2].map(|i| {
        times.sort_by(|a, b| a[i].total_cmp(&b[i]));
        LINES as f64 / times[times.len() / 2][i]
    })
}

fn run_plain(spec: &RunSpec, program: &str, path: &std::path::Path) -> (Vec<String>, Times) {
    let mut command = Command::new(spec.interpreter.path());
    if spec.interpreter.kind() == Kind::Busybox {
        command.arg("awk");
    }
    let started = std::time::Instant::now();
    let before = cpu("self", CHILDREN);
    command.args(["-v", "OFMT=%.15g", "-v", "CONVFMT=%.15g", program]).arg(path);
    let output = command.env_clear().env("LC_ALL", "C").stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success());
    let wall = started.elapsed().as_secs_f64();
    let cpu = cpu("self", CHILDREN) - before;
    let text = String::from_utf8(output.stdout).unwrap();
    let rows = text.lines().map(|line| {
        let mut json = Vec::new();
        programs::parse_row(line.as_bytes(), 10).unwrap().write_json(&mut json);
        String::from_utf8(json).unwrap()
    });
    (sorted(rows.collect()), [cpu, cpu, wall])
}

fn run_bucket(launcher: &Arc<Launcher>, spec: &RunSpec, text: &[u8]) -> (Vec<String>, Times) {
    let started = std::time::Instant::now();
    let before = [cpu("self", OWN), cpu("self", CHILDREN)];
    let mut run = BucketRun::start(launcher, spec).unwrap();
    let mut block = InputBlock::new();
    for part in text.chunks(BLOCK_BYTES / LINE_BYTES * LINE_BYTES) {
        block.clear();
        block.push_text(part);
        run.feed(&mut block).unwrap();
    }
    let outcome = run.finish();
    let wall = started.elapsed().as_secs_f64();
    let own = cpu("self", OWN) - before[0];
    let alone = cpu("self", CHILDREN) - before[1];
    assert_eq!(outcome.usage.lines, LINES as u64);
    let rows = outcome.result.unwrap();
    let json = rows.iter().map(|row| {
        let mut json = Vec::new();
        row.write_json(&mut json);
        String::from_utf8(json).unwrap()
    });
    (sorted(json.collect()), [own + alone, alone, wall])
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort();
    rows
}

/// Places in `/proc/…/stat` behind the name: user and system time of the process, and of its
/// children that were reaped.
const OWN: usize = 11;
const CHILDREN: usize = 13;

/// Processor seconds, in steps of a hundredth.
fn cpu(process: &str, place: usize) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let behind = stat.rsplit_once(')').unwrap().1;
    let ticks: u64 =
        behind.split_whitespace().skip(place).take(2).map(|n| n.parse::<u64>().unwrap()).sum();
    ticks as f64 / 100.0
}

/// Lines in the combined format of Apache, 100 bytes each with their newlines.
fn access_lines() -> Vec<u8> {
    let statuses = [200, 200, 200, 304, 404, 500, 301, 200];
    let mut text = Vec::with_capacity(LINES * LINE_BYTES);
    for i in 0..LINES {
        let head = format!(
            "10.{}.{}.{} - - [10/Oct/2026:13:55:{:02} +0000] \"GET /p/",
            i % 7,
            i / 7 % 256,
            i % 251,
            i / 20_000
        );
        let tail = format!(" HTTP/1.1\" {} {}", statuses[i * 31 % 8], i * 7919 % 100_000);
        let path_bytes = LINE_BYTES - 1 - head.len() - tail.len();
        let path = format!("{:08x}", i.wrapping_mul(2_654_435_761) as u32).repeat(5);
        text.extend_from_slice(head.as_bytes());
        text.extend_from_slice(&path.as_bytes()[..path_bytes]);
        text.extend_from_slice(tail.as_bytes());
        text.push(b'\n');
    }
    assert_eq!(text.len(), LINES * LINE_BYTES);
    text
}

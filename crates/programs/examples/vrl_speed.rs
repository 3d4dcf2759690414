//! Lines per second of processor time of a small program in VRL:
//! `cargo run --release -p loginson-programs --features vrl --example vrl_speed`.

use std::time::Instant;

use programs::{Definition, Language, Limits, VrlProgram, VrlRun};

const LINES: u32 = 50_000;
const CODE: &str = "# type: access\n.status = to_int!(.status)\n.ms = to_float!(.duration) * 1000.0\n\
                    if .status < 500 { abort }\n.path = split(string!(.path), \"?\")[0]\ndel(.duration)\n";

fn main() {
    let definition = Definition::parse_as("speed", Language::Vrl, CODE).expect("a program");
    let start = Instant::now();
    let program = VrlProgram::compile(&definition).expect("VRL");
    println!("compiled in {:.1?}", start.elapsed());
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let mut run = VrlRun::start(&program, &Limits::default());
        let start = Instant::now();
        for line in 0..LINES {
            let status = if line % 10 == 0 { "503" } else { "200" };
            run.push_field("_time", b"2026-01-01T00:00:00.123Z");
            run.push_field("_msg", b"GET /cart/items?id=7 HTTP/1.1");
            run.push_field("hostname", b"web-17");
            run.push_field("path", b"/cart/items?id=7");
            run.push_field("status", status.as_bytes());
            run.push_field("duration", b"0.0421");
            run.push_field("bytes", b"5120");
            run.push_field(
                "_line",
                b"10.0.0.1 - - [01/Jan/2026] \"GET /cart/items?id=7 HTTP/1.1\" 200 5120",
            );
            run.end_line().expect("within limits");
        }
        seconds.push(start.elapsed().as_secs_f64());
        let (rows, rejected) = run.finish();
        assert_eq!((rows.len() as u32, rejected.lines), (LINES / 10, 0));
    }
    seconds.sort_by(f64::total_cmp);
    let rate = |seconds: f64| f64::from(LINES) / seconds;
    let (median, best) = (rate(seconds[2]), rate(seconds[0]));
    println!("{LINES} lines, 5 times: median {median:.0} lines/s, best {best:.0} lines/s");
}

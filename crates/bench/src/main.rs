//! `loginson-bench NAME ARGUMENTS…`: the benchmarks that measure one part by itself, beside its
//! physical limit or another tool. The scripts of `make bench…` call some of them; each module says
//! what it measures and what its arguments are.
//!
//! They are one program of their own so that tests neither compile nor link them.

use std::error::Error;
use std::process::ExitCode;

mod append_speed;
mod clustering;
mod collect_null;
mod encryption_speed;
mod engine_speed;
mod follow_speed;
mod frames;
mod frames_speed;
mod http_limit;
mod many_segments;
mod node_limit;
mod observe_speed;
mod parse_found;
mod parse_speed;
mod patterns_speed;
mod program_speed;
mod reencoded;
mod rules_speed;
mod scan_speed;
mod seal_speed;
mod steady_append;
mod tcp_limit;
mod text_codec;
mod tls_limit;
mod traffic;
mod udp_limit;
mod unit_cost;
mod ways_speed;

// The allocator is that of the server, from `node`: the one of the C library returns the memory of
// each frame to the system, which clears it for the next frame.

type Outcome = Result<(), Box<dyn Error>>;

/// A benchmark: the name of its module, and what runs it.
type Benchmark = (&'static str, fn() -> Outcome);

/// Each benchmark, by the name of its module.
const BENCHMARKS: &[Benchmark] = &[
    ("append_speed", append_speed::main),
    ("clustering", || {
        clustering::main();
        Ok(())
    }),
    ("collect_null", collect_null::main),
    ("encryption_speed", encryption_speed::main),
    ("engine_speed", engine_speed::main),
    ("follow_speed", || {
        follow_speed::main();
        Ok(())
    }),
    ("frames_speed", || Ok(frames_speed::main()?)),
    ("http_limit", || Ok(http_limit::main()?)),
    ("many_segments", || {
        many_segments::main();
        Ok(())
    }),
    ("node_limit", || {
        node_limit::main();
        Ok(())
    }),
    ("observe_speed", || {
        observe_speed::main();
        Ok(())
    }),
    ("parse_found", || {
        parse_found::main();
        Ok(())
    }),
    ("parse_speed", || {
        parse_speed::main();
        Ok(())
    }),
    ("patterns_speed", || {
        patterns_speed::main();
        Ok(())
    }),
    ("program_speed", || {
        program_speed::main();
        Ok(())
    }),
    ("reencoded", || {
        reencoded::main();
        Ok(())
    }),
    ("rules_speed", rules_speed::main),
    ("scan_speed", || {
        scan_speed::main();
        Ok(())
    }),
    ("seal_speed", || {
        seal_speed::main();
        Ok(())
    }),
    ("steady_append", || {
        steady_append::main();
        Ok(())
    }),
    ("tcp_limit", || Ok(tcp_limit::main()?)),
    ("text_codec", || {
        text_codec::main();
        Ok(())
    }),
    ("tls_limit", || Ok(tls_limit::main()?)),
    ("udp_limit", || Ok(udp_limit::main()?)),
    ("unit_cost", || {
        unit_cost::main();
        Ok(())
    }),
    ("ways_speed", ways_speed::main),
];

/// The arguments behind the name of the benchmark.
fn arguments() -> impl Iterator<Item = String> {
    std::env::args().skip(2)
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some((_, run)) = BENCHMARKS.iter().find(|(known, _)| *known == name) else {
        let names: Vec<_> = BENCHMARKS.iter().map(|(name, _)| *name).collect();
        eprintln!(
            "usage: loginson-bench NAME ARGUMENTS…, where NAME is one of {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

//! The metrics of programs.

use super::shown::state;
use crate::wire::metrics::Text;
use node::programs::registry::Listed;
use node::programs::runner::Runner;
use node::programs::stage::ProgramStage;
use node::programs::status::Status;

/// Appends them.
pub fn text(stage: &ProgramStage, out: &mut Text) {
    out.one(
        "loginson_program_arrival_lag_frames",
        "gauge",
        "Frames whose lines have not been noted for programs yet.",
        &[],
        stage.lag_frames(),
    );
    let (listed, behind_ns) = (stage.registry().list(), stage.arrival_lag_ns());
    let told: Vec<(&Listed, Status, u64, f64)> = (listed.iter())
        .map(|listed| {
            let runner = listed.runner.as_deref();
            let (waiting, late_ns) = runner.map_or((0, 0), Runner::backlog);
            let status = runner.map(Runner::status).unwrap_or_default();
            let late_ns = late_ns.max(runner.map_or(0, |_| behind_ns));
            (listed, status, waiting, late_ns as f64 / 1e9)
        })
        .collect();
    let name = |listed: &Listed| listed.loaded.name.clone();
    out.head("loginson_program_state", "gauge", "1 for the state that the program is in.");
    for (listed, status, _, lag_s) in &told {
        let labels = [("program", &*name(listed)), ("state", state(listed, status, *lag_s))];
        out.sample("loginson_program_state", &labels, 1);
    }
    out.head(
        "loginson_program_lag_seconds",
        "gauge",
        "Age of the oldest bucket that is due, or of the oldest line that was not noted.",
    );
    for (listed, _, _, lag_s) in &told {
        out.sample("loginson_program_lag_seconds", &[("program", &name(listed))], lag_s);
    }
    type Number = fn(&Status) -> u64;
    let counters: [(&str, &str, Number); 6] = [
        ("lines", "Lines that programs read.", |status| status.lines),
        ("rows", "Rows of programs that were stored.", |status| status.rows),
        ("buckets", "Buckets whose rows were stored.", |status| status.buckets),
        (
            "buckets_stayed",
            "Buckets with late lines whose rows stayed, because other lines of them may be gone.",
            |status| status.stayed,
        ),
        ("failures", "Attempts to compute a bucket that failed.", |status| status.failures),
        ("rejected", "Lines of output that are no rows.", |status| status.rejected),
    ];
    out.head(
        "loginson_program_buckets_waiting",
        "gauge",
        "Buckets that have lines which the rows do not count yet.",
    );
    for (listed, _, waiting, _) in &told {
        out.sample("loginson_program_buckets_waiting", &[("program", &name(listed))], waiting);
    }
    for (counter, help, number) in counters {
        let metric = format!("loginson_program_{counter}_total");
        out.head(&metric, "counter", help);
        for (listed, status, ..) in &told {
            out.sample(&metric, &[("program", &name(listed))], number(status));
        }
    }
}

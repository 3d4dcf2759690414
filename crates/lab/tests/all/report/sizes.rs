//! The report over several amounts of lines, of simulated runs whose times are known.

use std::path::Path;

use super::simulated::{Outcomes, Simulated, work};
use lab::report::sizes::{Asked, Prices, document};
use lab::report::{markdown, read};
use lab::trial::Role;
use lab::workload::Workload;
use lab::workload::lines::Queries;
use lab::workload::lines::queries::QueryKind;

/// A run on `gigabytes` of lines. The times of loginson grow with the square root of the amount;
/// postgres answers from memory until its data does not fit any more.
fn run(path: &Path, gigabytes: f64) {
    let stores = ["loginson", "postgres"];
    let mut run = Simulated::new(path, "logstores", "small", &stores, 7);
    for store in stores {
        let mut loaded = Outcomes::of(1_000.0, "insert_many", 20.0);
        loaded.values = vec![
            ("written_text_bytes", gigabytes * 1e9),
            ("table_bytes_compacted", gigabytes * 2e8),
            ("settle_cpu_s_flushed", gigabytes * 36.0),
        ];
        let fill = work(Workload::LineWrites { records: 1_000 }, 4, 0.0, None);
        run.trial(("word", Role::Prepare, fill), (store, 1, 1), &loaded).unwrap();
    }
    for repetition in 1..=5 {
        for (store, ms) in [
            ("loginson", 20.0 * gigabytes.sqrt()),
            ("postgres", if gigabytes > 5.0 { 3_000.0 } else { 3.0 }),
        ] {
            let queries = Queries { records: 1_000, kinds: vec![QueryKind::Word], arriving: None };
            let asked = work(Workload::LineQueries(queries), 1, 0.0, None);
            let at = (store, 1, repetition);
            run.trial(("word", Role::Measure, asked), at, &Outcomes::of(50.0, "word", ms)).unwrap();
        }
    }
}

#[test]
fn only_what_lies_on_a_line_is_carried_on_and_has_a_bill() {
    let folder = tempfile::tempdir().unwrap();
    let summaries: Vec<_> = [1.0, 4.0, 16.0]
        .iter()
        .map(|gigabytes| {
            let path = folder.path().join(format!("{gigabytes}"));
            run(&path, *gigabytes);
            read(&path).unwrap()
        })
        .collect();
    let prices =
        Prices { processor_hour: 0.05, disk_gigabyte_month: 0.1, memory_gigabyte_month: 3.0 };
    let asked = Asked { bytes: 1e12, memory_share: 0.25, prices: Some(prices) };
    let text = markdown::write(&document(&summaries, &asked));
    assert!(
        text.contains("No bill for postgres: what cannot be carried on: A word (not on a line)"),
        "{text}"
    );
    let rows =
        |start: &str| text.lines().filter(|line| line.starts_with(start)).collect::<Vec<_>>();
    let number = |row: &str, at: usize| -> f64 {
        let cell = row.split('|').nth(at).unwrap().trim().replace(',', "");
        cell.parse().unwrap_or_else(|_| panic!("{cell} in {row}"))
    };
    let [bill, growth, _limits] = rows("| loginson ")[..] else { panic!("{text}") };
    // 1,000 GB: 36 s each of a processor and those of loading, 200 MB of disk, 250 MB of memory.
    let (hours, disk, memory) = (number(bill, 2), number(bill, 3), number(bill, 4));
    assert!((9.0..14.0).contains(&hours), "{bill}");
    assert!((190.0..210.0).contains(&disk) && memory == 250.0, "{bill}");
    let whole = hours * 0.05 + disk * 0.1 + memory * 3.0;
    assert!((number(bill, 6) / whole - 1.0).abs() < 0.01, "{bill}: {whole}");
    // The power is a half, and 20 ms at 1 GB are about 632 ms at 1,000 GB.
    assert!((0.45..0.55).contains(&number(growth, 5)), "{growth}");
    let carried = number(growth, 8);
    let measured = number(growth, 2);
    assert!((25.0..40.0).contains(&(carried / measured)), "{growth}");

    let without = Asked { prices: None, ..asked.clone() };
    let text = markdown::write(&document(&summaries, &without));
    assert!(text.contains("no prices"), "{text}");
    // Two amounts are always on a line.
    let text = markdown::write(&document(&summaries[..2], &asked));
    assert!(text.contains("There is no bill for any store"), "{text}");
    assert!(text.contains("too few repetitions"), "{text}");
}

//! Writes simulated results, to see a report without measuring:
//! `cargo run -p loginson-lab --example simulated -- DIRECTORY [REPETITIONS]`.

#[path = "../tests/simulated/mod.rs"]
mod simulated;

use std::path::PathBuf;

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let directory: PathBuf = arguments.next().unwrap_or_else(|| "simulated".into()).into();
    let repetitions = arguments.next().map_or(Ok(30), |count| count.parse())?;
    simulated::study1(&directory.join("study1"), "small", repetitions, 1)?;
    simulated::ycsb(&directory.join("ycsb"), repetitions, 1)?;
    for study in ["study1", "ycsb"] {
        for file in lab::report::write(&directory.join(study), &directory.join(study))? {
            println!("{}", file.display());
        }
    }
    Ok(())
}

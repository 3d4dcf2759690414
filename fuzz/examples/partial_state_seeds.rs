//! Writes the seeds of the target `partial_state`: for each of its queries the states of two
//! sources, as the encoder makes them.
//!
//!     cargo run --example partial_state_seeds -- seeds/partial_state

#[path = "../fuzz_targets/partial_state/operators.rs"]
mod operators;

use std::path::PathBuf;

use operators::{HEAD_BYTES, Memory, queries};
use query::{Context, run_partial};

fn main() {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).expect("the folder for the seeds");
    std::fs::create_dir_all(&folder).expect("the folder is made");
    for (place, (query, _)) in queries().into_iter().enumerate() {
        let mut seed = vec![u8::try_from(place).expect("fewer queries than a byte can tell apart")];
        for lines in [1, 3] {
            let state = run_partial(&query, &Memory::of_lines(lines), &Context::default());
            let bytes = state.expect("nothing is limited").expect("it has a state").bytes;
            let state = &bytes[HEAD_BYTES..];
            seed.extend((state.len() as u16).to_le_bytes());
            seed.extend(state);
        }
        std::fs::write(folder.join(format!("{:03}", place + 1)), seed).expect("a seed is written");
    }
}

//! Simple automata for tests.

use record::automaton::{Automaton, AutomatonState, BEGIN, NO, UNSURE, YES};

/// Passes the values that contain a text before any non-ASCII byte; a value with such a byte before
/// that is undecided. `found` is the state for an occurrence.
pub fn holding(text: &[u8], found: AutomatonState) -> Automaton {
    let mut classes = [0; 256];
    for byte in 0..=127 {
        classes[usize::from(byte)] = byte;
    }
    classes[128..].fill(128);
    // A state is the longest prefix of the text that ends the bytes read so far.
    let behind = |begun: usize, byte: u8| {
        let read = [&text[..begun], &[byte]].concat();
        let longest = (0..=read.len()).find(|&from| text.starts_with(&read[from..]));
        match read.len() - longest.expect("at least the empty one") {
            length if length == text.len() => found,
            length => BEGIN + length as AutomatonState,
        }
    };
    let next = |begun: usize| {
        let ascii = (0..128).map(|byte| behind(begun, byte));
        ascii.chain([UNSURE]).collect::<Vec<AutomatonState>>()
    };
    let last = vec![Vec::new(); usize::from(BEGIN)];
    let rows: Vec<_> = last.into_iter().chain((0..text.len()).map(next)).collect();
    let ends = [NO, YES, UNSURE].into_iter().chain((0..text.len()).map(|_| NO)).collect();
    Automaton::new(classes, &rows, ends)
}

//! Which rows contain a text, with as few of them rendered as can be.
//!
//! For each template, the needle either stands in a text that stands still (then all its rows have it), or it
//! could stand there with the help of slots (then its rows are rendered and searched), or it cannot stand there
//! (then none has it). A slot can hold what the classes of bytes of its column allow.

use memchr::memmem::Finder;

use super::texts::Texts;
use super::view::{Decoded, Kind, Template, TemplatesView, View};
use super::{CONTEXT_BYTES, CodecError, class_of};

/// What is searched for: `accept` says of an occurrence, by the text and where it begins in it, whether it
/// counts. It may look at the needle and at [`CONTEXT_BYTES`] on each side of it.
pub(super) struct Needle<'n> {
    finder: Finder<'n>,
    accept: &'n dyn Fn(&[u8], usize) -> bool,
    /// The class of each of its bytes.
    classes: Vec<u8>,
}

impl<'n> Needle<'n> {
    pub fn new(needle: &'n [u8], accept: &'n dyn Fn(&[u8], usize) -> bool) -> Self {
        let classes = needle.iter().map(|&b| class_of(b)).collect();
        Needle { finder: Finder::new(needle), accept, classes }
    }

    fn bytes(&self) -> &[u8] {
        self.finder.needle()
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let mut from = 0;
        while let Some(found) = self.finder.find(&text[from..]) {
            if (self.accept)(text, from + found) {
                return true;
            }
            from += found + 1;
            if from > text.len() {
                break;
            }
        }
        false
    }
}

/// What a template says about its rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    All,
    None,
    Look,
}

/// Sets `found[row]` for the rows whose value contains the needle.
pub(super) fn matching(
    view: &View<'_>,
    needle: &Needle<'_>,
    budget: &mut usize,
    found: &mut [bool],
) -> Result<(), CodecError> {
    match &view.kind {
        Kind::Templates(templates) => matching_templates(templates, needle, budget, found),
        Kind::Dictionary { ids, values } => {
            let mut inner = vec![false; values.count];
            matching(values, needle, budget, &mut inner)?;
            for (found, id) in found.iter_mut().zip(ids.decode_indexes(values.count)?) {
                *found = inner[id as usize];
            }
            Ok(())
        }
        _ => {
            match view.decode(budget)? {
                Decoded::Same(value) => found.fill(needle.is_in(value)),
                decoded => {
                    for (row, found) in found.iter_mut().enumerate() {
                        *found = needle.is_in(decoded.get(row));
                    }
                }
            }
            Ok(())
        }
    }
}

fn matching_templates(
    view: &TemplatesView<'_>,
    needle: &Needle<'_>,
    budget: &mut usize,
    found: &mut [bool],
) -> Result<(), CodecError> {
    let answers: Vec<Answer> = view.templates.iter().map(|t| answer(view, t, needle)).collect();
    for (found, &id) in found.iter_mut().zip(&view.ids) {
        *found = answers[id as usize] == Answer::All;
    }
    let look = |id: u32| answers[id as usize] == Answer::Look;
    if !(0..answers.len()).any(|id| look(id as u32)) {
        return Ok(());
    }
    let columns = view.decode_columns(look, budget)?;
    let mut texts = Texts::default();
    view.render(&columns, |_, id| look(id), budget, &mut texts)?;
    let rows = view.ids.iter().enumerate().filter(|&(_, &id)| look(id));
    for ((row, _), value) in rows.zip(texts.values().iter()) {
        found[row] = needle.is_in(value);
    }
    Ok(())
}

fn answer(view: &TemplatesView<'_>, template: &Template, needle: &Needle<'_>) -> Answer {
    // Columns of one value stand still, too.
    let mut pieces: Vec<Vec<u8>> = vec![template.pieces[0].clone()];
    let mut slots = Vec::new();
    for (piece, &column) in template.pieces[1..].iter().zip(&template.columns) {
        let (classes, column) = &view.columns[column as usize];
        if let Kind::Same(value) = column.kind {
            let last = pieces.last_mut().expect("at least one");
            last.extend_from_slice(value);
            last.extend_from_slice(piece);
        } else {
            slots.push(*classes);
            pieces.push(piece.clone());
        }
    }
    let last = pieces.len() - 1;
    let stands =
        pieces.iter().enumerate().any(|(at, piece)| stands_in(piece, at == 0, at == last, needle));
    if stands {
        Answer::All
    } else if slots.is_empty() {
        Answer::None
    } else if could_stand(&pieces, &slots, needle) {
        Answer::Look
    } else {
        Answer::None
    }
}

/// Whether the needle stands in a text whatever is around it, beyond the beginning and end of the value.
fn stands_in(piece: &[u8], first: bool, last: bool, needle: &Needle<'_>) -> bool {
    let length = needle.bytes().len();
    needle.finder.find_iter(piece).any(|at| {
        let known_before = first || at >= CONTEXT_BYTES;
        let known_behind = last || at + length + CONTEXT_BYTES <= piece.len();
        known_before && known_behind && (needle.accept)(piece, at)
    })
}

/// Whether the needle could stand somewhere, as far as the bytes of the slots are known.
///
/// States are how many bytes of the needle were matched before a place in the template.
fn could_stand(pieces: &[Vec<u8>], slots: &[u8], needle: &Needle<'_>) -> bool {
    let bytes = needle.bytes();
    let length = bytes.len();
    let mut open = vec![false; length + 1];
    let mut next = vec![false; length + 1];
    for (at, piece) in pieces.iter().enumerate() {
        // The needle goes on through the whole piece, ends in it, or begins in it.
        next.fill(false);
        for matched in 1..length {
            if !open[matched] {
                continue;
            }
            let rest = &bytes[matched..];
            let common = rest.len().min(piece.len());
            if rest[..common] == piece[..common] {
                if common == rest.len() {
                    return true;
                }
                next[matched + common] = true;
            }
        }
        if needle.finder.find(piece).is_some() {
            return true;
        }
        for begun in 1..length.min(piece.len() + 1) {
            if piece.ends_with(&bytes[..begun]) {
                next[begun] = true;
            }
        }
        std::mem::swap(&mut open, &mut next);
        let Some(&classes) = slots.get(at) else { break };
        // A slot holds any run of bytes of its classes, and may be empty.
        open[0] = true;
        for matched in 0..length {
            if open[matched] && needle.classes[matched] & classes != 0 {
                open[matched + 1] = true;
            }
        }
        if open[length] {
            return true;
        }
    }
    false
}

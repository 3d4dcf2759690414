//! Which rows contain a text, with as few of them rendered as can be.
//!
//! For each template, the needle stands in a text that stands still (then all its rows have it), or it could reach
//! over the border of a slot (then its rows are rendered and searched), or it could only stand within a slot: then
//! the columns whose bytes allow it are searched, dictionaries by their values, and the rows of what was found
//! are rendered. What a slot may hold is told by the classes of bytes of its column.

use memchr::memmem::Finder;

use super::texts::Builder;
use super::view::{Kind, Template, TemplatesView, View};
use super::{Accept, CodecError, class_of};

/// Bytes of the longest character in UTF-8.
const CHARACTER_BYTES: usize = 4;

/// What is searched for.
pub(super) struct Needle<'n> {
    finder: Finder<'n>,
    accept: Option<Accept<'n>>,
    /// The class of each of its bytes.
    classes: Vec<u8>,
}

impl<'n> Needle<'n> {
    pub fn new(needle: &'n [u8], accept: Option<Accept<'n>>) -> Self {
        let classes = needle.iter().map(|&b| class_of(b)).collect();
        Needle { finder: Finder::new(needle), accept, classes }
    }

    /// The same wherever it stands.
    fn anywhere(&self) -> Needle<'_> {
        Needle { finder: self.finder.as_ref(), accept: None, classes: self.classes.clone() }
    }

    fn accepts(&self, text: &[u8], at: usize) -> bool {
        self.accept.is_none_or(|accept| accept(text, at))
    }

    fn bytes(&self) -> &[u8] {
        self.finder.needle()
    }

    fn is_in(&self, text: &[u8]) -> bool {
        let mut from = 0;
        while let Some(found) = self.finder.find(&text[from..]) {
            if self.accepts(text, from + found) {
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

/// How a needle could stand in a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    /// It stands in a text that stands still: in all rows.
    All,
    /// It could reach over the border of a slot: any row must be looked at.
    Across,
    /// It could only stand within a slot's value.
    Within,
    None,
}

/// Sets `found[row]` for the rows whose value contains the needle.
pub(super) fn matching(
    view: &View<'_>,
    needle: &Needle<'_>,
    budget: &mut usize,
    found: &mut [bool],
) -> Result<(), CodecError> {
    match &view.kind {
        Kind::Same(value) => found.fill(needle.is_in(value)),
        Kind::Dictionary { ids, values } => {
            let mut inner = vec![false; values.count];
            matching(values, needle, budget, &mut inner)?;
            if inner.contains(&true) {
                for (found, id) in found.iter_mut().zip(ids.decode_indexes(values.count)?) {
                    *found = inner[id as usize];
                }
            }
        }
        Kind::Templates(templates) => return matching_templates(templates, needle, budget, found),
        Kind::Digits(digits) => {
            let pieces: Vec<&[u8]> = digits.fixed().collect();
            if could_stand_in_digits(&pieces, needle) {
                look(view, needle, budget, found)?;
            }
        }
        Kind::Lines(bytes) | Kind::Lengths(_, bytes) => {
            if needle.finder.find(bytes).is_some() || needle.bytes().is_empty() {
                look(view, needle, budget, found)?;
            }
        }
        Kind::Hex { .. } => look(view, needle, budget, found)?,
    }
    Ok(())
}

/// Whether the needle could stand in values of these texts with digits between them.
fn could_stand_in_digits(pieces: &[&[u8]], needle: &Needle<'_>) -> bool {
    let digits = class_of(b'0');
    let slots = vec![digits; pieces.len() - 1];
    needle.classes.iter().all(|&class| class == digits)
        || pieces.iter().any(|piece| needle.finder.find(piece).is_some())
        || could_reach_across(pieces, &slots, needle)
}

/// Searches each value.
fn look(
    view: &View<'_>,
    needle: &Needle<'_>,
    budget: &mut usize,
    found: &mut [bool],
) -> Result<(), CodecError> {
    let decoded = view.decode(budget)?;
    for (row, found) in found.iter_mut().enumerate() {
        *found = needle.is_in(decoded.get(row));
    }
    Ok(())
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
    let within = columns_with(view, &answers, needle, budget)?;
    if !answers.contains(&Answer::Across) && within.iter().all(Option::is_none) {
        return Ok(());
    }

    // Rows that may contain it are rendered and searched.
    let mut next = vec![0u32; view.columns.len()];
    let mut candidates = vec![false; found.len()];
    let mut needed = vec![false; answers.len()];
    for (row, &id) in view.ids.iter().enumerate() {
        let mut candidate = answers[id as usize] == Answer::Across;
        for &column in &view.templates[id as usize].columns {
            let column = column as usize;
            if let Some(values) = &within[column] {
                candidate |= values[next[column] as usize];
                next[column] += 1;
            }
        }
        candidates[row] = candidate && answers[id as usize] != Answer::All;
        needed[id as usize] |= candidates[row];
    }
    if !needed.contains(&true) {
        return Ok(());
    }
    let columns = view.decode_columns(|id| needed[id as usize], budget)?;
    let mut texts = Builder::new(0, 0);
    view.render(&columns, |row, _| candidates[row], budget, &mut texts)?;
    let texts = texts.finish_exactly();
    let rows = (0..found.len()).filter(|&row| candidates[row]);
    for (row, value) in rows.zip(texts.values().iter()) {
        found[row] = needle.is_in(value);
    }
    Ok(())
}

/// Which values of each column hold the needle whole, for those in question whose bytes allow it at all.
fn columns_with(
    view: &TemplatesView<'_>,
    answers: &[Answer],
    needle: &Needle<'_>,
    budget: &mut usize,
) -> Result<Vec<Option<Vec<bool>>>, CodecError> {
    let mut within: Vec<Option<Vec<bool>>> = vec![None; view.columns.len()];
    // Templates share columns: each is searched once, also where nothing is found.
    let mut searched = vec![false; view.columns.len()];
    let all_classes = needle.classes.iter().fold(0, |classes, class| classes | class);
    // What stands in a slot may count or not by what is around the slot.
    let anywhere = needle.anywhere();
    for (template, answer) in view.templates.iter().zip(answers) {
        if *answer != Answer::Within {
            continue;
        }
        for &column in &template.columns {
            let column = column as usize;
            let (classes, values) = &view.columns[column];
            if std::mem::replace(&mut searched[column], true) || all_classes & !classes != 0 {
                continue;
            }
            let mut found = vec![false; values.count];
            matching(values, &anywhere, budget, &mut found)?;
            if found.contains(&true) {
                within[column] = Some(found);
            }
        }
    }
    Ok(within)
}

fn answer(view: &TemplatesView<'_>, template: &Template, needle: &Needle<'_>) -> Answer {
    let pieces: Vec<&[u8]> = view.pieces(template).collect();
    let classes = |&column: &u32| view.columns[column as usize].0;
    let slots: Vec<u8> = template.columns.iter().map(classes).collect();
    let last = pieces.len() - 1;
    let standing = |(at, piece): (usize, &&[u8])| standing(piece, at == 0, at == last, needle);
    let standings: Vec<Standing> = pieces.iter().enumerate().map(standing).collect();
    if standings.contains(&Standing::Yes) {
        Answer::All
    } else if standings.contains(&Standing::Perhaps) || could_reach_across(&pieces, &slots, needle)
    {
        Answer::Across
    } else if slots.is_empty() {
        Answer::None
    } else {
        Answer::Within
    }
}

/// What is known of the needle in a text that stands still.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Standing {
    /// It stands there whatever is around the text.
    Yes,
    /// It stands there, and whether it counts is told by what is around the text.
    Perhaps,
    No,
}

/// Whether the needle stands in a text; `first` and `last`: whether nothing is before it and behind it in the value.
fn standing(piece: &[u8], first: bool, last: bool, needle: &Needle<'_>) -> Standing {
    let length = needle.bytes().len();
    let mut standing = Standing::No;
    let mut from = 0;
    while let Some(found) = piece.get(from..).and_then(|rest| needle.finder.find(rest)) {
        let at = from + found;
        // An ASCII byte is a whole character; of others up to three more bytes may matter.
        let (before, behind) = (&piece[..at], &piece[at + length..]);
        let known_before =
            first || before.len() >= CHARACTER_BYTES || before.last().is_some_and(u8::is_ascii);
        let known_behind =
            last || behind.len() >= CHARACTER_BYTES || behind.first().is_some_and(u8::is_ascii);
        if needle.accept.is_none() {
            return Standing::Yes;
        }
        match known_before && known_behind {
            true if needle.accepts(piece, at) => return Standing::Yes,
            true => {}
            false => standing = Standing::Perhaps,
        }
        from = at + 1;
    }
    standing
}

/// Whether the needle could stand elsewhere than within one slot or one piece, as far as the bytes of the slots are known.
///
/// A state is how many bytes of the needle stand before a place in the template.
fn could_reach_across(pieces: &[&[u8]], slots: &[u8], needle: &Needle<'_>) -> bool {
    let bytes = needle.bytes();
    let length = bytes.len();
    let mut open = vec![false; length + 1];
    let mut next = vec![false; length + 1];
    for (at, piece) in pieces.iter().enumerate() {
        // What was begun goes on through the whole piece, or ends in it.
        next.fill(false);
        for begun in (1..length).filter(|&begun| open[begun]) {
            let rest = &bytes[begun..];
            let common = rest.len().min(piece.len());
            if rest[..common] == piece[..common] {
                if common == rest.len() {
                    return true;
                }
                next[begun + common] = true;
            }
        }
        for begun in 1..length.min(piece.len() + 1) {
            next[begun] |= piece.ends_with(&bytes[..begun]);
        }
        std::mem::swap(&mut open, &mut next);
        let Some(&classes) = slots.get(at) else { break };
        // A slot holds any run of bytes of its classes, and may be empty.
        let fits = |at: usize| needle.classes[at] & classes != 0;
        for begun in 1..length {
            if open[begun] && fits(begun) {
                open[begun + 1] = true;
            }
        }
        if open[length] {
            return true;
        }
        for begun in (0..length.saturating_sub(1)).take_while(|&begun| fits(begun)) {
            open[begun + 1] = true;
        }
    }
    false
}

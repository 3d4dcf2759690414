//! Finds the rows that contain a text, while rendering as few of them as possible.
//!
//! For each template there are three cases. The needle is in a static text: then all its rows
//! match. The needle could reach across the border of a slot: then its rows are rendered and
//! searched. Or the needle could only be within a slot: then the columns whose bytes allow it are
//! searched, dictionaries by their values, and the rows found are rendered. The byte classes of a
//! column determine what its slot may contain.

use super::CodecError;
use super::texts::Builder;
use super::view::{Kind, Template, TemplatesView, View};
use crate::needle::{Answer, Needle, class_of};

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
                search_values(view, needle, budget, found)?;
            }
        }
        Kind::Lines(bytes) | Kind::Lengths(_, bytes) => {
            if needle.find(bytes, 0).is_some() || needle.bytes().is_empty() {
                search_values(view, needle, budget, found)?;
            }
        }
        Kind::Hex { .. } => search_values(view, needle, budget, found)?,
    }
    Ok(())
}

/// Whether the needle could occur in values made of these texts with digits between them.
fn could_stand_in_digits(pieces: &[&[u8]], needle: &Needle<'_>) -> bool {
    let digits = class_of(b'0');
    let slots = vec![digits; pieces.len() - 1];
    needle.is_of(digits)
        || pieces.iter().any(|piece| needle.find(piece, 0).is_some())
        || needle.could_reach_across(pieces, &slots)
}

/// Searches each value.
fn search_values(
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

    // Rows that may contain the needle are rendered and searched.
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

/// For each column, which of its values contain the whole needle; only for columns whose bytes
/// allow it at all.
fn columns_with(
    view: &TemplatesView<'_>,
    answers: &[Answer],
    needle: &Needle<'_>,
    budget: &mut usize,
) -> Result<Vec<Option<Vec<bool>>>, CodecError> {
    let mut within: Vec<Option<Vec<bool>>> = vec![None; view.columns.len()];
    // Templates share columns: each is searched once, even if nothing is found.
    let mut searched = vec![false; view.columns.len()];
    // Whether an occurrence in a slot counts can depend on the text around the slot.
    let anywhere = needle.anywhere();
    for (template, answer) in view.templates.iter().zip(answers) {
        if *answer != Answer::Within {
            continue;
        }
        for &column in &template.columns {
            let column = column as usize;
            let (classes, values) = &view.columns[column];
            if std::mem::replace(&mut searched[column], true) || !needle.is_of(*classes) {
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
    needle.answer(&pieces, &slots)
}

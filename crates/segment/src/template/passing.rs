//! Evaluates an automaton on each value, while rendering as few values as possible.
//!
//! A static text is evaluated once for each state that it is met in, and so is each value of a
//! dictionary. From the bytes that the slots of a template may contain follow the states that its
//! values can reach; if there is only one, none of these values is evaluated. The remaining ones
//! are evaluated column by column, from the first to the last: templates that share a column have
//! the same texts before it, and a column whose rows are all decided is not decoded.

use record::automaton::{
    Automaton, AutomatonState, BEGIN, KnownText, KnownValues, NO, States, is_last,
};

use super::CodecError;
use super::view::{Kind, Template, TemplatesView, View};
use crate::needle::{ANY_CLASSES, class_of};

/// The final state of the automaton for each value of a column: one of its first three states.
pub(super) fn passing(
    view: &View<'_>,
    automaton: &Automaton,
    budget: &mut usize,
) -> Result<Vec<AutomatonState>, CodecError> {
    let mut states = vec![BEGIN; view.count];
    // Values with the same final state need not be distinguished.
    let ends_alike = |behind: &States| {
        let mut ends = States::none(automaton);
        behind.iter().for_each(|state| ends.add(automaton.end(state)));
        only(&ends)
    };
    match &view.kind {
        Kind::Templates(templates) => {
            step_templates(templates, automaton, &mut states, &ends_alike, budget)?;
        }
        _ => step(view, ANY_CLASSES, automaton, &mut states, budget)?,
    }
    states.iter_mut().for_each(|state| *state = automaton.end(*state));
    Ok(states)
}

/// The states that are not final.
fn open_states(states: &[AutomatonState], automaton: &Automaton) -> States {
    let mut open = States::none(automaton);
    states.iter().filter(|state| !is_last(**state)).for_each(|&state| open.add(state));
    open
}

/// The only state of the set, if it has exactly one.
fn only(states: &States) -> Option<AutomatonState> {
    let mut states = states.iter();
    states.next().filter(|_| states.next().is_none())
}

/// Advances each state over the value of the same row; the bytes of the values are of these
/// classes.
fn step(
    view: &View<'_>,
    classes: u8,
    automaton: &Automaton,
    states: &mut [AutomatonState],
    budget: &mut usize,
) -> Result<(), CodecError> {
    let before = open_states(states, automaton);
    if before.iter().next().is_none() {
        return Ok(());
    }
    // Templates are evaluated one by one, below.
    if !matches!(view.kind, Kind::Templates(_))
        && let Some(behind) = only(&reached_by_value(view, classes, &before, automaton))
    {
        states.iter_mut().filter(|state| !is_last(**state)).for_each(|state| *state = behind);
        return Ok(());
    }
    match &view.kind {
        Kind::Same(value) => {
            let mut value = KnownText::new(value);
            states.iter_mut().for_each(|state| *state = value.step(*state, automaton));
        }
        Kind::Dictionary { ids, values } => {
            let decoded = values.decode(budget)?;
            let mut known = KnownValues::new(values.count);
            for (state, id) in states.iter_mut().zip(ids.decode_indexes(values.count)?) {
                let id = id as usize;
                *state = known.step(id, *state, automaton, || decoded.get(id));
            }
        }
        Kind::Templates(templates) => {
            step_templates(templates, automaton, states, &only, budget)?;
        }
        Kind::Digits(_) | Kind::Hex { .. } | Kind::Lines(_) | Kind::Lengths(..) => {
            let decoded = view.decode(budget)?;
            for (index, state) in states.iter_mut().enumerate() {
                if !is_last(*state) {
                    *state = automaton.step(*state, decoded.get(index));
                }
            }
        }
    }
    Ok(())
}

/// As [`step`], for values of templates. `decided` returns the result of a set of possible states,
/// if it is the same for all.
fn step_templates(
    view: &TemplatesView<'_>,
    automaton: &Automaton,
    states: &mut [AutomatonState],
    decided: &dyn Fn(&States) -> Option<AutomatonState>,
    budget: &mut usize,
) -> Result<(), CodecError> {
    let before = open_states(states, automaton);
    let mut known: Vec<Option<States>> = vec![None; view.columns.len()];
    let decided: Vec<Option<AutomatonState>> = view
        .templates
        .iter()
        .map(|template| decided(&reached(view, template, &before, &mut known, automaton)))
        .collect();

    // The text before each column that must be evaluated; it is the same in all templates.
    let mut texts: Vec<Option<KnownText<'_>>> = vec![None; view.columns.len()];
    for (template, _) in view.templates.iter().zip(&decided).filter(|(_, known)| known.is_none()) {
        for (piece, &column) in view.pieces(template).zip(&template.columns) {
            texts[column as usize].get_or_insert_with(|| KnownText::new(piece));
        }
    }
    let mut rows_of: Vec<Vec<u32>> = vec![Vec::new(); view.columns.len()];
    for (row, &id) in (0..).zip(&view.ids) {
        let state = &mut states[row as usize];
        match decided[id as usize] {
            Some(decided) if !is_last(*state) => *state = decided,
            _ => {}
        }
        for &column in &view.templates[id as usize].columns {
            if texts[column as usize].is_some() {
                rows_of[column as usize].push(row);
            }
        }
    }
    // Decided rows keep their state, even if their values are in columns that are evaluated.
    let is_open: Vec<bool> = view.ids.iter().map(|&id| decided[id as usize].is_none()).collect();
    let mut of_column = Vec::new();
    for ((text, rows), (classes, values)) in texts.iter_mut().zip(&rows_of).zip(&view.columns) {
        let Some(text) = text else { continue };
        of_column.clear();
        of_column.extend(rows.iter().map(|&row| match is_open[row as usize] {
            true => text.step(states[row as usize], automaton),
            false => NO,
        }));
        step(values, *classes, automaton, &mut of_column, budget)?;
        for (&row, &state) in rows.iter().zip(&of_column) {
            if is_open[row as usize] {
                states[row as usize] = state;
            }
        }
    }
    let last = |template: &Template| view.pieces(template).last().expect("at least one piece");
    let mut last: Vec<KnownText<'_>> =
        view.templates.iter().map(|template| KnownText::new(last(template))).collect();
    for (row, &id) in view.ids.iter().enumerate() {
        if is_open[row] {
            states[row] = last[id as usize].step(states[row], automaton);
        }
    }
    Ok(())
}

/// The states that values of a template may reach; `known` caches the states behind each column.
fn reached(
    view: &TemplatesView<'_>,
    template: &Template,
    before: &States,
    known: &mut [Option<States>],
    automaton: &Automaton,
) -> States {
    let mut states = before.clone();
    for (piece, &column) in view.pieces(template).zip(&template.columns) {
        let column = column as usize;
        if let Some(known) = &known[column] {
            states = known.clone();
            continue;
        }
        let (classes, values) = &view.columns[column];
        states = reached_by_value(values, *classes, &states.behind(piece, automaton), automaton);
        known[column] = Some(states.clone());
    }
    states.behind(view.pieces(template).last().expect("at least one piece"), automaton)
}

/// The states that values of a column may reach, whose bytes are of these classes.
fn reached_by_value(
    view: &View<'_>,
    classes: u8,
    before: &States,
    automaton: &Automaton,
) -> States {
    match &view.kind {
        Kind::Same(value) => before.behind(value, automaton),
        Kind::Dictionary { values, .. } => reached_by_value(values, classes, before, automaton),
        Kind::Digits(digits) => {
            let mut states = before.clone();
            for (at, text) in digits.fixed().enumerate() {
                if at > 0 {
                    states.spread(|byte| byte.is_ascii_digit(), automaton);
                }
                states = states.behind(text, automaton);
            }
            states
        }
        Kind::Templates(templates) => {
            let mut states = States::none(automaton);
            let mut known = vec![None; templates.columns.len()];
            for template in &templates.templates {
                states.add_all(&reached(templates, template, before, &mut known, automaton));
            }
            states
        }
        Kind::Hex { .. } | Kind::Lines(_) | Kind::Lengths(..) => {
            let mut states = before.clone();
            let may_hold = |byte| classes == ANY_CLASSES || class_of(byte) & classes != 0;
            states.spread(may_hold, automaton);
            states
        }
    }
}

//! Which fields lines have a value of, without reading values.

use record::columns::Kind as LinesKind;

use super::BlockColumns;
use crate::sealed::bytes::Read;
use crate::sealed::pack::Kind;

impl BlockColumns<'_> {
    /// See [`record::columns::Columns::kinds`]. A layout has a mark in place of an empty value, so
    /// the lines of a layout have values of the same fields.
    pub(super) fn kinds_of(&self, rows: Option<&[u32]>) -> Read<Vec<LinesKind<'_>>> {
        let mut lines = vec![0u64; self.layouts.len()];
        match rows {
            Some(rows) => {
                let of_row = self.of_row()?;
                rows.iter().for_each(|&row| lines[of_row[row as usize] as usize] += 1);
            }
            None => {
                let of_layouts = self.layout_lines_only()?.rows.iter();
                lines.iter_mut().zip(of_layouts).for_each(|(lines, &rows)| *lines = rows as u64);
            }
        }
        let taken = self.layouts.iter().zip(lines).filter(|(_, lines)| *lines > 0);
        Ok(taken
            .map(|(layout, lines)| {
                let present = layout.fields.iter().filter(|(_, kind)| match kind {
                    Kind::Empty => false,
                    Kind::Shared { length, .. } => *length > 0,
                    Kind::InLine | Kind::Made(_) => true,
                });
                let names = present.map(|(id, _)| self.listing.names[usize::from(id.0)]);
                (names.collect(), lines)
            })
            .collect())
    }
}

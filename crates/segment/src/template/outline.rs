//! Describes an encoded column for people: the chosen encodings, and the bytes of each.

use super::ints::IntsView;
use super::view::{Kind, TemplatesView, View};

/// Bytes shown of a stored text.
const SHOWN_BYTES: usize = 60;

struct Outline<'s> {
    size: &'s dyn Fn(&[u8]) -> usize,
    lines: Vec<String>,
}

/// One line per encoding, indented by depth; template encodings with their templates.
pub(super) fn lines(view: &View<'_>, size: &dyn Fn(&[u8]) -> usize) -> Vec<String> {
    let mut outline = Outline { size, lines: Vec::new() };
    outline.view(view, "rows", 0);
    outline.lines
}

impl Outline<'_> {
    fn view(&mut self, view: &View<'_>, name: &str, depth: usize) {
        let what = match &view.kind {
            Kind::Same(value) => format!("same {}", show(value)),
            Kind::Lines(bytes) => format!("lines {} {}", self.bytes(bytes), show(bytes)),
            Kind::Lengths(lengths, bytes) => {
                format!("lengths {} {} {}", self.ints(lengths), self.bytes(bytes), show(bytes))
            }
            Kind::Digits(digits) => {
                format!("digits {} {}", show(&digits.pattern()), self.ints(digits.ints()))
            }
            Kind::Hex { bytes, .. } => format!("hex {}", self.bytes(bytes)),
            Kind::Dictionary { ids, values } => {
                format!("dictionary of {} {}", values.count, self.ints(ids))
            }
            Kind::Templates(templates) => {
                format!(
                    "templates {} {}",
                    templates.templates.len(),
                    self.ints(&templates.ids_view)
                )
            }
        };
        let indent = "  ".repeat(depth);
        self.lines.push(format!("{indent}{name}: {} x {what}", view.count));
        match &view.kind {
            Kind::Dictionary { values, .. } => self.view(values, "values", depth + 1),
            Kind::Templates(templates) => self.templates(templates, depth + 1),
            _ => {}
        }
    }

    fn templates(&mut self, templates: &TemplatesView<'_>, depth: usize) {
        let indent = "  ".repeat(depth);
        for template in &templates.templates {
            let mut line = format!("{indent}| ");
            for (at, piece) in templates.pieces(template).enumerate() {
                if at > 0 {
                    line.push_str(&format!("<{}>", template.columns[at - 1]));
                }
                line.push_str(&piece.escape_ascii().to_string());
            }
            self.lines.push(line);
        }
        for (at, (_, column)) in templates.columns.iter().enumerate() {
            self.view(column, &format!("<{at}>"), depth);
        }
    }

    fn ints(&self, ints: &IntsView<'_>) -> String {
        self.bytes(ints.bytes())
    }

    fn bytes(&self, bytes: &[u8]) -> String {
        format!("[{} bytes, {} as measured]", bytes.len(), (self.size)(bytes))
    }
}

fn show(text: &[u8]) -> String {
    let shown = text[..text.len().min(SHOWN_BYTES)].escape_ascii();
    let more = if text.len() > SHOWN_BYTES { "…" } else { "" };
    format!("\"{shown}\"{more}")
}

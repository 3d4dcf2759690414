//! Writes a document as Markdown with tables, for pages of a repository and, with aligned columns,
//! for a terminal. Of figures the caption is written, because the HTML contains them; their numbers
//! are in the tables.

use super::document::{Block, Document, Table};
use super::verdicts;

/// The whole document.
pub fn write(document: &Document) -> String {
    let mut page = Page { out: format!("# {}\n", escape(&document.title)), ..Page::default() };
    page.blocks(&document.blocks);
    page.out
}

/// A page in the making.
#[derive(Default)]
struct Page {
    out: String,
    tables: usize,
    figures: usize,
}

impl Page {
    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.out.push('\n');
            let text = self.block(block);
            self.out += &text;
        }
    }

    fn block(&mut self, block: &Block) -> String {
        match block {
            Block::Heading(level, text) => {
                format!("{} {}\n", "#".repeat(usize::from(*level)), escape(text))
            }
            Block::Text(text) => format!("{}\n", escape(text)),
            Block::Warning(text) => format!("**{}**\n", escape(text)),
            Block::List(points) => {
                points.iter().map(|point| format!("- {}\n", escape(point))).collect()
            }
            Block::Table(table) => {
                self.tables += 1;
                format!("Table {}. {}", self.tables, write_table(table))
            }
            Block::Code(caption, lines) => code(caption, lines),
            Block::Verdicts(figure) => {
                format!("![{}]({})\n", escape(&figure.caption), verdicts::NAME)
            }
            Block::Figure(figure) => {
                self.figures += 1;
                format!("Figure {} in report.html: {}\n", self.figures, escape(&figure.caption))
            }
            Block::Details(title, inner) => {
                self.out +=
                    &format!("<details><summary>{}</summary>\n", super::html::escape(title));
                self.blocks(inner);
                "\n</details>\n".to_owned()
            }
            Block::File(name, _) => format!("[{0}]({0})\n", escape(name)),
        }
    }
}

/// Text without markup: characters of Markdown or HTML are escaped, and line breaks are removed.
fn escape(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let word =
        |at: Option<usize>| at.and_then(|at| letters.get(at)).is_some_and(|c| c.is_alphanumeric());
    let mut out = String::new();
    for (at, letter) in letters.iter().enumerate() {
        match letter {
            '_' if word(at.checked_sub(1)) && word(Some(at + 1)) => out.push('_'),
            // Followed by any other character it begins no element.
            '<' if !letters
                .get(at + 1)
                .is_some_and(|c| c.is_alphabetic() || "/!?".contains(*c)) =>
            {
                out.push('<');
            }
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '|' | '~' | '#' | '!' | '$' => {
                out.push('\\');
                out.push(*letter);
            }
            '&' => out += "&amp;",
            control if control.is_control() => out.push(' '),
            _ => out.push(*letter),
        }
    }
    out
}

fn code(caption: &str, lines: &[String]) -> String {
    // A fence that is longer than any in the text cannot be closed by it.
    let longest = lines.iter().map(|line| longest_run(line)).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    format!("{}:\n\n{fence}text\n{}\n{fence}\n", escape(caption), lines.join("\n"))
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Cells of a column that is longer somewhere begin at the left, as text is read.
const NUMBER_CHARS_MAX: usize = 24;

/// A table with its caption and padded columns.
fn write_table(table: &Table) -> String {
    let rows: Vec<Vec<String>> = std::iter::once(&table.head)
        .chain(&table.rows)
        .map(|row| row.iter().map(|cell| escape(cell)).collect())
        .collect();
    let width =
        |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let is_text = |at: usize| {
        at == 0 || rows[1..].iter().any(|row| row[at].chars().count() > NUMBER_CHARS_MAX)
    };
    let mut out = format!("{}:\n\n", escape(&table.caption));
    for (number, row) in rows.iter().enumerate() {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let space = " ".repeat(width - cell.chars().count());
            let padded = if is_text(at) { [&**cell, &space] } else { [&space, &**cell] };
            out += &format!("| {} ", padded.concat());
        }
        out += "|\n";
        if number == 0 {
            for (at, width) in widths.iter().enumerate() {
                let line = "-".repeat(width - 1);
                out += &format!("| {line}{} ", if is_text(at) { "-" } else { ":" });
            }
            out += "|\n";
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_servers_stay_text() {
        for (text, written) in [
            ("query_a took 3 ms, p < 0.001", "query_a took 3 ms, p < 0.001"),
            ("<b>a|b</b> & `c`", "\\<b>a\\|b\\</b> &amp; \\`c\\`"),
            ("one\n# two\r\n", "one \\# two  "),
            ("_a_ ![x](y)", "\\_a\\_ \\!\\[x\\](y)"),
        ] {
            assert_eq!(escape(text), written);
        }
        let block = code("of a", &["a".into(), "```".into()]);
        assert!(block.contains("\n````text\na\n```\n````\n"), "{block}");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new("Rates", &["store", "per second", "why"]);
        let why = "it was the first of all stores";
        table.rows = [["a", "12,272", why], ["loginson", "9", ""]]
            .map(|row| row.map(str::to_owned).to_vec())
            .to_vec();
        let expected = "Rates:\n\n\
            | store    | per second | why                            |\n\
            | -------- | ---------: | ------------------------------ |\n\
            | a        |     12,272 | it was the first of all stores |\n\
            | loginson |          9 |                                |\n";
        assert_eq!(write_table(&table), expected);
    }
}

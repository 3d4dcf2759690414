//! Writes a document as Markdown with tables, for pages of a repository and, with aligned columns,
//! for a terminal.
//!
//! Box plots and charts of means with intervals become tables; of other charts only the caption is
//! written, because the HTML contains them.

use super::document::{Block, Chart, Data, Document, Series, Table};
use super::number::{interval, plain};

/// The whole document.
pub fn write(document: &Document) -> String {
    let mut out = format!("# {}\n", escape(&document.title));
    for block in &document.blocks {
        out.push('\n');
        match block {
            Block::Heading(level, text) => {
                out += &format!("{} {}\n", "#".repeat(usize::from(*level)), escape(text));
            }
            Block::Text(text) => out += &format!("{}\n", escape(text)),
            Block::Warning(text) => out += &format!("**{}**\n", escape(text)),
            Block::List(points) => {
                for point in points {
                    out += &format!("- {}\n", escape(point));
                }
            }
            Block::Table(table) => out += &write_table(table),
            Block::Code(caption, lines) => out += &code(caption, lines),
            Block::Chart(chart) => out += &write_chart(chart),
        }
    }
    out
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

/// A table with its caption and padded columns.
fn write_table(table: &Table) -> String {
    let rows: Vec<Vec<String>> = std::iter::once(&table.head)
        .chain(&table.rows)
        .map(|row| row.iter().map(|cell| escape(cell)).collect())
        .collect();
    let width =
        |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0).max(3);
    let widths: Vec<usize> = (0..table.head.len()).map(width).collect();
    let mut out = format!("{}:\n\n", escape(&table.caption));
    for (number, row) in rows.iter().enumerate() {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let space = " ".repeat(width - cell.chars().count());
            out += &if at == 0 { format!("| {cell}{space} ") } else { format!("| {space}{cell} ") };
        }
        out += "|\n";
        if number == 0 {
            for (at, width) in widths.iter().enumerate() {
                let line = "-".repeat(width - usize::from(at > 0));
                out += &if at == 0 { format!("| {line} ") } else { format!("| {line}: ") };
            }
            out += "|\n";
        }
    }
    out
}

fn write_chart(chart: &Chart) -> String {
    let table = match &chart.data {
        Data::Boxes { axis, boxes } => {
            let mut table = Table::new(
                format!("{} ({})", chart.caption, axis.label),
                &[
                    "",
                    "lower whisker",
                    "lower hinge",
                    "median",
                    "upper hinge",
                    "upper whisker",
                    "outliers",
                ],
            );
            for entry in boxes {
                let plot = &entry.plot;
                let mut row = vec![entry.name.clone()];
                row.extend(
                    [plot.whisker_low, plot.low, plot.median, plot.high, plot.whisker_high]
                        .map(plain),
                );
                row.push(
                    plot.outliers.iter().map(|value| plain(*value)).collect::<Vec<_>>().join(", "),
                );
                table.rows.push(row);
            }
            table
        }
        Data::Lines { x, y, series } if series.iter().any(means) => {
            few(chart, &x.label, &y.label, series)
        }
        Data::Lines { .. } => {
            return format!("Chart in report.html: {}.\n", escape(&chart.caption));
        }
    };
    write_table(&table)
}

/// Whether a line shows means with intervals.
fn means(series: &Series) -> bool {
    series.points.iter().any(|point| point.interval.is_some())
}

/// A chart of means, as a table.
fn few(chart: &Chart, x: &str, y: &str, series: &[Series]) -> Table {
    let mut places: Vec<f64> = series.iter().flat_map(|s| &s.points).map(|point| point.x).collect();
    places.sort_by(f64::total_cmp);
    places.dedup();
    let mut head = vec![x];
    head.extend(series.iter().map(|series| series.name.as_str()));
    let mut table = Table::new(format!("{} ({y})", chart.caption), &head);
    for place in places {
        let mut row = vec![plain(place)];
        for series in series {
            let point = series.points.iter().find(|point| point.x == place);
            row.push(point.map_or(String::new(), |point| match point.interval {
                Some(ends) => format!("{} ({})", plain(point.y), interval(ends)),
                None => plain(point.y),
            }));
        }
        table.rows.push(row);
    }
    table
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
        let mut table = Table::new("Rates", &["store", "per second"]);
        table.rows = vec![vec!["a".into(), "12,272".into()], vec!["loginson".into(), "9".into()]];
        let expected = "Rates:\n\n\
            | store    | per second |\n\
            | -------- | ---------: |\n\
            | a        |     12,272 |\n\
            | loginson |          9 |\n";
        assert_eq!(write_table(&table), expected);
    }
}

//! Writes a document as one HTML file: no other file, no network, no script; readable in print and
//! in dark mode.
//!
//! Every text is passed through [`escape`]; the content security policy of the page allows only its
//! own style. Tables and figures are numbered; the contents stay in sight.

use base64::Engine as _;

use super::document::{Block, Document, Figure, Table};
use super::{plot, verdicts};

const STYLE: &str = include_str!("page.css");

/// A longer cell of a table has words.
const NUMBER_LETTERS_MAX: usize = 24;

/// The whole document.
pub fn write(document: &Document) -> String {
    let mut page = Page::default();
    page.blocks(&document.blocks);
    let contents: String = page
        .headings
        .iter()
        .map(|(id, text)| format!("<a href=\"#{id}\">{}</a>\n", escape(text)))
        .collect();
    let (title, body) = (escape(&document.title), page.body);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <nav aria-label=\"Contents\">{contents}</nav>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// A page in the making.
#[derive(Default)]
struct Page {
    body: String,
    /// Headings with their ids.
    headings: Vec<(String, String)>,
    tables: usize,
    figures: usize,
}

impl Page {
    fn blocks(&mut self, blocks: &[Block]) {
        for block in blocks {
            self.block(block);
        }
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Heading(level, text) => {
                let id = format!("s{}", self.headings.len() + 1);
                self.body += &format!("<h{level} id=\"{id}\">{}</h{level}>\n", escape(text));
                self.headings.push((id, text.clone()));
            }
            Block::Text(text) => self.body += &format!("<p>{}</p>\n", escape(text)),
            Block::Warning(text) => {
                self.body += &format!("<p class=\"warning\">{}</p>\n", escape(text));
            }
            Block::List(points) => {
                let points: String =
                    points.iter().map(|point| format!("<li>{}</li>\n", escape(point))).collect();
                self.body += &format!("<ul>\n{points}</ul>\n");
            }
            Block::Table(table) => self.table(table),
            Block::Code(caption, lines) => {
                self.body += &format!(
                    "<details><summary>{}</summary><pre>{}</pre></details>\n",
                    escape(caption),
                    escape(&lines.join("\n"))
                );
            }
            Block::Verdicts(figure) => {
                let (svg, caption) = (verdicts::svg(figure), escape(&figure.caption));
                self.body += &format!(
                    "<figure class=\"verdicts\">{svg}<figcaption>{caption}</figcaption></figure>\n"
                );
            }
            Block::Figure(figure) => self.figure(figure),
            Block::Details(title, inner) => {
                self.body += &format!("<details><summary>{}</summary>\n", escape(title));
                self.blocks(inner);
                self.body += "</details>\n";
            }
            Block::File(name, text) => {
                let data = base64::engine::general_purpose::STANDARD.encode(text);
                self.body += &format!(
                    "<p><a download=\"{0}\" href=\"data:text/csv;base64,{data}\">{0}</a></p>\n",
                    escape(name)
                );
            }
        }
    }

    fn table(&mut self, table: &Table) {
        self.tables += 1;
        let row = |cells: &[String], tag: &str| {
            let cell = |(at, cell): (usize, &String)| match at {
                0 => format!(
                    "<th scope=\"{}\">{}</th>",
                    if tag == "th" { "col" } else { "row" },
                    escape(cell)
                ),
                // Words wrap and stand on the left, numbers do neither.
                _ if tag == "td" && cell.chars().count() > NUMBER_LETTERS_MAX => {
                    format!("<td class=\"words\">{}</td>", escape(cell))
                }
                _ => format!("<{tag}>{}</{tag}>", escape(cell)),
            };
            let cells: String = cells.iter().enumerate().map(cell).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let rows: String = table.rows.iter().map(|cells| row(cells, "td")).collect();
        self.body += &format!(
            "<div class=\"wide\"><table><caption>Table {}. {}</caption>\n<thead>{}</thead>\n\
             <tbody>\n{rows}</tbody></table></div>\n",
            self.tables,
            escape(&table.caption),
            row(&table.head, "th")
        );
    }

    fn figure(&mut self, figure: &Figure) {
        self.figures += 1;
        let named = |(colour, name): &(usize, String)| {
            format!(
                "<span><i style=\"background:{}\"></i>{}</span>\n",
                plot::colour(*colour),
                escape(name)
            )
        };
        let legend: String = figure.legend.iter().map(named).collect();
        self.body += &format!(
            "<figure><div class=\"legend\">{legend}</div>{}<figcaption>Figure {}. {}</figcaption></figure>\n",
            plot::svg(&figure.panels),
            self.figures,
            escape(&figure.caption),
        );
    }
}

/// Escapes text for HTML, in elements and in quoted attributes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            '\n' | '\t' => out.push(letter),
            control if control.is_control() => out.push('\u{fffd}'),
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::document::{Axis, Panel, PanelData, Point, Series};
    use super::*;

    #[test]
    fn texts_of_servers_are_never_markup() {
        let evil = "</script><script>alert(1)</script>\" onload='x' &amp;\0";
        let mut document = Document { title: evil.into(), ..Document::default() };
        document.heading(evil);
        document.blocks.push(Block::Heading(3, evil.into()));
        document.text(evil);
        document.list(vec![evil.into()]);
        document.blocks.push(Block::Warning(evil.into()));
        document.blocks.push(Block::Code(evil.into(), vec![evil.into()]));
        document.blocks.push(Block::Details(evil.into(), vec![Block::Text(evil.into())]));
        document.blocks.push(Block::File(evil.into(), evil.into()));
        let mut table = Table::new(evil, &[evil, evil]);
        table.rows.push(vec![evil.into(), evil.into()]);
        document.table(table);
        let axis = Axis::linear(evil);
        let points = vec![Point { x: 1.0, y: 2.0, interval: None }];
        let series = vec![Series { name: evil.into(), colour: 0, points }];
        let data = PanelData::Lines { x: axis.clone(), y: axis, series };
        let panel = Panel { title: evil.into(), data };
        document.figure(evil, vec![(0, evil.into())], vec![panel]);
        let page = write(&document);
        assert_eq!(page.matches("alert(1)").count(), page.matches("&gt;alert(1)&lt;").count());
        assert!(!page.contains("<script"));
        assert!(!page.contains("' &amp;amp;\0") && !page.contains("\" onload"));
        assert!(page.contains("Table 1. ") && page.contains("Figure 1. "));
    }
}

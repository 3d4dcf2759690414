//! Writes a document as one HTML file: no other file, no network, readable in print and in dark
//! mode, with interactive charts.
//!
//! Every text is passed through [`escape`]; the content security policy of the page allows only its
//! own style and script. Without scripts the charts are static; the script adds values under the
//! pointer, hiding of lines, and zooming of the x axis.

use super::document::{Axis, Block, Chart, Data, Document, Series, Table};
use super::plot;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// The whole document.
pub fn write(document: &Document) -> String {
    let mut body = String::new();
    let (mut headings, mut charts) = (Vec::new(), 0);
    for block in &document.blocks {
        match block {
            Block::Heading(2, text) => {
                let id = format!("s{}", headings.len() + 1);
                body += &format!("<h2 id=\"{id}\">{}</h2>\n", escape(text));
                headings.push((id, text));
            }
            Block::Heading(_, text) => body += &format!("<h3>{}</h3>\n", escape(text)),
            Block::Text(text) => body += &format!("<p>{}</p>\n", escape(text)),
            Block::Warning(text) => body += &format!("<p class=\"warning\">{}</p>\n", escape(text)),
            Block::List(points) => {
                let points: String =
                    points.iter().map(|point| format!("<li>{}</li>\n", escape(point))).collect();
                body += &format!("<ul>\n{points}</ul>\n");
            }
            Block::Table(table) => body += &write_table(table),
            Block::Code(caption, lines) => {
                body += &format!(
                    "<details><summary>{}</summary><pre>{}</pre></details>\n",
                    escape(caption),
                    escape(&lines.join("\n"))
                );
            }
            Block::Chart(chart) => {
                charts += 1;
                body += &figure(chart, charts);
            }
        }
    }
    let contents: String = headings
        .iter()
        .map(|(id, text)| format!("<a href=\"#{id}\">{}</a>\n", escape(text)))
        .collect();
    let title = escape(&document.title);
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n\
         <nav>{contents}</nav>\n{body}</main>\n<script>\n{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

/// Escapes text for HTML and SVG, in elements and in quoted attributes.
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

fn write_table(table: &Table) -> String {
    let row = |cells: &[String], tag: &str| {
        let cells: String = cells
            .iter()
            .enumerate()
            .map(|(at, cell)| match at {
                0 => format!(
                    "<th scope=\"{}\">{}</th>",
                    if tag == "th" { "col" } else { "row" },
                    escape(cell)
                ),
                _ => format!("<{tag}>{}</{tag}>", escape(cell)),
            })
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let rows: String = table.rows.iter().map(|cells| row(cells, "td")).collect();
    format!(
        "<div class=\"wide\"><table><caption>{}</caption>\n<thead>{}</thead>\n<tbody>\n{rows}</tbody></table></div>\n",
        escape(&table.caption),
        row(&table.head, "th")
    )
}

/// A chart with its legend, and its data for the script.
fn figure(chart: &Chart, id: usize) -> String {
    let (mut legend, mut data) = (String::new(), String::new());
    if let Data::Lines { x, y, series } = &chart.data {
        data = format!(" data-chart=\"{}\"", escape(&json(x, y, series)));
        for (number, series) in series.iter().enumerate() {
            legend += &format!(
                "<button type=\"button\" data-line=\"{number}\" aria-pressed=\"true\"><svg viewBox=\"0 0 24 8\" class=\"{}\">\
                 <path d=\"M0 4H24\"/></svg>{}</button>",
                plot::classes(number),
                escape(&series.name)
            );
        }
        legend = format!("<div class=\"legend\">{legend}</div>");
    }
    format!(
        "<figure{data}><figcaption>{}</figcaption>{legend}{}</figure>\n",
        escape(&chart.caption),
        plot::svg(chart, id)
    )
}

fn json(x: &Axis, y: &Axis, series: &[Series]) -> String {
    let axis = |axis: &Axis| serde_json::json!({ "label": axis.label, "log": axis.log });
    let lines: Vec<serde_json::Value> = series
        .iter()
        .map(|series| {
            let points: Vec<[f64; 2]> =
                series.points.iter().map(|point| [short(point.x), short(point.y)]).collect();
            serde_json::json!({ "name": series.name, "points": points })
        })
        .collect();
    serde_json::json!({ "x": axis(x), "y": axis(y), "lines": lines }).to_string()
}

/// Six significant digits: a chart does not show more.
fn short(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let unit = 10_f64.powi(5 - value.abs().log10().floor() as i32);
    (value * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::super::document::Point;
    use super::*;

    #[test]
    fn texts_of_servers_are_never_markup() {
        let evil = "</script><script>alert(1)</script>\" onload='x' &amp;\0";
        let mut document = Document { title: evil.into(), ..Document::default() };
        document.heading(evil);
        document.subheading(evil);
        document.text(evil);
        document.list(vec![evil.into()]);
        document.blocks.push(Block::Warning(evil.into()));
        document.blocks.push(Block::Code(evil.into(), vec![evil.into()]));
        let mut table = Table::new(evil, &[evil, evil]);
        table.rows.push(vec![evil.into(), evil.into()]);
        document.table(table);
        let axis = Axis::linear(evil);
        let points = vec![Point { x: 1.0, y: 2.0, interval: None }];
        let series = vec![Series { name: evil.into(), points }];
        document.chart(evil, Data::Lines { x: axis.clone(), y: axis, series });
        let page = write(&document);
        assert_eq!(page.matches("alert(1)").count(), page.matches("&gt;alert(1)&lt;").count());
        assert_eq!(page.matches("<script>").count(), 1);
        assert!(!page.contains("' &amp;amp;\0") && !page.contains("\" onload"));
    }

    #[test]
    fn values_in_the_page_are_short() {
        for (value, expected) in [(12272.283, 12272.3), (0.0, 0.0), (0.001234567, 0.00123457)] {
            assert_eq!(short(value), expected);
        }
    }
}

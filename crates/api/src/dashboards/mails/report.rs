//! A dashboard with its answers, as a mail: HTML that reads well without pictures, plain text, and
//! the subject. The attached document is drawn by [`super::pdf`].
//!
//! Texts of logs are data: every text is escaped in HTML, and control characters become spaces.

use std::fmt::Write as _;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::shown::{Chart, Shown};

/// Rows of a table in the body; the attached document has more.
const BODY_ROWS_MAX: usize = 10;
/// Series of a chart in the body.
const BODY_SERIES_MAX: usize = 10;
/// Bytes of a body.
///
/// limits.md, Dashboards by mail: bytes of each body | {} | further panels are left out of it, and
/// it says so
const BODY_BYTES_MAX: usize = 512 << 10;

/// A dashboard with its answers.
#[derive(Clone, Debug)]
pub struct Report {
    /// The title of the dashboard.
    pub title: String,
    /// Whose rights it was made with; none where nobody logs in.
    pub owner: Option<String>,
    /// The address of the dashboard with the range; none if that of the page is not known.
    pub link: Option<String>,
    /// The range, in milliseconds since 1970.
    pub range_ms: (i64, i64),
    /// The zone in which times are written.
    pub zone: TimeZone,
    /// Its name.
    pub zone_name: String,
    /// The chosen values of variables, `host: a, b`.
    pub variables: Vec<String>,
    /// What concerns the whole, a sentence each.
    pub notes: Vec<String>,
    /// The panels.
    pub parts: Vec<Part>,
}

/// A panel with its answer.
#[derive(Clone, Debug)]
pub struct Part {
    /// The title.
    pub title: String,
    /// What it shows.
    pub shown: Shown,
    /// What the answer lacks, and what is not as on the page, a sentence each.
    pub notes: Vec<String>,
}

/// A table of texts: whether each column is of numbers, its name, and the rows.
type Texts = (Vec<(String, bool)>, Vec<Vec<String>>);

impl Report {
    /// A time in the zone of the report.
    pub fn time(&self, ms: i64, format: &str) -> String {
        let at = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
        at.to_zoned(self.zone.clone()).strftime(format).to_string()
    }

    /// The range in words.
    pub fn range(&self) -> String {
        let format = "%Y-%m-%d %H:%M:%S";
        let (start, end) = (self.time(self.range_ms.0, format), self.time(self.range_ms.1, format));
        format!("{start} – {end} {} ({})", self.time(self.range_ms.1, "UTC%:z"), self.zone_name)
    }

    /// The lines below the title.
    pub fn head(&self) -> Vec<String> {
        let mut head = vec![self.range()];
        head.extend(self.variables.iter().cloned());
        if let Some(owner) = &self.owner {
            head.push(format!("With the rights of {owner}"));
        }
        head
    }

    /// The subject of the mail.
    pub fn subject(&self) -> String {
        format!("{} – {}", self.title, self.time(self.range_ms.1, "%Y-%m-%d %H:%M"))
    }

    fn newest(&self, chart: &Chart) -> Texts {
        let format = if chart.step_ms < 60_000 { "%m-%d %H:%M:%S" } else { "%m-%d %H:%M" };
        let names =
            [("", false), ("newest", true), ("at", false), ("least", true), ("greatest", true)];
        let mut names: Vec<(String, bool)> =
            names.map(|(name, is_number)| (name.to_owned(), is_number)).into();
        let has_sums = chart.series.iter().any(|one| one.is_additive);
        if has_sums {
            names.push(("total".to_owned(), true));
        }
        let rows = chart.series.iter().take(BODY_SERIES_MAX).map(|one| {
            let newest = one.points.iter().zip(&chart.times_ms).rev();
            let newest = newest.clone().find_map(|(point, ms)| Some((point.as_ref()?, ms)));
            let text = |value: Option<f64>| value.map_or("–".to_owned(), |v| chart.unit.long(v));
            let all = || one.points.iter().flatten().copied();
            let mut row = vec![
                one.label.clone(),
                text(newest.map(|(value, _)| *value)),
                newest.map_or(String::new(), |(_, ms)| self.time(*ms, format)),
                text(all().reduce(f64::min)),
                text(all().reduce(f64::max)),
            ];
            if has_sums {
                row.push(if one.is_additive { text(Some(one.size)) } else { String::new() });
            }
            row
        });
        let rows = rows.collect();
        (names, rows)
    }

    /// What a part shows as a table, and how many rows there are beside.
    fn table(&self, shown: &Shown) -> Option<(Texts, usize)> {
        let own = |name: &str, is_number| (name.to_owned(), is_number);
        let (texts, all): (Texts, usize) = match shown {
            Shown::Chart(chart) => (self.newest(chart), chart.series.len()),
            Shown::Numbers(numbers) => {
                let rows: Vec<_> =
                    numbers.iter().map(|(a, b)| vec![a.clone(), b.clone()]).collect();
                let all = rows.len();
                ((vec![own("", false), own("", true)], rows), all)
            }
            Shown::List(list) => {
                let row =
                    |(label, size): &(String, f64)| vec![label.clone(), list.unit.long(*size)];
                let rows = list.entries.iter().take(BODY_ROWS_MAX).map(row).collect();
                ((vec![own("", false), own("", true)], rows), list.entries.len())
            }
            Shown::Heat(heat) => {
                let row = |(label, cells): &(String, Vec<f64>)| {
                    let greatest = cells.iter().copied().fold(0.0, f64::max);
                    let newest = cells.last().copied().unwrap_or(0.0);
                    vec![label.clone(), heat.unit.long(newest), heat.unit.long(greatest)]
                };
                let rows = heat.rows.iter().rev().take(BODY_ROWS_MAX).map(row).collect();
                let names = vec![own("", false), own("newest", true), own("greatest", true)];
                ((names, rows), heat.rows.len())
            }
            Shown::Table(table) => {
                let rows = table.rows.iter().take(BODY_ROWS_MAX).cloned().collect();
                ((table.columns.clone(), rows), table.rows.len())
            }
            Shown::Text(_) | Shown::Nothing | Shown::Failed(_) => return None,
        };
        let more = all - texts.1.len();
        Some((texts, more))
    }

    /// The body as plain text.
    pub fn text(&self) -> String {
        let mut out = format!("{}\n{}\n", plain(&self.title), self.head().join("\n"));
        self.link.iter().for_each(|link| put(&mut out, format_args!("{link}\n")));
        self.notes.iter().for_each(|note| put(&mut out, format_args!("Note: {}\n", plain(note))));
        for (at, part) in self.parts.iter().enumerate() {
            if out.len() > BODY_BYTES_MAX {
                put(
                    &mut out,
                    format_args!("\n{} more panels are left out.\n", self.parts.len() - at),
                );
                break;
            }
            put(&mut out, format_args!("\n## {}\n", plain(&part.title)));
            if let Some(sentence) = sentence(&part.shown) {
                put(&mut out, format_args!("{sentence}\n"));
            }
            if let Some(((names, rows), more)) = self.table(&part.shown) {
                if names.iter().any(|(name, _)| !name.is_empty()) {
                    let names: Vec<String> = names.iter().map(|(name, _)| plain(name)).collect();
                    put(&mut out, format_args!("{}\n", names.join(" | ")));
                }
                for row in rows {
                    let row: Vec<String> = row.iter().map(|text| plain(text)).collect();
                    put(&mut out, format_args!("{}\n", row.join(" | ")));
                }
                if more > 0 {
                    put(&mut out, format_args!("({more} more in the attached document)\n"));
                }
            }
            part.notes
                .iter()
                .for_each(|note| put(&mut out, format_args!("Note: {}\n", plain(note))));
        }
        out
    }

    /// The body as HTML, without pictures, scripts or addresses of others.
    pub fn html(&self) -> String {
        let mut out = String::from(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"></head><body \
             style=\"font:14px/1.45 sans-serif;color:#1a1a1a;max-width:60em\">",
        );
        put(&mut out, format_args!("<h1 style=\"font-size:20px\">{}</h1>", escaped(&self.title)));
        for line in self.head() {
            put(&mut out, format_args!("<div style=\"color:#555\">{}</div>", escaped(&line)));
        }
        if let Some(link) = &self.link {
            let link = escaped(link);
            put(&mut out, format_args!("<p><a href=\"{link}\">Open the dashboard</a></p>"));
        }
        notes(&self.notes, &mut out);
        for (at, part) in self.parts.iter().enumerate() {
            if out.len() > BODY_BYTES_MAX {
                let more = self.parts.len() - at;
                put(&mut out, format_args!("<p>{more} more panels are left out.</p>"));
                break;
            }
            put(
                &mut out,
                format_args!(
                    "<h2 style=\"font-size:15px;margin:18px 0 4px\">{}</h2>",
                    escaped(&part.title)
                ),
            );
            if let Shown::Numbers(numbers) = &part.shown {
                for (label, number) in numbers {
                    put(
                        &mut out,
                        format_args!(
                            "<div><span style=\"color:#555\">{}</span> <b \
                             style=\"font-size:20px\">{}</b></div>",
                            escaped(label),
                            escaped(number)
                        ),
                    );
                }
            } else if let Some(sentence) = sentence(&part.shown) {
                let lines = escaped(&sentence).replace('\n', "<br>");
                put(&mut out, format_args!("<p style=\"margin:4px 0\">{lines}</p>"));
            } else if let Some((texts, more)) = self.table(&part.shown) {
                html_table(&texts, &mut out);
                if more > 0 {
                    put(&mut out, format_args!("<div>{more} more in the attached document</div>"));
                }
            }
            notes(&part.notes, &mut out);
        }
        out + "</body></html>\n"
    }
}

/// What is said in words where nothing is drawn.
pub fn sentence(shown: &Shown) -> Option<String> {
    match shown {
        Shown::Text(text) => Some(text.lines().map(plain).collect::<Vec<_>>().join("\n")),
        Shown::Nothing => Some("No line matches in this time range.".to_owned()),
        Shown::Failed(why) => Some(format!("This panel could not be evaluated: {}", plain(why))),
        Shown::Chart(chart) if chart.series.is_empty() => {
            Some("There are no numbers to draw.".to_owned())
        }
        Shown::Heat(heat) if heat.rows.is_empty() => {
            Some("There are no numbers to draw.".to_owned())
        }
        Shown::Chart(_) | Shown::Numbers(_) | Shown::List(_) | Shown::Heat(_) | Shown::Table(_) => {
            None
        }
    }
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a text cannot fail.
    let _ = out.write_fmt(text);
}

fn notes(notes: &[String], out: &mut String) {
    for note in notes {
        let style = "color:#8a4b00;font-size:13px";
        put(out, format_args!("<div style=\"{style}\">Note: {}</div>", escaped(note)));
    }
}

fn html_table((names, rows): &Texts, out: &mut String) {
    let style = |is_number: bool| {
        let align = if is_number { "right" } else { "left" };
        format!("border-bottom:1px solid #ddd;padding:2px 10px 2px 0;text-align:{align}")
    };
    out.push_str("<table style=\"border-collapse:collapse;font-size:13px\">");
    if names.iter().any(|(name, _)| !name.is_empty()) {
        out.push_str("<tr>");
        for (name, is_number) in names {
            let style = style(*is_number);
            put(out, format_args!("<th style=\"{style};color:#555\">{}</th>", escaped(name)));
        }
        out.push_str("</tr>");
    }
    for row in rows {
        out.push_str("<tr>");
        for (text, (_, is_number)) in row.iter().zip(names) {
            put(out, format_args!("<td style=\"{}\">{}</td>", style(*is_number), escaped(text)));
        }
        out.push_str("</tr>");
    }
    out.push_str("</table>");
}

/// Whether a character changes how others are shown, such as a change of the direction of writing.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// A text in one line.
pub fn plain(text: &str) -> String {
    text.chars().map(|c| if is_hidden(c) { ' ' } else { c }).collect()
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' => out.push('\n'),
            c if is_hidden(c) => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

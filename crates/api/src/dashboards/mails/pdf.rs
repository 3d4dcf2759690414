//! A dashboard as a document of PDF, drawn by the server: charts as lines, bars and heat
//! maps with axes, numbers, lists, tables.
//!
//! The layout is a single column: panels follow each other in the order of the dashboard, each as
//! wide as the page. Bounded in pages, points and bytes; what is left out is said in the document.
//! Left out: pictures, colours of the page's theme, fonts other than the built-in one.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pdf_writer::types::{ActionType, AnnotationType};
use pdf_writer::{Content, Filter, Finish as _, Name, Pdf, Rect, Ref, Str, TextStr};

use super::font::{cut, encoded, width, wrapped};
use super::report::{Part, Report, sentence};
use super::shown::{Chart, Heat, List, Shown, Table};
use super::units::Unit;

/// Pages of a document.
///
/// limits.md, Dashboards by mail: pages of the document; points of all its charts; its bytes | {};
/// {POINTS_TOTAL_MAX}; {BYTES_MAX} | further panels, or the charts, are left out and the document
/// says so; a longer document is not attached, and the mail says so
const PAGES_MAX: usize = 60;
/// Points of all charts.
const POINTS_TOTAL_MAX: usize = 200_000;
/// Bytes of a document.
pub const BYTES_MAX: usize = 8 << 20;

/// A4, in points.
const PAGE: (f32, f32) = (595.0, 842.0);
const MARGIN: f32 = 48.0;
const WIDTH: f32 = PAGE.0 - 2.0 * MARGIN;
/// Where the text of a page ends; below it is the number of the page.
const BOTTOM: f32 = MARGIN + 14.0;
/// Height of the plot of a chart, and room for the numbers left of it.
const PLOT_HEIGHT: f32 = 130.0;
const AXIS_WIDTH: f32 = 48.0;
/// Room for the labels left of a heat map.
const LABEL_WIDTH: f32 = 96.0;
/// Height of a line of small text.
const LINE: f32 = 12.0;

const REGULAR: Name<'static> = Name(b"F1");
const BOLD: Name<'static> = Name(b"F2");

type Color = (f32, f32, f32);
const BLACK: Color = (0.1, 0.1, 0.1);
const GRAY: Color = (0.42, 0.42, 0.42);
const PALE: Color = (0.87, 0.87, 0.87);
const NOTE: Color = (0.54, 0.29, 0.0);
const BLUE: Color = (0.1, 0.35, 0.7);
/// Colours of series, which differ in lightness too.
const COLORS: [Color; 10] = [
    (0.12, 0.38, 0.70),
    (0.90, 0.49, 0.13),
    (0.18, 0.55, 0.34),
    (0.75, 0.22, 0.27),
    (0.49, 0.36, 0.68),
    (0.55, 0.34, 0.29),
    (0.85, 0.47, 0.69),
    (0.45, 0.45, 0.45),
    (0.68, 0.66, 0.13),
    (0.15, 0.65, 0.72),
];

/// The document.
///
/// # Errors
/// It would have more than [`BYTES_MAX`] bytes.
pub fn document(report: &Report) -> Result<Vec<u8>, String> {
    let mut drawer = Drawer::new();
    drawer.text(&report.title, 18.0, BOLD, BLACK);
    drawer.skip(4.0);
    for line in report.head() {
        drawer.text(&line, 9.0, REGULAR, GRAY);
    }
    if let Some(link) = &report.link {
        drawer.link(link);
    }
    drawer.notes(&report.notes);
    for (at, part) in report.parts.iter().enumerate() {
        if drawer.pages.len() >= PAGES_MAX && drawer.y < BOTTOM + 120.0 || drawer.is_full {
            let left = report.parts.len() - at;
            drawer.is_full = false;
            drawer.y = drawer.y.max(BOTTOM + 2.0 * LINE);
            let why = format!(
                "The document ends here, after {PAGES_MAX} pages: {left} panels are left out."
            );
            drawer.text(&why, 9.0, REGULAR, NOTE);
            break;
        }
        drawer.part(part, report);
    }
    let bytes = drawer.finish(&report.title);
    match bytes.len() > BYTES_MAX {
        true => Err(format!(
            "The document would have more than {} MiB, and is left out.",
            BYTES_MAX >> 20
        )),
        false => Ok(bytes),
    }
}

/// Writes page after page, from top to bottom.
struct Drawer {
    pages: Vec<Content>,
    /// The next free place on the last page, from its lower end.
    y: f32,
    /// The address that a rectangle of the first page leads to.
    link: Option<(Rect, String)>,
    /// Whether a character was escaped.
    is_escaped: bool,
    /// Whether the last page is full, and there may be no more.
    is_full: bool,
    points_left: usize,
}

impl Drawer {
    fn new() -> Drawer {
        Drawer {
            pages: vec![Content::new()],
            y: PAGE.1 - MARGIN,
            link: None,
            is_escaped: false,
            is_full: false,
            points_left: POINTS_TOTAL_MAX,
        }
    }

    fn page(&mut self) -> &mut Content {
        self.pages.last_mut().expect("there is a page")
    }

    fn skip(&mut self, height: f32) {
        self.y -= height;
    }

    /// Begins a page unless this one has so much room. False: there may be no more.
    fn room(&mut self, height: f32) -> bool {
        if self.y - height >= BOTTOM {
            return true;
        }
        if self.pages.len() >= PAGES_MAX {
            self.is_full = true;
            return false;
        }
        self.pages.push(Content::new());
        self.y = PAGE.1 - MARGIN;
        true
    }

    fn encode(&mut self, text: &str) -> Vec<u8> {
        let (bytes, is_escaped) = encoded(text);
        self.is_escaped |= is_escaped;
        bytes
    }

    /// Bytes of a text at a place.
    fn show(
        &mut self,
        (x, y): (f32, f32),
        bytes: &[u8],
        size: f32,
        font: Name<'static>,
        color: Color,
    ) {
        let page = self.page();
        page.set_fill_rgb(color.0, color.1, color.2);
        page.begin_text().set_font(font, size).next_line(x, y).show(Str(bytes)).end_text();
    }

    /// A text in lines.
    fn text(&mut self, text: &str, size: f32, font: Name<'static>, color: Color) {
        let measured = if font == BOLD { size * 1.1 } else { size };
        for line in text.lines() {
            let bytes = self.encode(line);
            for line in wrapped(&bytes, measured, WIDTH) {
                if !self.room(size * 1.35) {
                    return;
                }
                self.skip(size * 1.35);
                let at = (MARGIN, self.y);
                self.show(at, &line, size, font, color);
            }
        }
    }

    fn notes(&mut self, notes: &[String]) {
        for note in notes {
            self.text(&format!("Note: {note}"), 8.5, REGULAR, NOTE);
        }
    }

    fn link(&mut self, address: &str) {
        let words = b"Open the dashboard";
        self.skip(13.0);
        let at = (MARGIN, self.y);
        self.show(at, words, 9.0, REGULAR, BLUE);
        let right = MARGIN + width(words, 9.0, false);
        self.link =
            Some((Rect::new(MARGIN, self.y - 3.0, right, self.y + 9.0), address.to_owned()));
    }

    fn part(&mut self, part: &Part, report: &Report) {
        // A heading stays with what is below it.
        let below = match &part.shown {
            Shown::Chart(_) | Shown::Heat(_) => PLOT_HEIGHT + 60.0,
            _ => 50.0,
        };
        if !self.room(30.0 + below) {
            return;
        }
        self.skip(10.0);
        self.text(&super::report::plain(&part.title), 12.0, BOLD, BLACK);
        self.skip(3.0);
        if let Some(sentence) = sentence(&part.shown) {
            let color = if matches!(part.shown, Shown::Failed(_)) { NOTE } else { BLACK };
            self.text(&sentence, 9.5, REGULAR, color);
        }
        match &part.shown {
            Shown::Chart(chart) if !chart.series.is_empty() => self.chart(chart, report),
            Shown::Numbers(numbers) => self.numbers(numbers),
            Shown::List(list) => self.list(list),
            Shown::Heat(heat) if !heat.rows.is_empty() => self.heat(heat, report),
            Shown::Table(table) => self.table(table),
            Shown::Chart(_)
            | Shown::Heat(_)
            | Shown::Text(_)
            | Shown::Nothing
            | Shown::Failed(_) => {}
        }
        self.notes(&part.notes);
    }

    fn numbers(&mut self, numbers: &[(String, String)]) {
        let columns = 3;
        let cell = WIDTH / columns as f32;
        for row in numbers.chunks(columns) {
            if !self.room(40.0) {
                return;
            }
            self.skip(38.0);
            for (at, (label, number)) in row.iter().enumerate() {
                let x = MARGIN + at as f32 * cell;
                let (label, number) = (self.encode(label), self.encode(number));
                let y = self.y;
                self.show((x, y + 26.0), &cut(&label, 8.5, false, cell - 8.0), 8.5, REGULAR, GRAY);
                self.show((x, y + 4.0), &cut(&number, 20.0, true, cell - 8.0), 20.0, BOLD, BLACK);
            }
        }
    }

    fn list(&mut self, list: &List) {
        let most = list.entries.iter().map(|(_, size)| *size).fold(0.0, f64::max);
        for (label, size) in &list.entries {
            if !self.room(15.0) {
                return;
            }
            self.skip(15.0);
            let number = self.encode(&list.unit.long(*size));
            let number_width = width(&number, 9.0, false);
            let label = self.encode(label);
            let label = cut(&label, 9.0, false, WIDTH - number_width - 20.0);
            let share = if most > 0.0 { (size / most).clamp(0.0, 1.0) as f32 } else { 0.0 };
            let y = self.y;
            let page = self.page();
            page.set_fill_rgb(0.83, 0.89, 0.96);
            page.rect(MARGIN, y - 3.0, WIDTH * share, 13.0).fill_nonzero();
            self.show((MARGIN + 4.0, y), &label, 9.0, REGULAR, BLACK);
            self.show((MARGIN + WIDTH - number_width - 4.0, y), &number, 9.0, REGULAR, BLACK);
        }
        self.skip(4.0);
    }

    fn table(&mut self, table: &Table) {
        let size = 8.0;
        let names: Vec<Vec<u8>> = table.columns.iter().map(|(name, _)| self.encode(name)).collect();
        let rows: Vec<Vec<Vec<u8>>> = table
            .rows
            .iter()
            .map(|row| row.iter().map(|text| self.encode(text)).collect())
            .collect();
        let widths = column_widths(&names, &rows, size);
        self.table_row(&names, table, &widths, (size, BOLD, GRAY));
        for row in &rows {
            if !self.table_row(row, table, &widths, (size, REGULAR, BLACK)) {
                return;
            }
        }
        self.skip(4.0);
    }

    fn table_row(
        &mut self,
        texts: &[Vec<u8>],
        table: &Table,
        widths: &[f32],
        (size, font, color): (f32, Name<'static>, Color),
    ) -> bool {
        if !self.room(LINE) {
            return false;
        }
        self.skip(LINE);
        let y = self.y;
        let page = self.page();
        page.set_stroke_rgb(PALE.0, PALE.1, PALE.2).set_line_width(0.5);
        page.move_to(MARGIN, y - 3.0).line_to(MARGIN + WIDTH, y - 3.0).stroke();
        let mut x = MARGIN;
        for ((text, cell), (_, is_number)) in texts.iter().zip(widths).zip(&table.columns) {
            let is_bold = font == BOLD;
            let shown = cut(text, size, is_bold, cell - 6.0);
            let indent = if *is_number { cell - 6.0 - width(&shown, size, is_bold) } else { 0.0 };
            self.show((x + indent.max(0.0), y), &shown, size, font, color);
            x += cell;
        }
        true
    }

    fn chart(&mut self, chart: &Chart, report: &Report) {
        if !self.begin_plot(chart.series.len() * chart.times_ms.len()) {
            return;
        }
        let Some(plot) = Plot::of(chart, self.y) else { return };
        self.axes(chart, &plot, &report.zone);
        match chart.is_bars {
            true => self.bars(chart, &plot),
            false => self.lines(chart, &plot),
        }
        self.skip(16.0);
        self.legend(chart);
        self.skip(4.0);
    }

    /// Makes room for a chart of so many points; false: there is none.
    fn begin_plot(&mut self, points: usize) -> bool {
        if points > self.points_left {
            let why = format!(
                "The charts of the document have more than {POINTS_TOTAL_MAX} points: this one is not drawn."
            );
            self.text(&why, 9.0, REGULAR, NOTE);
            return false;
        }
        self.points_left -= points;
        if !self.room(PLOT_HEIGHT + 30.0) {
            return false;
        }
        self.skip(PLOT_HEIGHT + 8.0);
        true
    }

    /// A grid of cells, the darker the greater their numbers are.
    fn heat(&mut self, heat: &Heat, report: &Report) {
        let (Some(&start_ms), Some(&last)) = (heat.times_ms.first(), heat.times_ms.last()) else {
            return;
        };
        if !self.begin_plot(heat.rows.len() * heat.times_ms.len()) {
            return;
        }
        let most = heat.rows.iter().flat_map(|(_, cells)| cells).copied().fold(0.0, f64::max);
        let plot = Plot {
            left: MARGIN + LABEL_WIDTH,
            right: MARGIN + WIDTH,
            bottom: self.y,
            start_ms,
            end_ms: last + heat.step_ms,
            low: 0.0,
            high: heat.rows.len() as f64,
        };
        let height = PLOT_HEIGHT / heat.rows.len() as f32;
        // Labels have their height, also if rows have less.
        let every = (8.0 / height).ceil().max(1.0) as usize;
        for (row, (label, cells)) in heat.rows.iter().enumerate() {
            let y = plot.y(row as f64);
            if row % every == 0 {
                let label = self.encode(&super::report::plain(label));
                let label = cut(&label, 7.5, false, LABEL_WIDTH - 6.0);
                let x = plot.left - 5.0 - width(&label, 7.5, false);
                self.show((x, y + height / 2.0 - 2.5), &label, 7.5, REGULAR, GRAY);
            }
            let page = self.page();
            for (bucket, cell) in cells.iter().enumerate().filter(|(_, cell)| **cell > 0.0) {
                // The root tells small numbers from none.
                let share = (cell / most).clamp(0.0, 1.0).sqrt() as f32;
                let [r, g, b] = [(0.90, 0.05), (0.94, 0.22), (0.98, 0.52)]
                    .map(|(light, dark): (f32, f32)| light + (dark - light) * share);
                let left = plot.x(heat.times_ms[bucket]);
                let right = plot.x(heat.times_ms[bucket] + heat.step_ms).min(plot.right);
                page.set_fill_rgb(r, g, b);
                page.rect(left, y, (right - left).max(0.2), height).fill_nonzero();
            }
        }
        self.time_axis(&plot, &report.zone);
        self.skip(16.0 + LINE);
        let words = format!("The darker, the more; the darkest is {}.", heat.unit.long(most));
        let words = self.encode(&words);
        let at = (MARGIN, self.y);
        self.show(at, &words, 8.0, REGULAR, GRAY);
        self.skip(4.0);
    }

    fn axes(&mut self, chart: &Chart, plot: &Plot, zone: &TimeZone) {
        for value in plot.ticks(chart.unit) {
            let y = plot.y(value);
            let page = self.page();
            page.set_stroke_rgb(PALE.0, PALE.1, PALE.2).set_line_width(0.5);
            page.move_to(plot.left, y).line_to(plot.right, y).stroke();
            let text = self.encode(&chart.unit.short(value));
            let text = cut(&text, 7.5, false, AXIS_WIDTH - 6.0);
            let x = plot.left - 5.0 - width(&text, 7.5, false);
            self.show((x, y - 2.5), &text, 7.5, REGULAR, GRAY);
        }
        self.time_axis(plot, zone);
    }

    fn time_axis(&mut self, plot: &Plot, zone: &TimeZone) {
        for (ms, text) in time_ticks(plot.start_ms, plot.end_ms, zone) {
            let x = plot.x(ms);
            let y = plot.bottom;
            let page = self.page();
            page.set_stroke_rgb(GRAY.0, GRAY.1, GRAY.2).set_line_width(0.5);
            page.move_to(x, y).line_to(x, y - 3.0).stroke();
            let half = width(text.as_bytes(), 7.5, false) / 2.0;
            let left = (x - half).min(plot.right - 2.0 * half);
            self.show((left, y - 11.0), text.as_bytes(), 7.5, REGULAR, GRAY);
        }
        let page = self.page();
        page.set_stroke_rgb(GRAY.0, GRAY.1, GRAY.2).set_line_width(0.7);
        page.move_to(plot.left, plot.bottom).line_to(plot.right, plot.bottom).stroke();
    }

    fn lines(&mut self, chart: &Chart, plot: &Plot) {
        let page = self.page();
        for (at, series) in chart.series.iter().enumerate() {
            let color = COLORS[at % COLORS.len()];
            page.set_stroke_rgb(color.0, color.1, color.2).set_line_width(1.0);
            let mut is_open = false;
            for (bucket, point) in series.points.iter().enumerate() {
                let Some(value) = point else {
                    if std::mem::take(&mut is_open) {
                        page.stroke();
                    }
                    continue;
                };
                let (x, y) = (plot.middle(chart, bucket), plot.y(*value));
                if is_open {
                    page.line_to(x, y);
                    continue;
                }
                // A point without neighbours would be a line of no length.
                let is_alone = series.points.get(bucket + 1).is_none_or(Option::is_none);
                page.move_to(if is_alone { x - 1.0 } else { x }, y);
                if is_alone {
                    page.line_to(x + 1.0, y);
                }
                is_open = true;
            }
            if is_open {
                page.stroke();
            }
        }
    }

    fn bars(&mut self, chart: &Chart, plot: &Plot) {
        let bucket_width = plot.bucket_width(chart);
        let each = match chart.is_stacked {
            true => bucket_width,
            false => bucket_width / chart.series.len().max(1) as f32,
        };
        let mut above = vec![(0.0, 0.0); chart.times_ms.len()];
        let page = self.page();
        for (at, series) in chart.series.iter().enumerate() {
            let color = COLORS[at % COLORS.len()];
            page.set_fill_rgb(color.0, color.1, color.2);
            for (bucket, value) in series.points.iter().enumerate() {
                let Some(value) = value.filter(|value| *value != 0.0) else { continue };
                let left = plot.x(chart.times_ms[bucket]).max(plot.left);
                let left = left + if chart.is_stacked { 0.0 } else { each * at as f32 };
                let side: &mut f64 = match value > 0.0 {
                    true => &mut above[bucket].0,
                    false => &mut above[bucket].1,
                };
                let from = if chart.is_stacked { *side } else { 0.0 };
                *side = from + value;
                let (low, high) = (plot.y(from.min(*side)), plot.y(from.max(*side)));
                let right = (left + each * 0.9).min(plot.right);
                page.rect(left, low, (right - left).max(0.2), (high - low).max(0.2)).fill_nonzero();
            }
        }
    }

    fn legend(&mut self, chart: &Chart) {
        let mut x = MARGIN;
        self.skip(LINE);
        for (at, series) in chart.series.iter().enumerate() {
            let newest = series.points.iter().rev().find_map(|point| *point);
            let number = newest.map_or("–".to_owned(), |value| chart.unit.long(value));
            let text = self.encode(&format!("{}  {number}", super::report::plain(&series.label)));
            let text = cut(&text, 8.0, false, WIDTH - 14.0);
            let needed = 14.0 + width(&text, 8.0, false) + 12.0;
            if x > MARGIN && x + needed > MARGIN + WIDTH {
                if !self.room(LINE) {
                    return;
                }
                self.skip(LINE);
                x = MARGIN;
            }
            let y = self.y;
            let color = COLORS[at % COLORS.len()];
            let page = self.page();
            page.set_fill_rgb(color.0, color.1, color.2);
            page.rect(x, y, 8.0, 6.0).fill_nonzero();
            self.show((x + 12.0, y), &text, 8.0, REGULAR, BLACK);
            x += needed;
        }
    }

    /// The bytes of the document.
    fn finish(mut self, title: &str) -> Vec<u8> {
        let total = self.pages.len();
        for number in 0..total {
            let mut text = format!("Page {} of {total}", number + 1);
            if self.is_escaped {
                text +=
                    "   Characters that the font of this document lacks are written as \\u{...}.";
            }
            let (bytes, _) = encoded(&text);
            let page = &mut self.pages[number];
            page.set_fill_rgb(GRAY.0, GRAY.1, GRAY.2);
            page.begin_text().set_font(REGULAR, 7.5).next_line(MARGIN, MARGIN - 8.0);
            page.show(Str(&bytes)).end_text();
        }
        let mut next = 0;
        let mut reference = || {
            next += 1;
            Ref::new(next)
        };
        let (catalog, tree, info) = (reference(), reference(), reference());
        let (regular, bold) = (reference(), reference());
        let ids: Vec<(Ref, Ref)> = (0..total).map(|_| (reference(), reference())).collect();
        let annotation = reference();
        let mut pdf = Pdf::new();
        pdf.catalog(catalog).pages(tree);
        pdf.pages(tree).kids(ids.iter().map(|(page, _)| *page)).count(total as i32);
        pdf.document_info(info).title(TextStr(title)).producer(TextStr("Loginson"));
        for (id, name) in [(regular, b"Helvetica".as_slice()), (bold, b"Helvetica-Bold")] {
            pdf.type1_font(id).base_font(Name(name)).encoding_predefined(Name(b"WinAnsiEncoding"));
        }
        for (at, (content, (page_id, content_id))) in self.pages.into_iter().zip(&ids).enumerate() {
            let mut page = pdf.page(*page_id);
            page.media_box(Rect::new(0.0, 0.0, PAGE.0, PAGE.1)).parent(tree).contents(*content_id);
            if at == 0 && self.link.is_some() {
                page.annotations([annotation]);
            }
            page.resources().fonts().pair(REGULAR, regular).pair(BOLD, bold);
            page.finish();
            let bytes = compressed(content.finish().as_slice());
            pdf.stream(*content_id, &bytes).filter(Filter::FlateDecode);
        }
        if let Some((place, address)) = &self.link {
            let mut link = pdf.annotation(annotation);
            link.subtype(AnnotationType::Link).rect(*place).border(0.0, 0.0, 0.0, None);
            link.action().action_type(ActionType::Uri).uri(Str(address.as_bytes()));
        }
        pdf.finish()
    }
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    // Writing to memory cannot fail.
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Widths that fit the page: what columns need, less of the widest where that is too much.
fn column_widths(names: &[Vec<u8>], rows: &[Vec<Vec<u8>>], size: f32) -> Vec<f32> {
    let needed = |column: usize| {
        let texts = rows.iter().filter_map(|row| row.get(column));
        let widest = texts.map(|text| width(text, size, false)).fold(0.0, f32::max);
        widest.max(width(&names[column], size, true)) + 8.0
    };
    let mut widths: Vec<f32> = (0..names.len()).map(needed).collect();
    // The widest columns share what the others leave.
    let mut order: Vec<usize> = (0..widths.len()).collect();
    order.sort_by(|a, b| widths[*a].total_cmp(&widths[*b]));
    let mut left = WIDTH;
    for (at, column) in order.iter().enumerate() {
        let share = left / (order.len() - at) as f32;
        widths[*column] = widths[*column].min(share);
        left -= widths[*column];
    }
    widths
}

/// The rectangle of a chart, and its scales.
struct Plot {
    left: f32,
    right: f32,
    bottom: f32,
    start_ms: i64,
    end_ms: i64,
    low: f64,
    high: f64,
}

impl Plot {
    /// The plot above `bottom`; none if there is no number.
    fn of(chart: &Chart, bottom: f32) -> Option<Plot> {
        let (start_ms, last) = (*chart.times_ms.first()?, *chart.times_ms.last()?);
        let (mut low, mut high) = (0.0f64, 0.0f64);
        for bucket in 0..chart.times_ms.len() {
            let values =
                chart.series.iter().filter_map(|one| one.points.get(bucket).copied().flatten());
            let ends = match chart.is_stacked {
                true => {
                    let (mut down, mut up) = (0.0, 0.0);
                    values.for_each(|value| if value > 0.0 { up += value } else { down += value });
                    (down, up)
                }
                false => values
                    .fold((0.0, 0.0), |(a, b): (f64, f64), value| (a.min(value), b.max(value))),
            };
            (low, high) = (low.min(ends.0), high.max(ends.1));
        }
        if high <= low {
            high = low + 1.0;
        }
        let (left, right) = (MARGIN + AXIS_WIDTH, MARGIN + WIDTH);
        Some(Plot { left, right, bottom, start_ms, end_ms: last + chart.step_ms, low, high })
    }

    fn x(&self, ms: i64) -> f32 {
        let share = (ms - self.start_ms) as f64 / (self.end_ms - self.start_ms).max(1) as f64;
        self.left + (self.right - self.left) * share as f32
    }

    fn middle(&self, chart: &Chart, bucket: usize) -> f32 {
        self.x(chart.times_ms[bucket] + chart.step_ms / 2)
    }

    fn bucket_width(&self, chart: &Chart) -> f32 {
        self.x(self.start_ms + chart.step_ms) - self.left
    }

    fn y(&self, value: f64) -> f32 {
        self.bottom + PLOT_HEIGHT * ((value - self.low) / (self.high - self.low)) as f32
    }

    fn ticks(&self, unit: Unit) -> Vec<f64> {
        let step = unit.round_step((self.high - self.low) / 5.0);
        let first = (self.low / step).ceil();
        let all = (0..20).map(|at| (first + f64::from(at)) * step);
        all.take_while(|value| *value <= self.high + step * 1e-6).collect()
    }
}

/// Round times of the zone, about seven, each with its text. Every instant stands at its own place,
/// so where clocks change, an hour is missing or is there twice.
fn time_ticks(start_ms: i64, end_ms: i64, zone: &TimeZone) -> Vec<(i64, String)> {
    const TICKS_MAX: i64 = 8;
    const DAY_S: i64 = 86_400;
    let (start_s, end_s) = (start_ms.div_euclid(1000), end_ms.div_euclid(1000));
    let spacings = [
        1,
        2,
        5,
        10,
        15,
        30,
        60,
        120,
        300,
        600,
        900,
        1800,
        3600,
        7200,
        10_800,
        21_600,
        43_200,
        DAY_S,
        2 * DAY_S,
        7 * DAY_S,
        14 * DAY_S,
        28 * DAY_S,
        91 * DAY_S,
    ];
    let fits = |spacing: &i64| (end_s - start_s) / spacing <= TICKS_MAX;
    let spacing = spacings.into_iter().find(fits).unwrap_or(364 * DAY_S);
    let zoned = |second: i64| Some(Timestamp::from_second(second).ok()?.to_zoned(zone.clone()));
    let text = |second: i64| {
        let at = zoned(second)?;
        let is_midnight = at.hour() == 0 && at.minute() == 0 && at.second() == 0;
        let format = match spacing {
            _ if spacing >= DAY_S || is_midnight => "%m-%d",
            60.. => "%H:%M",
            _ => "%H:%M:%S",
        };
        Some((second * 1000, at.strftime(format).to_string()))
    };
    if spacing < DAY_S {
        // Offsets of zones are quarters of hours.
        let look = spacing.min(900);
        let first = start_s.div_euclid(look) * look;
        let all = std::iter::successors(Some(first), |second| Some(second + look));
        let within = all.take_while(|second| *second <= end_s).filter(|second| *second >= start_s);
        let is_round = |second: &i64| {
            zoned(*second)
                .is_some_and(|at| (second + i64::from(at.offset().seconds())) % spacing == 0)
        };
        return within.filter(is_round).filter_map(text).collect();
    }
    let Some(first) = zoned(start_s).map(|at| at.date()) else { return Vec::new() };
    let days = std::iter::successors(Some(first), |day| {
        day.checked_add(jiff::Span::new().days(spacing / DAY_S)).ok()
    });
    let starts =
        days.map_while(|day| Some(day.to_zoned(zone.clone()).ok()?.timestamp().as_second()));
    let starts = starts.take_while(|second| *second <= end_s).filter(|second| *second >= start_s);
    starts.filter_map(text).collect()
}

#[cfg(test)]
#[path = "pdf_tests.rs"]
mod tests;

//! Draws figures as SVG, with the library plotters: small panels side by side, on white ground, so
//! that they look the same on screen, in the dark and in print.
//!
//! A store has the same colour in every panel of a report; the legend is written by the page, so
//! that it covers nothing.

use std::ops::Range;

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::document::{Axis, Panel, PanelData, Row, Series};
use crate::number::plain;

/// Colours of stores; further stores get them again.
const COLOURS: [RGBColor; 8] = [
    RGBColor(11, 98, 164),
    RGBColor(194, 80, 10),
    RGBColor(10, 127, 90),
    RGBColor(168, 56, 127),
    RGBColor(138, 106, 0),
    RGBColor(31, 143, 184),
    RGBColor(105, 65, 198),
    RGBColor(96, 106, 117),
];

/// Colours that are distinguished; charts with more lines show fewer of them.
pub const COLOURS_MAX: usize = COLOURS.len();

const INK: RGBColor = RGBColor(27, 31, 36);
const SOFT: RGBColor = RGBColor(89, 99, 110);
const RULE: RGBColor = RGBColor(222, 227, 232);

/// Width of a figure, and height of a panel of lines, px.
const WIDTH: u32 = 960;
const PANEL_HEIGHT: u32 = 210;

/// Height of a row of a panel of rows, and of its title and axis, px.
const ROW_HEIGHT: u32 = 24;
const ROWS_EDGE: u32 = 78;

/// Letters of the name beside a row; the tables have the whole name.
const NAME_LETTERS_MAX: usize = 30;

/// Points are marked on lines with at most this many points.
const MARKED_MAX: usize = 24;

/// The colour with this number, for style sheets.
pub fn colour(number: usize) -> String {
    let RGBColor(red, green, blue) = COLOURS[number % COLOURS.len()];
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// A figure of panels in columns.
pub fn svg(panels: &[Panel]) -> String {
    let columns = panels.len().clamp(1, 3);
    let rows = panels.len().div_ceil(columns);
    let tallest = panels.iter().map(height).max().unwrap_or(PANEL_HEIGHT);
    let mut text = String::new();
    {
        let size = (WIDTH, tallest * rows as u32);
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        // A string as the target takes everything, so drawing cannot fail.
        let drawn = root.fill(&WHITE).map_err(|e| e.to_string()).and_then(|()| {
            let areas = root.split_evenly((rows, columns));
            areas.iter().zip(panels).try_for_each(|(area, panel)| draw(area, panel))
        });
        debug_assert_eq!(drawn, Ok(()));
    }
    // The figure is part of a page, and as wide as its place.
    text.replacen(&format!("width=\"{WIDTH}\" "), "", 1)
}

fn height(panel: &Panel) -> u32 {
    match &panel.data {
        PanelData::Lines { .. } => PANEL_HEIGHT,
        PanelData::Rows { rows, .. } => rows.len() as u32 * ROW_HEIGHT + ROWS_EDGE,
    }
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

fn draw(area: &Area<'_>, panel: &Panel) -> Result<(), String> {
    match &panel.data {
        PanelData::Lines { x, y, series } => {
            let points = || series.iter().flat_map(|series| &series.points);
            let across = range(points().map(|point| point.x), x, false);
            let values = points().flat_map(|point| {
                let (low, high) = point.interval.unwrap_or((point.y, point.y));
                [low, point.y, high]
            });
            let up = range(values, y, true);
            match (x.log, y.log) {
                (false, false) => lines(area, panel, (x, y), series, across, up),
                (false, true) => lines(area, panel, (x, y), series, across, up.log_scale()),
                (true, false) => lines(area, panel, (x, y), series, across.log_scale(), up),
                (true, true) => {
                    lines(area, panel, (x, y), series, across.log_scale(), up.log_scale())
                }
            }
        }
        PanelData::Rows { axis, rows } => {
            let across = range(rows.iter().flat_map(ends), axis, true);
            match axis.log {
                false => row_marks(area, panel, axis, rows, across),
                true => row_marks(area, panel, axis, rows, across.log_scale()),
            }
        }
    }
}

/// Everything that is drawn of a row.
fn ends(row: &Row) -> Vec<f64> {
    let mut values = vec![row.mean];
    values.extend(row.interval.iter().flat_map(|(low, high)| [*low, *high]));
    if let Some(plot) = &row.plot {
        values.extend([plot.whisker_low, plot.whisker_high]);
        values.extend(&plot.outliers);
    }
    values
}

/// A range that contains all values that an axis can show; a linear one begins at 0 if that is
/// near.
fn range(values: impl Iterator<Item = f64>, axis: &Axis, zero: bool) -> Range<f64> {
    let usable = values.filter(|value| value.is_finite() && (!axis.log || *value > 0.0));
    let ends = (f64::INFINITY, f64::NEG_INFINITY);
    let (low, high) = usable.fold(ends, |(low, high), value| (low.min(value), high.max(value)));
    match axis.log {
        _ if low > high => 1.0..10.0,
        true if low == high => low / 2.0..high * 2.0,
        true => low / 1.15..high * 1.15,
        false if low == high && low == 0.0 => 0.0..1.0,
        false if low == high => low.min(0.0)..high.max(0.0) + high.abs() * 0.1,
        false => {
            let room = (high - low) * 0.06;
            let near_zero = zero && low >= 0.0 && low < 0.7 * high;
            let bottom = if near_zero { 0.0 } else { low - if zero { room } else { 0.0 } };
            bottom..high + if zero { room } else { 0.0 }
        }
    }
}

fn style(size: i32, colour: RGBColor) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&colour)
}

fn lines<X, Y>(
    area: &Area<'_>,
    panel: &Panel,
    (x, y): (&Axis, &Axis),
    series: &[Series],
    across: X,
    up: Y,
) -> Result<(), String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let failed = |e: DrawingAreaErrorKind<_>| e.to_string();
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .caption(&panel.title, style(14, INK))
        .x_label_area_size(34)
        .y_label_area_size(58)
        .build_cartesian_2d(across, up)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RULE)
        .axis_style(SOFT)
        .label_style(style(11, SOFT))
        .axis_desc_style(style(11, SOFT))
        .x_labels(6)
        .y_labels(5)
        .x_desc(&x.label)
        .y_desc(&y.label)
        .x_label_formatter(&|value| plain(*value))
        .y_label_formatter(&|value| plain(*value))
        .draw()
        .map_err(failed)?;
    let shown = |value: f64, axis: &Axis| value.is_finite() && (!axis.log || value > 0.0);
    for series in series {
        let colour = COLOURS[series.colour % COLOURS.len()];
        let points: Vec<_> =
            series.points.iter().filter(|p| shown(p.x, x) && shown(p.y, y)).collect();
        let line = points.iter().map(|point| (point.x, point.y));
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2))).map_err(failed)?;
        if points.len() > MARKED_MAX {
            continue;
        }
        let marks = points.iter().map(|p| Circle::new((p.x, p.y), 2, colour.filled()));
        chart.draw_series(marks).map_err(failed)?;
        let bars = points.iter().filter_map(|point| {
            let (low, high) = point.interval.filter(|(low, _)| shown(*low, y))?;
            Some(PathElement::new(vec![(point.x, low), (point.x, high)], colour))
        });
        chart.draw_series(bars).map_err(failed)?;
    }
    Ok(())
}

/// Half the height of a box, as a share of its row.
const BOX_HALF: f64 = 0.28;

fn row_marks<X>(
    area: &Area<'_>,
    panel: &Panel,
    axis: &Axis,
    rows: &[Row],
    across: X,
) -> Result<(), String>
where
    X: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
{
    let failed = |e: DrawingAreaErrorKind<_>| e.to_string();
    let longest = rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0);
    let left = longest.min(NAME_LETTERS_MAX) as u32 * 7 + 14;
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(16)
        .caption(&panel.title, style(14, INK))
        .x_label_area_size(34)
        .y_label_area_size(left)
        .build_cartesian_2d(across, rows.len() as f64..0.0)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_y_mesh()
        .y_labels(0)
        .light_line_style(TRANSPARENT)
        .bold_line_style(RULE)
        .axis_style(SOFT)
        .label_style(style(11, SOFT))
        .axis_desc_style(style(11, SOFT))
        .x_labels(5)
        .x_desc(&axis.label)
        .x_label_formatter(&|value| plain(*value))
        .draw()
        .map_err(failed)?;
    let start = chart.plotting_area().get_x_axis_pixel_range().start;
    for (at, row) in rows.iter().enumerate() {
        let middle = at as f64 + 0.5;
        let colour = COLOURS[row.colour % COLOURS.len()];
        if let Some(plot) = row.plot.as_ref().filter(|plot| !axis.log || plot.whisker_low > 0.0) {
            let (top, bottom) = (middle - BOX_HALF, middle + BOX_HALF);
            let whiskers = [(plot.whisker_low, plot.low), (plot.high, plot.whisker_high)];
            let whiskers = whiskers
                .map(|(from, to)| PathElement::new(vec![(from, middle), (to, middle)], colour));
            chart.draw_series(whiskers).map_err(failed)?;
            let corners = [(plot.low, top), (plot.high, bottom)];
            let boxes = [
                Rectangle::new(corners, colour.mix(0.15).filled()),
                Rectangle::new(corners, colour.stroke_width(1)),
            ];
            chart.draw_series(boxes).map_err(failed)?;
            let median = vec![(plot.median, top), (plot.median, bottom)];
            chart
                .draw_series([PathElement::new(median, colour.stroke_width(2))])
                .map_err(failed)?;
            let outliers = plot.outliers.iter().filter(|value| !axis.log || **value > 0.0);
            let outliers = outliers.map(|value| Circle::new((*value, middle), 2, colour));
            chart.draw_series(outliers).map_err(failed)?;
        }
        if !axis.log || row.mean > 0.0 {
            let ink = if row.plot.is_some() { INK } else { colour };
            if let Some((low, high)) = row.interval.filter(|(low, _)| !axis.log || *low > 0.0) {
                let bar =
                    PathElement::new(vec![(low, middle), (high, middle)], ink.stroke_width(2));
                chart.draw_series([bar]).map_err(failed)?;
            }
            chart
                .draw_series([Circle::new((row.mean, middle), 4, ink.filled())])
                .map_err(failed)?;
        }
        let place = chart.backend_coord(&(row.mean.max(f64::MIN_POSITIVE), middle));
        let (left, top) = area.get_base_pixel();
        let name = style(12, INK).pos(Pos::new(HPos::Right, VPos::Center));
        let text = Text::new(shortened(&row.name), (start - 8 - left, place.1 - top), name);
        area.draw(&text).map_err(failed)?;
    }
    Ok(())
}

fn shortened(name: &str) -> String {
    match name.chars().count() > NAME_LETTERS_MAX {
        false => name.to_owned(),
        true => name.chars().take(NAME_LETTERS_MAX - 1).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::Point;
    use super::*;

    #[test]
    fn a_range_contains_everything_that_can_be_drawn() {
        let of = |values: &[f64], axis: &Axis| range(values.iter().copied(), axis, true);
        let (linear, log) = (Axis::linear(""), Axis::log(""));
        assert_eq!(of(&[5.0, 100.0], &linear).start, 0.0);
        assert!(of(&[98.0, 100.0], &linear).start > 90.0);
        assert!(of(&[5.0], &linear).contains(&5.0));
        assert!(of(&[-5.0], &linear).contains(&-5.0));
        let range = of(&[0.0, f64::NAN, 2.0, 20.0], &log);
        assert!(range.start > 1.0 && range.start < 2.0 && range.end > 20.0, "{range:?}");
        assert!(!of(&[], &log).is_empty() && !of(&[0.0], &linear).is_empty());
    }

    /// Names come from servers and users; nothing of them is markup.
    #[test]
    fn texts_are_escaped_and_hard_values_are_drawn() {
        let evil = "<script>alert(1)</script>";
        let point = |x, y, interval| Point { x, y, interval };
        let points = vec![
            point(1.0, 2.0, Some((-1.0, 3.0))),
            point(0.0, 0.0, None),
            point(f64::NAN, f64::INFINITY, None),
        ];
        let series = vec![Series { name: evil.into(), colour: 9, points }];
        let row = |mean| Row {
            name: evil.into(),
            colour: 1,
            mean,
            interval: Some((0.0, 2.0)),
            plot: crate::statistics::box_plot(&[1.0, 2.0, 2.5, 90.0]),
        };
        for (x, y) in [(false, false), (false, true), (true, false), (true, true)] {
            let axis = |log| Axis { label: evil.into(), log };
            let lines = PanelData::Lines { x: axis(x), y: axis(y), series: series.clone() };
            let rows = PanelData::Rows { axis: axis(x), rows: vec![row(1.0), row(0.0)] };
            let panel = |data| Panel { title: evil.into(), data };
            let text = svg(&[panel(lines), panel(rows)]);
            assert!(!text.contains("<script") && text.contains("&lt;script"), "{text}");
            assert!(!text.contains("NaN") && text.ends_with("</svg>\n"), "{text}");
        }
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"x".repeat(40)).chars().count(), NAME_LETTERS_MAX);
    }
}

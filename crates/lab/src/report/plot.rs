//! Charts as SVG: drawn here once, sharp in print and on screen; colours come from the style sheet
//! of the page, so that light, dark and print have their own.
//!
//! There is no plotting library, because those put fixed colours into the SVG and no marks that
//! distinguish lines, while this page needs classes for colours and for hiding lines, and the
//! values for hovering.

use super::document::{Axis, Boxed, Chart, Data, Series};
use super::html::escape;
use super::number::{interval, plain};

/// Colours of the style sheet; further lines reuse them with another dash pattern.
pub const COLOURS: usize = 8;

/// Size of line charts, in units of the view box.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// Height of one box plot.
const BOX_HEIGHT: f64 = 34.0;

/// Points are marked on lines with at most this many points.
const MARKED_MAX: usize = 40;

/// The range of an axis, and its position on the page.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    log: bool,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Scale {
    /// A scale that contains all values; a linear one begins at 0 if that is near.
    fn over(
        values: impl Iterator<Item = f64>,
        axis: &Axis,
        from: f64,
        to: f64,
        zero: bool,
    ) -> Scale {
        let usable = values.filter(|value| value.is_finite() && (!axis.log || *value > 0.0));
        let ends = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut low, mut high) =
            usable.fold(ends, |(low, high), value| (low.min(value), high.max(value)));
        if low > high {
            (low, high) = (if axis.log { 1.0 } else { 0.0 }, 10.0);
        }
        if axis.log {
            (low, high) =
                if low == high { (low / 2.0, high * 2.0) } else { (low / 1.1, high * 1.1) };
        } else {
            if zero && low > 0.0 && low < 0.7 * high {
                low = 0.0;
            }
            if low == high {
                (low, high) = (low - 1.0, high + 1.0);
            }
            let room = (high - low) * 0.05;
            high += if zero { room } else { 0.0 };
            low -= if zero && low != 0.0 { room } else { 0.0 };
        }
        Scale { log: axis.log, low, high, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let place = match self.log {
            true => {
                (value.max(self.low / 1e3).ln() - self.low.ln()) / (self.high.ln() - self.low.ln())
            }
            false => (value - self.low) / (self.high - self.low),
        };
        self.from + place * (self.to - self.from)
    }

    /// Round numbers in the range.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = (self.low.log10().floor() as i32)..=(self.high.log10().ceil() as i32);
            let many = self.high / self.low > 1e4;
            let steps: &[f64] = if many { &[1.0] } else { &[1.0, 2.0, 5.0] };
            return decades
                .flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)))
                .filter(|tick| (self.low..=self.high).contains(tick))
                .collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }
}

/// The SVG of a chart. `id` is unique on the page.
pub fn svg(chart: &Chart, id: usize) -> String {
    match &chart.data {
        Data::Lines { x, y, series } => lines(chart, id, x, y, series),
        Data::Boxes { axis, boxes } => box_plots(chart, axis, boxes),
    }
}

/// Classes of a line: its colour and its dash.
pub fn classes(number: usize) -> String {
    format!("c{} d{}", number % COLOURS, number % 4)
}

fn open(caption: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">",
        escape(caption)
    )
}

fn lines(chart: &Chart, id: usize, x: &Axis, y: &Axis, series: &[Series]) -> String {
    let points = || series.iter().flat_map(|series| &series.points);
    let across = Scale::over(points().map(|p| p.x), x, LEFT, WIDTH - RIGHT, false);
    let tops = points().flat_map(|p| p.interval.map_or([p.y, p.y], |(low, high)| [low, high]));
    let up = Scale::over(tops.chain(points().map(|p| p.y)), y, HEIGHT - BOTTOM, TOP, true);
    let mut out = open(&chart.caption, HEIGHT);
    out += "<g class=\"grid\">";
    for tick in up.ticks() {
        let at = up.at(tick);
        out += &format!("<path d=\"M{LEFT} {at:.1}H{}\"/>", WIDTH - RIGHT);
        out += &format!(
            "<text class=\"end\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            plain(tick)
        );
    }
    out += "</g><g class=\"grid across\">";
    for tick in across.ticks() {
        let at = across.at(tick);
        out += &format!("<path d=\"M{at:.1} {TOP}V{}\"/>", HEIGHT - BOTTOM);
        out += &format!(
            "<text class=\"middle\" x=\"{at:.1}\" y=\"{}\">{}</text>",
            HEIGHT - BOTTOM + 16.0,
            plain(tick)
        );
    }
    out += "</g>";
    out += &axis_names(&x.label, &y.label, HEIGHT);
    out += &format!(
        "<clipPath id=\"k{id}\"><rect x=\"{LEFT}\" y=\"{}\" width=\"{}\" height=\"{}\"/></clipPath><g clip-path=\"url(#k{id})\">",
        TOP - 4.0,
        WIDTH - RIGHT - LEFT + 4.0,
        HEIGHT - TOP - BOTTOM + 8.0
    );
    for (number, series) in series.iter().enumerate() {
        out += &format!(
            "<g class=\"line {}\" data-line=\"{number}\"><polyline points=\"",
            classes(number)
        );
        for point in &series.points {
            out += &format!("{:.1},{:.1} ", across.at(point.x), up.at(point.y));
        }
        out += "\"/>";
        for point in series.points.iter().filter(|_| series.points.len() <= MARKED_MAX) {
            let (px, py) = (across.at(point.x), up.at(point.y));
            if let Some((low, high)) = point.interval {
                out += &format!(
                    "<path class=\"mark\" d=\"M{px:.1} {:.1}V{:.1}\"/>",
                    up.at(low),
                    up.at(high)
                );
            }
            out += &format!("<circle class=\"mark\" cx=\"{px:.1}\" cy=\"{py:.1}\" r=\"2.5\"/>");
        }
        out += "</g>";
    }
    out + "</g></svg>"
}

fn axis_names(x: &str, y: &str, height: f64) -> String {
    format!(
        "<text class=\"name middle\" x=\"{}\" y=\"{}\">{}</text><text class=\"name middle\" transform=\"translate(14 {}) rotate(-90)\">{}</text>",
        (LEFT + WIDTH - RIGHT) / 2.0,
        height - 8.0,
        escape(x),
        (TOP + height - BOTTOM) / 2.0,
        escape(y)
    )
}

fn box_plots(chart: &Chart, axis: &Axis, boxes: &[Boxed]) -> String {
    let longest = boxes.iter().map(|entry| entry.name.chars().count()).max().unwrap_or(0);
    let left = (longest as f64 * 6.6 + 20.0).clamp(60.0, 300.0);
    let height = boxes.len() as f64 * BOX_HEIGHT + TOP + BOTTOM;
    let values = boxes.iter().flat_map(|entry| {
        let interval = entry.mean.interval.map_or([entry.mean.mean; 2], |(low, high)| [low, high]);
        let plot = &entry.plot;
        let usable = interval.into_iter().filter(|value| !axis.log || *value > 0.0);
        [plot.whisker_low, plot.whisker_high]
            .into_iter()
            .chain(usable)
            .chain(plot.outliers.iter().copied())
    });
    let scale = Scale::over(values, axis, left, WIDTH - RIGHT, true);
    let bottom = height - BOTTOM;
    let mut out = open(&chart.caption, height);
    out += "<g class=\"grid\">";
    for tick in scale.ticks() {
        let at = scale.at(tick);
        out += &format!("<path d=\"M{at:.1} {TOP}V{bottom}\"/>");
        out += &format!(
            "<text class=\"middle\" x=\"{at:.1}\" y=\"{}\">{}</text>",
            bottom + 16.0,
            plain(tick)
        );
    }
    out += "</g>";
    out += &format!(
        "<text class=\"name middle\" x=\"{}\" y=\"{}\">{}</text>",
        (left + WIDTH - RIGHT) / 2.0,
        height - 8.0,
        escape(&axis.label)
    );
    for (number, entry) in boxes.iter().enumerate() {
        let middle = TOP + (number as f64 + 0.5) * BOX_HEIGHT;
        out += &one_box(entry, number, middle, left, &scale);
    }
    out + "</svg>"
}

fn one_box(entry: &Boxed, number: usize, middle: f64, left: f64, scale: &Scale) -> String {
    let plot = &entry.plot;
    let at = |value: f64| scale.at(value);
    let (top, end) = (middle - 9.0, middle + 9.0);
    let label = format!(
        "{}: median {}, hinges {}, whiskers {}, mean {}{}",
        entry.name,
        plain(plot.median),
        interval((plot.low, plot.high)),
        interval((plot.whisker_low, plot.whisker_high)),
        plain(entry.mean.mean),
        entry.mean.interval.map_or(String::new(), |ends| format!(" (95% {})", interval(ends))),
    );
    let mut out = format!("<g class=\"box {}\"><title>{}</title>", classes(number), escape(&label));
    out += &format!(
        "<rect class=\"hit\" x=\"0\" y=\"{}\" width=\"{WIDTH}\" height=\"{BOX_HEIGHT}\"/>",
        middle - BOX_HEIGHT / 2.0
    );
    out += &format!(
        "<text class=\"end label\" x=\"{}\" y=\"{}\">{}</text>",
        left - 8.0,
        middle + 4.0,
        escape(&entry.name)
    );
    out += &format!(
        "<path d=\"M{:.1} {middle}H{:.1}M{:.1} {middle}H{:.1}\"/>",
        at(plot.whisker_low),
        at(plot.low),
        at(plot.high),
        at(plot.whisker_high)
    );
    for whisker in [plot.whisker_low, plot.whisker_high] {
        out += &format!("<path d=\"M{:.1} {}V{}\"/>", at(whisker), middle - 5.0, middle + 5.0);
    }
    out += &format!(
        "<rect x=\"{:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"18\"/>",
        at(plot.low),
        (at(plot.high) - at(plot.low)).max(0.5)
    );
    out += &format!("<path class=\"median\" d=\"M{:.1} {top}V{end}\"/>", at(plot.median));
    for outlier in &plot.outliers {
        out += &format!("<circle cx=\"{:.1}\" cy=\"{middle}\" r=\"2.5\"/>", at(*outlier));
    }
    let mean = at(entry.mean.mean);
    if let Some((low, high)) = entry.mean.interval {
        out += &format!("<path class=\"mean\" d=\"M{:.1} {middle}H{:.1}\"/>", at(low), at(high));
    }
    out += &format!(
        "<path class=\"mean\" d=\"M{:.1} {middle}L{mean:.1} {}L{:.1} {middle}L{mean:.1} {}Z\"/>",
        mean - 4.0,
        middle - 4.0,
        mean + 4.0,
        middle + 4.0
    );
    out + "</g>"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let scale = |low, high, log| Scale { log, low, high, from: 0.0, to: 100.0 };
        assert_eq!(scale(0.0, 13_000.0, false).ticks(), [0.0, 5_000.0, 10_000.0]);
        assert_eq!(scale(1.0, 6.0, false).ticks(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        assert_eq!(scale(0.9, 60.0, true).ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(scale(1.0, 100.0, true).at(10.0), 50.0);
    }

    #[test]
    fn a_scale_holds_all_that_can_be_drawn() {
        let linear = Axis::linear("");
        let one = Scale::over([5.0].into_iter(), &linear, 0.0, 1.0, true);
        assert!(one.low < 5.0 && one.high > 5.0, "{one:?}");
        let log =
            Scale::over([0.0, f64::NAN, 2.0, 20.0].into_iter(), &Axis::log(""), 0.0, 1.0, true);
        assert!(log.low > 1.0 && log.low < 2.0 && log.high > 20.0, "{log:?}");
        assert!(Scale::over([].into_iter(), &linear, 0.0, 1.0, true).at(3.0).is_finite());
    }
}

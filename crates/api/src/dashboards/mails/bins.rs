//! Distributions: ranges of the function `histogram` as few round bins. As the page decides it
//! (`lib/chart/bins.ts` of `web/src`). Pure.

use std::collections::BTreeSet;

use serde_json::Value;

use super::units::Unit;

/// Bins that a chart shows: more would be too thin.
const BINS_MAX: i64 = 40;
/// Ranges that `histogram` gives for a decimal power.
const RANGES_A_POWER: i64 = 18;
/// How many of those make a bin; divisors, so that each power of ten begins a bin.
const MERGES: [i64; 6] = [1, 2, 3, 6, 9, 18];

/// Numbers from one to another, the second excluded, and how many there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bin {
    /// The least number.
    pub from: f64,
    /// The end; infinite in the last range.
    pub to: f64,
    /// How many.
    pub hits: f64,
}

impl Bin {
    /// The range as a label.
    pub fn label(&self, unit: Unit) -> String {
        match self.to.is_infinite() {
            true => format!("\u{2265} {}", unit.short(self.from)),
            false => format!("{} – {}", unit.short(self.from), unit.short(self.to)),
        }
    }
}

/// The ranges in a value of `histogram`; what is no range is left out.
pub fn ranges_of(cell: &str) -> Vec<Bin> {
    let Ok(Value::Array(list)) = serde_json::from_str(cell) else { return Vec::new() };
    let number = |text: &str| match text {
        "+Inf" => Some(f64::INFINITY),
        text => text.parse().ok().filter(|number: &f64| !number.is_nan()),
    };
    let range = |one: &Value| {
        let (from, to) = one["vmrange"].as_str()?.split_once("...")?;
        let hits = one["hits"].as_f64().filter(|hits| *hits >= 0.0)?;
        Some(Bin { from: number(from)?, to: number(to)?, hits })
    };
    list.iter().filter_map(range).collect()
}

/// The number of a range on the scale of `histogram`: 18 for a decimal power. None for those from
/// 0.
fn place(from: f64) -> Option<i64> {
    (from > 0.0).then(|| (from.log10() * RANGES_A_POWER as f64).round() as i64)
}

fn edge(at: i64) -> f64 {
    let exact = 10f64.powf(at as f64 / RANGES_A_POWER as f64);
    format!("{exact:.2e}").parse().unwrap_or(exact)
}

/// Bins that cover ranges, from the least to the greatest.
pub struct Scale {
    /// The bins, without hits.
    pub bins: Vec<Bin>,
    begin: i64,
    merge: i64,
}

impl Scale {
    /// The bins of these ranges.
    pub fn over<'b>(ranges: impl Iterator<Item = &'b Bin>) -> Scale {
        let mut places = BTreeSet::new();
        let mut zero = None::<Bin>;
        for range in ranges {
            match place(range.from) {
                Some(place) => drop(places.insert(place)),
                None => {
                    let to = zero.map_or(range.to, |zero| zero.to.min(range.to));
                    zero = Some(Bin { from: 0.0, to, hits: 0.0 });
                }
            }
        }
        let mut bins: Vec<Bin> = zero.into_iter().collect();
        let (Some(&first), Some(&last)) = (places.first(), places.last()) else {
            return Scale { bins, begin: 0, merge: 1 };
        };
        let count = last - first + 1;
        let whole = BINS_MAX * RANGES_A_POWER;
        let powers = || (count + whole - 1) / whole * RANGES_A_POWER;
        let fits = MERGES.into_iter().find(|merge| count <= merge * BINS_MAX);
        let merge = fits.unwrap_or_else(powers);
        let begin = first.div_euclid(merge) * merge;
        let edges = (0..=(last - begin) / merge).map(|at| begin + at * merge);
        bins.extend(edges.map(|at| Bin { from: edge(at), to: edge(at + merge), hits: 0.0 }));
        Scale { bins, begin, merge }
    }

    /// The place of a range in the bins.
    pub fn bin_of(&self, range: &Bin) -> usize {
        let has_zero = self.bins.first().is_some_and(|bin| bin.from == 0.0);
        match place(range.from) {
            None => 0,
            Some(place) => ((place - self.begin) / self.merge) as usize + usize::from(has_zero),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_and_what_is_none_is_left_out() {
        let cell = r#"[{"vmrange":"0...1.000e-09","hits":2},{"vmrange":"1.000e+00...1.136e+00","hits":3},
            {"vmrange":"1.000e+18...+Inf","hits":1},{"vmrange":"a...2","hits":1},{"hits":1},7]"#;
        let bin = |from, to, hits| Bin { from, to, hits };
        let expected = [bin(0.0, 1e-9, 2.0), bin(1.0, 1.136, 3.0), bin(1e18, f64::INFINITY, 1.0)];
        assert_eq!(ranges_of(cell), expected);
        assert_eq!((ranges_of("{}"), ranges_of("no JSON")), (Vec::new(), Vec::new()));
        assert_eq!(expected[1].label(Unit::Millis), "1 ms – 1.14 ms");
    }

    #[test]
    fn bins_are_few_and_cover_all_ranges() {
        // One range for each eighteenth of a decimal power, from 1 to 1,000.
        let ranges: Vec<Bin> =
            (0..54).map(|at| Bin { from: edge(at), to: edge(at + 1), hits: 1.0 }).collect();
        let scale = Scale::over(ranges.iter());
        assert_eq!(scale.bins.len(), 27);
        assert_eq!((scale.bins[0].from, scale.bins[26].to), (1.0, 1_000.0));
        assert!(scale.bins.windows(2).all(|pair| pair[0].to == pair[1].from));
        for range in &ranges {
            let bin = scale.bins[scale.bin_of(range)];
            assert!(bin.from <= range.from && range.to <= bin.to, "{range:?} in {bin:?}");
        }
        let zero = Bin { from: 0.0, to: 1e-9, hits: 1.0 };
        let scale = Scale::over(ranges[..1].iter().chain([&zero]));
        assert_eq!((scale.bins.len(), scale.bin_of(&zero), scale.bin_of(&ranges[0])), (2, 0, 1));
        // Numbers from the least to the greatest that there are.
        let ends = [1e-300, 1e300].map(|from| Bin { from, to: from * 1.1, hits: 1.0 });
        let scale = Scale::over(ends.iter());
        assert!(scale.bins.len() as i64 <= BINS_MAX + 1, "{}", scale.bins.len());
        assert_eq!(scale.bin_of(&ends[1]), scale.bins.len() - 1);
        assert!(Scale::over([].into_iter()).bins.is_empty());
    }
}

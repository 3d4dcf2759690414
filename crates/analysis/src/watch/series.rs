//! One series of counts: what it says, and when.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::rhythm::{Beat, Rhythm};
use super::words::{lasting, per, short};
use crate::anomaly::{Detector, SCORE_ANOMALOUS, Verdict};

/// Intervals that a series learns before it says anything: an hour of minutes.
pub const INTERVALS_MIN: u32 = 60;

/// Intervals outside the usual band that confirm each other.
const CONFIRMED: u32 = 3;
/// How far a stretch lies outside, in deviations times the root of its intervals, to be said.
const STRENGTH_MIN: f64 = 8.0;
/// At most so many intervals count for the strength: neighbours depend on each other.
const STRENGTH_INTERVALS_MAX: u32 = 16;
/// A single interval is said at so many deviations, if it is four times the usual number, and if
/// the series has seen a day: jobs that run each hour are known then.
const STRENGTH_AT_ONCE: f64 = 14.0;
const RATIO_AT_ONCE: f64 = 4.0;
/// Less of a change than twice or half is no news for people.
const RATIO_MIN: f64 = 2.0;
/// Lines more or fewer than usual that matter.
const LINES_MIN: f64 = 20.0;
/// Intervals within the band after which a stretch is over.
const OVER: u32 = 3;
/// Intervals after which what is more or less, and steady, is a step.
const STEP_INTERVALS: u32 = 30;

/// Intervals without lines, at least, that are silence.
const SILENT_MIN: u32 = 3;
/// Lines that were expected meanwhile. Of independent lines, so many are all missing once in a
/// million times.
const SILENT_LINES_MIN: f64 = 14.0;
/// A silence is longer than this times the longest of the last pauses.
const PAUSE_RATIO: f64 = 1.5;
/// Pauses that are remembered.
const PAUSES_MAX: usize = 16;
/// A silence that came so often is usual.
const SILENCES_USUAL: usize = 3;
/// For so many intervals after something stood out, the level before it is usual, too: what the
/// detector expects follows what stood out.
const BEFORE_INTERVALS: i64 = 200;
/// Intervals over which the mean is taken, about.
const MEAN_INTERVALS: f64 = 500.0;
/// Intervals before it begins.
const MEAN_FROM: u32 = 12;
/// A value of so many times the expected number, and so many more, does not move the mean: bursts
/// say little about the time between them.
const MEAN_RATIO: f64 = 3.0;
const MEAN_MORE: f64 = 5.0;
/// Stretches that were not said, and are remembered: bursts that come again and again are usual,
/// before the distribution of values knows it.
const STRETCHES_MAX: usize = 16;
/// A stretch is news if its peak is so many times the largest of those, or if it is so many times
/// as long.
const PEAK_RATIO: f64 = 1.5;
const LENGTH_RATIO: u32 = 2;

/// What lasts longer than a day is usual from then on.
const LASTS_MAX_NS: i64 = DAY_NS;
const DAY_NS: i64 = 86_400_000_000_000;
/// A pause of more intervals between two values is time that nobody watched.
const GAP_INTERVALS: i64 = 12;
/// The upper and lower end of the band, in standard deviations of a normal distribution.
const BAND_DEVIATIONS: f64 = 2.33;

/// What is unusual about a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// No lines where there were some.
    Silent,
    /// Lines where there were never any.
    New,
    /// Another level than before, which lasts.
    Step,
    /// Bursts at equal distances begin, or one of them is missing.
    Rhythm,
    /// More lines than usual.
    More,
    /// Fewer lines than usual.
    Less,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] =
        [Kind::Silent, Kind::New, Kind::Step, Kind::Rhythm, Kind::More, Kind::Less];

    /// The name in APIs.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Silent => "silent",
            Kind::New => "new",
            Kind::Step => "step",
            Kind::Rhythm => "rhythm",
            Kind::More => "more",
            Kind::Less => "less",
        }
    }
}

/// Something that stands out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// What it is.
    pub kind: Kind,
    /// Start of the first interval of it, in nanoseconds since 1970.
    pub since_ns: i64,
    /// Lines in an interval since then, on average.
    pub seen: f64,
    /// Lines that were expected in an interval.
    pub expected: f64,
    /// The same in words.
    pub reason: String,
}

/// What a series says of an interval.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Something begins to stand out.
    Begins(Standing),
    /// It is of another kind than was said, or has other numbers.
    Changes(Standing),
    /// It is as usual again, or what it is has become usual.
    Ends(Standing),
}

/// Watches the counts of one series, interval by interval.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    step_ns: i64,
    detector: Detector,
    learned: u32,
    last_ns: Option<i64>,
    /// Mean over the last intervals.
    mean: f64,
    /// Intervals in a row outside the usual band.
    stretch: Option<Stretch>,
    /// The last stretches that were not said.
    stretches: VecDeque<Past>,
    /// Intervals in a row without lines.
    pause: Option<Pause>,
    /// Lines that were expected in the last pauses that were no silence.
    pauses: VecDeque<f64>,
    /// The same of the last silences.
    silences: VecDeque<f64>,
    /// The level before what stood out last, and until when it counts.
    before: Option<(f64, i64)>,
    rhythm: Rhythm,
    standing: Option<Standing>,
}

/// Intervals outside the usual band, on one side of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Stretch {
    is_more: bool,
    since_ns: i64,
    intervals: u32,
    /// Those of them that are outside.
    outside: u32,
    /// Intervals within the band, since the last one outside.
    inside: u32,
    seen: f64,
    expected: f64,
    /// The largest value.
    largest: f64,
    /// The largest distance from what was expected.
    peak: f64,
    /// The mean of the last intervals alone.
    now: f64,
    /// How far the ends of the band were from what was expected, when it began: what lies outside
    /// is learnt too, and would move them.
    above: f64,
    below: f64,
    score: f64,
}

/// What is remembered of a stretch.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Past {
    is_more: bool,
    intervals: u32,
    peak: f64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Pause {
    since_ns: i64,
    intervals: u32,
    /// Lines that were expected meanwhile.
    expected: f64,
}

impl Series {
    /// A series of counts in intervals of this length, which has seen nothing.
    pub fn new(step_ns: i64) -> Series {
        Series {
            step_ns: step_ns.max(1),
            detector: Detector::new(),
            learned: 0,
            last_ns: None,
            mean: 0.0,
            stretch: None,
            stretches: VecDeque::new(),
            pause: None,
            pauses: VecDeque::new(),
            silences: VecDeque::new(),
            before: None,
            rhythm: Rhythm::default(),
            standing: None,
        }
    }

    /// Length of an interval in nanoseconds.
    pub fn step_ns(&self) -> i64 {
        self.step_ns
    }

    /// Intervals that were learnt.
    pub fn learned(&self) -> u32 {
        self.learned
    }

    /// What stands out at present.
    pub fn standing(&self) -> Option<&Standing> {
        self.standing.as_ref()
    }

    /// Takes the count of the interval that begins at `time_ns`. Intervals come in order; one that
    /// nobody watched is left out.
    pub fn observe(&mut self, time_ns: i64, value: f64) -> Option<Change> {
        if !value.is_finite() {
            return None;
        }
        let unwatched = self.last_ns.map_or(0, |last| time_ns.saturating_sub(last) / self.step_ns);
        self.last_ns = Some(time_ns);
        let ended = match unwatched > GAP_INTERVALS {
            true => self.resume(),
            false => None,
        };
        let verdict = self.detector.observe(time_ns, value);
        self.learned = self.learned.saturating_add(1);
        let is_known = self.learned > INTERVALS_MIN;
        self.follow_pause(time_ns, value, &verdict);
        let beat = self.rhythm.observe(time_ns.div_euclid(self.step_ns), value, verdict.expected);
        self.follow_stretch(time_ns, value, &verdict, beat);
        if !is_known {
            return ended;
        }
        let change = match self.standing {
            None => self.begins(time_ns, beat),
            Some(_) => self.goes_on(time_ns, value, beat),
        };
        ended.or(change)
    }

    /// Ends what stood out: nobody knows what was meanwhile.
    fn resume(&mut self) -> Option<Change> {
        self.stretch = None;
        self.pause = None;
        self.rhythm.clear();
        self.standing.take().map(Change::Ends)
    }

    fn follow_pause(&mut self, time_ns: i64, value: f64, verdict: &Verdict) {
        let is_silent = self.standing.as_ref().is_some_and(|said| said.kind == Kind::Silent);
        if value <= 0.0 {
            // Hours that are usually without lines make no silence. Without a course, the middle
            // of few lines is zero, so their mean is expected.
            let least = if self.detector.has_season() { 0.0 } else { self.mean };
            let start = Pause { since_ns: time_ns, intervals: 0, expected: 0.0 };
            let pause = self.pause.get_or_insert(start);
            pause.intervals = pause.intervals.saturating_add(1);
            pause.expected += verdict.expected.max(least);
        } else if let Some(pause) = self.pause.take() {
            let (past, most) = match is_silent {
                true => (&mut self.silences, SILENCES_USUAL),
                false => (&mut self.pauses, PAUSES_MAX),
            };
            if past.len() >= most {
                past.pop_front();
            }
            past.push_back(pause.expected);
        }
        // What the first values are compared with are these values.
        if !is_silent && self.learned > MEAN_FROM {
            let weight = f64::from(self.learned - MEAN_FROM).min(MEAN_INTERVALS);
            let most = MEAN_RATIO * verdict.expected + MEAN_MORE;
            let value = if value > most { verdict.expected.max(self.mean) } else { value };
            self.mean += (value - self.mean) / weight;
        }
    }

    fn follow_stretch(&mut self, time_ns: i64, value: f64, verdict: &Verdict, beat: Beat) {
        let expected = verdict.expected;
        let (above, below) = match &self.stretch {
            Some(stretch) => (stretch.above, stretch.below),
            None => (verdict.high - expected, expected - verdict.low),
        };
        let is_more = value > expected + above;
        let is_before = self.before.is_some_and(|(level, until_ns)| {
            time_ns < until_ns
                && value + LINES_MIN / 2.0 >= level / RATIO_MIN
                && value <= level * RATIO_MIN + LINES_MIN / 2.0
        });
        let is_outside = !is_before && (is_more || value < expected - below);
        let goes_on = self.stretch.as_ref().is_some_and(|stretch| stretch.is_more == is_more);
        if is_outside && !goes_on {
            self.remember();
            // A burst that was due is as usual, however rare bursts are.
            self.stretch = (beat != Beat::OnTime).then_some(Stretch {
                is_more,
                since_ns: time_ns,
                intervals: 0,
                outside: 0,
                inside: 0,
                seen: 0.0,
                expected: 0.0,
                largest: 0.0,
                peak: 0.0,
                now: value,
                above,
                below,
                score: 0.0,
            });
        }
        let Some(stretch) = &mut self.stretch else { return };
        stretch.inside = if is_outside { 0 } else { stretch.inside + 1 };
        if stretch.inside >= OVER {
            self.remember();
            return;
        }
        stretch.intervals = stretch.intervals.saturating_add(1);
        stretch.outside += u32::from(is_outside);
        stretch.seen += value;
        stretch.largest = stretch.largest.max(value);
        stretch.expected += expected;
        stretch.peak = stretch.peak.max((value - expected).abs());
        stretch.now += (value - stretch.now) / 5.0;
        stretch.score = stretch.score.max(verdict.score);
    }

    /// Ends the stretch. One that was not said is remembered.
    fn remember(&mut self) {
        let Some(stretch) = self.stretch.take() else { return };
        if self.standing.is_some() {
            return;
        }
        if self.stretches.len() >= STRETCHES_MAX {
            self.stretches.pop_front();
        }
        self.stretches.push_back(Past {
            is_more: stretch.is_more,
            intervals: stretch.intervals.saturating_sub(stretch.inside.saturating_sub(1)),
            peak: stretch.peak,
        });
    }

    /// Whether no stretch that was not said was like this one.
    fn is_news(&self, stretch: &Stretch) -> bool {
        let like = self.stretches.iter().filter(|past| past.is_more == stretch.is_more);
        let (mut peak, mut intervals) = (0.0f64, 0);
        for past in like {
            peak = peak.max(past.peak);
            intervals = intervals.max(past.intervals);
        }
        stretch.peak > PEAK_RATIO * peak || stretch.intervals > LENGTH_RATIO * intervals + OVER
    }

    /// What begins to stand out in this interval.
    fn begins(&mut self, time_ns: i64, beat: Beat) -> Option<Change> {
        let found = self.silence(time_ns).or_else(|| self.beat(time_ns, beat)).or_else(|| {
            let stretch = self.stretch.as_ref().filter(|stretch| self.is_news(stretch))?;
            // What no lines say is said by silence.
            if !stretch.is_more && self.pause.is_some() {
                return None;
            }
            let has_day = i64::from(self.learned).saturating_mul(self.step_ns) >= DAY_NS;
            stretch.said(self.step_ns, has_day)
        });
        self.standing.clone_from(&found);
        found.map(Change::Begins)
    }

    /// What becomes of what stands out.
    fn goes_on(&mut self, time_ns: i64, value: f64, beat: Beat) -> Option<Change> {
        let said = self.standing.clone()?;
        let now = match said.kind {
            Kind::Silent if value > 0.0 => None,
            Kind::Silent => self.silence(time_ns).or(Some(said.clone())),
            Kind::Rhythm => {
                let is_missing = matches!(beat, Beat::Missing { .. });
                let silence = self.silence(time_ns);
                // One that begins is said for as long as the bursts that made it took.
                let begins = said.seen > said.expected;
                let stays = match begins {
                    true => time_ns - said.since_ns < self.rhythm_told_ns(),
                    false => is_missing,
                };
                silence
                    .or_else(|| if is_missing { self.beat(time_ns, beat) } else { None })
                    .or_else(|| stays.then(|| said.clone()))
            }
            _ => {
                let is_same = |stretch: &&Stretch| stretch.is_more == (said.seen > said.expected);
                let stretch = self.stretch.as_ref().filter(is_same);
                self.silence(time_ns).or_else(|| Some(stretch?.now(&said, self.step_ns)))
            }
        };
        let lasts = time_ns.saturating_sub(said.since_ns);
        match now.filter(|_| lasts < LASTS_MAX_NS) {
            None => {
                self.standing = None;
                if said.kind != Kind::Rhythm {
                    let until_ns = time_ns.saturating_add(BEFORE_INTERVALS * self.step_ns);
                    self.before = Some((said.expected, until_ns));
                }
                // What was said for a day is usual, and is not said again.
                self.stretch = None;
                if lasts >= LASTS_MAX_NS {
                    self.pause = None;
                    self.mean = 0.0;
                }
                Some(Change::Ends(said))
            }
            Some(now) => {
                let is_change = now != said;
                self.standing = Some(now.clone());
                is_change.then_some(Change::Changes(now))
            }
        }
    }

    /// How long a rhythm that begins is said: as long again as it took to be known, and twice that.
    fn rhythm_told_ns(&self) -> i64 {
        self.rhythm.period().unwrap_or(0).saturating_mul(3 * 8).saturating_mul(self.step_ns)
    }

    fn silence(&self, time_ns: i64) -> Option<Standing> {
        let pause = self.pause.as_ref()?;
        let usual = self.pauses.iter().fold(0.0, |most: f64, pause| most.max(*pause));
        let often = self.silences.iter().copied().fold(f64::INFINITY, f64::min);
        let usual = if self.silences.len() < SILENCES_USUAL { usual } else { usual.max(often) };
        let is_silent = pause.intervals >= SILENT_MIN
            && pause.expected >= SILENT_LINES_MIN
            && pause.expected > PAUSE_RATIO * usual;
        let expected = pause.expected / f64::from(pause.intervals);
        is_silent.then(|| Standing {
            kind: Kind::Silent,
            since_ns: pause.since_ns,
            seen: 0.0,
            expected,
            reason: format!(
                "no lines for {}, where about {} {} are usual",
                lasting(time_ns + self.step_ns - pause.since_ns),
                short(expected),
                per(self.step_ns)
            ),
        })
    }

    fn beat(&self, time_ns: i64, beat: Beat) -> Option<Standing> {
        let period_ns = self.rhythm.period()? * self.step_ns;
        let every = lasting(period_ns);
        let size = short(self.rhythm.size());
        match beat {
            Beat::None | Beat::OnTime => None,
            // A series that always had bursts has no new rhythm.
            Beat::Begins { since } => {
                let before = i64::from(self.learned) - (time_ns / self.step_ns - since);
                let least = i64::from(INTERVALS_MIN).max(2 * period_ns / self.step_ns);
                (before > least).then(|| Standing {
                    kind: Kind::Rhythm,
                    since_ns: since * self.step_ns,
                    seen: self.rhythm.size(),
                    expected: 0.0,
                    reason: format!(
                        "bursts of about {size} lines every {every}, which were not there before"
                    ),
                })
            }
            Beat::Missing { last } => Some(Standing {
                kind: Kind::Rhythm,
                since_ns: last * self.step_ns + period_ns,
                seen: 0.0,
                expected: self.rhythm.size(),
                reason: format!(
                    "no burst for {}, where one of about {size} lines came every {every}",
                    lasting(time_ns + self.step_ns - last * self.step_ns)
                ),
            }),
        }
    }
}

impl Stretch {
    /// What stands out, if the stretch is long and clear enough.
    fn said(&self, step_ns: i64, has_day: bool) -> Option<Standing> {
        let intervals = f64::from(self.intervals);
        let expected = self.expected / intervals;
        // A single burst among some values confirms none of them.
        let rest = match self.is_more && self.intervals > 1 {
            true => (self.seen - self.largest) / (intervals - 1.0),
            false => self.seen / intervals,
        };
        let is_confirmed =
            self.outside >= CONFIRMED && self.matters(rest, expected, STRENGTH_MIN, RATIO_MIN);
        let at_once = has_day
            && self.matters(self.seen / intervals, expected, STRENGTH_AT_ONCE, RATIO_AT_ONCE);
        (self.inside == 0 && (is_confirmed || at_once)).then(|| {
            let kind = if self.is_more { Kind::More } else { Kind::Less };
            self.standing(kind, step_ns)
        })
    }

    /// Whether a number of lines in an interval is far enough from what was expected.
    fn matters(&self, seen: f64, expected: f64, strength_min: f64, ratio_min: f64) -> bool {
        let band = if self.is_more { self.above } else { self.below };
        let deviation = (band / BAND_DEVIATIONS).max(expected.max(1.0).sqrt());
        let confirming = f64::from(self.intervals.min(STRENGTH_INTERVALS_MAX));
        let strength = (seen - expected).abs() / deviation * confirming.sqrt();
        let ratio = match self.is_more {
            true => (seen + 1.0) / (expected + 1.0),
            false => (expected + 1.0) / (seen + 1.0),
        };
        (seen - expected).abs() * f64::from(self.intervals) >= LINES_MIN
            && (seen > expected) == self.is_more
            && ratio >= ratio_min
            && strength >= strength_min
            && self.score >= SCORE_ANOMALOUS
    }

    /// What was said, with the numbers of now, and as a step if it is one.
    fn now(&self, said: &Standing, step_ns: i64) -> Standing {
        if self.inside > 0 {
            return said.clone();
        }
        let intervals = f64::from(self.intervals.max(1));
        let (seen, expected) = (self.seen / intervals, self.expected / intervals);
        let is_steady = (self.now - seen).abs() < 0.3 * (seen - expected).abs();
        let kind = match said.kind {
            Kind::More | Kind::Less if self.intervals >= STEP_INTERVALS && is_steady => Kind::Step,
            kind => kind,
        };
        // The level before is that of the beginning: what was expected follows the new level.
        let expected =
            if kind == said.kind && kind == Kind::Step { said.expected } else { expected };
        Standing { since_ns: said.since_ns, ..self.with(kind, expected, step_ns) }
    }

    fn standing(&self, kind: Kind, step_ns: i64) -> Standing {
        self.with(kind, self.expected / f64::from(self.intervals.max(1)), step_ns)
    }

    fn with(&self, kind: Kind, expected: f64, step_ns: i64) -> Standing {
        let seen = self.seen / f64::from(self.intervals.max(1));
        let (number, usual, per) = (short(seen), short(expected), per(step_ns));
        let times = seen / expected.max(f64::MIN_POSITIVE);
        let reason = match kind {
            Kind::Step => format!("a new level: {number} {per} instead of {usual}"),
            Kind::More if (RATIO_MIN..1e4).contains(&times) => {
                format!(
                    "{} times as many as usual: {number} {per} instead of {usual}",
                    short(times)
                )
            }
            _ => format!("{number} {per} instead of {usual}"),
        };
        Standing { kind, since_ns: self.since_ns, seen, expected, reason }
    }
}

#[cfg(test)]
#[path = "series_tests.rs"]
mod tests;

//! The series of all values of all watched fields, and what stands out among them.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::MINUTE_NS;
use super::series::{Change, Kind, Series, Standing};
use super::words::{lasting, per, short};

/// Values of a field that are watched. A field with more is no field of few values.
///
/// limits.md, What stands out: watched values of a field | {} | further values are not watched,
/// counted, and named as left out
pub const VALUES_MAX: usize = 100;
/// Findings that are kept: those that last, and those of the last day.
///
/// limits.md, What stands out: findings that are kept | {}, for a day | the ones that ended first
/// go; a finding for which there is no room is not said, and counted
pub const FINDINGS_MAX: usize = 200;
/// Minutes of an interval of a series with few lines.
pub const COARSE_MINUTES: i64 = 10;

/// From so many lines a minute on, a series is watched minute by minute.
const FINE_LINES_MIN: f64 = 5.0;
/// Up to so many lines a minute, such a series is watched in intervals of ten minutes, too. A
/// minute with few lines may have none by chance, so a fall is told apart from chance by the longer
/// interval only.
const COARSE_LINES_MAX: f64 = 50.0;
/// After the minutes said something, the longer intervals say nothing new of the same time for so
/// long: they end later.
const COARSE_WAITS_NS: i64 = 4 * COARSE_MINUTES * MINUTE_NS;
/// Minutes after which the interval of a series is chosen.
const FIRST_MINUTES: usize = 60;
/// A field is watched for so long before one of its values is new.
const KNOWN_NS: i64 = 2 * 60 * MINUTE_NS;
/// A new value has so many lines in its first minutes; fewer may be a mistake of one sender.
const NEW_LINES_MIN: f64 = 10.0;
const NEW_MINUTES: i64 = 15;
/// In a field with more new values a day, new values are usual.
const NEW_PER_DAY_MAX: usize = 10;
/// A value is new for an hour.
const NEW_LASTS_NS: i64 = 60 * MINUTE_NS;
const DAY_NS: i64 = 1_440 * MINUTE_NS;
/// A series without lines for so long is given up; its value stays known.
const GIVEN_UP_NS: i64 = 7 * DAY_NS;
/// Where series have no room, one without lines for so long makes room.
const REPLACED_NS: i64 = DAY_NS;
/// Values that are known, by hash. Of more, the ones seen longest ago are forgotten, and are new
/// again.
const KNOWN_MAX: usize = 20_000;
/// Findings that begin within this time, and go the same way, are most likely one incident.
const TOGETHER_NS: i64 = 3 * MINUTE_NS;
/// Bytes of a value that can be watched.
const VALUE_BYTES_MAX: usize = 200;

/// The lines of one field in one minute.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldCounts {
    /// The field; empty for all lines, whose only value is empty too.
    pub field: String,
    /// Lines by value. Values without lines are left out.
    pub values: Vec<(String, f64)>,
}

/// Something that stands out, of which series, and until when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Distinguishes findings, also after a start.
    pub id: u64,
    /// The field; empty for all lines.
    pub field: String,
    /// The value whose lines stand out.
    pub value: String,
    /// What stands out, since when, and by how much.
    pub standing: Standing,
    /// When it was as usual again, in nanoseconds since 1970; none while it lasts.
    pub until_ns: Option<i64>,
    /// Length of the interval of its numbers, in nanoseconds.
    pub interval_ns: i64,
    /// How long the series was watched when it began, in nanoseconds: with less than a day, no
    /// hour is known, with less than two weeks no weekday.
    pub history_ns: i64,
    /// The finding that it is most likely a part of: the largest change of the same time.
    pub part_of: Option<u64>,
}

impl Finding {
    /// The share by which the number differs from what was expected: 1 for silence, 0.5 for twice
    /// or half.
    pub fn change(&self) -> f64 {
        let Standing { seen, expected, .. } = self.standing;
        let greater = seen.abs().max(expected.abs());
        if greater > 0.0 { (seen - expected).abs() / greater } else { 0.0 }
    }

    fn is_more(&self) -> bool {
        self.standing.seen > self.standing.expected
    }

    fn lines(&self) -> f64 {
        (self.standing.seen - self.standing.expected).abs() / self.interval_ns.max(1) as f64
    }
}

/// What became of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// It is new.
    Begins,
    /// It has another kind.
    Changes,
    /// It is over.
    Ends,
}

/// News of a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct News {
    /// What became of it.
    pub what: What,
    /// The finding, as it is now.
    pub finding: Finding,
}

/// A watched field, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldView {
    /// Its name; empty for all lines.
    pub field: String,
    /// Series of it.
    pub series: usize,
    /// Those that have not learnt enough to say anything.
    pub learning: usize,
    /// Values of the last minute that are not watched, because there is no room.
    pub left_out: usize,
}

/// All series, and what they say.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Board {
    fields: BTreeMap<String, Field>,
    /// Hashes of the values that were ever seen, and when last.
    known: BTreeMap<u64, i64>,
    findings: Vec<Finding>,
    next_id: u64,
    since_ns: Option<i64>,
    last_ns: Option<i64>,
    /// New values that were not said, because new values are usual in their field.
    new_unsaid: u64,
    /// Findings for which there was no room.
    unsaid: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Field {
    since_ns: i64,
    last_ns: i64,
    series: BTreeMap<String, Watched>,
    /// When values were new, within the last day.
    new: VecDeque<i64>,
    left_out: usize,
}

/// A series of minutes, or of ten minutes where there are few lines.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Watched {
    since_ns: i64,
    /// The last minute with lines.
    lines_ns: i64,
    /// The first minutes, before the interval is chosen.
    first: Vec<(i64, f64)>,
    series: Option<Series>,
    /// The interval that is being counted.
    part: Option<Part>,
    /// The same in intervals of ten minutes, which tells falls, where minutes have few lines.
    #[serde(default)]
    coarse: Option<Series>,
    #[serde(default)]
    coarse_part: Option<Part>,
    /// What stands out was said of the intervals of ten minutes.
    #[serde(default)]
    is_coarse: bool,
    /// When the minutes last said something.
    #[serde(default)]
    fine_ns: i64,
    /// Lines so far of a value that was never seen.
    new: Option<f64>,
}

/// A part of an interval: its start, minutes, lines.
type Part = (i64, i64, f64);

impl Board {
    /// A board without series.
    pub fn new() -> Board {
        Board::default()
    }

    /// The end of the last minute that was watched, in nanoseconds since 1970.
    pub fn until_ns(&self) -> Option<i64> {
        self.last_ns.map(|last| last + MINUTE_NS)
    }

    /// The first minute that was watched.
    pub fn since_ns(&self) -> Option<i64> {
        self.since_ns
    }

    /// Findings, of which the ones that last come first, and then the latest.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = self.findings.clone();
        findings.sort_by_key(|finding| {
            (finding.until_ns.is_some(), std::cmp::Reverse(finding.standing.since_ns))
        });
        findings
    }

    /// Series that are watched.
    pub fn series(&self) -> usize {
        self.fields.values().map(|field| field.series.len()).sum()
    }

    /// Values of the last minute that have no series.
    pub fn left_out(&self) -> usize {
        self.fields.values().map(|field| field.left_out).sum()
    }

    /// New values that were not said, because new values are usual in their field; and findings for
    /// which there was no room.
    pub fn unsaid(&self) -> (u64, u64) {
        (self.new_unsaid, self.unsaid)
    }

    /// The watched fields.
    pub fn fields(&self) -> Vec<FieldView> {
        let view = |(name, field): (&String, &Field)| FieldView {
            field: name.clone(),
            series: field.series.len(),
            learning: field.series.values().filter(|watched| watched.is_learning()).count(),
            left_out: field.left_out,
        };
        self.fields.iter().map(view).collect()
    }

    /// Takes the lines of a minute, which begins at `minute_ns`, and says what is new. Fields that
    /// are not among `counts` were not watched in this minute. Minutes come in order; a minute
    /// that nobody watched is left out.
    pub fn observe(
        &mut self,
        minute_ns: i64,
        counts: &[FieldCounts],
        series_max: usize,
    ) -> Vec<News> {
        self.since_ns.get_or_insert(minute_ns);
        self.last_ns = Some(minute_ns);
        let mut changes: Vec<(String, String, i64, i64, Change)> = Vec::new();
        for of_field in counts {
            self.make_room(of_field, minute_ns, series_max);
            let Some(field) = self.fields.get_mut(&of_field.field) else { continue };
            field.last_ns = minute_ns;
            let lines: BTreeMap<&str, f64> =
                of_field.values.iter().map(|(value, n)| (value.as_str(), *n)).collect();
            for (value, watched) in &mut field.series {
                let count = lines.get(value.as_str()).copied().unwrap_or(0.0);
                let history_ns = minute_ns - watched.since_ns;
                if let Some((interval_ns, change)) = watched.observe(minute_ns, count) {
                    let name = of_field.field.clone();
                    changes.push((name, value.clone(), interval_ns, history_ns, change));
                }
                if let Some(standing) = watched.new_value(minute_ns, count) {
                    while field.new.front().is_some_and(|at| minute_ns - at > DAY_NS) {
                        field.new.pop_front();
                    }
                    if field.new.len() >= NEW_PER_DAY_MAX {
                        self.new_unsaid += 1;
                        continue;
                    }
                    field.new.push_back(minute_ns);
                    let change = Change::Begins(standing);
                    changes.push((
                        of_field.field.clone(),
                        value.clone(),
                        MINUTE_NS,
                        minute_ns - field.since_ns,
                        change,
                    ));
                }
            }
        }
        self.learn_values(minute_ns, counts);
        let mut news = self.give_up(minute_ns);
        // The largest change of a moment comes first: others are parts of it.
        changes.sort_by(|a, b| weight(&b.4).total_cmp(&weight(&a.4)));
        for (field, value, interval_ns, history_ns, change) in changes {
            news.extend(self.note(minute_ns, (field, value), interval_ns, history_ns, change));
        }
        self.forget(minute_ns);
        news
    }

    /// Makes series for values that have none.
    fn make_room(&mut self, counts: &FieldCounts, minute_ns: i64, series_max: usize) {
        let mut all = self.series();
        let start = Field { since_ns: minute_ns, ..Field::default() };
        let field = self.fields.entry(counts.field.clone()).or_insert(start);
        field.left_out = 0;
        let mut missing: Vec<&(String, f64)> =
            counts.values.iter().filter(|(value, _)| !field.series.contains_key(value)).collect();
        missing.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (value, _) in missing {
            if value.len() > VALUE_BYTES_MAX {
                field.left_out += 1;
                continue;
            }
            if field.series.len() >= VALUES_MAX || all >= series_max {
                let oldest = field.series.iter().min_by_key(|(_, watched)| watched.lines_ns);
                let oldest = oldest.filter(|(_, w)| minute_ns - w.lines_ns > REPLACED_NS);
                let Some(name) = oldest.map(|(name, _)| name.clone()) else {
                    field.left_out += 1;
                    continue;
                };
                field.series.remove(&name);
                all -= 1;
            }
            let is_new = minute_ns - field.since_ns >= KNOWN_NS
                && !self.known.contains_key(&hash(&counts.field, value));
            field.series.insert(value.clone(), Watched::new(minute_ns, is_new));
            all += 1;
        }
    }

    fn learn_values(&mut self, minute_ns: i64, counts: &[FieldCounts]) {
        for of_field in counts {
            for (value, _) in &of_field.values {
                self.known.insert(hash(&of_field.field, value), minute_ns);
            }
        }
        if self.known.len() > KNOWN_MAX {
            let mut times: Vec<i64> = self.known.values().copied().collect();
            let (_, &mut from, _) = times.select_nth_unstable(self.known.len() - KNOWN_MAX / 2);
            self.known.retain(|_, seen| *seen >= from);
            while self.known.len() > KNOWN_MAX {
                self.known.pop_first();
            }
        }
    }

    /// Gives up series and fields without lines, and ends what was said of them.
    fn give_up(&mut self, minute_ns: i64) -> Vec<News> {
        self.fields.retain(|_, field| minute_ns - field.last_ns <= DAY_NS);
        for field in self.fields.values_mut() {
            field.series.retain(|_, watched| minute_ns - watched.lines_ns <= GIVEN_UP_NS);
        }
        let fields = &self.fields;
        let mut news = Vec::new();
        for finding in self.findings.iter_mut().filter(|finding| finding.until_ns.is_none()) {
            let field = fields.get(&finding.field);
            let is_there = field.is_some_and(|field| field.series.contains_key(&finding.value));
            let is_old = finding.standing.kind == Kind::New
                && minute_ns - finding.standing.since_ns >= NEW_LASTS_NS;
            if !is_there || is_old {
                finding.until_ns = Some(minute_ns);
                news.push(News { what: What::Ends, finding: finding.clone() });
            }
        }
        news
    }

    /// Keeps what a series said.
    fn note(
        &mut self,
        minute_ns: i64,
        (field, value): (String, String),
        interval_ns: i64,
        history_ns: i64,
        change: Change,
    ) -> Option<News> {
        let is_open = |finding: &&mut Finding| {
            finding.until_ns.is_none()
                && finding.field == field
                && finding.value == value
                && finding.standing.kind != Kind::New
        };
        let (what, standing) = match change {
            Change::Begins(standing) => (What::Begins, standing),
            Change::Changes(standing) => (What::Changes, standing),
            Change::Ends(standing) => (What::Ends, standing),
        };
        if what != What::Begins {
            let finding = self.findings.iter_mut().find(is_open)?;
            let is_other = finding.standing.kind != standing.kind;
            if what == What::Ends {
                finding.until_ns = Some(minute_ns);
            }
            finding.standing = standing;
            finding.interval_ns = interval_ns;
            // Numbers that move are no news.
            return (what == What::Ends || is_other)
                .then(|| News { what, finding: finding.clone() });
        }
        if self.findings.len() >= FINDINGS_MAX {
            let ended = (0..self.findings.len()).filter(|at| self.findings[*at].until_ns.is_some());
            let first = ended.min_by_key(|at| self.findings[*at].until_ns);
            let Some(first) = first else {
                self.unsaid += 1;
                return None;
            };
            self.findings.remove(first);
        }
        self.next_id += 1;
        let mut finding = Finding {
            id: self.next_id,
            field,
            value,
            standing,
            until_ns: None,
            interval_ns,
            history_ns,
            part_of: None,
        };
        finding.part_of = self.incident_of(&finding);
        self.findings.push(finding.clone());
        Some(News { what: What::Begins, finding })
    }

    /// The finding that began at the same time, and goes the same way.
    fn incident_of(&self, finding: &Finding) -> Option<u64> {
        let is_together = |other: &&Finding| {
            let apart = (other.standing.since_ns - finding.standing.since_ns).abs();
            other.until_ns.is_none()
                && other.part_of.is_none()
                && other.is_more() == finding.is_more()
                && apart <= TOGETHER_NS.max(finding.interval_ns.max(other.interval_ns))
        };
        let largest = |a: &&Finding, b: &&Finding| a.lines().total_cmp(&b.lines());
        self.findings.iter().filter(is_together).max_by(largest).map(|other| other.id)
    }

    /// Forgets findings of yesterday. Parts of them stand for themselves.
    fn forget(&mut self, minute_ns: i64) {
        self.findings.retain(|f| f.until_ns.is_none_or(|until| minute_ns - until <= DAY_NS));
        let ids: Vec<u64> = self.findings.iter().map(|finding| finding.id).collect();
        for finding in &mut self.findings {
            finding.part_of = finding.part_of.filter(|id| ids.contains(id));
        }
    }
}

/// How large a change is, for the order of those of one minute: the share by which a number
/// differs, and then the lines.
fn weight(change: &Change) -> f64 {
    let (Change::Begins(said) | Change::Changes(said) | Change::Ends(said)) = change;
    let (greater, apart) = (said.seen.max(said.expected), (said.seen - said.expected).abs());
    let share = if greater > 0.0 { apart / greater } else { 0.0 };
    (share * 20.0).round() + apart.max(1.0).ln() / 100.0
}

/// FNV-1a, which is the same after each start. 20,000 values collide once in ten thousand million.
fn hash(field: &str, value: &str) -> u64 {
    let bytes = field.bytes().chain([0xff]).chain(value.bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Watched {
    fn new(minute_ns: i64, is_new: bool) -> Watched {
        Watched {
            since_ns: minute_ns,
            lines_ns: minute_ns,
            first: Vec::new(),
            series: None,
            part: None,
            coarse: None,
            coarse_part: None,
            is_coarse: false,
            fine_ns: 0,
            new: is_new.then_some(0.0),
        }
    }

    fn is_learning(&self) -> bool {
        self.series.as_ref().is_none_or(|series| series.learned() <= super::INTERVALS_MIN)
    }

    /// What the series says of a minute, with the length of its interval.
    fn observe(&mut self, minute_ns: i64, count: f64) -> Option<(i64, Change)> {
        if count > 0.0 {
            self.lines_ns = minute_ns;
        }
        if self.series.is_none() {
            self.first.push((minute_ns, count));
            if self.first.len() < FIRST_MINUTES {
                return None;
            }
            let lines: f64 = self.first.iter().map(|(_, count)| count).sum();
            let usual = lines / self.first.len() as f64;
            let minutes = if usual >= FINE_LINES_MIN { 1 } else { COARSE_MINUTES };
            self.series = Some(Series::new(minutes * MINUTE_NS));
            if (FINE_LINES_MIN..=COARSE_LINES_MAX).contains(&usual) {
                self.coarse = Some(Series::new(COARSE_MINUTES * MINUTE_NS));
            }
            let first = std::mem::take(&mut self.first);
            // It is too young to say anything of these.
            for (minute_ns, count) in first {
                self.count(minute_ns, count);
            }
            return None;
        }
        self.count(minute_ns, count)
    }

    /// What the minutes say, or, while they say nothing, what the longer intervals say of a fall.
    fn count(&mut self, minute_ns: i64, count: f64) -> Option<(i64, Change)> {
        let fine = self.series.as_mut()?;
        let change = count_into(fine, &mut self.part, minute_ns, count);
        let Some(coarse) = &mut self.coarse else { return change };
        let of_coarse = count_into(coarse, &mut self.coarse_part, minute_ns, count);
        if fine.standing().is_some() || change.is_some() {
            self.fine_ns = minute_ns;
        }
        match (change, of_coarse) {
            // The same finding, from now on in minutes.
            (Some((step_ns, Change::Begins(standing))), _) if self.is_coarse => {
                self.is_coarse = false;
                Some((step_ns, Change::Changes(standing)))
            }
            (Some(change), _) => Some(change),
            (None, Some((step_ns, Change::Begins(standing)))) => {
                let is_fall = standing.seen < standing.expected && standing.kind != Kind::Rhythm;
                let is_said = minute_ns - self.fine_ns < COARSE_WAITS_NS;
                self.is_coarse = is_fall && !is_said;
                self.is_coarse.then_some((step_ns, Change::Begins(standing)))
            }
            (None, change) if self.is_coarse => {
                self.is_coarse = !matches!(change, Some((_, Change::Ends(_))));
                change
            }
            (None, _) => None,
        }
    }

    /// What is said of a value that was never seen before.
    fn new_value(&mut self, minute_ns: i64, count: f64) -> Option<Standing> {
        let lines = self.new? + count;
        let minutes = (minute_ns - self.since_ns) / MINUTE_NS + 1;
        self.new = (minutes < NEW_MINUTES && lines < NEW_LINES_MIN).then_some(lines);
        let seen = lines / minutes as f64;
        (lines >= NEW_LINES_MIN && minutes <= NEW_MINUTES).then(|| Standing {
            kind: Kind::New,
            since_ns: self.since_ns,
            seen,
            expected: 0.0,
            reason: format!(
                "never seen before: {} lines in {}, {} {}",
                short(lines),
                lasting(minutes * MINUTE_NS),
                short(seen),
                per(MINUTE_NS)
            ),
        })
    }
}

/// What a series says once an interval is complete, with the length of the interval.
fn count_into(
    series: &mut Series,
    part: &mut Option<Part>,
    minute_ns: i64,
    count: f64,
) -> Option<(i64, Change)> {
    let step_ns = series.step_ns();
    let start_ns = minute_ns - minute_ns.rem_euclid(step_ns);
    let (start, minutes, lines) = match part.take() {
        Some((start, minutes, lines)) if start == start_ns => (start, minutes + 1, lines + count),
        // An interval of which some minutes were not watched is no fall, but left out.
        _ => (start_ns, 1, count),
    };
    if minutes * MINUTE_NS < step_ns {
        *part = Some((start, minutes, lines));
        return None;
    }
    series.observe(start, lines).map(|change| (step_ns, change))
}

#[cfg(test)]
#[path = "board_tests.rs"]
mod tests;

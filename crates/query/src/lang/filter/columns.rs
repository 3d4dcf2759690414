//! Runs filters over columns: selects the rows of a block before any line is assembled.
//!
//! A value is tested once, however many rows have it. As long as most rows are candidates, a text
//! is searched in all values at once ([`Probe`]), and only the values that contain it are tested.
//! Once few candidates are left, these rows are tested one by one. A column is read only when its
//! test runs: after a test that leaves no row, the remaining columns are not read at all. The
//! filter checks now and then whether the query may continue ([`Pulse`]).
//!
//! Left out: filters on computed fields and comparisons of two fields; they are run over lines.

use std::cell::RefCell;
use std::rc::Rc;

use memchr::memmem::Finder;
use record::automaton::Automaton;
use record::columns::{Columns, Decide, FieldColumn, NO_VALUE, Occurrences, Places};

use super::Filter;
use super::automaton::LazyAutomaton;
use super::lines::LineRegex;
use super::value::{Matcher, Test, any_case};
use super::word::PhraseFinder;
use crate::base::bitmap::Bitmap;
use crate::base::expression::Expression;
use crate::base::names::is_stored;
use crate::base::{Pulse, SourceError, TimeRange};
#[cfg(doc)]
use crate::lang::filter::tests_of;

/// If a column has more values than this for each candidate row, the rows are tested one by one
/// instead of the values.
const VALUES_PER_ROW_MAX: usize = 8;

/// Candidate rows are few if they are at most this part of a block's. Of more, assembling the
/// values costs more than searching in the columns that they are assembled from.
const FEW_PARTS: usize = 16;

/// A shorter literal of a regular expression is contained in too many values to be searched first:
/// for example the point in each IP address.
const LITERAL_BYTES_MIN: usize = 3;

/// A whole value of at least this many bytes is searched as a text first: it looks like an id,
/// which few values contain. The values of a column need not be told apart for that.
const ID_BYTES_MIN: usize = 8;

/// A filter prepared to run over columns.
pub(crate) struct ColumnSelector {
    node: Node,
}

enum Node {
    All,
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Time(TimeRange),
    Field {
        name: String,
        test: Box<ValueTest>,
    },
    /// Any stored field whose name begins with `beginning`.
    AnyField {
        beginning: String,
        /// The test as parsed, which knows the fields that it looks at.
        parsed: Test,
        test: Box<ValueTest>,
    },
    /// A `Field` or `AnyField`, with its index among the tests of the filter ([`tests_of`]).
    Numbered(usize, Box<Node>),
}

struct ValueTest {
    matcher: Matcher,
    /// Finds the values that may pass.
    probe: Option<Probe>,
    /// A text that a value must contain.
    text: Option<TextTest>,
    /// Whether a value passes just if its outline does
    /// ([`Columns::passing_outlines`]).
    by_outline: bool,
    /// Whether a value with that text passes without further test.
    only_text: bool,
    /// Runs the test on templates, without assembling the values.
    automaton: Option<LazyAutomaton>,
}

/// Passes values that contain a text.
struct TextTest {
    text: Vec<u8>,
    at: TextPlace,
}

/// Where a text must stand in a value.
enum TextPlace {
    Anywhere,
    /// At word boundaries.
    Words(Box<PhraseFinder>),
    /// It is the whole value.
    Whole,
}

/// Finds the values that may pass by a search through all values at once.
enum Probe {
    /// The values that contain this text.
    Text(Box<Finder<'static>>),
    /// The values that contain a match of this expression.
    AnyCase(Box<Expression>),
    /// The values that match this expression; they pass without further test. For values that are
    /// lines.
    Lines(Box<LineRegex>),
}

/// The columns of a block, each read when it is first needed.
pub(crate) struct Fields<'c> {
    columns: &'c dyn Columns,
    pulse: &'c Pulse<'c>,
    /// For each test of the filter, by its index: whether no value of the block passes it.
    ruled_out: &'c [bool],
    read: Rc<RefCell<Vec<ReadField<'c>>>>,
}

/// A field that was read; no column if its values can be had only from the lines.
type ReadField<'c> = (String, Option<Rc<FieldColumn<'c>>>);

impl<'c> Fields<'c> {
    /// `ruled_out`: for each of the [tests of the filter](tests_of), whether no value of the block
    /// passes it.
    pub fn new(columns: &'c dyn Columns, pulse: &'c Pulse<'c>, ruled_out: &'c [bool]) -> Self {
        Fields { columns, pulse, ruled_out, read: Rc::default() }
    }

    /// The same columns for another filter.
    pub fn of_other_filter(&self) -> Fields<'c> {
        Fields { ruled_out: &[], read: Rc::clone(&self.read), ..*self }
    }

    pub fn columns(&self) -> &'c dyn Columns {
        self.columns
    }

    /// The column of a field, read at most once; none if the values can be had only from the lines.
    pub fn get(&self, name: &str) -> Result<Option<Rc<FieldColumn<'c>>>, SourceError> {
        if let Some((_, column)) = self.read.borrow().iter().find(|(known, _)| known == name) {
            return Ok(column.clone());
        }
        let column = self.columns.field(name)?.map(Rc::new);
        self.read.borrow_mut().push((name.to_owned(), column.clone()));
        Ok(column)
    }

    /// The values of a field in few rows; none where reading the whole column is as fast, or it is
    /// read already.
    pub fn get_of(
        &self,
        name: &str,
        bits: &Bitmap,
    ) -> Result<Option<FieldColumn<'c>>, SourceError> {
        if self.is_read(name) || bits.count() * 2 >= self.columns.rows() {
            return Ok(None);
        }
        let rows: Vec<u32> = bits.iter().map(|row| row as u32).collect();
        Ok(self.columns.field_of(name, &rows)?)
    }

    fn is_read(&self, name: &str) -> bool {
        self.read.borrow().iter().any(|(known, _)| known == name)
    }
}

impl ColumnSelector {
    /// None if the filter has to be run over lines.
    pub fn new(filter: &Filter) -> Option<ColumnSelector> {
        Node::new(filter, &mut 0).map(|node| ColumnSelector { node })
    }

    /// Removes from `bits` the rows that the filter does not select. False if this can be decided
    /// only on the lines.
    pub fn narrow(&self, fields: &Fields<'_>, bits: &mut Bitmap) -> Result<bool, SourceError> {
        self.node.narrow(fields, bits)
    }
}

impl Node {
    /// `tests`: the number of tests before this filter; it is advanced by the tests in the filter.
    fn new(filter: &Filter, tests: &mut usize) -> Option<Node> {
        let cheap_first = |filters: &[Filter], tests: &mut usize| {
            let nodes = filters.iter().map(|filter| Node::new(filter, tests));
            let mut nodes = nodes.collect::<Option<Vec<Node>>>()?;
            nodes.sort_by_key(Node::cost);
            Some(nodes)
        };
        let mut numbered = |node: Node| {
            *tests += 1;
            Node::Numbered(*tests - 1, Box::new(node))
        };
        Some(match filter {
            Filter::All => Node::All,
            Filter::And(filters) => Node::And(cheap_first(filters, tests)?),
            Filter::Or(filters) => Node::Or(cheap_first(filters, tests)?),
            Filter::Not(filter) => Node::Not(Box::new(Node::new(filter, tests)?)),
            Filter::Time(range) => Node::Time(*range),
            Filter::Field { name, test } if is_stored(name) => {
                numbered(Node::Field { name: name.clone(), test: Box::new(ValueTest::new(test)) })
            }
            Filter::AnyField { beginning, test } => numbered(Node::AnyField {
                beginning: beginning.clone(),
                parsed: test.clone(),
                test: Box::new(ValueTest::new(test)),
            }),
            _ => return None,
        })
    }

    /// Rough time per row. The message is the largest column by far: it comes last.
    fn cost(&self) -> u32 {
        match self {
            Node::All => 0,
            Node::Time(_) => 1,
            Node::And(nodes) | Node::Or(nodes) => nodes.iter().map(Node::cost).sum(),
            Node::Not(node) | Node::Numbered(_, node) => node.cost(),
            Node::Field { name, test } => {
                test.matcher.cost() + if name == crate::base::names::MSG { 100 } else { 0 }
            }
            // These fields include the message, unless the prefix excludes it.
            Node::AnyField { test, .. } => 200 + test.matcher.cost(),
        }
    }

    fn narrow(&self, fields: &Fields<'_>, bits: &mut Bitmap) -> Result<bool, SourceError> {
        match self {
            Node::All => {}
            Node::And(nodes) => {
                for node in nodes {
                    if bits.is_empty() {
                        break;
                    }
                    if !node.narrow(fields, bits)? {
                        return Ok(false);
                    }
                }
            }
            Node::Or(nodes) => {
                let mut open = bits.clone();
                let mut selected = bits.clone();
                selected.clear();
                for node in nodes {
                    if open.is_empty() {
                        break;
                    }
                    let mut found = open.clone();
                    if !node.narrow(fields, &mut found)? {
                        return Ok(false);
                    }
                    open.subtract(&found);
                    selected.add(&found);
                }
                *bits = selected;
            }
            Node::Not(node) => {
                let mut found = bits.clone();
                if !node.narrow(fields, &mut found)? {
                    return Ok(false);
                }
                bits.subtract(&found);
            }
            Node::Time(range) => {
                let times = fields.columns.times_ns()?;
                bits.retain(|row| range.contains(times[row]));
            }
            Node::Numbered(place, _) if fields.ruled_out.get(*place) == Some(&true) => bits.clear(),
            Node::Numbered(_, node) => return node.narrow(fields, bits),
            Node::Field { name, test } => return test.narrow(name, fields, bits),
            Node::AnyField { beginning, parsed, test } => {
                return test.narrow_any(&|name| parsed.looks_at(name, beginning), fields, bits);
            }
        }
        Ok(true)
    }
}

impl ValueTest {
    fn new(test: &Test) -> ValueTest {
        let text: Option<(&str, TextPlace)> = match test {
            Test::Phrase(text) => Some((text, TextPlace::words(text, false))),
            Test::Prefix(text) => Some((text, TextPlace::words(text, true))),
            Test::Substring(text) => Some((text.as_str(), TextPlace::Anywhere)),
            Test::Exact(text) if text.len() >= ID_BYTES_MIN => Some((text, TextPlace::Whole)),
            Test::Regex(pattern) if pattern.literal().len() >= LITERAL_BYTES_MIN => {
                Some((pattern.literal(), TextPlace::Anywhere))
            }
            Test::Sequence(phrases) => {
                let first = phrases.first().map(String::as_str);
                first.map(|text| (text, TextPlace::words(text, false)))
            }
            _ => None,
        };
        let text = text.filter(|(text, _)| !text.is_empty());
        ValueTest {
            matcher: Matcher::new(test),
            probe: Probe::of(test),
            text: text.map(|(text, at)| TextTest { text: text.as_bytes().to_vec(), at }),
            by_outline: match test {
                Test::AnyCasePhrase(text) => is_by_outline(text),
                Test::Sequence(phrases) => phrases.iter().all(|phrase| is_by_outline(phrase)),
                _ => false,
            },
            only_text: !matches!(test, Test::Regex(_) | Test::Sequence(_)),
            automaton: LazyAutomaton::of(test),
        }
    }

    /// Removes the rows in which none of the fields that are looked at has a value that passes;
    /// empty values do not count. False if this can be decided only on the lines.
    fn narrow_any(
        &self,
        looks_at: &dyn Fn(&str) -> bool,
        fields: &Fields<'_>,
        bits: &mut Bitmap,
    ) -> Result<bool, SourceError> {
        let mut names = fields.columns.names();
        names.retain(|name| looks_at(name));
        // The message comes last: if all rows pass by another field, it need not be read.
        names.sort_by_key(|name| *name == crate::base::names::MSG);
        let takes_empty = self.matcher.takes_empty();
        let mut open = bits.clone();
        for name in names {
            if open.is_empty() {
                break;
            }
            let mut found = open.clone();
            if !self.narrow(name, fields, &mut found)? {
                return Ok(false);
            }
            if takes_empty && !found.is_empty() {
                let Some(column) = fields.get(name)? else { return Ok(false) };
                found.retain(|row| !column.get(row).is_empty());
            }
            open.subtract(&found);
        }
        bits.subtract(&open);
        Ok(true)
    }

    /// Removes the rows whose value of a field does not pass. False if this can be decided only on
    /// the lines.
    fn narrow(
        &self,
        name: &str,
        fields: &Fields<'_>,
        bits: &mut Bitmap,
    ) -> Result<bool, SourceError> {
        if let Some(column) = self.few_values(name, fields, bits)? {
            let mut values = 0..;
            self.matcher.retain(bits, fields.pulse, |_, test| {
                test(column.get(values.next().expect("it has no end")))
            });
            return Ok(true);
        }
        if let Some(test) = &self.text
            && !fields.is_read(name)
            && let Some(rows) = test.rows_in(name, fields)?
        {
            bits.intersect(&Bitmap::of(fields.columns.rows(), &rows));
            if self.only_text || bits.is_empty() {
                return Ok(true);
            }
        }
        if self.by_outline
            && !fields.is_read(name)
            && let Some(rows) = fields
                .columns
                .passing_outlines(name, &|outline| self.matcher.passes(outline, fields.pulse))?
        {
            bits.intersect(&Bitmap::of(fields.columns.rows(), &rows));
            return Ok(true);
        }
        if !fields.is_read(name)
            && bits.count() * VALUES_PER_ROW_MAX > fields.columns.rows()
            && self.automaton.is_some()
            && let Some(rows) = fields.columns.passing(name, &Watched(self, fields.pulse))?
        {
            bits.intersect(&Bitmap::of(fields.columns.rows(), &rows));
            return Ok(true);
        }
        let Some(column) = fields.get(name)? else { return Ok(false) };
        let (column, pulse) = (&*column, fields.pulse);
        if column.values() / VALUES_PER_ROW_MAX > bits.count() {
            self.matcher.retain(bits, pulse, |row, test| test(column.get(row)));
            return Ok(true);
        }
        match column.places() {
            Places::All(place) => {
                if !self.matcher.passes(column.value(*place), pulse) {
                    bits.clear();
                }
            }
            Places::Each => bits.intersect(&self.passing(column, pulse)),
            Places::Listed(places) => {
                let (passing, none) = (self.passing(column, pulse), self.matcher.takes_empty());
                let keeps = |place: u32| match place {
                    NO_VALUE => none,
                    place => passing.contains(place as usize),
                };
                bits.retain(|row| keeps(places[row]));
            }
            Places::Classes(classes, places) => {
                let passing = self.passing(column, pulse);
                let keeps = |&place: &u32| match place {
                    NO_VALUE => self.matcher.takes_empty(),
                    place => passing.contains(place as usize),
                };
                let keeps: Vec<bool> = places.iter().map(keeps).collect();
                if !keeps.iter().all(|keep| *keep) {
                    bits.retain(|row| keeps[classes[row] as usize]);
                }
            }
        }
        Ok(true)
    }

    /// The values in the rows, in their order, where these are few, and the values of a block take
    /// long to read. None for words that outlines decide without any value.
    fn few_values<'c>(
        &self,
        name: &str,
        fields: &Fields<'c>,
        bits: &Bitmap,
    ) -> Result<Option<FieldColumn<'c>>, SourceError> {
        if bits.count() * FEW_PARTS > fields.columns.rows() {
            return Ok(None);
        }
        let is_word = self.by_outline || self.text.as_ref().is_some_and(TextTest::is_by_outline);
        if is_word && fields.columns.passing_outlines(name, &|_| false)?.is_some() {
            return Ok(None);
        }
        fields.get_of(name, bits)
    }

    /// The indexes of the values that pass.
    fn passing(&self, column: &FieldColumn<'_>, pulse: &Pulse<'_>) -> Bitmap {
        let mut passing = Bitmap::empty(column.values());
        if let (Some(passes), Some(numbers)) = (self.matcher.of_numbers(), column.numbers()) {
            passing = Bitmap::full(numbers.len());
            passing.retain(|place| passes(numbers[place]));
            return passing;
        }
        match &self.probe {
            Some(Probe::Text(finder)) => column.search(
                |text, at| finder.find(&text[at..]).map(|found| at + found),
                |value, _| self.matcher.passes(value, pulse),
                |place| passing.set(place as usize),
            ),
            Some(Probe::AnyCase(expression)) => column.search(
                |text, at| {
                    let find =
                        |text: &[u8], at| expression.find(text, at, pulse).map(|found| found.start);
                    if column.gap() == 1 {
                        find_in_lines(find, text, at, (expression.piece(pulse), pulse))
                    } else {
                        find(text, at)
                    }
                },
                |value, _| self.matcher.passes(value, pulse),
                |place| passing.set(place as usize),
            ),
            // A match has at least one byte and contains no newline: its last byte is in the value.
            Some(Probe::Lines(regex)) if column.gap() == 1 => {
                let search = regex.for_text(column.text());
                column.search(
                    |text, at| {
                        let find =
                            |text: &[u8], at| search.match_end(text, at, pulse).map(|end| end - 1);
                        find_in_lines(find, text, at, (regex.piece(pulse), pulse))
                    },
                    |_, _| true,
                    |place| passing.set(place as usize),
                );
            }
            _ => {
                passing = Bitmap::full(column.values());
                let value = |place: usize| column.value(place as u32);
                self.matcher.retain(&mut passing, pulse, |place, test| test(value(place)));
            }
        }
        passing
    }
}

/// The first result of `find` at or behind `at`; `find` must not find matches that span lines. Some
/// lines are searched at a time, at most about as many bytes as the engine searches between two
/// checks ([`Expression::is_short`]), unless a line alone is longer. `find` counts them.
fn find_in_lines(
    find: impl Fn(&[u8], usize) -> Option<usize>,
    text: &[u8],
    mut at: usize,
    (piece, pulse): (usize, &Pulse<'_>),
) -> Option<usize> {
    while at < text.len() && !pulse.is_over() {
        let piece_end = text.len().min(at + piece);
        // Whole lines: up to the last newline in the piece, or else the first one behind it.
        let last = match piece_end == text.len() {
            true => Some(piece_end - 1),
            false => memchr::memrchr(b'\n', &text[at..piece_end]).map(|last| at + last),
        };
        let newline =
            last.or_else(|| memchr::memchr(b'\n', &text[piece_end..]).map(|more| piece_end + more));
        let end = newline.map_or(text.len(), |newline| newline + 1);
        if let Some(found) = find(&text[..end], at) {
            return (!pulse.is_over()).then_some(found);
        }
        at = end;
    }
    None
}

/// Whether the outline of a value contains a phrase at word boundaries, in any case and in the same
/// places, just if the value does: the phrase cannot stand in a number.
fn is_by_outline(phrase: &str) -> bool {
    !phrase.is_empty() && !phrase.bytes().any(|byte| byte.is_ascii_digit())
}

/// A test of the values of templates.
struct Watched<'t>(&'t ValueTest, &'t Pulse<'t>);

impl Decide for Watched<'_> {
    fn automaton(&self) -> Option<&Automaton> {
        self.0.automaton.as_ref().and_then(LazyAutomaton::get)
    }

    fn passes(&self, value: &[u8]) -> bool {
        self.0.matcher.passes(value, self.1)
    }
}

impl TextPlace {
    fn words(text: &str, is_prefix: bool) -> TextPlace {
        TextPlace::Words(Box::new(PhraseFinder::new(text, is_prefix)))
    }
}

impl TextTest {
    /// Whether the outline of a value has the text at word boundaries just if the value does.
    fn is_by_outline(&self) -> bool {
        let is_word = matches!(&self.at, TextPlace::Words(words) if !words.is_prefix());
        is_word && !self.text.iter().any(u8::is_ascii_digit)
    }

    /// The rows whose value contains the text; any rows if the query ended meanwhile.
    fn rows_in(&self, name: &str, fields: &Fields<'_>) -> Result<Option<Vec<u32>>, SourceError> {
        let Fields { columns, pulse, .. } = fields;
        let words = match &self.at {
            TextPlace::Anywhere => {
                return Ok(columns.holding(name, &self.text, Occurrences::All)?);
            }
            TextPlace::Whole => {
                let accept = |value: &[u8], _: usize| {
                    !pulse.may_continue(self.text.len()) || value.len() == self.text.len()
                };
                return Ok(columns.holding(name, &self.text, Occurrences::Accepted(&accept))?);
            }
            TextPlace::Words(words) => words,
        };
        // A text that begins again within itself takes its length for each place. When the query
        // has ended, the first place ends the search.
        let accept = |value: &[u8], at: usize| {
            !pulse.may_continue(self.text.len()) || words.accepts(value, at)
        };
        let occurrences = match words.is_prefix() {
            true => Occurrences::Accepted(&accept),
            false => Occurrences::Words(&accept),
        };
        Ok(columns.holding(name, &self.text, occurrences)?)
    }
}

impl Probe {
    fn of(test: &Test) -> Option<Probe> {
        match test {
            Test::Regex(pattern) => {
                let regex = LineRegex::new(pattern.source(), pattern.literal())?;
                return Some(Probe::Lines(Box::new(regex)));
            }
            Test::AnyCasePhrase(text) | Test::AnyCasePrefix(text)
                if !text.is_empty() && !text.contains('\n') =>
            {
                return Some(Probe::AnyCase(Box::new(any_case::expression(text))));
            }
            _ => {}
        }
        let needed = test.needed();
        let longest = needed.phrases.iter().max_by_key(|phrase| phrase.text.len());
        let longest = longest.filter(|_| !needed.any || needed.phrases.len() == 1)?;
        let finder = Finder::new(longest.text.as_bytes()).into_owned();
        Some(Probe::Text(Box::new(finder)))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use record::Batch;
    use record::columns::{ColumnError, ValueCounts};

    use super::*;
    use crate::base::RunError;

    const ROWS: usize = 100;

    /// Each row has its number as `host`, and a message that can be read of some rows, but not of
    /// all, and not be searched.
    struct Rows {
        has_outlines: bool,
        /// Rows whose message was read.
        read: Cell<usize>,
    }

    fn message(row: u32) -> String {
        format!("message {row} of {}", row % 2)
    }

    fn values(values: impl Iterator<Item = String>) -> FieldColumn<'static> {
        let (mut text, mut ends) = (Vec::new(), Vec::new());
        for value in values {
            text.extend_from_slice(value.as_bytes());
            ends.push(text.len() as u32);
        }
        FieldColumn::with_ends(text.into(), ends, 0, Places::Each)
    }

    impl Columns for Rows {
        fn rows(&self) -> usize {
            ROWS
        }
        fn times_ns(&self) -> Result<&[i64], ColumnError> {
            panic!("no time is needed")
        }
        fn names(&self) -> Vec<&str> {
            vec!["host", "_msg"]
        }
        fn field(&self, name: &str) -> Result<Option<FieldColumn<'_>>, ColumnError> {
            assert_eq!(name, "host");
            Ok(Some(values((0..ROWS).map(|row| row.to_string()))))
        }
        fn field_of(
            &self,
            name: &str,
            rows: &[u32],
        ) -> Result<Option<FieldColumn<'_>>, ColumnError> {
            assert_eq!(name, "_msg");
            self.read.set(self.read.get() + rows.len());
            Ok(Some(values(rows.iter().map(|&row| message(row)))))
        }
        fn value_counts(&self, _name: &str) -> Result<Option<ValueCounts>, ColumnError> {
            Ok(None)
        }
        fn holding(
            &self,
            name: &str,
            text: &[u8],
            _occurrences: Occurrences<'_>,
        ) -> Result<Option<Vec<u32>>, ColumnError> {
            if name == "host" {
                return Ok(None);
            }
            assert!(self.has_outlines && text == b"message", "it is not searched");
            Ok(Some((0..ROWS as u32).collect()))
        }
        fn passing_outlines(
            &self,
            _name: &str,
            test: &dyn Fn(&[u8]) -> bool,
        ) -> Result<Option<Vec<u32>>, ColumnError> {
            let rows = if test(b"message 0 of 0") { 0..ROWS as u32 } else { 0..0 };
            Ok(self.has_outlines.then(|| rows.collect()))
        }
        fn passing(
            &self,
            _name: &str,
            _test: &dyn Decide,
        ) -> Result<Option<Vec<u32>>, ColumnError> {
            panic!("it is not tested")
        }
        fn batch(&self, _rows: &[u32]) -> Result<Batch, ColumnError> {
            panic!("no line is needed")
        }
        fn batch_of(&self, _rows: &[u32], _fields: &[&str]) -> Result<Option<Batch>, ColumnError> {
            panic!("no line is needed")
        }
        fn stream_fields(&self) -> Result<Option<Vec<String>>, ColumnError> {
            panic!("no stream is needed")
        }
    }

    #[test]
    fn the_message_is_read_in_the_few_rows_that_are_left() {
        let check = |filter: &str, has_outlines: bool, expected: &[usize], read: usize| {
            let columns = Rows { has_outlines, read: Cell::new(0) };
            let query = crate::Query::parse(filter, 0).unwrap();
            let pulse = Pulse::new(|| Ok(()));
            let fields = Fields::new(&columns, &pulse, &[]);
            let mut bits = Bitmap::full(ROWS);
            assert!(
                ColumnSelector::new(query.filter()).unwrap().narrow(&fields, &mut bits).unwrap()
            );
            assert_eq!(bits.iter().collect::<Vec<_>>(), expected, "{filter}");
            assert_eq!(columns.read.get(), read, "{filter}");
        };
        for has_outlines in [false, true] {
            check("host:in(7, 8, 93) 1", has_outlines, &[7, 93], 3);
            check("host:in(7, 8, 93) *\"of 0\"*", has_outlines, &[8], 3);
            check("host:in(7, 8, 93) 93*", has_outlines, &[93], 3);
            check("host:in(7, 8, 93) ~\"message [78] of\"", has_outlines, &[7, 8], 3);
            check("host:in(7, 8, 93) !0", has_outlines, &[7, 93], 3);
        }
        // Outlines decide words without a digit, and no message is read.
        check("host:in(7, 8) message", true, &[7, 8], 0);
        check("host:in(7, 8) i(MESSAGE)", true, &[7, 8], 0);
        check("host:in(7, 8) message", false, &[7, 8], 2);
    }

    #[test]
    fn a_search_of_a_column_ends_when_the_query_does() {
        let text = "some words, no number\n".repeat(40_000);
        let values = 40_000;
        let column = || FieldColumn::of_lines(text.as_bytes().into(), values, Places::Each);
        let parse = |text: &str| {
            let query = crate::Query::parse(text, 0).unwrap();
            let Filter::Field { test, .. } = query.filter() else { panic!("{text}") };
            ValueTest::new(test)
        };
        for (filter, ended_in) in [
            ("words", "each value that holds it"),
            ("i(words)", "any value"),
            ("~\"[0-9]{3}\"", "lines without a match"),
            ("~\"[a-z]+ words\"", "lines with a match"),
        ] {
            let checks = Cell::new(0);
            let check = || {
                checks.set(checks.get() + 1);
                if checks.get() == 3 { Err(RunError::Cancelled) } else { Ok(()) }
            };
            let pulse = Pulse::new(check);
            let found = parse(filter).passing(&column(), &pulse);
            assert!(pulse.is_over(), "{filter}: {ended_in}");
            assert!(found.count() < values, "{filter}: {}", found.count());
            assert_eq!(checks.get(), 3, "{filter}");
            assert!(matches!(pulse.end(), Err(RunError::Cancelled)));
        }
    }
}

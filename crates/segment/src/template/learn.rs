//! Learns templates from the values of a column: which text is static and which varies.
//!
//! 1. Tokens with a digit vary, all others are static. Values that are then equal share a *shape*.
//! 2. Shapes that differ in one token only, and have few rows each, become one shape in which this
//!    token varies. Repeated until no more can be merged.
//! 3. Shapes with few rows are cut behind the longest prefix that enough of them share; the rest of
//!    the value is one slot, and may be split again as a column of its own.
//!
//! The time is linear in the tokens of the values plus, per round, the tokens of the shapes.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::texts::Span;
use super::token::{Grain, Token, cut};
use crate::hash::{fold, hash64};

/// The hash that stands for a varying token.
const VARIES: u64 = 0x5bd1_e995_97f4_a7c1;
/// Rounds of merging, which is also how many tokens of one shape can become varying by merging.
const ROUNDS_MAX: usize = 8;
/// Limit on the tokens of shapes examined in all rounds; beyond it, the shapes stay as they are.
const MERGE_TOKENS_MAX: usize = 1 << 21;
/// How many shapes must differ in the same token for it to vary.
const MERGE_SHAPES_MIN: u32 = 3;
/// Average rows per shape; above this, the differing words stay static.
const MERGE_ROWS_MEAN_MAX: u32 = 64;
/// A shape with fewer rows does not get a template of its own.
const SHAPE_ROWS_MIN: u32 = 4;
/// How many rows must share a prefix for a template that ends behind it.
const BEGINNING_ROWS_MIN: u32 = 8;

type Map<K, V> = HashMap<K, V, FixedState>;

/// The split values.
#[derive(Debug)]
pub(super) struct Split {
    /// Each template: its static texts, with a slot between any two.
    pub templates: Vec<Vec<Vec<u8>>>,
    /// The template of each value.
    pub ids: Vec<u32>,
    /// The values of each column (see [`super::trie`]), in the order of the rows that have one.
    pub columns: Vec<Vec<Span>>,
}

/// Values with the same tokens, except for those that vary.
struct Shape {
    /// One row with this shape.
    row: u32,
    rows: u32,
    /// For each token of the value: its hash, or [`VARIES`], and the hash of the text before it.
    tokens: Vec<(u64, u64)>,
    /// The shape it was merged into.
    merged: Option<u32>,
    /// If the rest of the value is a slot, how many tokens are before it.
    beginning: Option<u32>,
}

struct Cut<'a> {
    text: &'a [u8],
    spans: &'a [Span],
    tokens: Vec<Token>,
    /// Where the tokens of each value end.
    token_ends: Vec<u32>,
}

impl Cut<'_> {
    fn tokens(&self, row: u32) -> &[Token] {
        let row = row as usize;
        let start = if row == 0 { 0 } else { self.token_ends[row - 1] as usize };
        &self.tokens[start..self.token_ends[row] as usize]
    }
}

/// Splits values into templates and columns.
pub(super) fn learn(text: &[u8], spans: &[Span], grain: Grain) -> Split {
    let mut values = Cut { text, spans, tokens: Vec::new(), token_ends: Vec::new() };
    for span in spans {
        cut(span.of(text), span.start, grain, &mut values.tokens);
        values.token_ends.push(values.tokens.len() as u32);
    }
    let (mut shapes, mut by_key, row_shapes) = shapes_of(&values);
    let mut tokens_left = MERGE_TOKENS_MAX;
    for _ in 0..ROUNDS_MAX {
        let tokens: usize = shapes.iter().map(|shape| shape.tokens.len()).sum();
        if tokens > tokens_left || !merge(&mut shapes, &mut by_key) {
            break;
        }
        tokens_left -= tokens;
    }
    cut_rare(&mut shapes);
    extract(&values, &shapes, &row_shapes)
}

/// The contribution of a token to the key of its shape.
#[inline]
fn part(at: usize, before: u64, hash: u64) -> u64 {
    fold(
        hash ^ 0x2545_f491_4f6c_dd1d,
        before.wrapping_add((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)),
    )
}

/// A hash that is fast for short texts: up to seven bytes are their own hash.
#[inline]
fn quick_hash(text: &[u8], start: usize, end: usize) -> u64 {
    let length = end - start;
    if length < 8
        && let Some(eight) = text.get(start..start + 8)
    {
        let word = u64::from_le_bytes(eight.try_into().expect("eight bytes"));
        return (word & ((1 << (8 * length)) - 1)) | (length as u64) << 56;
    }
    quick_hash_by_copy(&text[start..end])
}

fn quick_hash_by_copy(bytes: &[u8]) -> u64 {
    if bytes.len() >= 8 {
        return hash64(bytes);
    }
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(eight) | (bytes.len() as u64) << 56
}

/// The shape of each value. The key of a shape is the sum of the hashes of its tokens and their
/// positions, so that the key with one token varying can be computed at once.
fn shapes_of(values: &Cut<'_>) -> (Vec<Shape>, Map<u64, u32>, Vec<u32>) {
    let mut shapes: Vec<Shape> = Vec::new();
    let mut by_key: Map<u64, u32> = Map::default();
    let mut row_shapes = Vec::with_capacity(values.spans.len());
    let mut hashes = Vec::new();
    for (row, span) in values.spans.iter().enumerate() {
        hashes.clear();
        let mut key = 0u64;
        let mut from = span.start;
        let tokens = values.tokens(row as u32);
        for (at, token) in tokens.iter().enumerate() {
            let (start, end) = (token.span.start as usize, token.span.end as usize);
            let before = quick_hash(values.text, from as usize, start);
            let hash = if token.digit { VARIES } else { quick_hash(values.text, start, end) };
            key = key.wrapping_add(part(at, before, hash));
            hashes.push((hash, before));
            from = token.span.end;
        }
        let behind = quick_hash(values.text, from as usize, span.end as usize);
        key = key.wrapping_add(part(tokens.len(), behind, 0));
        let id = *by_key.entry(key).or_insert_with(|| {
            let tokens = hashes.clone();
            shapes.push(Shape { row: row as u32, rows: 0, tokens, merged: None, beginning: None });
            shapes.len() as u32 - 1
        });
        shapes[id as usize].rows += 1;
        row_shapes.push(id);
    }
    // Keys were only needed by content; merging needs them by shape.
    (shapes, by_key, row_shapes)
}

/// Merges shapes that differ in one token. Returns whether any were merged.
fn merge(shapes: &mut Vec<Shape>, by_key: &mut Map<u64, u32>) -> bool {
    let mut keys = vec![0u64; shapes.len()];
    for (&key, &id) in by_key.iter() {
        keys[id as usize] = key;
    }
    // For each key with one token varying: the number of shapes with this key, and of their rows.
    let mut groups: Map<u64, (u32, u32)> = Map::default();
    let varied = |shape: &Shape, key: u64, at: usize| {
        let (hash, before) = shape.tokens[at];
        let constant = part(at, before, hash);
        (hash != VARIES).then(|| key.wrapping_sub(constant).wrapping_add(part(at, before, VARIES)))
    };
    for (shape, &key) in shapes.iter().zip(&keys) {
        if shape.merged.is_some() {
            continue;
        }
        for at in 0..shape.tokens.len() {
            if let Some(other) = varied(shape, key, at) {
                let group = groups.entry(other).or_default();
                group.0 += 1;
                group.1 += shape.rows;
            }
        }
    }
    let wanted = |&(members, rows): &(u32, u32), exists: bool| {
        members + 2 * u32::from(exists) >= MERGE_SHAPES_MIN && rows / members <= MERGE_ROWS_MEAN_MAX
    };
    let mut any = false;
    for id in 0..shapes.len() {
        let shape = &shapes[id];
        if shape.merged.is_some() {
            continue;
        }
        let key = keys[id];
        let best = (0..shape.tokens.len())
            .filter_map(|at| Some((at, varied(shape, key, at)?)))
            .filter(|(_, other)| {
                let exists = by_key.get(other).is_some_and(|&id| (id as usize) < keys.len());
                wanted(&groups[other], exists)
            })
            .max_by_key(|(at, other)| (groups[other].0, std::cmp::Reverse(*at)));
        let Some((at, other)) = best else { continue };
        any = true;
        let rows = shape.rows;
        let into = match by_key.get(&other) {
            Some(&into) => into,
            None => {
                let mut tokens = shape.tokens.clone();
                tokens[at].0 = VARIES;
                let row = shape.row;
                shapes.push(Shape { row, rows: 0, tokens, merged: None, beginning: None });
                let into = shapes.len() as u32 - 1;
                by_key.insert(other, into);
                into
            }
        };
        shapes[id].merged = Some(into);
        let root = root_of(shapes, into);
        shapes[root as usize].rows += rows;
    }
    any
}

fn root_of(shapes: &[Shape], mut id: u32) -> u32 {
    while let Some(into) = shapes[id as usize].merged {
        id = into;
    }
    id
}

/// Gives shapes with few rows a common prefix, behind which the rest of the value is one slot.
fn cut_rare(shapes: &mut [Shape]) {
    let rare = |shape: &Shape| shape.merged.is_none() && shape.rows < SHAPE_ROWS_MIN;
    let beginnings = |shape: &Shape| {
        let mut key = 0u64;
        let keys = shape.tokens.iter().enumerate().map(move |(at, &(hash, _))| {
            key = key.wrapping_add(part(at, 0, hash));
            key
        });
        keys.collect::<Vec<_>>()
    };
    let mut rows: Map<u64, u32> = Map::default();
    for shape in shapes.iter().filter(|s| rare(s)) {
        for key in beginnings(shape) {
            *rows.entry(key).or_default() += shape.rows;
        }
    }
    for shape in shapes.iter_mut() {
        if !rare(shape) {
            continue;
        }
        let keys = beginnings(shape);
        let longest = keys.iter().rposition(|key| rows[key] >= BEGINNING_ROWS_MIN);
        shape.beginning = Some(longest.map_or(0, |at| at as u32 + 1));
    }
}

/// The templates of the remaining shapes, and the columns of their slots.
fn extract(values: &Cut<'_>, shapes: &[Shape], row_shapes: &[u32]) -> Split {
    let text = values.text;
    let roots: Vec<u32> = (0..shapes.len() as u32).map(|id| root_of(shapes, id)).collect();
    let mut by_pieces: Map<Vec<Vec<u8>>, u32> = Map::default();
    let mut trie = super::trie::Trie::default();
    let mut split = Split { templates: Vec::new(), ids: Vec::new(), columns: Vec::new() };
    let mut template_columns: Vec<Vec<u32>> = Vec::new();
    let mut slots = Vec::new();
    let mut pieces = Vec::new();
    let mut known: Vec<Option<u32>> = vec![None; shapes.len()];
    for (row, span) in values.spans.iter().enumerate() {
        let root = roots[row_shapes[row] as usize];
        let shape = &shapes[root as usize];
        let tokens = values.tokens(row as u32);
        slots_of(tokens, *span, shape, text, &mut slots);
        // Rows of a shape have one template, unless a prefix cuts them or hashes collided.
        let fits = |&id: &u32| {
            let pieces: &Vec<Vec<u8>> = &split.templates[id as usize];
            let mut from = span.start;
            pieces.len() == slots.len() + 1
                && slots.iter().zip(pieces).all(|(slot, piece)| {
                    let alike = &text[from as usize..slot.start as usize] == piece;
                    from = slot.end;
                    alike
                })
                && text[from as usize..span.end as usize] == pieces[slots.len()]
        };
        let id = known[root as usize].filter(fits).unwrap_or_else(|| {
            pieces.clear();
            let mut from = span.start;
            for slot in &slots {
                pieces.push(text[from as usize..slot.start as usize].to_vec());
                from = slot.end;
            }
            pieces.push(text[from as usize..span.end as usize].to_vec());
            *by_pieces.entry(pieces.clone()).or_insert_with(|| {
                template_columns.push(trie.columns(pieces.iter().map(Vec::as_slice)));
                split.templates.push(pieces.clone());
                split.templates.len() as u32 - 1
            })
        });
        known[root as usize] = Some(id);
        split.ids.push(id);
        split.columns.resize(trie.len(), Vec::new());
        for (slot, &column) in slots.iter().zip(&template_columns[id as usize]) {
            split.columns[column as usize].push(*slot);
        }
    }
    split
}

/// The slots of a value: its varying tokens before the end of the prefix, then the rest.
fn slots_of(tokens: &[Token], span: Span, shape: &Shape, text: &[u8], slots: &mut Vec<Span>) {
    slots.clear();
    // Rows whose key collided with another shape's get one slot for the whole value.
    if tokens.len() != shape.tokens.len() {
        slots.push(span);
        return;
    }
    let whole = shape.beginning.map_or(tokens.len(), |b| b as usize);
    for (token, &(hash, _)) in tokens[..whole].iter().zip(&shape.tokens) {
        if hash == VARIES {
            slots.push(token.span);
        }
    }
    if shape.beginning.is_none() {
        return;
    }
    // One space behind the prefix is static, so that the rest begins with a word.
    let mut start = if whole == 0 { span.start } else { tokens[whole - 1].span.end };
    start += u32::from(text[start as usize..span.end as usize].first() == Some(&b' '));
    slots.push(Span { start, end: span.end });
}

#[cfg(test)]
mod tests {
    use super::super::texts::tests::spans_of;
    use super::*;

    fn templates(values: &[String]) -> Vec<String> {
        let (text, spans) = spans_of(values);
        let split = learn(&text, &spans, Grain::Line);
        let mut columns: Vec<_> = split.columns.iter().map(|c| c.iter()).collect();
        let mut trie = super::super::trie::Trie::default();
        let slots: Vec<_> =
            split.templates.iter().map(|t| trie.columns(t.iter().map(Vec::as_slice))).collect();
        for (value, &id) in values.iter().zip(&split.ids) {
            let template = &split.templates[id as usize];
            let mut rendered = template[0].clone();
            for (piece, &column) in template[1..].iter().zip(&slots[id as usize]) {
                rendered.extend_from_slice(columns[column as usize].next().unwrap().of(&text));
                rendered.extend_from_slice(piece);
            }
            assert_eq!(rendered, value.as_bytes());
        }
        assert!(columns.iter_mut().all(|c| c.next().is_none()));
        split.templates.iter().map(|t| String::from_utf8(t.join(&b'*')).unwrap()).collect()
    }

    #[test]
    fn tokens_with_digits_vary() {
        let values: Vec<_> = (0..20).map(|i| format!("took {i} ms (job {})", i * i)).collect();
        assert_eq!(templates(&values), ["took * ms (job *)"]);
    }

    #[test]
    fn many_words_in_one_position_vary() {
        let names = ["root", "anna", "ben", "carl", "dora", "emil"];
        let values: Vec<_> =
            (0..30).map(|i| format!("login of {} failed", names[i % names.len()])).collect();
        assert_eq!(templates(&values), ["login of * failed"]);
    }

    #[test]
    fn few_words_with_many_rows_are_static() {
        let values: Vec<_> = (0..400).map(|i| format!("unit {} up", ["a", "b"][i % 2])).collect();
        assert_eq!(templates(&values), ["unit a up", "unit b up"]);
    }

    #[test]
    fn rare_lines_share_a_prefix() {
        let words = "the quick brown fox jumps over a lazy dog and runs away from it";
        let words: Vec<_> = words.split(' ').collect();
        let values: Vec<_> =
            (0..14).map(|i| format!("task {i} says {}", words[i..].join(" "))).collect();
        let found = templates(&values);
        assert!(found.contains(&"task * says *".to_owned()), "{found:?}");
    }

    #[test]
    fn odd_values_come_back() {
        let values = ["", " ", "1", "\"", "a\"\"1\"2\"", "1 1", "[1][2]", "x"];
        templates(&values.map(str::to_owned));
        templates(&[]);
    }
}

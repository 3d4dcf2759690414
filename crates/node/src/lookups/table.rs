//! The rows of a table, found by their keys.

use std::collections::HashMap;
use std::net::IpAddr;

use query::source::Table;

use super::read::Records;
use super::{Matching, PATTERNS_MAX};

type Hashed<K> = HashMap<K, u32, foldhash::fast::RandomState>;

/// A table. It does not change.
#[derive(Debug)]
pub struct Rows {
    keys: Vec<String>,
    fields: Vec<String>,
    index: Index,
    /// The values of all rows, one after another.
    text: Vec<u8>,
    /// Where each value ends.
    ends: Vec<u32>,
}

#[derive(Debug)]
enum Index {
    /// By the keys, each behind its length.
    Equal(Hashed<Vec<u8>>),
    /// By length and first bits of a network, and the lengths that occur, the longest first.
    Networks(Hashed<(u8, u128)>, Vec<u8>),
    /// By the keys, and the lengths that occur, the longest first.
    Prefixes(Hashed<Vec<u8>>, Vec<usize>),
    /// In the order of the file.
    Patterns(Vec<Vec<u8>>),
}

impl Rows {
    /// The table of a file; the error says what is wrong with the file.
    pub fn new(records: Records, keys: &[String], matching: Matching) -> Result<Rows, String> {
        let Records { names, rows } = records;
        for (place, name) in names.iter().enumerate() {
            if names[..place].contains(name) {
                return Err(format!("it has the field '{name}' twice"));
            }
        }
        let keys = match keys {
            [] => names.first().cloned().into_iter().collect(),
            keys => keys.to_vec(),
        };
        let place = |key: &String| {
            let place = names.iter().position(|name| name == key);
            place.ok_or_else(|| format!("it has no field '{key}'; it has {}", names.join(", ")))
        };
        let places = keys.iter().map(place).collect::<Result<Vec<usize>, String>>()?;
        if matching != Matching::Equal && places.len() != 1 {
            return Err("this kind of match needs one key".to_owned());
        }
        if matching == Matching::Wildcard && rows.len() > PATTERNS_MAX {
            return Err(format!("it has more than {PATTERNS_MAX} patterns"));
        }
        let others: Vec<usize> = (0..names.len()).filter(|place| !places.contains(place)).collect();
        let mut table = Rows {
            fields: others.iter().map(|place| names[*place].clone()).collect(),
            keys,
            index: match matching {
                Matching::Equal => Index::Equal(Hashed::default()),
                Matching::Cidr => Index::Networks(Hashed::default(), Vec::new()),
                Matching::Prefix => Index::Prefixes(Hashed::default(), Vec::new()),
                Matching::Wildcard => Index::Patterns(Vec::new()),
                Matching::Mmdb => return Err("it is no database".to_owned()),
            },
            text: Vec::new(),
            ends: Vec::new(),
        };
        for (number, (line, row)) in rows.into_iter().enumerate() {
            let key: Vec<&[u8]> = places.iter().map(|place| row[*place].as_slice()).collect();
            let is_new = table.index.insert(&key, number as u32);
            let shown = || String::from_utf8_lossy(&key.join(&b", "[..])).into_owned();
            match is_new {
                Some(true) => {}
                Some(false) => return Err(format!("line {line} has the key '{}' twice", shown())),
                None => {
                    return Err(format!(
                        "line {line}: '{}' is no network, such as 10.0.0.0/8",
                        shown()
                    ));
                }
            }
            for place in &others {
                table.text.extend_from_slice(&row[*place]);
                table.ends.push(table.text.len() as u32);
            }
        }
        Ok(table)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.index {
            Index::Equal(rows) => rows.len(),
            Index::Networks(rows, _) => rows.len(),
            Index::Prefixes(rows, _) => rows.len(),
            Index::Patterns(rows) => rows.len(),
        }
    }

    /// About the memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        let keys = match &self.index {
            Index::Equal(rows) | Index::Prefixes(rows, _) => {
                rows.keys().map(|key| key.capacity() + size_of::<(Vec<u8>, u32)>() + 1).sum()
            }
            Index::Networks(rows, _) => rows.capacity() * size_of::<((u8, u128), u32)>(),
            Index::Patterns(rows) => {
                rows.iter().map(|key| key.capacity() + size_of::<Vec<u8>>()).sum()
            }
        };
        keys + self.text.capacity() + self.ends.capacity() * size_of::<u32>()
    }
}

impl Index {
    /// Whether the key is new; none if it cannot be a key.
    fn insert(&mut self, key: &[&[u8]], row: u32) -> Option<bool> {
        Some(match self {
            Index::Equal(rows) => rows.insert(joined(key), row).is_none(),
            Index::Prefixes(rows, lengths) => {
                note(lengths, key[0].len());
                rows.insert(key[0].to_vec(), row).is_none()
            }
            Index::Networks(rows, lengths) => {
                let (bits, length) = network(key[0])?;
                note(lengths, length);
                rows.insert((length, masked(bits, length)), row).is_none()
            }
            Index::Patterns(patterns) => {
                patterns.push(key[0].to_vec());
                true
            }
        })
    }

    fn find(&self, key: &[&[u8]]) -> Option<u32> {
        match self {
            Index::Equal(rows) => rows.get(&joined(key)).copied(),
            Index::Prefixes(rows, lengths) => {
                let value = key.first()?;
                let fitting = lengths.iter().filter(|length| **length <= value.len());
                fitting.filter_map(|length| rows.get(&value[..*length])).next().copied()
            }
            Index::Networks(rows, lengths) => {
                let bits = address(str::from_utf8(key.first()?).ok()?.parse().ok()?);
                let found = |length: &u8| rows.get(&(*length, masked(bits, *length)));
                lengths.iter().filter_map(found).next().copied()
            }
            Index::Patterns(patterns) => {
                let value = key.first()?;
                let place = patterns.iter().position(|pattern| fits(pattern, value));
                place.map(|place| place as u32)
            }
        }
    }
}

impl Table for Rows {
    fn keys(&self) -> &[String] {
        &self.keys
    }

    fn fields(&self) -> &[String] {
        &self.fields
    }

    fn find(&self, key: &[&[u8]], each: &mut dyn FnMut(usize, &[u8])) {
        let Some(row) = self.index.find(key) else { return };
        let first = row as usize * self.fields.len();
        for place in 0..self.fields.len() {
            let at = first + place;
            let begin = if at == 0 { 0 } else { self.ends[at - 1] as usize };
            each(place, &self.text[begin..self.ends[at] as usize]);
        }
    }
}

/// Keeps lengths in order, the longest first, each once.
fn note<T: Ord>(lengths: &mut Vec<T>, length: T) {
    if let Err(place) = lengths.binary_search_by(|known| length.cmp(known)) {
        lengths.insert(place, length);
    }
}

fn joined(key: &[&[u8]]) -> Vec<u8> {
    let mut joined = Vec::with_capacity(key.iter().map(|part| part.len() + 4).sum());
    for part in key {
        joined.extend_from_slice(&(part.len() as u32).to_le_bytes());
        joined.extend_from_slice(part);
    }
    joined
}

/// An address as one of IP version 6.
fn address(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn network(text: &[u8]) -> Option<(u128, u8)> {
    let text = str::from_utf8(text).ok()?.trim();
    let (host, length) = text.split_once('/').map_or((text, None), |(host, n)| (host, Some(n)));
    let host: IpAddr = host.parse().ok()?;
    let (bits, ahead) = if host.is_ipv4() { (32, 96) } else { (128, 0) };
    let length: u8 = length.map_or(Some(bits), |length| length.parse().ok())?;
    (length <= bits).then(|| (address(host), ahead + length))
}

fn masked(bits: u128, length: u8) -> u128 {
    if length == 0 { 0 } else { bits & (u128::MAX << (128 - length)) }
}

/// Whether a pattern with `*` and `?` fits a text.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut in_text) = (0, 0);
    // Where the last `*` stands, and how much of the text it takes.
    let mut star: Option<(usize, usize)> = None;
    while in_text < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, in_text));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == text[in_text] => {
                at += 1;
                in_text += 1;
            }
            _ => match &mut star {
                None => return false,
                Some((place, taken)) => {
                    *taken += 1;
                    at = *place + 1;
                    in_text = *taken;
                }
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

//! Counts messages by skeleton, in bounded memory; the state that is merged between threads and
//! machines.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use foldhash::fast::FixedState;

use crate::patterns::cluster::templates;
use crate::patterns::lex::VARIED;
use crate::patterns::pattern::{self, Group, Pattern, PatternId};
use crate::patterns::skeleton::Scratch;

/// Counted messages, from which [`patterns`](Counts::patterns) are made.
///
/// # What merging guarantees
///
/// While the skeletons stay below the bounds of [`Counts::new`], the state, and with it every
/// pattern, is a function of the set of messages and times alone: any order of messages, and any
/// distribution over states that are merged in any order, gives the same.
///
/// Beyond the bounds, skeletons are replaced by their templates; if these are still too many, the
/// rarest ones go into a rest without text. The number of messages and the first and last time stay
/// exact. Which messages are in the rest can then depend on the order.
#[derive(Debug)]
pub struct Counts {
    skeletons_max: usize,
    groups: HashMap<Box<[u8]>, Group, FixedState>,
    rest: Option<Group>,
    /// Bytes of all skeletons.
    skeleton_bytes: usize,
    /// Bytes of all examples, without that of the rest.
    example_bytes: usize,
}

/// A bucket of the table of groups, with its control byte.
const BUCKET_BYTES: usize = size_of::<(Box<[u8]>, Group)>() + 1;
/// What allocators add to a skeleton and to an example, together.
const ROUNDED_BYTES: usize = 16;
/// Bytes of skeletons that are kept, for each of the most skeletons.
const SKELETON_BYTES_EACH: usize = 256;
/// Memory that clustering takes for a byte of a skeleton: tokens, their hashes and their places.
const WORKING_BYTES_EACH: usize = 20;
/// The skeleton of the rest: a message that varies as a whole.
const REST: &[u8] = &[VARIED];

impl Counts {
    /// The default of most skeletons: some 5 MB with messages of usual length, and 25 MB at most.
    ///
    /// limits.md, Queries: different messages of a group of the pipe `patterns`, without their
    /// values | {}, or 4 MiB of them | their templates are kept, and of these the rarest are
    /// counted as the pattern `<*>`
    pub const SKELETONS_MAX: usize = 16_384;

    /// No messages. At most `skeletons_max` different skeletons are kept, of 256 bytes on average.
    pub fn new(skeletons_max: usize) -> Counts {
        Counts {
            skeletons_max,
            groups: HashMap::default(),
            rest: None,
            skeleton_bytes: 0,
            example_bytes: 0,
        }
    }

    /// Counts a message with its time, in nanoseconds since 1970.
    pub fn push(&mut self, message: &[u8], time_ns: Option<i64>, scratch: &mut Scratch) {
        let skeleton = scratch.skeleton(message);
        if let Some(group) = self.groups.get_mut(skeleton) {
            let before = group.example.len();
            group.add(message, time_ns);
            self.example_bytes = self.example_bytes + group.example.len() - before;
        } else {
            self.merge_group(skeleton.into(), Group::of(message, time_ns));
        }
    }

    /// Merges the messages of another state.
    pub fn merge(&mut self, other: Counts) {
        // In an order that does not depend on the layout of the table.
        for (skeleton, group) in other.into_groups() {
            self.merge_group(skeleton, group);
        }
    }

    /// Merges messages with the same skeleton: a pair of [`groups`](Counts::groups).
    pub fn merge_group(&mut self, skeleton: Box<[u8]>, group: Group) {
        if skeleton[..] == *REST {
            return self.add_to_rest(group);
        }
        match self.groups.entry(skeleton) {
            Entry::Occupied(mut known) => {
                let before = known.get().example.len();
                known.get_mut().merge(group);
                self.example_bytes = self.example_bytes + known.get().example.len() - before;
            }
            Entry::Vacant(new) => {
                self.skeleton_bytes += new.key().len();
                self.example_bytes += group.example.len();
                new.insert(group);
            }
        }
        if self.groups.len() > self.skeletons_max
            || self.skeleton_bytes > self.skeletons_max.saturating_mul(SKELETON_BYTES_EACH)
        {
            self.compact();
        }
    }

    /// All groups with their skeletons, in no order; among them the rest, if there is one. Merging
    /// them into an empty state gives the same state.
    pub fn groups(&self) -> impl Iterator<Item = (&[u8], &Group)> {
        let groups = self.groups.iter().map(|(skeleton, group)| (&skeleton[..], group));
        groups.chain(self.rest.iter().map(|rest| (REST, rest)))
    }

    /// Bytes of memory that the state holds, about.
    pub fn bytes(&self) -> usize {
        let texts = self.skeleton_bytes + self.example_bytes + self.groups.len() * ROUNDED_BYTES;
        buckets(self.groups.capacity()) * BUCKET_BYTES + texts
    }

    /// Bytes of memory that making the patterns takes for a while, about. Counting takes as much
    /// when there are too many skeletons.
    pub fn working_bytes(&self) -> usize {
        self.skeleton_bytes * WORKING_BYTES_EACH + self.groups.len() * 2 * BUCKET_BYTES
    }

    /// The messages that were given up because there were too many skeletons.
    pub fn rest(&self) -> Option<&Group> {
        self.rest.as_ref()
    }

    /// The patterns of all messages, those with the most messages first, then by text. Messages of
    /// the rest have the pattern `<*>`.
    pub fn patterns(mut self) -> Vec<Pattern> {
        // The rest takes no part in clustering: all it says is that something varies.
        let rest = self.rest.take();
        let groups = self.into_groups();
        let templates = templates(groups.iter().map(|(skeleton, _)| &skeleton[..]));
        let mut merged: HashMap<Vec<u8>, Group, FixedState> = HashMap::default();
        for (template, (_, group)) in templates.into_iter().zip(groups) {
            merge_into(&mut merged, pattern::text(&template), group);
        }
        if let Some(rest) = rest {
            merge_into(&mut merged, pattern::text(REST), rest);
        }
        let pattern =
            |(text, group): (Vec<u8>, Group)| Pattern { id: PatternId::of(&text), text, group };
        let mut patterns: Vec<Pattern> = merged.into_iter().map(pattern).collect();
        patterns.sort_unstable_by(|a, b| {
            b.group.hits.cmp(&a.group.hits).then_with(|| a.text.cmp(&b.text))
        });
        patterns
    }

    /// Says of messages that were counted which pattern they have.
    pub fn classifier(&self) -> Classifier {
        let keys: Vec<&[u8]> = self.groups.keys().map(|skeleton| &skeleton[..]).collect();
        let templates = templates(keys.iter().copied());
        let id = |template: &Vec<u8>| PatternId::of(&pattern::text(template));
        let ids = keys.iter().map(|&key| key.into()).zip(templates.iter().map(id)).collect();
        Classifier { ids, scratch: Scratch::default() }
    }

    /// Sorted groups, the rest among them.
    fn into_groups(self) -> Vec<(Box<[u8]>, Group)> {
        let mut groups: Vec<_> = self.groups.into_iter().collect();
        groups.extend(self.rest.map(|rest| (REST.into(), rest)));
        groups.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        groups
    }

    /// Replaces skeletons by their templates, and gives up the rarest ones if more than half of
    /// what may be kept is left: the next time is then a while away.
    fn compact(&mut self) {
        let mut old: Vec<_> = std::mem::take(&mut self.groups).into_iter().collect();
        old.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let templates = templates(old.iter().map(|(skeleton, _)| &skeleton[..]));
        let mut merged: HashMap<Box<[u8]>, Group, FixedState> = HashMap::default();
        for (template, (_, group)) in templates.into_iter().zip(old) {
            merge_into(&mut merged, template.into(), group);
        }
        let mut groups: Vec<_> = merged.into_iter().collect();
        groups.sort_unstable_by(|a, b| b.1.hits.cmp(&a.1.hits).then_with(|| a.0.cmp(&b.0)));
        let skeletons_max = self.skeletons_max / 2;
        (self.skeleton_bytes, self.example_bytes) = (0, 0);
        for (skeleton, group) in groups {
            let bytes = self.skeleton_bytes + skeleton.len();
            if self.groups.len() < skeletons_max && bytes <= skeletons_max * SKELETON_BYTES_EACH {
                self.skeleton_bytes = bytes;
                self.example_bytes += group.example.len();
                self.groups.insert(skeleton, group);
            } else {
                self.add_to_rest(group);
            }
        }
    }

    fn add_to_rest(&mut self, group: Group) {
        match &mut self.rest {
            Some(rest) => rest.merge(group),
            None => self.rest = Some(group),
        }
    }
}

/// Buckets of a standard hash table of this capacity: a power of two, of which one in eight, or one
/// of four, stays free.
fn buckets(capacity: usize) -> usize {
    if capacity == 0 { 0 } else { (capacity + capacity.div_ceil(7)).next_power_of_two() }
}

/// The text of the pattern of each skeleton ([`Scratch::skeleton`]), in their order; for those who
/// keep messages by skeleton themselves. Skeletons are different from each other.
pub fn texts<'a>(skeletons: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<Vec<u8>> {
    templates(skeletons).iter().map(|template| pattern::text(template)).collect()
}

fn merge_into<K: Eq + Hash>(groups: &mut HashMap<K, Group, FixedState>, key: K, group: Group) {
    match groups.entry(key) {
        Entry::Occupied(mut known) => known.get_mut().merge(group),
        Entry::Vacant(new) => {
            new.insert(group);
        }
    }
}

/// Says which pattern a message has; see [`Counts::classifier`].
#[derive(Debug)]
pub struct Classifier {
    ids: HashMap<Box<[u8]>, PatternId, FixedState>,
    scratch: Scratch,
}

impl Classifier {
    /// The pattern of a message. None if no message with its skeleton was counted, or if they were
    /// too many.
    pub fn pattern_of(&mut self, message: &[u8]) -> Option<PatternId> {
        self.ids.get(self.scratch.skeleton(message)).copied()
    }
}

//! Numbers distinct values in the order of their first occurrence: names, shared values, columns,
//! layouts.

use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct Numbered<T> {
    places: HashMap<T, u32, foldhash::fast::RandomState>,
    all: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { places: HashMap::default(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    pub(crate) fn number<Q>(&mut self, thing: &Q) -> u32
    where
        T: std::borrow::Borrow<Q>,
        Q: ?Sized + Eq + std::hash::Hash + ToOwned<Owned = T>,
    {
        if let Some(&place) = self.places.get(thing) {
            return place;
        }
        let place = self.all.len() as u32;
        self.all.push(thing.to_owned());
        self.places.insert(thing.to_owned(), place);
        place
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        &self.all[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

//! Numbers distinct values in the order of their first occurrence: names, shared values, columns,
//! layouts.

use std::collections::HashMap;

#[derive(Debug)]
pub(crate) struct Numbered<T> {
    numbers: HashMap<T, u32, foldhash::fast::RandomState>,
    all: Vec<T>,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Numbered { numbers: HashMap::default(), all: Vec::new() }
    }
}

impl<T: Clone + Eq + std::hash::Hash> Numbered<T> {
    pub(crate) fn number<Q>(&mut self, thing: &Q) -> u32
    where
        T: std::borrow::Borrow<Q>,
        Q: ?Sized + Eq + std::hash::Hash + ToOwned<Owned = T>,
    {
        if let Some(&number) = self.numbers.get(thing) {
            return number;
        }
        let number = self.all.len() as u32;
        self.all.push(thing.to_owned());
        self.numbers.insert(thing.to_owned(), number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        &self.all[number as usize]
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }
}

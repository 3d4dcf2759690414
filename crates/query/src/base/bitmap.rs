//! Which rows of a block are selected.

/// A set of row places from 0 to before `length`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
    length: usize,
}

impl Bitmap {
    /// All places.
    pub fn full(length: usize) -> Self {
        let mut words = vec![u64::MAX; length.div_ceil(64)];
        if let Some(last) = words.last_mut()
            && !length.is_multiple_of(64)
        {
            *last = (1 << (length % 64)) - 1;
        }
        Bitmap { words, length }
    }

    /// No place.
    pub fn empty(length: usize) -> Self {
        Bitmap { words: vec![0; length.div_ceil(64)], length }
    }

    /// These places.
    pub fn of(length: usize, places: &[u32]) -> Self {
        let mut set = Bitmap::empty(length);
        places.iter().for_each(|&place| set.set(place as usize));
        set
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|&w| w == 0)
    }

    pub fn count(&self) -> usize {
        self.words.iter().map(|w| w.count_ones() as usize).sum()
    }

    pub fn is_full(&self) -> bool {
        self.count() == self.length
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Keeps the places for which `keep` holds; asks only for places in the set.
    #[inline]
    pub fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        for (place, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if !keep(place * 64 + bit) {
                    *word &= !(1 << bit);
                }
            }
        }
    }

    /// Adds a place.
    #[inline]
    pub fn set(&mut self, place: usize) {
        self.words[place / 64] |= 1 << (place % 64);
    }

    /// Removes a place.
    #[inline]
    pub fn unset(&mut self, place: usize) {
        self.words[place / 64] &= !(1 << (place % 64));
    }

    /// Whether a place is in it.
    #[inline]
    pub fn contains(&self, place: usize) -> bool {
        self.words[place / 64] >> (place % 64) & 1 != 0
    }

    /// Keeps the places that are in `other` too.
    pub fn intersect(&mut self, other: &Bitmap) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    /// Takes away the places of `other`.
    pub fn subtract(&mut self, other: &Bitmap) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
    }

    /// Adds the places of `other`.
    pub fn add(&mut self, other: &Bitmap) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    /// The places, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(place, &word)| {
            let next = |w: &u64| Some(w & (w - 1)).filter(|&w| w != 0);
            std::iter::successors(Some(word).filter(|&w| w != 0), next)
                .map(move |w| place * 64 + w.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_every_length() {
        for length in [0, 1, 63, 64, 65, 200] {
            let full = Bitmap::full(length);
            assert_eq!(full.count(), length);
            assert!(full.is_full());
            let mut even = full.clone();
            even.retain(|i| i % 2 == 0);
            assert!(even.iter().eq((0..length).step_by(2)), "{length}");
            let mut odd = full.clone();
            odd.subtract(&even);
            assert!(odd.iter().eq((1..length).step_by(2)), "{length}");
            odd.add(&even);
            assert_eq!(odd, full);
            odd.intersect(&even);
            assert_eq!(odd, even);
            (1..length).step_by(2).for_each(|place| odd.set(place));
            assert_eq!(odd, full);
            assert!((0..length).all(|i| even.contains(i) == (i % 2 == 0)));
            odd.clear();
            assert_eq!(odd, Bitmap::empty(length));
            assert!(odd.is_empty());
        }
    }
}

//! Large arrays on the heap, for `serde`, which by itself stores arrays of at most 32 items.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Stores the items as a sequence.
pub(crate) fn serialize<S: Serializer, T: Serialize, const N: usize>(
    items: &[T; N],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    items.as_slice().serialize(serializer)
}

/// Reads a sequence of exactly `N` items.
pub(crate) fn deserialize<'de, D: Deserializer<'de>, T: Deserialize<'de>, const N: usize>(
    deserializer: D,
) -> Result<Box<[T; N]>, D::Error> {
    let items = Vec::<T>::deserialize(deserializer)?;
    let found = items.len();
    let items = items.into_boxed_slice().try_into();
    items.map_err(|_| D::Error::custom(format!("{found} items instead of {N}")))
}

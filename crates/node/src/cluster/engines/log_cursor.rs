//! The place of a reader in all partitions of the log, as a text: `k1-OFFSET,OFFSET,…`, the next
//! offset of each partition in their order.

/// The next offset of each partition. Those behind the last are read from their beginning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogCursor(pub Vec<u64>);

impl LogCursor {
    /// Reads a text. Errors: it is none.
    pub fn parse(text: &str) -> Result<LogCursor, String> {
        let wrong = || format!("'{text}' is no cursor of a log in partitions");
        let offsets = text.strip_prefix("k1-").ok_or_else(wrong)?;
        let offsets = offsets.split(',').filter(|offset| !offset.is_empty());
        let offsets = offsets.map(str::parse).collect::<Result<Vec<u64>, _>>();
        offsets.map(LogCursor).map_err(|_| wrong())
    }

    /// The next offset of a partition.
    pub fn offset(&self, partition: u32) -> u64 {
        self.0.get(partition as usize).copied().unwrap_or(0)
    }

    /// Sets the next offset of a partition.
    pub fn set(&mut self, partition: u32, offset: u64) {
        let place = partition as usize;
        if self.0.len() <= place {
            self.0.resize(place + 1, 0);
        }
        self.0[place] = offset;
    }

    /// Messages between the cursor and the ends of all partitions.
    pub fn left(&self, ends: &[u64]) -> u64 {
        let left =
            (0..).zip(ends).map(|(partition, end)| end.saturating_sub(self.offset(partition)));
        left.fold(0, u64::saturating_add)
    }
}

impl std::fmt::Display for LogCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("k1-")?;
        for (place, offset) in self.0.iter().enumerate() {
            write!(f, "{}{offset}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_is_written() {
        for offsets in [vec![], vec![0], vec![7, 0, u64::MAX]] {
            let cursor = LogCursor(offsets);
            assert_eq!(LogCursor::parse(&cursor.to_string()), Ok(cursor));
        }
        for text in ["", "k1", "k2/1", "k1-x", "k1--1", "a1-00000001-7", "k1-18446744073709551616"]
        {
            let error = LogCursor::parse(text).unwrap_err();
            assert!(error.contains("is no cursor"), "{error}");
        }
    }

    #[test]
    fn a_new_partition_is_read_from_its_beginning() {
        let mut cursor = LogCursor(vec![5]);
        assert_eq!((cursor.offset(0), cursor.offset(2), cursor.left(&[9, 1, 2])), (5, 0, 7));
        cursor.set(2, 2);
        assert_eq!((cursor.to_string().as_str(), cursor.left(&[9, 1, 2])), ("k1-5,0,2", 5));
        // A log that was made anew ends before the cursor.
        assert_eq!(cursor.left(&[1]), 0);
    }
}

//! Programs: what is counted in the rows of a type besides lines and bytes. Built in, one file
//! each.

mod access;
mod counts;

/// What one program adds to the summary rows of a type.
#[derive(Debug)]
pub struct Program {
    /// Name, for documents and messages.
    pub name: &'static str,
    /// Fields whose values are counted.
    pub dimensions: &'static [Dimension],
    /// Fields whose numbers are added up.
    pub sums: &'static [Sum],
}

/// Lines by the value of a field.
#[derive(Debug)]
pub struct Dimension {
    /// Name in the summary row. Without dots, and none of the row's fixed names.
    pub name: &'static str,
    /// Field of the line.
    pub field: &'static str,
}

/// A sum over the numbers in a field.
#[derive(Debug)]
pub struct Sum {
    /// Name in the summary row. Without dots, and none of the row's fixed names.
    pub name: &'static str,
    /// Field of the line; a value that is not a whole number from 0 adds nothing.
    pub field: &'static str,
}

/// The counts for all types.
static COMMON: &[&Program] = &[&counts::PROGRAM];
/// Types with additional programs, with all their programs.
static BY_TYPE: &[(&str, &[&Program])] = &[(access::TYPE, &[&counts::PROGRAM, &access::PROGRAM])];

/// The programs for lines of a type: the counts for all types, and those for this type.
pub fn programs(log_type: &str) -> &'static [&'static Program] {
    BY_TYPE.iter().find(|(name, _)| *name == log_type).map_or(COMMON, |(_, programs)| programs)
}

/// All fields that are counted for some type; some occur several times.
pub(crate) fn counted_fields() -> impl Iterator<Item = &'static str> {
    let all = BY_TYPE.iter().flat_map(|(_, programs)| *programs).chain(COMMON);
    all.flat_map(|p| {
        p.dimensions
            .iter()
            .map(|dimension| dimension.field)
            .chain(p.sums.iter().map(|sum| sum.field))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unambiguous_in_a_row() {
        for log_type in BY_TYPE.iter().map(|(name, _)| *name).chain(["anything"]) {
            let mut seen: Vec<&str> = crate::summary::row::FIXED_KEYS.to_vec();
            for program in programs(log_type) {
                let sums = program.sums.iter().map(|s| s.name);
                for name in program.dimensions.iter().map(|d| d.name).chain(sums) {
                    assert!(!name.contains('.') && !name.starts_with('_'), "{name}");
                    assert!(!seen.contains(&name), "{name} twice");
                    seen.push(name);
                }
            }
        }
    }
}

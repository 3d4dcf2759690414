//! The loader that the kernel executes beside a dynamically linked binary: it needs the right to be
//! executed too.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Program headers and the name of the loader stand at the start of a file.
const HEAD_BYTES: u64 = 64 << 10;
/// Type of the program header that names the loader.
const PT_INTERP: u32 = 3;

/// The loader of the binary `path`; none if it is static, or no 64-bit little-endian ELF file.
pub(super) fn loader(path: &Path) -> Option<PathBuf> {
    let mut head = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut head).ok()?;
    let name = loader_name(&head)?;
    Some(PathBuf::from(String::from_utf8(name.to_vec()).ok()?))
}

fn loader_name(head: &[u8]) -> Option<&[u8]> {
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let table = usize::try_from(number::<8>(head, 32)?).ok()?;
    let entry_bytes = number::<2>(head, 54)? as usize;
    let entries = number::<2>(head, 56)? as usize;
    for i in 0..entries {
        let entry = table.checked_add(i.checked_mul(entry_bytes)?)?;
        if number::<4>(head, entry)? as u32 == PT_INTERP {
            let start = usize::try_from(number::<8>(head, entry.checked_add(8)?)?).ok()?;
            let bytes = usize::try_from(number::<8>(head, entry.checked_add(32)?)?).ok()?;
            let name = head.get(start..start.checked_add(bytes)?)?;
            return name.split(|byte| *byte == 0).next();
        }
    }
    None
}

/// The little-endian number of `N` bytes at `at`.
fn number<const N: usize>(head: &[u8], at: usize) -> Option<u64> {
    let bytes = head.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loader_of_a_binary_exists() {
        let loader = loader(Path::new("/usr/bin/gawk")).expect("install gawk");
        assert!(loader.exists(), "{loader:?}");
    }

    #[test]
    fn cut_and_changed_files_have_none() {
        let head = std::fs::read("/usr/bin/gawk").expect("install gawk");
        for end in 0..600 {
            let _ = loader_name(&head[..end]);
        }
        for at in 0..600 {
            let mut changed = head[..4096].to_vec();
            changed[at] ^= 0xff;
            let _ = loader_name(&changed);
        }
        assert_eq!(loader(Path::new("/etc/passwd")), None);
    }
}

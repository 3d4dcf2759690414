//! Refuses programs whose expressions nest so deeply that the compiler, the interpreter or the drop
//! of the program would overflow the stack, which ends the process.
//!
//! The depth is an upper bound, counted on characters instead of the grammar: open brackets, and
//! in each bracket the operators since the last line that neither ends with an operator nor is
//! continued by the next one with an operator. Templates in texts (`{{ a }}`) are operators as
//! well.

/// Depth of a program, at most. The deepest programs of the tests run on half of the 2 MiB that a
/// thread has.
pub(super) const DEPTH_MAX: usize = 128;
const OPERATORS: &[u8] = b"+-*/%!=<>&|?";
/// Words that take an expression behind them, or continue one.
const WORDS: [&str; 4] = ["else", "if", "return", "abort"];

/// The line at which a program is too deep, and what to do.
pub(super) fn check(text: &str) -> Result<(), (usize, String)> {
    let bytes = text.as_bytes();
    // Operators of each open bracket; the first are those outside of all.
    let mut levels: Vec<usize> = vec![0];
    let mut operators = 0;
    let (mut at, mut line, mut was_operator) = (0, 1, false);
    while at < bytes.len() {
        let byte = bytes[at];
        match byte {
            b'\n' => {
                line += 1;
                let next = bytes[at..].trim_ascii_start();
                let is_continued = was_operator
                    // Behind a comment, the line after it decides.
                    || next.first().is_some_and(|next| *next == b'#' || OPERATORS.contains(next))
                    || next.starts_with(b"else");
                if !is_continued && let Some(level) = levels.last_mut() {
                    operators -= std::mem::take(level);
                }
            }
            b'#' => at += until(bytes, at, b'\n').saturating_sub(1),
            b'"' | b'\'' => {
                let end = text_end(bytes, at);
                let templates = bytes[at..end].windows(2).filter(|pair| pair == b"{{").count();
                add(&mut levels, &mut operators, templates);
                line += bytes[at..end].iter().filter(|byte| **byte == b'\n').count();
                was_operator = false;
                at = end - 1;
            }
            b'(' | b'[' | b'{' => {
                levels.push(0);
                was_operator = false;
            }
            b')' | b']' | b'}' => {
                if levels.len() > 1 {
                    operators -= levels.pop().unwrap_or_default();
                }
                was_operator = false;
            }
            _ if OPERATORS.contains(&byte) => {
                // `==` and the like are one operator, `!!` are two.
                let is_first = at == 0 || !OPERATORS.contains(&bytes[at - 1]);
                add(&mut levels, &mut operators, usize::from(is_first || byte == b'!'));
                was_operator = true;
            }
            _ if is_word(byte) => {
                let end = at + bytes[at..].iter().take_while(|byte| is_word(**byte)).count();
                let word = &bytes[at..end];
                // `else if` is one level.
                let is_counted = word != b"if" || !bytes[..at].trim_ascii_end().ends_with(b"else");
                was_operator = WORDS.iter().any(|known| known.as_bytes() == word);
                add(&mut levels, &mut operators, usize::from(was_operator && is_counted));
                at = end - 1;
            }
            _ if byte.is_ascii_whitespace() => {}
            _ => was_operator = false,
        }
        if levels.len() - 1 + operators > DEPTH_MAX {
            let problem = format!(
                "the expression nests deeper than {DEPTH_MAX} brackets and operators; assign parts \
                 of it to variables"
            );
            return Err((line, problem));
        }
        at += 1;
    }
    Ok(())
}

fn add(levels: &mut [usize], operators: &mut usize, count: usize) {
    if let Some(level) = levels.last_mut() {
        *level += count;
        *operators += count;
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Bytes up to the next `byte`, or to the end.
fn until(bytes: &[u8], at: usize, byte: u8) -> usize {
    memchr::memchr(byte, &bytes[at..]).unwrap_or(bytes.len() - at)
}

/// The position behind the text whose quote stands at `at`.
fn text_end(bytes: &[u8], at: usize) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != bytes[at] {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    (end + 1).min(bytes.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_bounded_and_length_is_not() {
        let few = format!(".a = {}1{}", "(".repeat(100), ")".repeat(100));
        assert_eq!(check(&few), Ok(()));
        let statements = ".a = .b + 1 # + + +\n.c = \"((((\"\n".repeat(2000);
        assert_eq!(check(&statements), Ok(()));
        let deep = |text: String| check(&text).unwrap_err().0;
        assert_eq!(deep(format!(".x = 1\n.a = {}1", "(".repeat(DEPTH_MAX))), 2);
        assert_eq!(deep(format!(".a = {}true", "!".repeat(DEPTH_MAX))), 1);
        assert!(deep(format!(".a = 1{}", " +\n 1".repeat(DEPTH_MAX))) > 100);
        assert!(deep(format!(".a = 1{}", "\n + 1".repeat(DEPTH_MAX))) > 100);
        assert!(deep(format!(".a = 1{}", "\n # x\n + 1".repeat(DEPTH_MAX))) > 200);
        deep(format!(".a = \"{}\"", "{{ x }}".repeat(DEPTH_MAX)));
        deep(format!("if true {{ 1 }}{}", " else if true {\n 1 }\n".repeat(DEPTH_MAX)));
        deep("{\n".repeat(DEPTH_MAX + 1));
    }
}

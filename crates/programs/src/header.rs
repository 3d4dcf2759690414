//! The settings at the head of a program file: comments of the form `# word: value`.

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting<'a> {
    /// Number of its line, from 1.
    pub line: usize,
    /// The word in front of the colon.
    pub key: &'a str,
    /// What follows the colon, without blanks around it.
    pub value: &'a str,
}

/// The settings in the comments before the first line of code. An empty line does not end them.
/// Comments whose first word is capitalised, or followed by something other than a colon, are text
/// for the reader.
pub(crate) fn settings(text: &str) -> Vec<Setting<'_>> {
    let mut settings = Vec::new();
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let Some(comment) = line.strip_prefix('#') else { break };
        let Some((key, value)) = comment.trim_start().split_once(':') else { continue };
        let is_word = |c: char| c.is_ascii_lowercase() || c == '-' || c == '_';
        if !key.is_empty() && key.chars().all(is_word) {
            settings.push(Setting { line: i + 1, key, value: value.trim() });
        }
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_in_comments_before_the_code() {
        let text = "#!/usr/bin/awk -f\n# Counts.\n# type: access\n\n#filter:  a:b \n# Note: x\n{ n++ }\n# bucket: 5m\n";
        let found: Vec<_> = settings(text).into_iter().map(|s| (s.line, s.key, s.value)).collect();
        assert_eq!(found, [(3, "type", "access"), (5, "filter", "a:b")]);
    }
}

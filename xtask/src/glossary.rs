//! Rules for `GLOSSARY.md`: each term is defined once, and there are no more than a reader can
//! learn.

use std::path::Path;

/// Terms beyond these are explained where they are used.
const TERMS_MAX: usize = 110;

/// All violations.
pub fn faults(root: &Path) -> std::io::Result<Vec<String>> {
    Ok(judged(&std::fs::read_to_string(root.join("GLOSSARY.md"))?))
}

fn judged(text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut known: Vec<&str> = Vec::new();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    for term in rows.flat_map(|terms| terms.split(", ")).filter(|term| *term != "term") {
        if known.contains(&term) {
            faults.push(format!("GLOSSARY.md: '{term}' is defined twice"));
        }
        known.push(term);
    }
    if known.len() > TERMS_MAX {
        let terms = known.len();
        faults.push(format!(
            "GLOSSARY.md: {terms} terms, at most {TERMS_MAX}; explain some in place"
        ));
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_that_is_defined_twice_is_found() {
        let text = "| term | what it is |\n|---|---|\n| line | a |\n| live, retired | b |\n";
        assert!(judged(text).is_empty());
        let again = format!("{text}\n| term | means |\n|---|---|\n| retired | c |\n");
        assert_eq!(judged(&again), ["GLOSSARY.md: 'retired' is defined twice"]);
        let many: String = (0..=TERMS_MAX).map(|n| format!("| a{n} | b |\n")).collect();
        assert_eq!(judged(&many).len(), 1);
    }
}

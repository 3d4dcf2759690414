//! Links into the middle of a document, `[text](page.md#heading)`, lead to a heading that exists.
//! That the page exists is checked with the other rules for files.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::tidy::files;

/// All violations in the tree below `root`.
pub fn faults(root: &Path) -> std::io::Result<Vec<String>> {
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
    let mut pages = HashMap::new();
    for path in files(root)?.into_iter().filter(is_page) {
        let text = std::fs::read_to_string(&path)?;
        pages.insert(path.canonicalize()?, text);
    }
    let anchors: HashMap<&PathBuf, Vec<String>> =
        pages.iter().map(|(path, text)| (path, headings(text))).collect();
    let mut faults = Vec::new();
    for (path, text) in &pages {
        let name = path.strip_prefix(root).unwrap_or(path).display();
        // Reports of tests link to files that are made beside a report alone.
        if name.to_string().contains("/tests/golden/") {
            continue;
        }
        for (target, anchor) in links(text) {
            let page = match target {
                "" => path.clone(),
                _ => match path.parent().unwrap_or(path).join(target).canonicalize() {
                    Ok(page) => page,
                    Err(_) => continue,
                },
            };
            let Some(known) = anchors.get(&page) else { continue };
            if !known.iter().any(|known| known == anchor) {
                faults.push(format!("{name}: link to {target}#{anchor}, where no such heading is"));
            }
        }
    }
    faults.sort();
    Ok(faults)
}

/// Page and heading of each link that has a heading.
fn links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains(':')).filter_map(|target| target.split_once('#'))
}

/// The anchors of a page's headings, as GitHub makes them.
fn headings(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        let heading = line.trim_start_matches('#');
        if is_fenced || heading.len() == line.len() || !heading.starts_with(' ') {
            continue;
        }
        let slug = slug(heading.trim());
        let before = found.iter().filter(|known| **known == slug).count();
        found.push(slug.clone());
        if before > 0 {
            found.push(format!("{slug}-{before}"));
        }
    }
    found
}

fn slug(heading: &str) -> String {
    // Of a link, the text counts.
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        text.push_str(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    text.to_lowercase().chars().filter(kept).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_have_the_anchors_of_github() {
        let text =
            "# A `b.c`, and D?\n```sh\n# no heading\n```\n## [e](f.md) x\n## Same\n## Same\n#no\n";
        assert_eq!(headings(text), ["a-bc-and-d", "e-x", "same", "same", "same-1"]);
        let found: Vec<_> = links("[a](b.md#c), [d](#e), [f](https://g.invalid/#h)").collect();
        assert_eq!(found, [("b.md", "c"), ("", "e")]);
    }
}

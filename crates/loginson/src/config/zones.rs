//! Time zones in settings: names of the time zone database, offsets, and `local`.

use std::path::Path;

use anyhow::{Result, anyhow};
use record::{TypeRule, Zone};

/// The word for the zone of this machine.
const LOCAL: &str = "local";

/// Reads the zone in a setting; the error names the key.
pub fn zone(key: &str, text: &str) -> Result<Zone> {
    let text = match text {
        LOCAL => local_name(std::env::var("TZ").ok().as_deref(), Path::new("/etc"))
            .map_err(|error| anyhow!("{key}: {error}"))?,
        text => text.to_owned(),
    };
    Zone::parse(&text).map_err(|error| anyhow!("{key}: {error}"))
}

/// The name of the zone in a setting, as origins of lines have it; `None` if the setting is empty.
pub fn name(key: &str, text: &str) -> Result<Option<String>> {
    match text {
        "" => Ok(None),
        text => Ok(Some(zone(key, text)?.to_string())),
    }
}

/// Rules for types, with a name in place of `local`. Other zones are checked by the parser.
pub fn named(mut rules: Vec<TypeRule>) -> Result<Vec<TypeRule>> {
    for rule in &mut rules {
        if rule.zone.as_deref() == Some(LOCAL) {
            rule.zone = name(&format!("type rule '{}': zone", rule.name), LOCAL)?;
        }
    }
    Ok(rules)
}

/// The name of this machine's zone: that in `TZ`, or of the file that `/etc/localtime` leads to, or
/// in `/etc/timezone`. UTC if there is none of them, as for other programs.
fn local_name(variable: Option<&str>, etc: &Path) -> Result<String> {
    let of_path = |path: &str| Some(path.split_once("/zoneinfo/")?.1.to_owned());
    if let Some(text) = variable.map(|text| text.trim_start_matches(':')).filter(|t| !t.is_empty())
    {
        return Ok(of_path(text).unwrap_or_else(|| text.to_owned()));
    }
    let file = etc.join("localtime");
    let target = std::fs::read_link(&file).ok();
    if let Some(name) = target.and_then(|target| of_path(target.to_str()?)) {
        return Ok(name);
    }
    match std::fs::read_to_string(etc.join("timezone")) {
        Ok(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
        _ if !file.exists() => Ok("UTC".to_owned()),
        _ => Err(anyhow!(
            "'local' cannot be used, because {} is a copy without the name of its zone; write the name, for example \
             Europe/Berlin",
            file.display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_zone_of_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let name = |variable| local_name(variable, dir.path()).map_err(|error| error.to_string());
        assert_eq!(name(None).as_deref(), Ok("UTC"));
        assert_eq!(name(Some("")).as_deref(), Ok("UTC"));
        assert_eq!(name(Some("Asia/Tokyo")).as_deref(), Ok("Asia/Tokyo"));
        assert_eq!(name(Some(":/usr/share/zoneinfo/Asia/Tokyo")).as_deref(), Ok("Asia/Tokyo"));
        std::fs::write(dir.path().join("localtime"), "TZif").unwrap();
        assert!(name(None).unwrap_err().contains("write the name"));
        std::fs::write(dir.path().join("timezone"), "Europe/Rome\n").unwrap();
        assert_eq!(name(None).as_deref(), Ok("Europe/Rome"));
        std::fs::remove_file(dir.path().join("localtime")).unwrap();
        let target = "../usr/share/zoneinfo/Europe/Berlin";
        std::os::unix::fs::symlink(target, dir.path().join("localtime")).unwrap();
        assert_eq!(name(None).as_deref(), Ok("Europe/Berlin"));
    }

    #[test]
    fn unknown_zones_are_refused_with_a_similar_name() {
        let error = zone("syslog.zone", "Europe/Berln").unwrap_err().to_string();
        assert!(error.starts_with("syslog.zone: 'Europe/Berln' is no time zone"), "{error}");
        assert!(error.contains("did you mean 'Europe/Berlin'?"), "{error}");
        assert_eq!(name("k", "").unwrap(), None);
        assert_eq!(name("k", "europe/berlin").unwrap().as_deref(), Some("Europe/Berlin"));
        assert_eq!(name("k", "+0200").unwrap().as_deref(), Some("+02:00"));
    }
}

//! A request of Splunk's HTTP Event Collector: whole lines that are objects, or an error.
#![no_main]

use collector::body::hec::{Defaults, Events};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [how, content @ ..] = input else { return };
    let value = std::str::from_utf8(&content[..content.len().min(8)]).ok();
    let defaults = Defaults::of(|_| value.filter(|_| how % 2 == 0));
    let (mut events, mut lines) = (Events::of(content), Vec::new());
    while let Ok(true) = events.write_next(&defaults, &mut lines) {}
    for line in content.split(|&byte| byte == b'\n') {
        defaults.write_raw(line, &mut lines);
    }
    let text = std::str::from_utf8(&lines).expect("lines are UTF-8");
    for line in text.lines() {
        assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
        assert!(!line.bytes().any(|byte| byte < 0x20), "{line}");
    }
});

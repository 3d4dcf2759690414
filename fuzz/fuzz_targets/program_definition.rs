//! Any text is either a program, or an error that names one of its lines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use programs::Definition;

fuzz_target!(|text: &str| {
    match Definition::parse("fuzz", text) {
        Ok(definition) => {
            assert_eq!(definition.text, text);
            assert!(definition.log_type.is_some() || definition.filter.is_some());
            let _ = definition.warnings();
        }
        Err(error) => assert!(error.line >= 1 && error.line <= text.lines().count().max(1)),
    }
});

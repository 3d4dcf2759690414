//! The programs in `testdata/programs/` give the same rows with every AWK.

use std::path::{Path, PathBuf};

use crate::common::{interpreters, json, launcher};
use programs::{Input, InputBlock, Limits, Loaded, RunSpec, test_program};

fn folder() -> PathBuf {
    PathBuf::from("../../testdata/programs")
}

/// The sample of a program: raw lines, or values between tabs.
fn sample(input: &Input, path: &Path) -> InputBlock {
    let text = std::fs::read(path).unwrap();
    let mut block = InputBlock::new();
    match input {
        Input::Raw => block.push_text(&text),
        Input::Fields(_) => {
            for line in text.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n') {
                block.push_fields(line.split(|byte| *byte == b'\t'));
            }
        }
    }
    block
}

#[test]
fn examples_give_their_rows_with_every_awk() {
    let launcher = launcher();
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let programs: Vec<Loaded> = files.filter_map(|path| Loaded::read(&path)).collect();
    assert_eq!(programs.len(), 4);
    for definition in programs {
        let definition = definition.definition.unwrap();
        let file = |extension: &str| folder().join(&definition.name).with_extension(extension);
        let expected = std::fs::read_to_string(file("rows")).unwrap();
        for interpreter in interpreters() {
            let kind = interpreter.kind();
            let definition = definition.clone();
            let mut block = sample(&definition.input, &file("input"));
            let spec = RunSpec {
                interpreter,
                definition,
                limits: Limits::default(),
                variables: Vec::new(),
            };
            let report = test_program(&launcher, &spec, &mut block);
            let name = &spec.definition.name;
            assert_eq!(report.error, None, "{name}, {kind:?}");
            assert_eq!(report.rejected.lines, 0, "{name}, {kind:?}: {:?}", report.rejected);
            assert_eq!(report.warnings, Vec::<String>::new(), "{name}");
            assert_eq!(report.faults, [], "{name}, {kind:?}");
            assert_eq!(report.usage.lines, block.lines());
            let mut lines: Vec<String> =
                json(&report.rows).lines().map(|line| format!("{line}\n")).collect();
            // Each AWK has its own order of array elements.
            lines.sort();
            assert_eq!(lines.concat(), expected, "{name}, {kind:?}");
        }
    }
}

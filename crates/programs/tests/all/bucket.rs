//! Runs per bucket with every AWK: the outcomes of programs that mean well.

use crate::common::{error, interpreter, interpreters, launcher, rows, run, spec};
use programs::{BucketRun, InputBlock, Kind, ProgramError, Variable, test_program};
use std::time::Duration;

#[test]
fn numbers_are_exact_with_every_awk() {
    let launcher = launcher();
    let program = "{ sum += $1 } END { print \"sum=\" sum, \"big=\" 9007199254740991; print \"n=\" 0.1; \
                   printf \"{\\\"sum\\\":%s}\\n\", sum }";
    for awk in interpreters() {
        let kind = awk.kind();
        let outcome = run(&launcher, &spec(awk, program), b"4294967296\n705032704\n");
        let expected = if kind == Kind::Mawk {
            // mawk has no more than the 15 digits of the format.
            "{\"sum\":5000000000,\"big\":9007199254740990.0}\n{\"n\":0.1}\n{\"sum\":5000000000}\n"
        } else {
            "{\"sum\":5000000000,\"big\":9007199254740991}\n{\"n\":0.1}\n{\"sum\":5000000000}\n"
        };
        assert_eq!(rows(&outcome), expected, "{kind:?}");
    }
}

#[test]
fn odd_lines_stay_one_record() {
    let launcher = launcher();
    let program = "END { print \"lines=\" NR }";
    for awk in interpreters() {
        let kind = awk.kind();
        let mut run = BucketRun::start(&launcher, &spec(awk, program)).unwrap();
        let mut block = InputBlock::new();
        for line in [b"a\nb".as_slice(), b"nul \0 byte", b"", b"\xff\xfe\xe4", b"cr\r", b"\\n"] {
            block.push_raw(line);
        }
        block.push_raw(&vec![b'x'; 1 << 20]);
        run.feed(&mut block).unwrap();
        assert_eq!(rows(&run.finish()), "{\"lines\":7}\n", "{kind:?}");
    }
}

#[test]
fn variables_arrive_as_they_are() {
    let launcher = launcher();
    for awk in interpreters() {
        let kind = awk.kind();
        let mut spec = spec(awk, "END { print \"value=\" length(value), \"start=\" bucket_start }");
        spec.variables = [("value", "a\\n\"b\n\u{e4}"), ("bucket_start", "1700000000")]
            .map(|(name, value)| Variable { name: name.into(), value: value.into() })
            .to_vec();
        let outcome = run(&launcher, &spec, b"");
        assert_eq!(rows(&outcome), "{\"value\":8,\"start\":1700000000}\n", "{kind:?}");
    }
}

#[test]
fn columns_have_a_header_even_without_lines() {
    let launcher = launcher();
    let program = "# fields: a b\n{ last = $2; n = NF } END { print \"lines=\" NR, \"last=\" last, \"fields=\" n }";
    for awk in interpreters() {
        let kind = awk.kind();
        let outcome = run(&launcher, &spec(awk, program), b"");
        assert_eq!(rows(&outcome), "{\"lines\":1,\"last\":\"b\",\"fields\":2}\n", "{kind:?}");
        assert_eq!(outcome.usage.lines, 0);
    }
}

#[test]
fn rows_before_the_first_line_do_not_block() {
    let launcher = launcher();
    let program =
        "BEGIN { for (i = 0; i < 50000; i++) print \"a=\" i } END { print \"lines=\" NR }";
    let input = "line of some length\n".repeat(100_000);
    for awk in interpreters() {
        let kind = awk.kind();
        let outcome = run(&launcher, &spec(awk, program), input.as_bytes());
        let rows = rows(&outcome);
        assert_eq!(rows.lines().count(), 50_001, "{kind:?}");
        assert!(rows.ends_with("{\"lines\":100000}\n"), "{kind:?}");
        assert_eq!((outcome.usage.lines, outcome.is_input_left), (100_000, false), "{kind:?}");
    }
}

#[test]
fn endings_have_their_outcome() {
    let launcher = launcher();
    let input = "x\n".repeat(1_000_000);
    for awk in interpreters() {
        let kind = awk.kind();
        let check = |program: &str| run(&launcher, &spec(awk.clone(), program), input.as_bytes());
        let outcome = check("{ n++ }");
        assert_eq!((rows(&outcome).as_str(), outcome.is_input_left), ("", false), "{kind:?}");
        let outcome = check("BEGIN { exit }");
        assert_eq!((rows(&outcome).as_str(), outcome.is_input_left), ("", true), "{kind:?}");
        let outcome = check("NR == 3 { exit } END { print \"lines=\" NR }");
        assert_eq!((rows(&outcome).as_str(), outcome.is_input_left), ("{\"lines\":3}\n", true));
        let outcome = check("END { printf \"a=1\" }");
        assert_eq!(rows(&outcome), "{\"a\":1}\n", "{kind:?}");
        let outcome =
            check("END { print \"a=1\"; print \"oops\"; print \"a=2\"; printf \"{\\\"a\\\":\" }");
        assert_eq!(outcome.result.unwrap().len(), 2, "{kind:?}");
        assert_eq!(outcome.rejected.lines, 2);
        assert_eq!(outcome.rejected.first[0].line_number, 2);
        assert_eq!(outcome.rejected.first[1].line, "{\"a\":");
        let failed = error(check("END { print \"a=1\"; exit 3 }"));
        assert!(matches!(failed, ProgramError::Failed { code: 3, .. }), "{failed:?}");
        let failed = error(check("{ print x( }"));
        let ProgramError::Failed { stderr, .. } = failed else { panic!("{failed:?}") };
        assert!(stderr.contains("line"), "{stderr}");
    }
}

#[test]
fn the_report_names_lines_of_program_and_sample() {
    let launcher = launcher();
    let awk = interpreter(Kind::Gawk);
    let mut sample = InputBlock::new();
    sample.push_text(b"1\n2\n3\n");
    let spec = spec(awk, "{ x[1] = 1 }\nfunction f(y) { y = 1 }\nNR == 2 { f(x) }");
    let report = test_program(&launcher, &spec, &mut sample);
    let fault = &report.faults[0];
    assert_eq!((fault.program_line, fault.input_line), (Some(3), Some(2)), "{report:?}");
    assert!(matches!(report.error, Some(ProgramError::Failed { .. })));
    assert!(report.warnings[0].contains("END"));
}

#[test]
fn a_run_may_change_threads() {
    let launcher = launcher();
    let spec = spec(interpreter(Kind::Gawk), "END { print \"lines=\" NR }");
    let starter = std::thread::spawn({
        let launcher = launcher.clone();
        move || BucketRun::start(&launcher, &spec).unwrap()
    });
    // The thread that began the run has ended; the program must not notice.
    let mut run = starter.join().unwrap();
    let mut block = InputBlock::new();
    block.push_text(b"a\nb\n");
    run.feed(&mut block).unwrap();
    assert_eq!(rows(&run.finish()), "{\"lines\":2}\n");
}

#[test]
fn a_caller_need_not_wait() {
    let launcher = launcher();
    // The program reads nothing until it has printed more than a pipe holds.
    let program =
        "BEGIN { for (i = 0; i < 20000; i++) print \"a=\" i } END { print \"lines=\" NR }";
    let mut run = BucketRun::start(&launcher, &spec(interpreter(Kind::Mawk), program)).unwrap();
    let mut block = InputBlock::new();
    block.push_text("some line\n".repeat(200_000).as_bytes());
    let mut tries = 0;
    while !run.try_feed(&mut block, Duration::ZERO).unwrap() {
        tries += 1;
    }
    assert!(tries > 0);
    run.close_input();
    while !run.poll(Duration::from_millis(1)) {}
    assert!(rows(&run.finish()).ends_with("{\"lines\":200000}\n"));
}

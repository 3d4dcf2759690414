//! Messages of VoltDB, as a server wrote them and with odd bytes.

use super::*;

/// What VoltDB 10.0 answered to a login, without its length.
const LOGIN: &[u8] = b"\0\0\0\0\0\0\0\0\0\0\0\0\0\x07\0\0\x01\xa2\x18r]\xa8\x7f\0\0\x01\0\0\0!10.0_voltdb-10.0-0-g7d1c144-local";

/// A response with a table of a text and a number, as the server writes it.
fn answer(status: i8, message: Option<&str>, rows: &[(Option<&str>, i64)]) -> Vec<u8> {
    let mut out = vec![0];
    out.extend(7_i64.to_be_bytes());
    out.push(if message.is_some() { present::MESSAGE | present::EXCEPTION } else { 0 });
    out.push(status as u8);
    message.iter().for_each(|message| text(&mut out, message));
    out.push(0x80);
    out.extend(1_i32.to_be_bytes());
    if message.is_some() {
        text(&mut out, "an exception of the server");
    }
    out.extend(1_i16.to_be_bytes());
    framed(&mut out, |out| {
        framed(out, |out| {
            out.push(0x80);
            out.extend(2_i16.to_be_bytes());
            out.extend([wire_type::STRING, wire_type::BIGINT]);
            text(out, "K");
            text(out, "C_SIZE");
        });
        out.extend((rows.len() as u32).to_be_bytes());
        for (key, size) in rows {
            framed(out, |out| {
                match key {
                    Some(key) => text(out, key),
                    None => out.extend((-1_i32).to_be_bytes()),
                }
                out.extend(size.to_be_bytes());
            });
        }
    });
    out
}

#[test]
fn a_login_is_answered_with_the_build_or_a_status() {
    let sent = login();
    assert_eq!(sent.len(), 4 + 2 + 4 + 8 + 4 + HASH_BYTES);
    assert_eq!(&sent[..6], [0, 0, 0, 50, 1, 1]);
    let build = "10.0_voltdb-10.0-0-g7d1c144-local".to_owned();
    assert_eq!(logged_in(LOGIN), Ok(LoggedIn { status: 0, build }));
    assert_eq!(logged_in(&[0, 0xff]), Ok(LoggedIn { status: -1, build: String::new() }));
    for length in 0..LOGIN.len() {
        assert!(logged_in(&LOGIN[..length]).is_err(), "{length} bytes");
    }
}

#[test]
fn an_invocation_names_its_procedure_and_the_types_of_parameters() {
    let mut out = vec![9];
    let (number, key) = (Value::Integer(-2), Value::Text("ž".to_owned()));
    invocation(&mut out, 5, "T.insert", &[&number, &key]);
    let expected = [
        &[9, 0, 0, 0, 39, 0][..],
        &[0, 0, 0, 8],
        b"T.insert",
        &[0, 0, 0, 0, 0, 0, 0, 5, 0, 2],
        &[6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
        &[9, 0, 0, 0, 2, 0xc5, 0xbe],
    ];
    assert_eq!(out, expected.concat());
}

#[test]
fn responses_hold_a_status_and_tables() {
    let rows = [(Some("a"), i64::MIN), (Some(""), i64::MAX), (None, -1)];
    let found = response(&answer(1, None, &rows)).unwrap();
    assert_eq!((found.handle, found.status, &*found.message), (7, status::SUCCESS, ""));
    let [table] = &found.tables[..] else { panic!("{found:?}") };
    assert_eq!(table.columns, ["K", "C_SIZE"]);
    let text = |text: &str| Cell::Text(text.to_owned());
    let expected = [
        vec![text("a"), Cell::Integer(i64::MIN)],
        vec![text(""), Cell::Integer(i64::MAX)],
        vec![Cell::Null, Cell::Integer(-1)],
    ];
    assert_eq!(table.rows, expected);
    let failed = response(&answer(-2, Some("CONSTRAINT VIOLATION"), &[])).unwrap();
    assert_eq!((failed.status, &*failed.message), (-2, "CONSTRAINT VIOLATION"));
}

#[test]
fn other_types_of_columns_are_skipped() {
    let bytes = [vec![0xff], vec![0xff, 0xfe], vec![0, 0, 1, 0], vec![1; 8], vec![2; 16]].concat();
    let bytes = [bytes, vec![0, 0, 0, 2, 3, 3], vec![0xff; 4]].concat();
    let mut reader = Reader { message: &bytes, at: 0 };
    for (kind, cell) in [
        (wire_type::TINYINT, Cell::Integer(-1)),
        (wire_type::SMALLINT, Cell::Integer(-2)),
        (wire_type::INTEGER, Cell::Integer(256)),
        (wire_type::FLOAT, Cell::Other),
        (wire_type::DECIMAL, Cell::Other),
        (wire_type::VARBINARY, Cell::Other),
        (wire_type::VARBINARY, Cell::Other),
    ] {
        assert_eq!(reader.cell(kind), Ok(cell));
    }
    assert_eq!(reader.at, bytes.len());
    assert!(reader.cell(99).is_err());
}

#[test]
fn no_bytes_of_a_server_are_trusted() {
    let whole = answer(1, Some("said"), &[(Some("key"), 1), (None, 2)]);
    assert!(response(&whole).is_ok());
    for length in 0..whole.len() {
        assert!(response(&whole[..length]).is_err(), "{length} bytes");
    }
    // A wrong byte anywhere is an error or another answer, and never a panic or a large allocation.
    for at in 0..whole.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut wrong = whole.clone();
            wrong[at] = byte;
            let _ = response(&wrong);
        }
    }
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let length = random.usize(..80);
        let bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        let _ = (response(&bytes), logged_in(&bytes));
    }
}

//! Requests and replies of the gateway, with odd bytes.

use super::*;

/// A reply with a list of one row, as the gateway writes it.
fn rows() -> Vec<u8> {
    let mut out = Vec::new();
    call(&mut out, "getScannerResults", 7, |arguments| {
        let cells = [("a", &b"1"[..]), ("b", b"")];
        arguments.structures(0, &[cells], |row, cells| {
            row.binary(1, b"key");
            row.structures(2, cells, |cell, (name, value)| {
                cell.binary(1, b"f");
                cell.binary(2, name.as_bytes());
                cell.binary(3, value);
                cell.field(kind::I64, 4);
                cell.out.extend(i64::MIN.to_be_bytes());
            });
            row.bool(3, true);
        });
    });
    replied(out, REPLY)
}

/// A call as the reply of a server.
fn replied(mut message: Vec<u8>, kind: u32) -> Vec<u8> {
    message[..4].copy_from_slice(&kind.to_be_bytes());
    message
}

#[test]
fn a_call_ends_with_a_stop() {
    let mut out = vec![9; 99];
    call(&mut out, "get", 5, |arguments| {
        arguments.binary(1, b"t");
        arguments.structure(2, |get| get.i32(5, -1));
        arguments.binaries(3, &[b"x".to_vec()]);
        arguments.bool(4, true);
    });
    let expected = [
        &[0x80, 1, 0, 1, 0, 0, 0, 3][..],
        b"get",
        &[0, 0, 0, 5],
        &[11, 0, 1, 0, 0, 0, 1, b't'],
        &[12, 0, 2, 8, 0, 5, 0xff, 0xff, 0xff, 0xff, 0],
        &[15, 0, 3, 11, 0, 0, 0, 1, 0, 0, 0, 1, b'x'],
        &[2, 0, 4, 1],
        &[0],
    ];
    let expected = expected.concat();
    assert_eq!(out, expected);
}

#[test]
fn a_reply_holds_rows() {
    let message = rows();
    let reply = reply(&message).unwrap();
    assert_eq!((reply.sequence, reply.is_exception), (7, false));
    let rows = reply.result.structures(0).unwrap();
    let [row] = rows[..] else { panic!("{rows:?}") };
    assert_eq!(row.binary(1), Some(&b"key"[..]));
    assert_eq!(row.get(3), Some(&Field::Bool(true)));
    let cells = row.structures(2).unwrap();
    let values: Vec<_> = cells.iter().map(|cell| cell.binary(3).unwrap()).collect();
    assert_eq!(values, [&b"1"[..], b""]);
    assert_eq!(cells[0].get(4), Some(&Field::Integer(i64::MIN)));
    assert_eq!((row.binary(2), row.structures(1), row.get(9)), (None, None, None));
}

#[test]
fn types_that_are_not_used_are_skipped() {
    let mut out = Vec::new();
    call(&mut out, "any", 1, |arguments| {
        arguments.field(kind::MAP, 1);
        arguments.out.extend([kind::BINARY, kind::BYTE, 0, 0, 0, 1, 0, 0, 0, 1, b'k', 5]);
        arguments.field(kind::DOUBLE, 2);
        arguments.out.extend([1; 8]);
        arguments.field(kind::SET, 3);
        arguments.out.extend([kind::I16, 0, 0, 0, 1, 0xff, 0xfe]);
        arguments.bool(4, false);
    });
    let message = replied(out, EXCEPTION);
    let reply = reply(&message).unwrap();
    assert!(reply.is_exception);
    assert_eq!(reply.result.get(1), Some(&Field::Other));
    assert_eq!(reply.result.get(2), Some(&Field::Other));
    assert_eq!(reply.result.get(3), Some(&Field::List(vec![Field::Integer(-2)])));
    assert_eq!(reply.result.get(4), Some(&Field::Bool(false)));
}

#[test]
fn no_bytes_of_a_server_are_trusted() {
    let whole = rows();
    for length in 0..whole.len() {
        assert!(reply(&whole[..length]).unwrap_err().is_incomplete(), "{length} bytes");
    }
    let longer = [&whole[..], &[0]].concat();
    assert!(!reply(&longer).unwrap_err().is_incomplete());
    // A wrong byte anywhere is an error or another answer, and never a panic or a large allocation.
    for at in 0..whole.len() {
        for byte in [0, 1, 2, 12, 13, 15, 0x7f, 0x80, 0xff] {
            let mut wrong = whole.clone();
            wrong[at] = byte;
            let _ = reply(&wrong);
        }
    }
    // Lists in lists without end.
    let mut deep = Vec::new();
    call(&mut deep, "deep", 1, |arguments| {
        arguments.field(kind::LIST, 0);
        for _ in 0..1000 {
            arguments.out.extend([kind::LIST, 0, 0, 0, 1]);
        }
    });
    assert!(reply(&replied(deep, REPLY)).is_err());
    let mut random = fastrand::Rng::with_seed(1);
    for _ in 0..20_000 {
        let length = random.usize(..80);
        let mut bytes: Vec<u8> = (0..length).map(|_| random.u8(..)).collect();
        bytes.splice(..0, REPLY.to_be_bytes());
        let _ = reply(&bytes);
    }
}

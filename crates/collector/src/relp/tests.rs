//! Frames as librelp sends them, random messages beside a plain list, damage and limits.

use proptest::prelude::*;

use super::*;
use crate::answered::check::take;

const OPEN: &[u8] = b"1 open 86 relp_version=0\nrelp_software=librelp,1.10.0,http://librelp.adiscon.com\ncommands=syslog\n";
const OPENED: &str = "1 rsp 60 200 OK\nrelp_version=0\nrelp_software=loginson\ncommands=syslog\n";

fn syslog(txnr: u32, message: &str) -> Vec<u8> {
    format!("{txnr} syslog {} {message}\n", message.len()).into_bytes()
}

#[test]
fn a_session() {
    let bytes = [
        OPEN,
        &syslog(2, "<13>Oct 11 22:14:15 host app: text\n"),
        &syslog(3, "<13>a\nb\r\n"),
        b"4 syslog 0\n5 starttls 3 abc\n6 close 0\n7 syslog 1 x\n",
    ]
    .concat();
    let taken = take(Relp::default, &bytes);
    assert_eq!(taken.lines, ["<13>Oct 11 22:14:15 host app: text", "<13>a⏎b"]);
    let answers = format!(
        "{OPENED}2 rsp 6 200 OK\n3 rsp 6 200 OK\n4 rsp 6 200 OK\n5 rsp 24 500 command is not known\n6 rsp 0\n0 \
         serverclose 0\n"
    );
    assert_eq!(String::from_utf8(taken.answers).unwrap(), answers);
    assert!(taken.is_ended && taken.wrong.is_none());
}

#[test]
fn what_is_wrong_says_so() {
    let check = |bytes: &[u8], expected: &str| {
        let wrong = take(Relp::default, bytes).wrong;
        assert!(wrong.as_ref().is_some_and(|wrong| wrong.contains(expected)), "{wrong:?}");
    };
    check(b"GET / HTTP/1.1\r\n", "no frame of RELP");
    check(b"<13>text\n", "no frame of RELP");
    check(b"1234567890 open 0\n", "no frame of RELP");
    check(b"1 OPEN 0\n", "no frame of RELP");
    check(b"1 open 1234567890 \n", "no frame of RELP");
    check(b"1 open 3\nabc", "no frame of RELP");
    check(b"1 open 3 abcd", "no frame of RELP");
    check(b"1  3 abc\n", "no frame of RELP");
    // What cannot become a frame is refused before more comes.
    check(b"x", "no frame of RELP");
    check(b"1x", "no frame of RELP");
    check(b"1\n", "no frame of RELP");
    check(b"1 open\n", "no frame of RELP");
    check(b"1 syslog5", "no frame of RELP");
    check(b"1 syslog 5x", "no frame of RELP");
    check(b"1234567890", "no frame of RELP");
    check(format!("1 {}", "a".repeat(33)).as_bytes(), "no frame of RELP");
    check(&syslog(1, "a"), "before it has opened");
    check(format!("1 syslog {} ", LINE_BYTES_MAX + 1).as_bytes(), "maxMessageSize");
}

#[test]
fn the_begin_of_a_frame_needs_more() {
    let longest = [&b"123456789 "[..], &[b'a'; 32], b" 000000003 abc\n"].concat();
    for whole in [OPEN, &syslog(2, "<13>a line"), b"4 close 0\n", &longest] {
        for end in 0..whole.len() {
            let bytes = &whole[..end];
            let taken = take(Relp::default, bytes);
            assert_eq!((taken.rest, taken.wrong), (end, None), "{}", bytes.escape_ascii());
        }
    }
}

proptest! {
    #[test]
    fn messages_are_what_was_sent(messages in prop::collection::vec("[ -~\n]{0,30}[!-~]", 0..9)) {
        let mut bytes = OPEN.to_vec();
        let mut answers = OPENED.to_owned();
        for (txnr, message) in (2..).zip(&messages) {
            bytes.extend(syslog(txnr, message));
            answers.push_str(&format!("{txnr} rsp 6 200 OK\n"));
        }
        let taken = take(Relp::default, &bytes);
        let lines: Vec<String> = messages.iter().map(|text| text.replace('\n', "⏎")).collect();
        prop_assert_eq!((taken.lines, taken.wrong), (lines, None));
        prop_assert_eq!(taken.answers, answers.into_bytes());
    }

    #[test]
    fn damage_ends_in_an_error_or_waits(at: prop::sample::Index, byte: u8) {
        let mut bytes = [OPEN, &syslog(2, "<13>a b"), b"3 close 0\n"].concat();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        take(Relp::default, &bytes);
    }
}

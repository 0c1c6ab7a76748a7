//! Lines from a real pipe, in any pieces.

use std::io::{PipeReader, PipeWriter, Write as _, pipe};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn pair() -> (Lines<PipeReader>, PipeWriter) {
    let (reader, writer) = pipe().unwrap();
    (Lines::new(reader), writer)
}

#[test]
fn a_deadline_ends_the_wait_for_a_line_that_is_not_whole() {
    let (mut lines, mut writer) = pair();
    let deadline = || Some(Instant::now() + Duration::from_millis(5));
    assert_eq!(lines.next(deadline(), None).unwrap(), Heard::Nothing);
    writer.write_all(b"rel").unwrap();
    assert_eq!(lines.next(deadline(), None).unwrap(), Heard::Nothing);
    writer.write_all(b"ease\nhold\n").unwrap();
    assert_eq!(lines.next(None, None).unwrap(), Heard::Line(b"release"));
    assert_eq!(lines.next(None, None).unwrap(), Heard::Line(b"hold"));
    // A deadline that is over does not wait.
    assert_eq!(lines.next(Some(Instant::now()), None).unwrap(), Heard::Nothing);
    writer.write_all(b"half a line").unwrap();
    drop(writer);
    assert_eq!(lines.next(None, None).unwrap(), Heard::End);
}

#[test]
fn a_stop_comes_before_what_is_said() {
    let (mut lines, mut writer) = pair();
    let (stop, stopper) = pipe().unwrap();
    writer.write_all(b"hold\n").unwrap();
    drop(stopper);
    assert_eq!(lines.next(None, Some(stop.as_fd())).unwrap(), Heard::End);
}

proptest! {
    #[test]
    fn any_lines_in_any_pieces_come_out_whole(
        lines in proptest::collection::vec("[a-z]{0,20}|a{505,520}|b{1200}", 1..12),
        pieces in proptest::collection::vec(1_usize..700, 1..40),
    ) {
        let (mut from, mut writer) = pair();
        let mut bytes = lines.join("\n").into_bytes();
        bytes.push(b'\n');
        let mut expected = lines.iter().map(|line| (line.len() < MOST).then_some(line.as_bytes()));
        let mut rest = &bytes[..];
        for piece in pieces.into_iter().chain(std::iter::repeat(usize::MAX)) {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            writer.write_all(now).unwrap();
            rest = later;
            loop {
                match from.next(Some(Instant::now()), None).unwrap() {
                    Heard::Line(line) => prop_assert_eq!(Some(Some(line)), expected.next()),
                    Heard::TooLong => prop_assert_eq!(Some(None), expected.next()),
                    Heard::Nothing => break,
                    Heard::End => prop_assert!(false, "the pipe is open"),
                }
            }
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(expected.next(), None);
    }
}

//! Lines as they should be, and as nobody should send them.

use proptest::prelude::*;

use super::*;

const UUID: &str = "LVM-hPWtuHVkLxnQ5DLc1oqoYVDBbJEKJOLkeCMUGcdb3nFSliWJg8PRXLcbK2M9scQA";

fn request(line: &str) -> Result<Request, Bad> {
    Request::parse(line.as_bytes())
}

#[test]
fn requests_as_the_daemon_writes_them() {
    assert_eq!(request("release"), Ok(Request::Release));
    let hold = Request::Hold(parse_uuid(UUID).unwrap(), Duration::from_millis(2000));
    assert_eq!(request(&format!("hold {UUID} 2000")), Ok(hold));
    for request in [hold, Request::Release] {
        assert_eq!(Request::parse(request.to_string().as_bytes()), Ok(request));
    }
}

#[test]
fn answers_are_read_as_they_are_written() {
    for answer in [
        Answer::Ready { locked: true },
        Answer::Ready { locked: false },
        Answer::Held,
        Answer::Released(Duration::from_micros(153_001)),
        Answer::Failed("for a reason".into()),
        Answer::failed(&"on\ntwo lines\0"),
    ] {
        let line = answer.to_string();
        assert!(!line.contains(char::is_control), "{line:?}");
        assert_eq!(Answer::parse(line.as_bytes()), Some(answer));
    }
    for line in ["", "ready", "Held", "held ", "released", "released -1", "released 1 2", "failed", "held 1"]
    {
        assert_eq!(Answer::parse(line.as_bytes()), None, "{line:?}");
    }
}

#[test]
fn hostile_lines_are_refused_with_their_reason() {
    for (line, why) in [
        ("", Bad::Line),
        (" ", Bad::Line),
        ("HOLD", Bad::Line),
        ("hold", Bad::Line),
        ("release now", Bad::Line),
        ("release ", Bad::Line),
        (" release", Bad::Line),
        ("release\r", Bad::Line),
        ("hold {} 1 1", Bad::Line),
        ("hold  {} 1", Bad::Line),
        ("hold\t{} 1", Bad::Line),
        ("hold {}", Bad::Line),
        ("hold {} ", Bad::Time),
        ("hold {} 0", Bad::Time),
        ("hold {} -1", Bad::Time),
        ("hold {} +1", Bad::Time),
        ("hold {} 1.5", Bad::Time),
        ("hold {} 0x10", Bad::Time),
        ("hold {} 18446744073709551616", Bad::Time),
        ("hold vg-data 1", Bad::Uuid),
        ("hold {}-real 1", Bad::Uuid),
        ("hold {}-cow 1", Bad::Uuid),
        ("hold lvm-{} 1", Bad::Uuid),
        ("hold LVM- 1", Bad::Uuid),
        ("hold ../../{} 1", Bad::Uuid),
        ("hold {}\0 1", Bad::Uuid),
    ] {
        assert_eq!(request(&line.replace("{}", UUID)), Err(why), "{line:?}");
    }
    assert_eq!(Request::parse(b"release\xff"), Err(Bad::Line));
    assert!(request(&format!("hold {UUID} {}", u64::MAX)).is_ok(), "the process bounds every hold");
}

proptest! {
    #[test]
    fn a_line_that_is_taken_has_one_spelling(line in "(hold|release|x)?( (LVM-)?[a-zA-Z0-9]{0,70})?( [0-9]{0,20})?") {
        if let Ok(request) = Request::parse(line.as_bytes()) {
            let spelled = request.to_string();
            // A number may begin with zeros.
            prop_assert!(spelled == line || line.contains(" 0"), "{} is {}", line, spelled);
        }
    }

    #[test]
    fn no_bytes_are_too_odd_to_be_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(matches!(Request::parse(&bytes), Err(_) | Ok(Request::Release)));
        let _ = Answer::parse(&bytes);
    }
}

//! What is written down is read back as it was, and nothing else is taken for it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use proptest::prelude::*;

use super::*;

/// A witness that is a file, with a header of 100 bytes.
fn file() -> String {
    let header = format!("{:0<200}", "53514c69746520666f726d617420330010000101");
    format!("file/12/8192/1764000000.123456789/1764000001.5/{header}")
}

fn told(note: Option<&str>) -> Told {
    Told {
        cut_at: "2026-11-19T17:00:03.000456Z".parse().unwrap(),
        page_size: PageSize::new(4096).unwrap(),
        page_count: 2,
        wal: true,
        witness: Witness::read(&file()).unwrap(),
        inside: Some(PathBuf::from("/Große Läden/report=1.db")),
        note: note.map(str::to_owned),
    }
}

fn read(lines: &[String]) -> Result<Told, Unclear> {
    Told::read(lines.iter().map(String::as_str))
}

/// What LVM takes in a tag.
fn is_taken(line: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"_+.-/=!:&#".contains(&byte);
    line.len() < 1024 - "asat.".len() && line.bytes().all(known)
}

#[test]
fn lines_say_what_is_known_and_are_read_back() {
    let note = r#"{"attributes":{"label":"Größe, 2026-11-19\n"},"key":null}"#;
    let lines = told(Some(note)).lines();
    assert_eq!(lines[..3], ["cut=2026-11-19T17:00:03.000456Z", "pages=4096/2", "mode=wal"]);
    assert!(lines.iter().all(|line| is_taken(line)), "{lines:?}");
    assert_eq!(read(&lines), Ok(told(Some(note))));
    assert!(!told(None).with_wal());
    let with_log = Told { witness: Witness::read("log/12/4096/77").unwrap(), ..told(None) };
    assert_eq!(read(&with_log.lines()), Ok(with_log.clone()));
    assert!(with_log.with_wal());
}

#[test]
fn a_note_that_is_too_long_for_a_line_is_left_out() {
    let long = told(Some(&"{".repeat(400)));
    assert_eq!(read(&long.lines()), Ok(told(None)));
}

#[test]
fn a_path_that_is_no_text_or_too_long_for_a_line_is_left_out() {
    let without = Told { inside: None, ..told(None) };
    for path in [OsStr::from_bytes(b"/report-\xff.db"), OsStr::new(&"/ü".repeat(200))] {
        let told = Told { inside: Some(PathBuf::from(path)), ..told(None) };
        assert_eq!(read(&told.lines()), Ok(without.clone()));
    }
}

#[test]
fn what_is_missing_or_there_twice_or_spelled_otherwise_is_refused() {
    let lines = told(Some("{}")).lines();
    for (index, line) in lines.iter().enumerate() {
        let name = line.split('=').next().unwrap();
        let mut without = lines.clone();
        without.remove(index);
        assert_eq!(read(&without).is_ok(), ["inside", "note"].contains(&name), "{name}");
        let mut twice = lines.clone();
        twice.push(format!("{name}=1"));
        assert!(matches!(read(&twice), Err(Unclear::Missing(_))), "{name}");
    }
    let instead = |old: &str, new: &str| {
        let lines: Vec<String> = lines.iter().map(|line| line.replace(old, new)).collect();
        read(&lines)
    };
    for (old, new, what) in [
        ("03.000456Z", "03.456Z", "cut"),
        ("17:00:03.000456Z", "18:00:03.000456+01:00", "cut"),
        ("2026-11", "9999-99", "cut"),
        ("4096/2", "4096/02", "pages"),
        ("4096/2", "4097/2", "pages"),
        ("4096/2", "4096/4294967296", "pages"),
        ("4096/2", "4096", "pages"),
        ("mode=wal", "mode=WAL", "mode"),
        ("file/12", "file/-12", "witness"),
        ("file/12", "file/012", "witness"),
        ("file/12", "log/12", "witness"),
        ("53514c", "53514C", "witness"),
        ("53514c", "5351", "witness"),
        ("inside=/Gro=C3", "inside=/Gro=C", "inside"),
        ("inside=/Gro=C3", "inside=/Gro=c3", "inside"),
        ("note==7B", "note==7b", "note"),
        ("note==7B", "note=={B", "note"),
        ("note==7B", "note==FF", "note"),
        ("=7D", "=7", "note"),
    ] {
        assert_eq!(instead(old, new), Err(Unclear::Unreadable(what)), "{old} {new}");
    }
}

proptest! {
    #[test]
    fn any_note_comes_back(note in ".{0,200}") {
        let lines = told(Some(&note)).lines();
        prop_assert!(lines.iter().all(|line| is_taken(line)));
        if lines.len() == 6 {
            prop_assert_eq!(read(&lines), Ok(told(Some(&note))));
        }
    }

    #[test]
    fn anything_else_is_refused_or_has_one_spelling(lines in prop::collection::vec("(cut|pages|mode|witness|inside|note)=[0-9a-z=/.:TZ-]{0,30}", 0..8)) {
        if let Ok(told) = read(&lines) {
            prop_assert!(told.lines().iter().all(|line| lines.contains(line)));
        }
    }
}

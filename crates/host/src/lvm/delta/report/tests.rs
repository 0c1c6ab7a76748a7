//! Reports as the command writes them, and as nobody should.

use proptest::prelude::*;

use super::*;

const ASKED: Asked = Asked { numbers: [1, 2], block: 128 };

/// As version 0.9.0 writes it.
const REPORT: &str = r#"<superblock uuid="" time="2" transaction="3" data_block_size="128" nr_data_blocks="100">
  <diff left="1" right="2">
    <same begin="0" length="2"/>
    <different begin="2" length="1"/>
    <same begin="3" length="1"/>
    <same begin="4" length="2"/>
    <left_only begin="6" length="1"/>
    <right_only begin="7" length="1"/>
    <same begin="9" length="18446744073709551606"/>
  </diff>
</superblock>
"#;

#[test]
fn what_is_the_same_is_read() {
    assert_eq!(parse(REPORT, ASKED), Ok(vec![0..2, 3..6, 9..u64::MAX]));
    let one_line: String = REPORT.lines().map(str::trim).collect();
    assert_eq!(parse(&one_line, ASKED), parse(REPORT, ASKED));
    let unequal = r#"<superblock data_block_size="128"><diff left="1" right="2"></diff></superblock>"#;
    assert_eq!(parse(unequal, ASKED), Ok(Vec::new()));
}

#[test]
fn what_is_not_understood_is_an_error() {
    let cases = [
        ("superblock", "superblok"),
        ("</superblock>", "</superblock><superblock>"),
        ("</superblock>", ""),
        ("</superblock>", "</superblock >x"),
        ("</diff>", ""),
        ("</diff>", "</diff left=\"1\">"),
        ("</diff>", "<same begin=\"0\" length=\"1\"/></diff>"),
        ("data_block_size=\"128\"", "data_block_size=\"64\""),
        ("data_block_size=\"128\"", ""),
        ("data_block_size=\"128\"", "data_block_size=\"128\" data_block_size=\"128\""),
        ("left=\"1\"", "left=\"2\""),
        ("right=\"2\"", "right=\"1\""),
        ("right=\"2\"", "right=2"),
        ("left=\"1\" right", "left=\"1\"right"),
        ("<same begin=\"0\" length=\"2\"/>", "<same begin=\"0\" length=\"3\"/>"),
        ("<same begin=\"0\" length=\"2\"/>", "<same begin=\"0\" length=\"0\"/>"),
        ("<same begin=\"0\" length=\"2\"/>", "<same begin=\"0\" length=\"2\">"),
        ("<same begin=\"0\" length=\"2\"/>", "</same begin=\"0\" length=\"2\"/>"),
        ("<same begin=\"0\" length=\"2\"/>", "<same begin=\"0\"/>"),
        ("<same begin=\"0\" length=\"2\"/>", "<same begin=\"0\" length=\"2\" data_begin=\"7\"/>"),
        ("<same begin=\"0\" length=\"2\"/>", "<same begin=\"0\" end=\"2\"/>"),
        ("<same begin=\"0\" length=\"2\"/>", "<same begin=\"+0\" length=\"2\"/>"),
        ("<same begin=\"0\" length=\"2\"/>", "<same begin=\"\" length=\"2\"/>"),
        (
            "<same begin=\"0\" length=\"2\"/>",
            "<same><range begin=\"0\" data_begin=\"0\" length=\"2\"/></same>",
        ),
        ("<same begin=\"0\" length=\"2\"/>", "<!-- same --><same begin=\"0\" length=\"2\"/>"),
        ("<same begin=\"0\" length=\"2\"/>", "nothing"),
        ("<different", "<similar"),
        ("<different", "< different"),
        ("18446744073709551606", "18446744073709551607"),
        ("18446744073709551606", "18446744073709551616"),
        ("18446744073709551606", "-1"),
    ];
    for (old, new) in cases {
        let hostile = REPORT.replacen(old, new, 1);
        assert_ne!(hostile, REPORT, "{old}");
        assert!(parse(&hostile, ASKED).is_err(), "{hostile}");
    }
    for end in 0..REPORT.trim_end().len() {
        assert!(parse(&REPORT[..end], ASKED).is_err(), "{:?}", &REPORT[..end]);
    }
}

proptest! {
    #[test]
    fn nothing_brings_it_down(text in "(<|>|/|\"|=| |same|diff|superblock|begin|length|[0-9]|ä|\\PC)*") {
        let _ = parse(&text, ASKED);
    }

    #[test]
    fn what_is_read_is_always_in_order(at in 0..REPORT.len(), byte in any::<u8>()) {
        let mut bytes = REPORT.as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(same) = String::from_utf8(bytes).map_err(|_| "").and_then(|text| parse(&text, ASKED)) {
            // A number may be another one; whatever it is, the answer is in order.
            prop_assert!(same.is_sorted_by(|one, other| one.end < other.start));
            prop_assert!(same.iter().all(|range| range.start < range.end));
        }
    }
}

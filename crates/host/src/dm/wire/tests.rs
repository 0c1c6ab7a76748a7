//! Answers of the kernel, whole and damaged.

use super::*;

/// An answer with these targets, as the kernel lays them out: aligned to eight, with offsets from the first.
fn answer(targets: &[(u64, u64, &str, &str)]) -> Vec<u8> {
    let mut bytes = question(HEADER, SUSPENDED, Some(Selector::Name("vg-data"))).unwrap();
    put(&mut bytes, UUID, b"LVM-abc");
    put(&mut bytes, DEVICE, &0xfe07_u64.to_ne_bytes());
    put(&mut bytes, TARGET_COUNT, &u32::try_from(targets.len()).unwrap().to_ne_bytes());
    for (start, length, kind, text) in targets {
        let at = bytes.len();
        bytes.extend(start.to_ne_bytes());
        bytes.extend(length.to_ne_bytes());
        bytes.extend([0; 24]);
        put(&mut bytes, at + 24, kind.as_bytes());
        bytes.extend(text.as_bytes());
        bytes.push(0);
        while !(bytes.len() - HEADER).is_multiple_of(8) {
            bytes.push(0xaa);
        }
        let next = u32::try_from(bytes.len() - HEADER).unwrap();
        put(&mut bytes, at + 20, &next.to_ne_bytes());
    }
    let size = u32::try_from(bytes.len()).unwrap();
    put(&mut bytes, DATA_SIZE, &size.to_ne_bytes());
    bytes
}

fn list(names: &[(u64, &str)]) -> Vec<u8> {
    let mut bytes = question(HEADER, 0, None).unwrap();
    for (index, (device, name)) in names.iter().enumerate() {
        let at = bytes.len();
        bytes.extend(device.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(name.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        let next = if index + 1 == names.len() { 0 } else { u32::try_from(bytes.len() - at).unwrap() };
        put(&mut bytes, at + 8, &next.to_ne_bytes());
    }
    let size = u32::try_from(bytes.len()).unwrap();
    put(&mut bytes, DATA_SIZE, &size.to_ne_bytes());
    bytes
}

#[test]
fn a_state_is_read() {
    let bytes = answer(&[
        (0, 16384, "linear", ""),
        (16384, 122_880, "snapshot", "9000/139264 48 "),
        (139_264, 1, "a-kind-of-fiftee", "x"),
    ]);
    assert_eq!(state(&bytes), None, "a kind without its closing NUL");
    let bytes = answer(&[(0, 16384, "linear", ""), (16384, 122_880, "snapshot", "9000/139264 48 ")]);
    let found = state(&bytes).unwrap();
    assert_eq!((found.name.as_str(), found.uuid.as_str(), found.number), ("vg-data", "LVM-abc", (254, 7)));
    assert!(found.suspended && !found.read_only);
    assert_eq!(found.targets.len(), 2);
    assert_eq!(found.targets[1].start, Sectors(16384));
    assert_eq!(found.targets[1].text, "9000/139264 48");
    assert_eq!(state(&answer(&[])).unwrap().targets, []);
}

#[test]
fn a_list_is_read() {
    let found = devices(&list(&[(0xfe00, "vg-data"), (0xfe01, "x"), (0x1_0ff0_fe02, "")])).unwrap();
    assert_eq!(found.len(), 3);
    assert_eq!(found[1], Device { name: "x".to_owned(), number: (254, 1) });
    assert_eq!(devices(&list(&[])), Some(vec![]));
    assert_eq!(devices(&list(&[(0, "")])), Some(vec![]));
}

#[test]
fn a_damaged_answer_is_an_error_and_never_a_panic() {
    let whole = answer(&[(0, 8, "linear", ""), (8, 8, "snapshot", "Invalid"), (16, 8, "thin", "8 7")]);
    let names = list(&[(0xfe00, "vg-data"), (0xfe01, "vg-other")]);
    for end in 0..whole.len() {
        let _ = state(&whole[..end]);
    }
    for end in 0..names.len() {
        let _ = devices(&names[..end]);
    }
    // Every word of the answer takes the values that break sums and walks.
    for bytes in [&whole, &names] {
        for at in (0..bytes.len() - 4).step_by(4) {
            for value in [0, 1, 7, 40, 311, 312, 313, 0x7fff_ffff, 0xffff_ffff_u32] {
                let mut hostile = bytes.clone();
                put(&mut hostile, at, &value.to_ne_bytes());
                let (_, _) = (state(&hostile), devices(&hostile));
            }
        }
    }
    let mut looping = whole.clone();
    put(&mut looping, HEADER + 20, &0_u32.to_ne_bytes());
    assert_eq!(state(&looping), None, "a target that points at itself");
}

#[test]
fn only_names_that_a_device_can_have_are_asked_for() {
    let long = "a".repeat(128);
    for name in ["", "a\0b", &long] {
        assert!(question(HEADER, 0, Some(Selector::Name(name))).is_err(), "{name:?}");
    }
    let uuid = question(0, 0, Some(Selector::Uuid(&long))).unwrap();
    assert_eq!(uuid.len(), HEADER);
    assert_eq!(&uuid[UUID..UUID + 129], format!("{long}\0").as_bytes());
}

#[test]
fn a_buffer_that_was_too_small_is_noticed() {
    let mut bytes = question(HEADER, BUFFER_FULL, None).unwrap();
    assert!(is_too_small(&bytes));
    put(&mut bytes, FLAGS, &0_u32.to_ne_bytes());
    assert!(!is_too_small(&bytes));
    assert_eq!(version(&bytes), Some((4, 0, 0)));
}

#[test]
fn an_order_fits_a_header_on_the_stack() {
    let uuid = format!("LVM-{}", "a".repeat(64));
    let mut header = [0; HEADER];
    assert!(fill(&mut header, SUSPENDED, Some(Selector::Uuid(&uuid))));
    assert_eq!(header.to_vec(), question(HEADER, SUSPENDED, Some(Selector::Uuid(&uuid))).unwrap());
    assert!(is_suspended(&header));
    put(&mut header, FLAGS, &(SKIP_LOCKFS | NO_FLUSH).to_ne_bytes());
    assert!(!is_suspended(&header) && !is_suspended(&[]));
    let long = "a".repeat(129);
    for (bytes, name) in [(HEADER, ""), (HEADER, "a\0b"), (HEADER, &long), (HEADER - 1, "a"), (0, "a")] {
        assert!(!fill(&mut vec![0; bytes], 0, Some(Selector::Uuid(name))), "{name:?} in {bytes} bytes");
    }
}

//! What changed, what must still be there, and when a mark moves.

use super::*;

fn place(count: u32, frame: u32) -> Place {
    let mut salts = [7; 8];
    salts[..4].copy_from_slice(&count.to_be_bytes());
    Place { salts, frame, sums: (frame, frame) }
}

#[test]
fn pages_are_told_in_order_however_large_their_numbers_are() {
    let mut pages = Pages::default();
    let numbers = [u32::MAX, 5, 63, 64, 4095, 4096, 5, 1 << 30];
    numbers.into_iter().for_each(|page| pages.insert(page));
    assert!(pages.iter().eq([5, 63, 64, 4095, 4096, 1 << 30, u32::MAX]));
    assert!(pages.contains(64) && !pages.contains(65));
    let mut other = Pages::default();
    other.extend(&pages);
    assert_eq!(other, pages);
}

#[test]
fn what_changed_since_a_read_is_all_that_changed_since_then() {
    let mut changes = Changes::default();
    changes.note(9, None);
    let first = changes.begin(10);
    changes.note(3, Some(10));
    let second = changes.begin(10);
    changes.note(5, Some(12));
    assert!(changes.since(first).unwrap().pages(12).eq([1, 3, 5, 11, 12]));
    assert!(changes.since(second).unwrap().pages(12).eq([1, 5, 11, 12]));
    assert_eq!(changes.since(first), None, "it is forgotten by now");
    changes.forget();
    assert!(!changes.is_known());
    assert_eq!(changes.since(second), None);
}

#[test]
fn reads_that_led_to_no_version_take_no_more_room() {
    let mut changes = Changes::default();
    let first = changes.begin(10);
    let mut last = first;
    for page in 2..1000 {
        changes.note(page, Some(1000 - page));
        last = changes.begin(10);
    }
    changes.note(1000, None);
    assert!(changes.parts.len() <= MOST_PARTS);
    assert!(changes.clone().since(last).unwrap().pages(10).eq([1]), "ten pages were there, and ten are");
    assert!(changes.since(first).unwrap().pages(1000).eq(1..=1000));
}

#[test]
fn what_was_cut_off_for_a_while_may_differ() {
    let mut changes = Changes::default();
    let token = changes.begin(10);
    changes.note(2, Some(4));
    changes.note(10, Some(10));
    assert!(changes.since(token).unwrap().pages(10).eq([1, 2, 5, 6, 7, 8, 9, 10]));
    assert!(changes.since(token).unwrap().pages(3).eq([1, 2]));
    let token = changes.begin(0);
    assert!(changes.since(token).unwrap().pages(2).eq([1, 2]), "a store has one page at least");
}

#[test]
fn a_span_is_what_must_still_be_there() {
    let (from, to) = (place(1, 5), place(1, 9));
    for guard in [Guard::Mark, Guard::Outside, Guard::Nothing] {
        assert_eq!(span(&from, guard, &to), Ok(Span { tail: None, from, to }));
        assert_eq!(span(&from, guard, &from), Ok(Span { tail: None, from, to: from }));
        assert_eq!(span(&to, guard, &from), Err(Gap::Shorter));
        let other = Place { sums: (0, 1), ..from };
        assert_eq!(span(&from, guard, &other), Err(Gap::Broken));
    }
    let (next, after_next) = (place(2, 4), place(3, 4));
    let anew = |tail| Ok(Span { tail, from: next.start(), to: next });
    assert_eq!(span(&from, Guard::Mark, &next), Err(Gap::Reset));
    assert_eq!(span(&from, Guard::Outside, &next), anew(None));
    assert_eq!(span(&from, Guard::Nothing, &next), anew(Some(from)));
    assert_eq!(span(&from, Guard::Nothing, &after_next), Err(Gap::Reset));
    assert_eq!(span(&from.start(), Guard::Nothing, &next), Err(Gap::Reset), "nothing is there to know it by");
    assert_eq!(
        span(&place(u32::MAX, 3), Guard::Nothing, &place(0, 2)).unwrap().tail,
        Some(place(u32::MAX, 3))
    );
}

#[test]
fn a_mark_is_moved_on_and_let_go_at_half_the_bound() {
    let pace = Pace { bound: 1000 };
    let seen = Seen {
        is_moved: false,
        is_anew: false,
        is_backfilled: false,
        is_held_up: false,
        guard: Guard::Mark,
        length: 100,
        file_length: 100,
        let_go_at: 0,
        loose: Duration::ZERO,
    };
    assert_eq!(pace.next(&seen), Step::Stay);
    assert_eq!(pace.next(&Seen { is_moved: true, ..seen }), Step::Move);
    assert_eq!(pace.next(&Seen { is_backfilled: true, ..seen }), Step::Move);
    assert_eq!(pace.next(&Seen { is_backfilled: true, guard: Guard::Outside, ..seen }), Step::Stay);
    let long = Seen { length: 500, is_moved: true, ..seen };
    assert_eq!(pace.next(&long), Step::LetGo);
    assert_eq!(pace.next(&Seen { let_go_at: 500, ..long }), Step::Move, "it did not help");
    assert_eq!(pace.next(&Seen { let_go_at: 500, length: 625, ..long }), Step::LetGo);
    // What is still written then ends within the file.
    let in_long_file = Seen { length: 390, file_length: 520, ..long };
    assert_eq!(pace.next(&in_long_file), Step::LetGo);
    assert_eq!(pace.next(&Seen { length: 389, ..in_long_file }), Step::Move);
    assert_eq!(pace.next(&Seen { length: 499, file_length: 5000, ..long }), Step::Move);
    // A checkpoint that the mark holds up is made again with each commit.
    let held_up = Seen { length: 100, file_length: 520, is_held_up: true, ..long };
    assert_eq!(pace.next(&held_up), Step::LetGo);
    assert_eq!(pace.next(&Seen { let_go_at: 100, ..held_up }), Step::Move, "it did not help");
    assert_eq!(pace.next(&Seen { let_go_at: 100, length: 225, ..held_up }), Step::LetGo);
    assert_eq!(pace.next(&Seen { file_length: 120, ..held_up }), Step::Move, "it could have been cut");
    let loose = Seen { guard: Guard::Nothing, ..long };
    assert_eq!(pace.next(&loose), Step::Stay);
    assert_eq!(pace.next(&Seen { length: 60, is_anew: true, ..loose }), Step::Move);
    assert_eq!(pace.next(&Seen { is_backfilled: true, ..loose }), Step::Move);
    assert_eq!(pace.next(&Seen { loose: Duration::from_secs(6), ..loose }), Step::Move);
}

#[test]
fn a_store_that_nobody_writes_to_is_looked_at_seldom() {
    let mut pause = Pace::pause(None, Duration::ZERO);
    for _ in 0..5 {
        pause = Pace::pause(None, pause);
    }
    assert_eq!(pause, Duration::from_millis(200));
}

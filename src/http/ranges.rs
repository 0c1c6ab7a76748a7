//! Byte ranges (RFC 9110, section 14), for downloads that go on where they stopped.

/// What a `Range` header asks of a copy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// All of it: there is no range, or one that this server need not honour.
    Whole,
    /// The bytes from the first to before the second number.
    Part(u64, u64),
    /// Bytes that the copy does not have.
    Nothing,
}

/// Reads a `Range` header for a copy of `length` bytes. Several ranges at once, other units and malformed
/// headers are answered with the whole copy, as the standard allows.
pub(crate) fn wanted(header: Option<&str>, length: u64) -> Wanted {
    let Some(range) = header.and_then(|header| header.trim().strip_prefix("bytes=")) else {
        return Wanted::Whole;
    };
    let Some((first, last)) = range.trim().split_once('-') else { return Wanted::Whole };
    match (number(first), number(last)) {
        (Some(first), Some(last)) if first > last => Wanted::Whole,
        (Some(first), _) if first >= length && is_number_or_empty(last) => Wanted::Nothing,
        (Some(first), Some(last)) => Wanted::Part(first, length.min(last.saturating_add(1))),
        (Some(first), None) if last.trim().is_empty() => Wanted::Part(first, length),
        (None, Some(0)) if first.trim().is_empty() => Wanted::Nothing,
        (None, Some(_)) if first.trim().is_empty() && length == 0 => Wanted::Nothing,
        (None, Some(tail)) if first.trim().is_empty() => Wanted::Part(length.saturating_sub(tail), length),
        _ => Wanted::Whole,
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

fn is_number_or_empty(text: &str) -> bool {
    text.trim().is_empty() || number(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_copy_of_ten_bytes() {
        let cases = [
            (None, Wanted::Whole),
            (Some("bytes=0-"), Wanted::Part(0, 10)),
            (Some("bytes=0-0"), Wanted::Part(0, 1)),
            (Some("bytes=2-4"), Wanted::Part(2, 5)),
            (Some("bytes=9-"), Wanted::Part(9, 10)),
            (Some("bytes=4-99"), Wanted::Part(4, 10)),
            (Some("bytes=4-18446744073709551615"), Wanted::Part(4, 10)),
            (Some("bytes=-3"), Wanted::Part(7, 10)),
            (Some("bytes=-99"), Wanted::Part(0, 10)),
            (Some("bytes=-0"), Wanted::Nothing),
            (Some("bytes=10-"), Wanted::Nothing),
            (Some("bytes=10-12"), Wanted::Nothing),
            (Some("bytes=4-2"), Wanted::Whole),
            (Some("bytes=0-1,3-4"), Wanted::Whole),
            (Some("bytes=a-b"), Wanted::Whole),
            (Some("bytes=-"), Wanted::Whole),
            (Some("bytes=+1-2"), Wanted::Whole),
            (Some("bytes="), Wanted::Whole),
            (Some("pages=1-2"), Wanted::Whole),
        ];
        for (header, expected) in cases {
            assert_eq!(wanted(header, 10), expected, "{header:?}");
        }
        assert_eq!(wanted(Some("bytes=0-"), 0), Wanted::Nothing);
        assert_eq!(wanted(Some("bytes=-1"), 0), Wanted::Nothing);
    }
}

//! Records as bytes: numbers as varints (LEB128), texts and lists after their lengths.

use jiff::Timestamp;

/// Writes numbers and texts one after another.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    pub(super) fn length(&mut self, length: usize) {
        self.number(u64::try_from(length).unwrap_or(u64::MAX));
    }

    pub(super) fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    pub(super) fn flags<const N: usize>(&mut self, flags: [bool; N]) {
        self.number(flags.into_iter().rev().fold(0, |bits, flag| bits << 1 | u64::from(flag)));
    }

    /// An instant, exactly: whole seconds, of either sign, and the nanoseconds beside them.
    pub(super) fn instant(&mut self, at: Timestamp) {
        let seconds = at.as_second();
        self.number(seconds.unsigned_abs());
        // Both have the same sign.
        let nanoseconds = at.subsec_nanosecond();
        let is_negative = seconds < 0 || nanoseconds < 0;
        self.number(u64::from(nanoseconds.unsigned_abs()) << 1 | u64::from(is_negative));
    }
}

/// Reads what [`Writer`] has written. Everything is `None` if the bytes say something else.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    pub(super) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = self.length()?;
        std::str::from_utf8(self.take(length)?).ok()
    }

    pub(super) fn flags<const N: usize>(&mut self) -> Option<[bool; N]> {
        let bits = self.number()?;
        let mut flags = [false; N];
        for (place, flag) in flags.iter_mut().enumerate() {
            *flag = bits >> place & 1 == 1;
        }
        (bits >> N == 0).then_some(flags)
    }

    pub(super) fn instant(&mut self) -> Option<Timestamp> {
        let seconds = i64::try_from(self.number()?).ok()?;
        let bits = self.number()?;
        let nanoseconds = i32::try_from(bits >> 1).ok()?;
        let sign = if bits & 1 == 1 { -1 } else { 1 };
        Timestamp::new(seconds * sign, nanoseconds * i32::try_from(sign).ok()?).ok()
    }
}

//! The journal of systemd: whether what this process writes to its standard error goes there.

use rustix::fs::fstat;
use rustix::stdio::stderr;

/// Whether the standard error is the journal's. A service manager says so in `JOURNAL_STREAM`, which whoever starts another
/// program with other descriptors may have left behind, so that the file it names is compared (systemd.exec(5)).
#[must_use]
pub fn has_stderr() -> bool {
    let named = std::env::var("JOURNAL_STREAM").ok().and_then(|stream| parse(&stream));
    named.is_some_and(|named| fstat(stderr()).is_ok_and(|own| (own.st_dev, own.st_ino) == named))
}

/// The device and the inode of a stream, as in `8:1234`.
pub(crate) fn parse(stream: &str) -> Option<(u64, u64)> {
    let (device, inode) = stream.split_once(':')?;
    Some((device.parse().ok()?, inode.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_a_device_and_an_inode() {
        assert_eq!(parse("8:1234"), Some((8, 1234)));
        for odd in ["", ":", "8", "8:", ":1", "8:1:2", "a:b", " 8:1", "8:-1", "99999999999999999999:1"] {
            assert_eq!(parse(odd), None, "{odd:?}");
        }
    }
}

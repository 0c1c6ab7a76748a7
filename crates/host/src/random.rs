//! Numbers that nobody can guess.

use std::io;

use rustix::rand::{GetRandomFlags, getrandom};

/// 256 bits from the kernel's generator, to be kept secret.
///
/// # Errors
/// Where the kernel has none to give.
pub fn secret() -> io::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    // The kernel gives up to 256 bytes at once or waits, so less is no answer to work with.
    match getrandom(&mut bytes, GetRandomFlags::empty())? {
        32 => Ok(bytes),
        _ => Err(io::Error::other("the kernel gave fewer random bytes than were asked for")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ() {
        let secrets: std::collections::BTreeSet<_> = (0..1000).map(|_| secret().unwrap()).collect();
        assert_eq!(secrets.len(), 1000);
    }
}

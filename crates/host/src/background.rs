//! Work that nobody waits for.

use std::io;

/// How far it stands back behind what somebody waits for: it gets about a tenth of what that takes, and all that it leaves.
const NICE: i32 = 10;

/// Has the calling thread stand back from now on.
///
/// # Errors
/// Where the machine refuses. The thread works on as before then.
pub fn stand_back() -> io::Result<()> {
    // On Linux, no process means this thread alone (setpriority(2), "C library/kernel differences").
    Ok(rustix::process::setpriority_process(None, NICE)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stands_back_alone() {
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let before = nice();
        let there = std::thread::spawn(move || {
            stand_back().unwrap();
            nice()
        });
        assert_eq!(there.join().unwrap(), NICE.max(before));
        assert_eq!(nice(), before);
    }
}

//! What the units permit, as systemd itself judges it.

use crate::nspawn::{in_machine, run, said, tried};
use crate::site::install;

/// The most exposure that `systemd-analyze security` may find, in tenths.
const MOST_EXPOSED: &str = "40";

#[test]
fn nspawn_the_units_are_sound_and_permit_little() {
    in_machine(|| {
        install();
        let verified = tried("systemd-analyze", &["verify", "--man=no", "asat.service", "asat.socket"]);
        assert!(verified.status.success() && verified.stderr.is_empty(), "{}", said(&verified));
        let judged = tried(
            "systemd-analyze",
            &["security", "--no-pager", "--offline=true", "--threshold", MOST_EXPOSED, "asat.service"],
        );
        assert!(judged.status.success(), "{}", said(&judged));

        run("systemctl", &["start", "asat"]);
    });
}

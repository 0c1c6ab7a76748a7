//! What the units permit, as systemd itself judges it.

use crate::nspawn::{in_machine, run, said, tried};
use crate::service::site::{install, unit_drop_in};

/// The drop-ins, and the most exposure that `systemd-analyze security` may find with each, in tenths.
const JUDGED: [(&str, &str, &str); 3] = [
    ("none", "", "20"),
    ("fuse.conf", include_str!("../../../systemd/fuse.conf"), "40"),
    ("lvm.conf", include_str!("../../../systemd/lvm.conf"), "60"),
];

#[test]
fn nspawn_the_units_are_sound_and_permit_little() {
    in_machine(|| {
        install();
        for (name, text, most) in JUDGED {
            unit_drop_in(text);
            let verified = tried("systemd-analyze", &["verify", "--man=no", "asat.service", "asat.socket"]);
            assert!(verified.status.success() && verified.stderr.is_empty(), "{name}: {}", said(&verified));
            let judged = tried(
                "systemd-analyze",
                &["security", "--no-pager", "--offline=true", "--threshold", most, "asat.service"],
            );
            assert!(judged.status.success(), "{name}: {}", said(&judged));
        }
        unit_drop_in("");
        run("systemctl", &["start", "asat"]);
    });
}

//! A store is looked for on a classic and on a thin volume, by way of a bind mount, and on what cannot be cut.

use std::fs;
use std::path::Path;

use asat_host::lvm::{Call, Listing};
use asat_host::volume::{Backing, Ground, Obstacle, discover};

use crate::lab::{Lab, in_lab};
use crate::lab_volumes::site::Site;

#[test]
fn lab_the_ground_of_a_store_is_found() {
    in_lab(Lab::new().disks(2, "512M"), |machine| {
        let site = Site::set_up(machine);
        site.classic("data", "64m");
        site.thin("pool", "64m", "thin", "100m");
        let raid = Call::new("lvcreate").flag("--yes").option("--type", "raid1").option("--mirrors", "1");
        let raid = raid.option("--size", "32m").option("--name", "raid").operand(&site.group);
        site.lvm.run(&raid).unwrap();
        let folders = ["data", "thin", "raid"].map(|volume| site.formatted(volume));
        for folder in &folders {
            fs::create_dir(folder.at.join("sub")).unwrap();
            fs::write(folder.at.join("sub/r.db"), "x").unwrap();
        }
        let [on_data, on_thin, on_raid] = &folders;
        let ground = |path: &Path| {
            let listing = Listing::new(&site.lvm);
            discover(path, || Ok(&listing)).unwrap()
        };
        let Ground::Lvm(data) = ground(&on_data.at.join("sub/r.db")) else { panic!("data") };
        assert_eq!((&data.backing, data.inside.as_path()), (&Backing::Plain, Path::new("/sub/r.db")));
        assert_eq!((data.volume.name.as_str(), data.fs.as_str()), ("data", "ext4"));
        let Ground::Lvm(thin) = ground(&on_thin.at.join("sub/r.db")) else { panic!("thin") };
        assert!(matches!(&thin.backing, Backing::Thin { pool } if pool.name.as_str() == "pool"));
        let raid = ground(&on_raid.at.join("sub/r.db"));
        assert!(matches!(raid, Ground::Plain { why: Obstacle::Layout(_), .. }), "{raid:?}");
        let bind = site.bind(&on_data.at.join("sub"), &machine.mount_point());
        let Ground::Lvm(bound) = ground(&bind.at.join("r.db")) else { panic!("bind") };
        assert_eq!((bound.inside.as_path(), bound.volume), (Path::new("/sub/r.db"), data.volume));
        // A database that is mounted by itself: its journal would be made in another file system.
        let alone = machine.folder("alone").join("r.db");
        fs::write(&alone, "").unwrap();
        let alone = site.bind(&on_data.at.join("sub/r.db"), &alone);
        let found = ground(&alone.at);
        assert!(matches!(found, Ground::Plain { why: Obstacle::SpansMounts(_), .. }), "{found:?}");
        let nothing = ground(Path::new("/proc/self/status"));
        assert!(matches!(nothing, Ground::Plain { why: Obstacle::NoDevice(_), .. }), "{nothing:?}");
    });
}

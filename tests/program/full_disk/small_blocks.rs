//! A full file system whose blocks are smaller than a page of memory, under the catalogue.
//!
//! What is mapped into memory there may have holes, and whoever writes into one is ended by SIGBUS where no block is left. It is in the
//! lab, since nothing else mounts such a file system everywhere.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::lab::{Lab, Machine, in_lab};
use asat_catalogue::{Catalogue, Error};
use asat_core::event::Change;
use asat_core::register::Register;
use asat_core::version::Store;
use jiff::Timestamp;

fn small_blocks(machine: &Machine) -> PathBuf {
    let (disk, folder) = (machine.disks[0].to_str().unwrap(), machine.mount_point());
    machine.run("mkfs.ext4", &["-q", "-F", "-b", "1024", "-m", "0", disk]);
    machine.run("mount", &[disk, folder.to_str().unwrap()]);
    folder
}

/// Takes all of the space but so many KiB.
fn leave_free(folder: &Path, kib: u64) {
    let path = folder.join("ballast");
    let _ = fs::remove_file(&path);
    let space = rustix::fs::statvfs(folder).unwrap();
    let ballast = File::create(path).unwrap();
    let taken = (space.f_bavail * space.f_frsize).saturating_sub(kib << 10);
    // What the file system needs to know where the ballast lies may be lacking.
    let _ = rustix::fs::fallocate(&ballast, rustix::fs::FallocateFlags::empty(), 0, taken);
    rustix::fs::syncfs(&ballast).unwrap();
}

/// A store whose row takes up to a page, so that each commit writes other pages.
fn store(number: u64) -> Change {
    let (name, added_at) = (format!("store-{number}").parse().unwrap(), Timestamp::UNIX_EPOCH);
    let path = PathBuf::from(format!("/srv/{}", "x".repeat(usize::try_from(number * 577 % 4000).unwrap())));
    Change::Store(Store { name, path, added_at, damage: None })
}

/// Records, whether or not all of it fits; answers what was acknowledged.
fn fill(path: &Path, round: u64) -> Result<Register, Error> {
    let mut catalogue = Catalogue::open(path)?;
    let mapped = fs::metadata(path.with_extension("db-shm")).unwrap();
    assert!(
        mapped.blocks() * 512 >= mapped.len(),
        "{} of {} bytes have blocks",
        mapped.blocks() * 512,
        mapped.len()
    );
    let mut register = catalogue.load()?;
    for number in 0..30 {
        let change = store(1000 * round + number);
        match catalogue.record(std::slice::from_ref(&change)) {
            Ok(()) => register.evolve(&change),
            // The next one may fit, or come to another page.
            Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(register)
}

#[test]
fn lab_a_full_file_system_of_small_blocks_ends_nobody() {
    in_lab(Lab::new().disks(1, "32M"), |machine| {
        let folder = small_blocks(machine);
        let (path, copy) = (folder.join("catalogue.db"), machine.folder("copies").join("copy.db"));
        let mut acknowledged = fill(&path, 0).unwrap();
        let (mut full, mut fitted) = (0, 0);
        for kib in 0..72 {
            leave_free(&folder, kib);
            match fill(&path, kib + 1) {
                Ok(register) => {
                    fitted += 1;
                    acknowledged = register;
                }
                Err(Error::Full { .. }) => full += 1,
                Err(error) => panic!("with {kib} KiB free: {error}"),
            }
            match Catalogue::back_up(&path, &copy) {
                Ok(()) => fs::remove_file(&copy).unwrap(),
                Err(error) => assert!(matches!(error, Error::Full { .. }), "with {kib} KiB free: {error}"),
            }
        }
        assert!(full > 0 && fitted > 0, "{full} and {fitted}");
        fs::remove_file(folder.join("ballast")).unwrap();
        assert!(Catalogue::open(&path).unwrap().load().unwrap() == acknowledged);
    });
}

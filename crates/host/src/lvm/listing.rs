//! What LVM lists at one moment, for all who look at several stores: each of its commands takes a while, and runs once.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::command::{Error, Lvm};
use super::report::{LogicalVolume, Name, VolumeGroup};

/// The groups, and the volumes of those that were asked about.
pub struct Listing<'a> {
    lvm: &'a Lvm,
    groups: OnceCell<Vec<VolumeGroup>>,
    volumes: RefCell<BTreeMap<Name, Rc<[LogicalVolume]>>>,
}

impl<'a> Listing<'a> {
    /// A listing for which nothing was asked yet.
    #[must_use]
    pub fn new(lvm: &'a Lvm) -> Self {
        Self { lvm, groups: OnceCell::new(), volumes: RefCell::default() }
    }

    /// All groups.
    ///
    /// # Errors
    /// As [`Lvm::groups`]; who asks next runs the command again.
    pub fn groups(&self) -> Result<&[VolumeGroup], Error> {
        if let Some(listed) = self.groups.get() {
            return Ok(listed);
        }
        let listed = self.lvm.groups()?;
        Ok(self.groups.get_or_init(|| listed))
    }

    /// The volumes of a group, the hidden ones included.
    ///
    /// # Errors
    /// As [`Lvm::volumes`]; who asks next runs the command again.
    pub fn volumes(&self, group: &Name) -> Result<Rc<[LogicalVolume]>, Error> {
        if let Some(listed) = self.volumes.borrow().get(group) {
            return Ok(Rc::clone(listed));
        }
        let listed: Rc<[LogicalVolume]> = self.lvm.volumes(group)?.into();
        self.volumes.borrow_mut().insert(group.clone(), Rc::clone(&listed));
        Ok(listed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::command::tests::stand_in;
    use super::*;

    #[test]
    fn each_command_runs_once_and_again_only_where_it_has_failed() {
        let captured = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lvm/report/captured");
        let script = format!(
            "echo \"$1\" >> \"$0.ran\"; [ -e \"$0.broken\" ] && exit 5; exec cat \"{captured}/$1.json\""
        );
        let (folder, lvm) = stand_in(&script);
        let (lvm, broken) = (lvm.unwrap(), folder.path().join("lvm.broken"));
        let listing = Listing::new(&lvm);
        std::fs::write(&broken, "").unwrap();
        listing.groups().unwrap_err();
        std::fs::remove_file(&broken).unwrap();
        let group = listing.groups().unwrap()[0].name.clone();
        for _ in 0..3 {
            assert!(!listing.groups().unwrap().is_empty());
            assert!(!listing.volumes(&group).unwrap().is_empty());
        }
        listing.volumes(&"another".parse().unwrap()).unwrap();
        let ran = std::fs::read_to_string(folder.path().join("lvm.ran")).unwrap();
        assert_eq!(ran.split_whitespace().collect::<Vec<_>>(), ["vgs", "vgs", "lvs", "lvs"]);
    }
}

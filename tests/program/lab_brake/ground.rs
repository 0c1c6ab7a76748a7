//! A volume with a snapshot of a version, as asat takes it, and the brake beside them.

#![allow(unreachable_pub)]

use std::path::{Path, PathBuf};

use asat_core::VersionId;
use asat_host::brake::Brake;
use asat_host::dm::target::Snapshot as State;
use asat_host::dm::{Control, Selector};
use asat_host::lvm::names::{Record, Which};
use asat_host::lvm::units::Bytes;
use asat_host::lvm::{Call, Installation, Ours, Snapshot, Space, Whose, recognise};
use asat_host::volume::DeviceUuid;

use crate::lab::Machine;
use crate::lab_brake::writer::Writer;
use crate::lab_volumes::site::Site;

pub const MIB: u64 = 1 << 20;
const ID: &str = "0193aa55c3d47e019f3b2c77d0e1f2a3";
/// What a writer that goes on for ever writes over and over, in MiB: less than a snapshot has room for.
pub const OVER_AND_OVER: u64 = 8;

/// The volume `data`, and a snapshot of it.
pub struct Ground<'a> {
    pub site: Site<'a>,
    pub snapshot: Ours,
    pub origin: DeviceUuid,
}

/// The program with the command `brake`.
pub fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_asat"))
}

pub fn brake() -> Brake {
    Brake::start(program(), &["brake"]).unwrap()
}

impl<'a> Ground<'a> {
    /// A volume of this size, and a snapshot with so much space.
    pub fn make(machine: &'a Machine, size: &str, space: u64) -> Self {
        let site = Site::set_up(machine);
        site.classic("data", size);
        let data = site.volume("data");
        let version: VersionId = "report@1".parse().unwrap();
        let mut installation = Installation { id: ID.parse().unwrap(), records: [].into() };
        let space = Space::Own { size: Bytes(space * MIB), chunk: Bytes(65536) };
        let name = data.name.clone();
        let snapshot = Snapshot {
            version: &version,
            installation: &installation.id,
            group: &site.group,
            origin: &name,
            space,
            told: &[],
        };
        let made = site.lvm.take(&site.control, &snapshot).unwrap();
        let volume = Which::Known(made.ours.uuid());
        let record = Record { group: data.group_uuid, origin: data.uuid, volume };
        installation.records.insert(version, record);
        let Whose::Ours(ours) = recognise(&site.volume(made.ours.name().as_str()), &installation) else {
            panic!("not ours")
        };
        let origin = DeviceUuid { group: data.group_uuid, volume: data.uuid };
        Self { site, snapshot: ours, origin }
    }

    pub fn device(&self) -> PathBuf {
        Path::new("/dev").join(self.site.of("data"))
    }

    /// A writer that never ends by itself, and never fills the snapshot.
    pub fn writer(&self) -> Writer {
        let writer = Writer::start(&self.device(), OVER_AND_OVER, u64::MAX);
        writer.expect_writing("before anything");
        writer
    }

    pub fn is_suspended(&self) -> bool {
        self.site.control.is_suspended(&self.origin.to_string()).unwrap()
    }

    /// The state of the snapshot.
    pub fn state(&self) -> State {
        state(&self.site.control, &self.snapshot)
    }

    /// A volume beside it with a snapshot that asat did not take.
    pub fn make_foreign(&self, name: &str) -> DeviceUuid {
        self.site.classic(name, "16m");
        let call = Call::new("lvcreate").flag("--yes").flag("--snapshot").option("--size", "8m");
        self.site
            .lvm
            .run(&call.option("--name", format!("{name}-backup")).operand(self.site.of(name)))
            .unwrap();
        let volume = self.site.volume(name);
        DeviceUuid { group: volume.group_uuid, volume: volume.uuid }
    }
}

fn state(control: &Control, snapshot: &Ours) -> State {
    let state = control.status(Selector::Uuid(&snapshot.device_uuid())).unwrap();
    State::parse(&state.targets[0]).unwrap()
}

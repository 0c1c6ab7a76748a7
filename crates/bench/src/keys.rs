//! The keys that a bucket is encrypted with.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use age::secrecy::ExposeSecret as _;
use age::x25519;
use asat_core::Problem;

use super::failed;

/// Whom it is encrypted to, and the file of the identity that reads it.
pub(super) struct Keys {
    /// The recipient, as the configuration of a publisher has it.
    pub(super) recipient: String,
    /// The file of the identity. Nobody else may read it.
    identity: PathBuf,
}

impl Keys {
    /// Makes new ones, and the file.
    pub(super) fn make(identity: PathBuf) -> Result<Self, Problem> {
        let key = x25519::Identity::generate();
        write(&identity, key.to_string().expose_secret()).map_err(|error| failed("write a key", error))?;
        Ok(Self { recipient: key.to_public().to_string(), identity })
    }

    /// What the publisher's configuration says of them.
    pub(super) fn of_publisher(keys: Option<&Self>) -> String {
        keys.map_or_else(String::new, |keys| format!("recipients = [\"{}\"]\n", keys.recipient))
    }

    /// What a follower's configuration says of them.
    pub(super) fn of_follower(keys: Option<&Self>) -> String {
        keys.map_or_else(String::new, |keys| format!("identity = \"{}\"\n", keys.identity.display()))
    }
}

fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    writeln!(file, "{text}")
}

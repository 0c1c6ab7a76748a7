//! LVM's commands: whether they are there, and the settings by which LVM itself would extend volumes.

use crate::lvm::{self, Call, Lvm, delta};

/// LVM on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tools {
    /// It is not installed.
    Missing,
    /// It is there and cannot be used, for this reason.
    Unusable(String),
    /// It can be used.
    Usable {
        /// Its version.
        version: String,
        /// Its settings, or why they cannot be read.
        settings: Result<Settings, String>,
        /// Whether `thin_delta` is there, by which a thin pool tells what has changed.
        thin_delta: bool,
    },
}

/// How LVM's own monitor is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// From how full a classic snapshot is extended, in percent; 100 stands for never.
    pub snapshot_threshold: u64,
    /// The same of a thin pool.
    pub pool_threshold: u64,
    /// Whether volumes are given to the monitor as they become active.
    pub monitoring: bool,
}

/// Looks for LVM, and asks it for its settings.
#[must_use]
pub fn find_tools(lvm: Result<&Lvm, &lvm::Error>) -> Tools {
    let lvm = match lvm {
        Ok(lvm) => lvm,
        Err(lvm::Error::NotInstalled) => return Tools::Missing,
        Err(error) => return Tools::Unusable(error.to_string()),
    };
    let call = ["snapshot_autoextend_threshold", "thin_pool_autoextend_threshold", "monitoring"]
        .into_iter()
        .fold(Call::new("lvmconfig").option("--typeconfig", "full"), |call, name| {
            call.operand(format!("activation/{name}"))
        });
    let settings = lvm.run(&call).map_err(|error| error.to_string());
    let settings = settings.and_then(|text| {
        parse(&text).ok_or_else(|| format!("the output of `{call}` cannot be read: {:?}", text.trim()))
    });
    Tools::Usable { version: lvm.version().to_string(), settings, thin_delta: delta::find_tool().is_some() }
}

/// Reads lines such as `snapshot_autoextend_threshold=100`.
pub(crate) fn parse(text: &str) -> Option<Settings> {
    let value = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
        line.trim().parse().ok()
    };
    Some(Settings {
        snapshot_threshold: value("snapshot_autoextend_threshold")?,
        pool_threshold: value("thin_pool_autoextend_threshold")?,
        monitoring: value("monitoring")? != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_lvmconfig_writes_them() {
        let text = "snapshot_autoextend_threshold=70\nthin_pool_autoextend_threshold=100\nmonitoring=1\n";
        let settings = Settings { snapshot_threshold: 70, pool_threshold: 100, monitoring: true };
        assert_eq!(parse(text), Some(settings));
        let missing = "snapshot_autoextend_threshold=70\nmonitoring=0\n";
        assert_eq!((parse(missing), parse("")), (None, None));
    }

    #[test]
    fn without_lvm_there_are_no_settings() {
        assert_eq!(find_tools(Err(&lvm::Error::NotInstalled)), Tools::Missing);
    }
}

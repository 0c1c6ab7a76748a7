//! Commands that are measured while they run: how long, with how much processor time, and with how much memory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use asat_core::Problem;

use crate::failed;
use crate::process::{TICKS_PER_SECOND, processor_ticks};
use crate::statistics::{float, ms_since};

/// How often a command's memory is looked at.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);
/// Where programs of the system are.
const FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/bin"];

/// What a command took.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Took {
    pub(super) ms: f64,
    pub(super) processor_ms: f64,
    /// The most memory that was seen, in bytes.
    pub(super) peak_bytes: u64,
}

/// A program as it is run for a peer: in its folder, with nothing of this environment.
#[derive(Clone, Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) environment: Vec<(&'static str, OsString)>,
}

impl Program {
    /// The program of this name, if it is installed.
    pub(super) fn find(name: &str, folder: &Path) -> Option<Self> {
        let path = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())?;
        Some(Self { path, folder: folder.to_owned(), environment: Vec::new() })
    }

    /// The first words that it prints of its version.
    pub(super) fn version(&self, option: &str) -> String {
        let output = self.command(&[option.into()]).stdout(Stdio::piped()).output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.split_whitespace().take(4).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn command(&self, arguments: &[OsString]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(arguments).current_dir(&self.folder).env_clear().env("LC_ALL", "C");
        command.env("PATH", FOLDERS.join(":")).envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Runs it to its end.
    pub(super) fn run(&self, arguments: &[OsString]) -> Result<Took, Problem> {
        let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
        let said = format!("run `{} {}`", self.path.display(), words.join(" "));
        let (since, before) = (Instant::now(), children_ticks()?);
        let mut child = self.command(arguments).spawn().map_err(|error| failed(&said, error))?;
        let id = child.id();
        let (sender, ended) = channel::<()>();
        let watching = thread::spawn(move || {
            let mut peak_bytes = 0;
            while matches!(ended.recv_timeout(BETWEEN_LOOKS), Err(RecvTimeoutError::Timeout)) {
                peak_bytes = peak_of(id).unwrap_or(0).max(peak_bytes);
            }
            peak_bytes
        });
        let status = child.wait();
        let ms = ms_since(since);
        drop(sender);
        let peak_bytes = watching.join().unwrap_or_default();
        let status = status.map_err(|error| failed(&said, error))?;
        if !status.success() {
            return Err(failed(&said, status));
        }
        let ticks = children_ticks()?.saturating_sub(before);
        Ok(Took { ms, processor_ms: float(ticks) / TICKS_PER_SECOND * 1000.0, peak_bytes })
    }
}

/// The processor time of the children that have ended, in the kernel's ticks.
fn children_ticks() -> Result<u64, Problem> {
    let cannot = |why: String| failed("read the processor time of commands", why);
    let stat = fs::read_to_string("/proc/self/stat").map_err(|error| cannot(error.to_string()))?;
    let (_, fields) = stat.rsplit_once(") ").ok_or_else(|| cannot(stat.clone()))?;
    let times: Option<Vec<u64>> =
        fields.split(' ').skip(13).take(2).map(|field| field.parse().ok()).collect();
    times.map(|times| times.iter().sum()).ok_or_else(|| cannot(stat.clone()))
}

/// The processor time of a process that runs, in milliseconds, and the most memory that it had, in bytes.
pub(super) fn used_by(child: &Child) -> Option<(f64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
    let ticks = processor_ticks(&stat)?;
    Some((float(ticks) / TICKS_PER_SECOND * 1000.0, peak_of(child.id())?))
}

fn peak_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

//! The daemon's side of the brake: it asks, it never waits without a deadline, and where the process fails it resumes the
//! device itself.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use super::MOST_HOLD;
use super::child::{Process, resume_after};
use super::error::{Error, Trouble};
use super::words::{Answer, Request};
use crate::dm::Control;
use crate::volume::DeviceUuid;

/// How long it may take to answer, besides the time that it may hold. To resume takes about a millisecond.
const ANSWER: Duration = Duration::from_secs(1);
/// How long the caller waits for a device to be resumed without the process.
const TAKE_OVER: Duration = Duration::from_secs(2);

/// The brake: a process that holds one device at a time, and its replacement where it fails.
#[derive(Debug)]
pub struct Brake {
    program: PathBuf,
    arguments: Vec<OsString>,
    control: Arc<Control>,
    process: Option<Process>,
    /// The device that a thread still tries to resume, and the word that it did.
    unsettled: Option<(String, Receiver<()>)>,
}

/// A device that is suspended, until this value is released or goes, and never longer than was asked.
#[must_use = "the device is resumed when this is dropped"]
#[derive(Debug)]
pub struct Suspension<'a> {
    brake: &'a mut Brake,
    /// The process that holds it; none once it is released.
    process: Option<Process>,
    device: String,
    since: Instant,
}

/// How a hold ended.
#[derive(Debug)]
pub struct Released {
    /// From the first moment at which a writer may have waited to the last. Where LVM has resumed the device meanwhile, as
    /// it does when it has extended a snapshot, a writer may have gone on for a moment in between.
    pub held: Duration,
    /// What became of the process, where it failed and the device was resumed without it.
    pub trouble: Option<Trouble>,
}

impl Brake {
    /// Starts the process: a program that calls [`serve`](super::serve) on its standard input and output, as `asat brake`
    /// does.
    ///
    /// # Errors
    /// Where it cannot be started or does not become ready, and where there is no device-mapper.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self, Error> {
        let control = Arc::new(Control::open()?);
        let arguments = arguments.iter().map(OsString::from).collect();
        let mut brake =
            Self { program: program.to_owned(), arguments, control, process: None, unsettled: None };
        brake.process = Some(Process::start(&brake.program, &brake.arguments)?);
        Ok(brake)
    }

    /// The process's id; `None` where it failed and no other was needed yet.
    #[must_use]
    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }

    /// Whether the process's memory is locked. If not, it may wait for a disk while it holds.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_locked)
    }

    /// Suspends a volume's device: whoever writes to the volume waits, until it is released, or `most` has passed, and
    /// never for longer than [`MOST_HOLD`]. The volume must be one that the configuration names as a store's.
    ///
    /// # Errors
    /// With [`Error::Refused`] where the device is not there, or somebody else has suspended it; with
    /// [`Error::Failed`], [`Error::StillHeld`] and [`Error::Unsettled`] where the process failed, now or before; where a
    /// new one cannot be started.
    pub fn hold(&mut self, volume: &DeviceUuid, most: Duration) -> Result<Suspension<'_>, Error> {
        self.settle()?;
        let mut process = match self.process.take().and_then(Process::unless_ended) {
            Some(process) => process,
            None => Process::start(&self.program, &self.arguments)?,
        };
        let (device, since, most) = (volume.to_string(), Instant::now(), most.min(MOST_HOLD));
        // What is on its way to a slow disk is waited for, and that counts as held.
        match process.ask(&Request::Hold(*volume, most), most + ANSWER) {
            Ok(Answer::Held) => Ok(Suspension { brake: self, process: Some(process), device, since }),
            Ok(Answer::Failed(said)) => {
                self.process = Some(process);
                Err(Error::Refused { device, said: said.into_owned() })
            }
            other => {
                let trouble = self.take_over(process, &device, why(other))?;
                Err(Error::Failed { device, trouble })
            }
        }
    }

    /// Resumes a device without the process, on a thread: the kernel may be busy suspending it still.
    fn take_over(&mut self, process: Process, device: &str, trouble: Trouble) -> Result<Trouble, Error> {
        let (settle, settled) = mpsc::sync_channel(1);
        let (control, uuid) = (Arc::clone(&self.control), device.to_owned());
        let resume = move || {
            resume_after(process, &control, &uuid);
            // Where the caller has gone, nobody wants to know.
            let _ = settle.try_send(());
        };
        // Without a thread, the process was killed as it was dropped.
        if thread::Builder::new().name("brake-resume".to_owned()).spawn(resume).is_err() {
            self.control.resume(device)?;
            return Ok(trouble);
        }
        match settled.recv_timeout(TAKE_OVER) {
            Ok(()) => Ok(trouble),
            Err(_) => {
                self.unsettled = Some((device.to_owned(), settled));
                Err(Error::StillHeld { device: device.to_owned(), trouble })
            }
        }
    }

    /// Looks whether the device of an earlier failure is resumed by now.
    fn settle(&mut self) -> Result<(), Error> {
        if let Some((device, settled)) = &self.unsettled {
            if settled.recv_timeout(Duration::ZERO) == Err(RecvTimeoutError::Timeout) {
                return Err(Error::Unsettled(device.clone()));
            }
            self.unsettled = None;
        }
        Ok(())
    }
}

impl Suspension<'_> {
    /// Lets the writers go on, and says for how long they waited at most.
    ///
    /// # Errors
    /// With [`Error::StillHeld`] where neither the process nor this one could resume the device in time. A thread goes on
    /// trying, and so does the process, if it lives.
    pub fn release(mut self) -> Result<Released, Error> {
        self.finish()
    }

    fn finish(&mut self) -> Result<Released, Error> {
        let Some(mut process) = self.process.take() else {
            return Ok(Released { held: self.since.elapsed(), trouble: None });
        };
        match process.ask(&Request::Release, ANSWER) {
            Ok(Answer::Released(held)) => {
                self.brake.process = Some(process);
                Ok(Released { held, trouble: None })
            }
            other => {
                let trouble = self.brake.take_over(process, &self.device, why(other))?;
                Ok(Released { held: self.since.elapsed(), trouble: Some(trouble) })
            }
        }
    }
}

impl Drop for Suspension<'_> {
    fn drop(&mut self) {
        // Where this fails, the process or a thread goes on trying, and the next hold says so.
        let _ = self.finish();
    }
}

/// What is wrong with an answer that was not wanted.
fn why(answer: Result<Answer, Trouble>) -> Trouble {
    answer.map_or_else(|trouble| trouble, |answer| Trouble::Unexpected(answer.to_string()))
}

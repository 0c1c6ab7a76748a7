//! A program that the configuration names: started without a shell, and ended where it takes too long.
//!
//! LVM's commands are run otherwise, by [`crate::lvm::command`]: to end one of those could leave a volume suspended.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

/// An error of a program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no program to start.
    #[error("no program is named")]
    Nothing,
    /// It could not be started.
    #[error("cannot run {program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// The machine's answer.
        source: io::Error,
    },
    /// It could not be waited for, and was ended.
    #[error("cannot wait for {program}: {source}")]
    Wait {
        /// The program.
        program: String,
        /// The machine's answer.
        source: io::Error,
    },
    /// It failed.
    #[error("{program} failed: {status}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        status: ExitStatus,
    },
    /// It took too long, and was ended.
    #[error("{program} (process {id}) had not ended after {} s, and was ended", .after.as_secs_f32())]
    Late {
        /// The program.
        program: String,
        /// Its process id.
        id: u32,
        /// How long it was waited for.
        after: Duration,
    },
}

/// Runs a program with its arguments to its end. It has this environment and a `PATH`, an empty standard input, and
/// a process group of its own, all of which is killed at the deadline. What it says on standard error stands in
/// the log of whoever runs it; its standard output goes nowhere.
///
/// A program that waits for the kernel itself cannot be ended, and is waited for beyond the deadline.
///
/// # Errors
/// Where it cannot be started, fails, or takes too long.
pub fn run(words: &[String], environment: &[(&str, &str)], deadline: Duration) -> Result<(), Error> {
    let (program, arguments) = words.split_first().ok_or(Error::Nothing)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir("/")
        .env_clear()
        // A search path of the daemon's own could be set by somebody else.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0);
    let program = program.clone();
    let child = command.spawn();
    let mut child = child.map_err(|source| Error::Start { program: program.clone(), source })?;
    let in_time = ends_within(&child, deadline);
    if !matches!(in_time, Ok(true)) {
        // One that has ended by now is no error.
        let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
    }
    let waited = child.wait();
    match (in_time.and_then(|in_time| Ok((in_time, waited?))), child.id()) {
        (Ok((true, status)), _) if status.success() => Ok(()),
        (Ok((true, status)), _) => Err(Error::Failed { program, status }),
        (Ok((false, _)), id) => Err(Error::Late { program, id, after: deadline }),
        (Err(source), _) => Err(Error::Wait { program, source }),
    }
}

/// Looks whether a program is there and may be run by this process, without running it.
///
/// # Errors
/// With [`Error::Nothing`] where none is named, and with [`Error::Start`] where it could not be started.
pub fn check(words: &[String]) -> Result<(), Error> {
    let program = words.first().ok_or(Error::Nothing)?;
    let usable = fs::metadata(program).and_then(|metadata| {
        if !metadata.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        Ok(accessat(CWD, program, Access::EXEC_OK, AtFlags::EACCESS)?)
    });
    usable.map_err(|source| Error::Start { program: program.clone(), source })
}

/// Whether a process ends within a time. It is not reaped.
fn ends_within(child: &Child, time: Duration) -> io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let until = Instant::now() + time;
    loop {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now()))
            .map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        match poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn sh(script: &str, more: &[&str]) -> Vec<String> {
        ["/bin/sh", "-c", script].iter().chain(more).map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn it_gets_its_words_as_they_are_and_no_more_of_the_environment_than_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let script = "{ pwd; printf '<%s>' \"$@\"; echo; env | sed -n 's/=.*//p' | sort | tr '\\n' ' '; \
                      echo; echo \"$SAID\"; cat; } > \"$0\"";
        let words = sh(script, &[file.to_str().unwrap(), "a b", "", "$HOME"]);
        run(&words, &[("SAID", "größer\n; exit")], LONG).unwrap();
        let said = fs::read_to_string(&file).unwrap();
        let mut lines = said.lines();
        assert_eq!((lines.next(), lines.next()), (Some("/"), Some("<a b><><$HOME>")), "{said}");
        // The shell adds these by itself.
        let own = ["OLDPWD", "PWD", "SHLVL", "_"];
        let known: Vec<&str> =
            lines.next().unwrap().split(' ').filter(|name| !name.is_empty() && !own.contains(name)).collect();
        assert_eq!(known, ["PATH", "SAID"]);
        assert_eq!((lines.next(), lines.next()), (Some("größer"), Some("; exit")), "{said}");
    }

    #[test]
    fn whether_it_can_be_run_is_seen_without_running_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let script = |name: &str, mode| {
            fs::write(path(name), "#!/bin/sh\n: > \"$0.ran\"\n").unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        };
        script("page", 0o755);
        script("readable", 0o644);
        check(&[path("page"), "an argument".to_owned()]).unwrap();
        assert!(!Path::new(&path("page.ran")).exists());
        for (program, why) in [
            (path("readable"), "Permission denied"),
            (path("missing"), "No such file"),
            (path("readable/page"), "Not a directory"),
            (path(""), "it is no file"),
        ] {
            let error = check(std::slice::from_ref(&program)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot run {program}: ")) && error.contains(why), "{error}");
        }
        assert!(matches!(check(&[]), Err(Error::Nothing)));
    }

    #[test]
    fn how_it_ends_is_told() {
        assert!(matches!(run(&[], &[], LONG), Err(Error::Nothing)));
        assert!(matches!(run(&["/nowhere/page".to_owned()], &[], LONG), Err(Error::Start { .. })));
        let error = run(&sh("exit 3", &[]), &[], LONG).unwrap_err();
        assert!(matches!(&error, Error::Failed { status, .. } if status.code() == Some(3)), "{error}");
        let error = run(&sh("kill -TERM $$", &[]), &[], LONG).unwrap_err();
        assert!(error.to_string().contains("/bin/sh failed: signal: 15"), "{error}");
    }

    #[test]
    fn what_takes_too_long_is_ended() {
        let error = run(&sh("sleep 1000; true", &[]), &[], Duration::from_millis(100)).unwrap_err();
        let Error::Late { id, .. } = error else { panic!("{error}") };
        assert!(!Path::new("/proc").join(id.to_string()).exists());
        assert!(error.to_string().contains("after 0.1 s"), "{error}");
    }

    #[test]
    fn what_it_leaves_behind_is_not_waited_for() {
        let began = Instant::now();
        run(&sh("sleep 20 & exit 0", &[]), &[], LONG).unwrap();
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

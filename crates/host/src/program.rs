//! A program that the configuration names, or one that only reads: started without a shell, and ended where it takes too long.
//!
//! LVM's commands are run otherwise, by [`crate::lvm::command`]: to end one of those could leave a volume suspended.

use std::fs;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Access, AtFlags, CWD, MemfdFlags, accessat, memfd_create};
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
    /// It said more than it may.
    #[error("{program} said more than {most} bytes")]
    TooMuch {
        /// The program.
        program: String,
        /// How much it may say.
        most: u64,
    },
}

/// How often this checks whether a program is to end before its deadline.
const LOOK: Duration = Duration::from_millis(100);
/// How long it has then.
const LAST: Duration = Duration::from_secs(5);
/// How long the output may stay open after the program's own end, held by something that it started.
const GRACE: Duration = Duration::from_millis(500);

/// Runs a program with its arguments to its end. It has this environment and a `PATH`, an empty standard input, and
/// a process group of its own, all of which is killed at the deadline. What it says on standard error stands in
/// the log of whoever runs it; its standard output goes nowhere.
///
/// A program that waits for the kernel itself cannot be ended, and is waited for beyond the deadline.
///
/// # Errors
/// Where it cannot be started, fails, or takes too long.
pub fn run(words: &[String], environment: &[(&str, &str)], deadline: Duration) -> Result<(), Error> {
    let (program, mut child) = start(words, environment, Stdio::null(), Stdio::null())?;
    end(program, &mut child, deadline)
}

/// The same with something to read on its standard input, which is a file in memory. If it `is_over` before the deadline, the program has five
/// seconds left.
///
/// # Errors
/// As [`run`].
pub fn run_with(
    words: &[String],
    environment: &[(&str, &str)],
    input: &[u8],
    deadline: Duration,
    is_over: impl Fn() -> bool,
) -> Result<(), Error> {
    let failed = |source| Error::Start { program: words.first().cloned().unwrap_or_default(), source };
    let (program, mut child) = start(words, environment, self::input(input).map_err(failed)?, Stdio::null())?;
    let began = Instant::now();
    let left = || deadline.saturating_sub(began.elapsed());
    // Whatever is wrong with the waiting, the end tells.
    while !is_over() && !ends_within(&child, left().min(LOOK)).unwrap_or(true) && !left().is_zero() {}
    let left = if is_over() { left().min(LAST) } else { left() };
    end(program, &mut child, left).map_err(|error| match error {
        Error::Late { program, id, .. } => Error::Late { program, id, after: began.elapsed() },
        error => error,
    })
}

/// Bytes as a standard input, in a file in memory: nobody has to write while somebody else reads.
pub(crate) fn input(bytes: &[u8]) -> io::Result<Stdio> {
    let mut file = fs::File::from(memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file.into())
}

/// The same, and answers what the program says on its standard output, which may be so many bytes at most.
///
/// # Errors
/// As [`run`], and where it says more.
pub fn read(
    words: &[String],
    environment: &[(&str, &str)],
    deadline: Duration,
    most: u64,
) -> Result<Vec<u8>, Error> {
    let (program, mut child) = start(words, environment, Stdio::null(), Stdio::piped())?;
    let output = child.stdout.take().map(|pipe| listen(pipe, most)).transpose();
    // However the listening began, the program is ended and waited for.
    let ended = end(program.clone(), &mut child, deadline);
    let failed = |source| Error::Wait { program: program.clone(), source };
    let unheard = || failed(io::Error::other("its output was not closed"));
    let output = output.map_err(failed)?.ok_or_else(unheard)?.recv_timeout(GRACE);
    let output = match (output, ended) {
        // The pipe was closed before its end, and the program may have failed for that.
        (Ok(Ok(output)), _) if u64::try_from(output.len()).is_ok_and(|length| length > most) => {
            return Err(Error::TooMuch { program, most });
        }
        (output, ended) => ended.map(|()| output)?,
    };
    output.map_err(|_| unheard())?.map_err(failed)
}

/// Starts a program with its arguments.
fn start(
    words: &[String],
    environment: &[(&str, &str)],
    input: Stdio,
    output: Stdio,
) -> Result<(String, Child), Error> {
    let (program, arguments) = words.split_first().ok_or(Error::Nothing)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir("/")
        .env_clear()
        // A search path of the daemon's own could be set by somebody else.
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .envs(environment.iter().copied())
        .stdin(input)
        .stdout(output)
        .process_group(0);
    let child = command.spawn().map_err(|source| Error::Start { program: program.clone(), source })?;
    Ok((program.clone(), child))
}

/// Waits for a program's end, or brings it about at the deadline.
fn end(program: String, child: &mut Child, deadline: Duration) -> Result<(), Error> {
    let in_time = ends_within(child, deadline);
    if !matches!(in_time, Ok(true)) {
        // One that has ended by now is no error.
        let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    }
    let waited = child.wait();
    match (in_time.and_then(|in_time| Ok((in_time, waited?))), child.id()) {
        (Ok((true, status)), _) if status.success() => Ok(()),
        (Ok((true, status)), _) => Err(Error::Failed { program, status }),
        (Ok((false, _)), id) => Err(Error::Late { program, id, after: deadline }),
        (Err(source), _) => Err(Error::Wait { program, source }),
    }
}

/// Reads a pipe to its end, in a thread of its own, or until it has given one byte more than it may.
fn listen(pipe: ChildStdout, most: u64) -> io::Result<mpsc::Receiver<io::Result<Vec<u8>>>> {
    let (tell, told) = mpsc::sync_channel(1);
    thread::Builder::new().name("program-output".to_owned()).spawn(move || {
        let mut output = Vec::new();
        let read = pipe.take(most.saturating_add(1)).read_to_end(&mut output);
        // Where nobody waits any more, nobody wants to know.
        let _ = tell.try_send(read.map(|_| output));
    })?;
    Ok(told)
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
    fn what_is_over_has_seconds_left_and_no_more() {
        let began = Instant::now();
        let error = run_with(&sh("sleep 1000; true", &[]), &[], b"", LONG, || true).unwrap_err();
        assert!(matches!(error, Error::Late { .. }) && began.elapsed() >= LAST, "{error}");
        run_with(&sh("read said && test \"$said\" = it", &[]), &[], b"it\n", LONG, || true).unwrap();
        let error = run_with(&sh("sleep 1000; true", &[]), &[], b"", LOOK / 2, || false).unwrap_err();
        assert!(matches!(error, Error::Late { .. }), "{error}");
    }

    #[test]
    fn what_it_says_is_answered_and_too_much_is_an_error() {
        let said = |script: &str, most| read(&sh(script, &[]), &[], LONG, most);
        assert_eq!(said("printf 12345678", 8).unwrap(), b"12345678");
        assert_eq!(said(":", 0).unwrap(), b"");
        let error = said("printf 123456789", 8).unwrap_err();
        assert_eq!(error.to_string(), "/bin/sh said more than 8 bytes");
        assert!(matches!(said("yes", 1 << 20), Err(Error::TooMuch { .. })), "it has no end");
        assert!(matches!(said("printf 1; exit 3", 8), Err(Error::Failed { .. })));
        let late = read(&sh("sleep 1000; true", &[]), &[], Duration::from_millis(100), 8).unwrap_err();
        assert!(matches!(late, Error::Late { .. }), "{late}");
        // Half of what was to be said is nothing.
        let held = said("sleep 20 & printf 1", 8).unwrap_err();
        assert!(held.to_string().ends_with("its output was not closed"), "{held}");
    }

    #[test]
    fn what_it_leaves_behind_is_not_waited_for() {
        let began = Instant::now();
        run(&sh("sleep 20 & exit 0", &[]), &[], LONG).unwrap();
        assert!(began.elapsed() < Duration::from_secs(10));
    }
}

//! The three that are killed: a daemon that publishes, the server that has the bucket, and a daemon that follows it.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::{PATIENCE, Running, World};
use crate::servers::{self, Server};

const ASAT: &str = env!("CARGO_BIN_EXE_asat");

/// What may be killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    Publisher,
    Follower,
    Server,
}

/// All three. What each daemon has said is kept over its kills.
pub struct Machines {
    pub server: Server,
    pub publisher: World,
    pub follower: World,
    /// Whether the server does not run.
    pub is_away: bool,
    /// How often something was killed.
    pub kills: u32,
    publisher_log: String,
    follower_log: String,
}

impl Machines {
    /// A bucket with a repository in it, and two daemons that do not run yet.
    pub fn new() -> Self {
        let server = servers::versitygw();
        server.bucket("history");
        let place = format!(
            "url = \"s3://history/reports\"\noptions = {{ endpoint = \"{}\", region = \"us-east-1\", allow_http = \"true\" }}",
            server.endpoint
        );
        let [mut publisher, mut follower] = [World::new(), World::new()];
        for world in [&mut publisher, &mut follower] {
            world.env = vec![
                ("AWS_ACCESS_KEY_ID".into(), servers::ACCESS_KEY.into()),
                ("AWS_SECRET_ACCESS_KEY".into(), servers::SECRET_KEY.into()),
            ];
        }
        publisher.config = format!("[remote]\n{place}");
        publisher.write_config();
        let config = format!(
            "state = \"state\"\n[listen]\nunix = \"asat.sock\"\n[guard]\nleast_free = \"1 KiB\"\n[follow]\n{place}\npoll = \"1s\"\n"
        );
        fs::write(follower.path("asat.toml"), config).unwrap();
        let machines = Self {
            server,
            publisher,
            follower,
            is_away: false,
            kills: 0,
            publisher_log: String::new(),
            follower_log: String::new(),
        };
        let made = machines.remote(&["init"]);
        assert!(made.status.success(), "{made:?}");
        machines
    }

    /// Does something with the bucket alone.
    pub fn remote(&self, arguments: &[&str]) -> Output {
        self.remotely(arguments).output().unwrap()
    }

    /// Begins to delete what nothing has needed for a second.
    pub fn prune(&self) -> Child {
        let mut command = self.remotely(&["prune", "--grace", "1s"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    fn remotely(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(ASAT);
        command.args(["--json", "remote"]).args(arguments).arg("--config").arg(config(&self.publisher));
        command.envs(self.publisher.env.iter().cloned()).stdin(Stdio::null());
        command
    }

    /// Starts one that does not run, and waits until it is ready.
    pub fn start(&mut self, machine: Machine) {
        if machine == Machine::Server {
            self.server.start_again();
            self.is_away = false;
            return;
        }
        let (world, log) = self.daemon(machine);
        let mut running = spawn(world);
        match running.wait_for("ready") {
            Ok(said) => *log += &said,
            Err(said) => panic!("{machine:?} did not become ready:\n{said}"),
        }
        world.daemon = Some(running);
    }

    /// Kills one that runs.
    pub fn kill(&mut self, machine: Machine) {
        self.kills += 1;
        if machine == Machine::Server {
            self.server.stop();
            self.is_away = true;
            return;
        }
        let (world, log) = self.daemon(machine);
        end(world.daemon.take().unwrap(), log);
    }

    /// Starts one that does not run, and kills it after this time, whether it is ready then or not.
    pub fn start_and_kill(&mut self, machine: Machine, after: Duration) {
        if machine == Machine::Server {
            self.start(machine);
            std::thread::sleep(after);
            return self.kill(machine);
        }
        self.kills += 1;
        let (world, log) = self.daemon(machine);
        let running = spawn(world);
        // Not a wait for anything: a moment of death that the seed has chosen.
        std::thread::sleep(after);
        end(running, log);
    }

    /// Ends a daemon in good order, and answers all that it has said in all its lives.
    pub fn stop(&mut self, machine: Machine) -> String {
        let (world, log) = self.daemon(machine);
        let mut running = world.daemon.take().unwrap();
        running.terminate();
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = running.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "{machine:?} does not stop");
            std::thread::sleep(Duration::from_millis(20));
        };
        end(running, log);
        assert!(status.success(), "{machine:?} ended with {status}:\n{log}");
        std::mem::take(log)
    }

    fn daemon(&mut self, machine: Machine) -> (&mut World, &mut String) {
        match machine {
            Machine::Publisher => (&mut self.publisher, &mut self.publisher_log),
            Machine::Follower => (&mut self.follower, &mut self.follower_log),
            Machine::Server => panic!("the server is no daemon of ours"),
        }
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for machine in [Machine::Publisher, Machine::Follower] {
            let (world, log) = self.daemon(machine);
            if let Some(running) = world.daemon.take() {
                end(running, log);
            }
            println!("{machine:?} has said:\n{}", End(log));
        }
        println!("the server has said:\n{}", End(&self.server.log()));
    }
}

/// The last lines of a log.
struct End<'a>(&'a str);

impl fmt::Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const LINES: usize = 300;
        let begin = self.0.lines().count().saturating_sub(LINES);
        self.0.lines().skip(begin).try_for_each(|line| writeln!(f, "  {line}"))
    }
}

fn config(world: &World) -> PathBuf {
    world.path("asat.toml")
}

fn spawn(world: &World) -> Running {
    let mut command = Command::new(ASAT);
    command.arg("serve").arg("--config").arg(config(world)).envs(world.env.iter().cloned());
    Running::spawn(command)
}

/// Kills a daemon, and takes what it has said since it was asked last.
fn end(mut running: Running, log: &mut String) {
    let _ = running.child.kill();
    running.child.wait().unwrap();
    *log += &running.rest_of_log();
    log.push('\n');
}

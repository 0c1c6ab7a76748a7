//! A command of LVM that does not end: publications are refused, the daemon lives on, and when the command ends after
//! all, what it made is removed.

use std::io::Read as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::common::try_request;
use crate::lab::{Machine, in_lab, wait_until};
use crate::lab_bad_volumes::site::{Site, lab};

/// Longer than any command takes on a slow machine, so that only what waits for the lock is taken to be stuck.
const TIMEOUT: Duration = Duration::from_secs(6);

/// Holds LVM's lock on the group until its standard input ends.
fn hold_lock(machine: &Machine) -> Child {
    let mut holder = machine.command("flock");
    holder.args(["/run/lock/lvm/V_vg", "sh", "-c", "echo held; exec cat"]);
    let mut holder = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    holder.stdout.as_mut().unwrap().read_exact(&mut [0; 5]).unwrap();
    holder
}

#[test]
fn lab_a_command_of_lvm_that_does_not_end_holds_up_nothing_else() {
    in_lab(lab(1, "320M"), |machine| {
        let mut site = Site::classic(machine, "64M");
        site.world.config = format!("[lvm]\ntimeout = \"{}s\"", TIMEOUT.as_secs());
        site.restart();
        site.publish();
        site.settle();

        let mut holder = hold_lock(machine);
        site.write(64);
        let (stuck, asked) = std::thread::scope(|scope| {
            let began = Instant::now();
            let socket = site.world.socket();
            let publication = scope.spawn(move || {
                let json = [("Content-Type", "application/json")];
                (try_request(&socket, "POST", "/snapshots", &json, b"{}").unwrap(), began.elapsed())
            });
            let mut asked = 0;
            while !publication.is_finished() {
                assert_eq!(site.world.get("/healthz").status, 200);
                site.check_content();
                asked += 1;
            }
            let (stuck, took) = publication.join().unwrap();
            println!("after {took:?}, in which {asked} other requests were answered:");
            assert!(took >= TIMEOUT, "{took:?}");
            (stuck, asked)
        });
        assert!(asked > 3, "{asked}");
        let problem = stuck.expect_problem(503, "lvm_stuck");
        println!("{}\n    {}", problem["detail"], problem["hint"]);
        assert!(stuck.header("retry-after").is_some(), "{stuck}");
        let detail = problem["detail"].as_str().unwrap();
        let pid = detail.split("(process ").nth(1).unwrap().split(')').next().unwrap();
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(command.contains("lvcreate"), "{command}");
        assert!(detail.contains("`lvcreate --yes") && detail.contains("was started at 20"), "{detail}");

        // The next one is refused at once, and leaves no trace.
        let (began, before) = (Instant::now(), site.versions().len());
        let refused = site.ask_to_publish();
        let detail = refused.expect_problem(503, "lvm_stuck")["detail"].clone();
        assert!(
            began.elapsed() < TIMEOUT / 2 && detail.as_str().unwrap().contains("was not run"),
            "{detail}"
        );
        assert_eq!(site.versions().len(), before);
        assert_eq!(site.version("report@2")["state"], "failed");

        // The command ends, and has made what nobody wants any more.
        drop(holder.stdin.take());
        holder.wait().unwrap();
        wait_until("LVM is free again", || site.ask_to_publish().status == 201);
        site.settle();
        site.check_that_all_is_well();
        assert_eq!(site.state("report@2"), "failed ");
    });
}

//! The program and its process. Their names are those that Prometheus' own clients give them.

use asat_host::machine::process;

use crate::metrics::Family;

pub(super) fn families() -> Vec<Family> {
    let mut build = Family::gauge("asat_build_info", "The version of asat; the value is 1.");
    build.add([("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut resident = Family::gauge("process_resident_memory_bytes", "Memory that the daemon has.");
    let mut cpu = Family::counter("process_cpu_seconds_total", "Time that the daemon's threads have run.");
    let mut started =
        Family::gauge("process_start_time_seconds", "When the daemon was started, in seconds since 1970.");
    let mut open = Family::gauge("process_open_fds", "Files that the daemon has open.");
    let mut most = Family::gauge("process_max_fds", "Files that the daemon may have open.");
    if let Some(own) = process::own() {
        resident.add([], own.resident_bytes);
        cpu.add_real([], own.cpu.as_secs_f64());
        started.add_real([], own.started.as_secs_f64());
        open.add([], own.open_files);
        own.most_open_files.into_iter().for_each(|files| most.add([], files));
    }
    vec![build, resident, cpu, started, open, most]
}

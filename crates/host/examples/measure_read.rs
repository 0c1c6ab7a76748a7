//! Measures how fast a store is read: `measure_read STORE`. Prints the rate and the most memory ever used.
#![allow(clippy::print_stdout, reason = "this is a program for people")]

use std::path::Path;
use std::time::{Duration, Instant};

use asat_core::{PageSize, Problem};
use asat_host::store::{Limits, PageSink, read_pages};

/// Takes the pages and looks at one byte of each.
struct Touch(u64);

impl PageSink for Touch {
    fn begin(&mut self, _: PageSize, _: u32) -> Result<(), Problem> {
        Ok(())
    }

    fn page(&mut self, _: u32, page: &[u8]) -> Result<(), Problem> {
        self.0 += page.last().copied().map_or(0, u64::from);
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("name a store")?;
    let limits = Limits { busy: Duration::from_secs(5), hold: Duration::from_secs(60) };
    for _ in 0..3 {
        let started = Instant::now();
        let mut sink = Touch(0);
        let read = read_pages(Path::new(&path), &limits, &false.into(), &mut sink)?;
        let elapsed = started.elapsed();
        let bytes = u64::from(read.page_size.bytes()) * u64::from(read.page_count);
        let rate = u128::from(bytes) / elapsed.as_micros().max(1);
        println!("{bytes} bytes in {elapsed:?}: {rate} MB/s, checksum {}, {read:?}", sink.0);
    }
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}

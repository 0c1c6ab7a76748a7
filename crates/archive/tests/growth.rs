#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::disallowed_methods)]
mod common;
use common::*;
use std::ops::ControlFlow;
use std::time::Instant;
#[test]
#[ignore]
fn growth() {
    let folder = tempfile::tempdir_in("/work").unwrap();
    let a = open(folder.path());
    let mut c = Content::new(4096, (1..1001).map(|n| n * 7 + 1).collect::<Vec<_>>());
    let (mut spent, mut merging) = (0.0, 0.0);
    let mut last = Instant::now();
    for n in 1..=30_000u64 {
        for k in 0..3 {
            let p = ((n * 7919 + k * 104729) % 1000) as usize;
            c.edit(p, ((n * 31) % 4000) as usize, (n % 251) as u8 + 1);
        }
        let t = Instant::now();
        write(&a, n, &c).unwrap();
        spent += t.elapsed().as_secs_f64();
        let t = Instant::now();
        if n % 8 == 0 {
            a.compact(&mut |_| ControlFlow::Continue(())).unwrap();
        }
        merging += t.elapsed().as_secs_f64();
        if [100, 1000, 3000, 10_000, 30_000].contains(&n) {
            let _ = last;
            last = Instant::now();
            let t = Instant::now();
            let r = read(&a, n).unwrap();
            let newest = t.elapsed();
            assert_eq!(r, c.bytes());
            let t = Instant::now();
            read(&a, 1).unwrap();
            let oldest = t.elapsed();
            let t = Instant::now();
            read(&a, n / 2).unwrap();
            let middle = t.elapsed();
            let t = Instant::now();
            let _ = a.stats().unwrap();
            let stats = t.elapsed();
            let files = files(folder.path()).len();
            eprintln!(
                "{n}: publish {:.2} ms each, merging {:.2} ms each; newest {newest:?} oldest {oldest:?} middle {middle:?} stats {stats:?}; {files} files, {} bytes",
                spent * 1000.0 / 100.0,
                merging * 1000.0 / 100.0,
                a.bytes()
            );
        }
        if [0, 900, 2900, 9900, 29_900].contains(&n) {
            spent = 0.0;
            merging = 0.0;
        }
    }
    drop(a);
    let t = Instant::now();
    let a = open(folder.path());
    eprintln!("open {:?}", t.elapsed());
    let t = Instant::now();
    a.read_newest(&|| true).unwrap();
    eprintln!("read newest {:?}", t.elapsed());
}

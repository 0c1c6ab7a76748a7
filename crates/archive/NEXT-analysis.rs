//! Throwaway.
#[cfg(test)]
mod tests {
    use crate::codec::*;
    use crate::history::*;
    use crate::index::*;
    use crate::*;
    #[test]
    #[ignore]
    fn analyse() {
        let (archive, _) = Archive::open(std::path::Path::new("/dev/shm/valcopy")).unwrap();
        let state = archive.inner.state();
        let mut count = [0_u64; 3];
        let mut bytes = [0_u64; 3];
        let mut wholes: Vec<Vec<u8>> = Vec::new();
        let mut diffs: Vec<(Vec<u8>, Vec<u8>, usize)> = Vec::new();
        let mut n = 0_u64;
        for history in History::all(&state, &*archive.inner.objects).unwrap() {
            let mut assembler = Assembler::new().unwrap();
            for block in history.blocks() {
                history.pages(block, |items| {
                    for (place, item) in items.iter().enumerate() {
                        let k = match item.entry.encoding { Encoding::Raw => 0, Encoding::Zstd => 1, Encoding::Difference => 2 };
                        count[k] += 1; bytes[k] += u64::from(item.entry.len);
                        n += 1;
                        if n % 7 == 0 && k == 1 { let mut p = vec![0; 4096]; assembler.page(&history, items, place, &mut p).unwrap(); wholes.push(p); }
                        if n % 13 == 0 && k == 2 { let mut p = vec![0; 4096]; assembler.page(&history, items, place, &mut p).unwrap(); let b = base_of(items, &item.entry).unwrap(); let mut q = vec![0; 4096]; assembler.page(&history, items, b, &mut q).unwrap(); diffs.push((p, q, item.entry.len as usize)); }
                    }
                    Ok(())
                }).unwrap();
            }
        }
        eprintln!("raw/zstd/diff count {count:?} bytes {bytes:?}");
        let sample: usize = wholes.len();
        let total = |f: &mut dyn FnMut(&[u8]) -> usize| wholes.iter().map(|p| f(p)).sum::<usize>() / sample.max(1);
        for level in [1, 3] {
            let t = std::time::Instant::now();
            let s = total(&mut |p| zstd::bulk::compress(p, level).unwrap().len());
            eprintln!("whole level {level}: {s} a page, {:?}", t.elapsed() / sample as u32);
        }
        for (size, every) in [(4 << 10, 40), (8 << 10, 40), (16 << 10, 40), (32 << 10, 40), (16<<10, 100)] {
            let train: Vec<&Vec<u8>> = wholes.iter().step_by(every).collect();
            let t0=std::time::Instant::now(); let dict = zstd::dict::from_samples(&train, size).unwrap(); eprintln!("level trained on {} in {:?}", train.len(), t0.elapsed());
            for level in [3, 4, 5] {
                let t = std::time::Instant::now();
                let mut c = zstd::bulk::Compressor::with_dictionary(level, &dict).unwrap();
                let s = total(&mut |p| c.compress(p).unwrap().len());
                eprintln!("dict {} level {level}: {s} a page, {:?}", dict.len(), t.elapsed() / sample as u32);
            }
        }
        let ds = diffs.len();
        eprintln!("diffs now {} a frame", diffs.iter().map(|d| d.2).sum::<usize>() / ds.max(1));
        for level in [1, 3, 6, 9] {
            let t = std::time::Instant::now();
            let mut cx = zstd::zstd_safe::CCtx::try_create().unwrap();
            let mut out = vec![0; 8192];
            let s: usize = diffs.iter().map(|(p, q, _)| cx.compress_using_dict(out.as_mut_slice(), p, q, level).unwrap()).sum();
            eprintln!("diff level {level}: {} a frame, {:?}", s / ds, t.elapsed() / ds as u32);
        }
        // 64 whole pages together
        for level in [1, 3, 9] {
            let s: usize = wholes.chunks(64).map(|c| zstd::bulk::compress(&c.concat(), level).unwrap().len()).sum();
            eprintln!("64 together level {level}: {}", s / sample);
        }
    }
}

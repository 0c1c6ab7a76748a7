//! Publishing while somebody writes: a writer commits one small transaction after another, and its commits are
//! told apart by whether a publication was under way.
//!
//! A round is a pause and a publication. The commits of its two halves are a pair, so that the spread of the ratios
//! tells how much of a slow-down is the machine's own unrest.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use asat_core::Problem;
use serde::Serialize;

use crate::report::number;
use crate::site::Site;
use crate::statistics::{Paired, Spread};
use crate::workload::Book;
use crate::{api, failed};

/// How many publications, each after a pause of the same length.
const ROUNDS: usize = 20;
/// The shortest pause.
const PAUSE: Duration = Duration::from_millis(50);

/// How a continuous writer fared.
#[derive(Serialize)]
pub(super) struct Writing {
    /// Mean milliseconds of a commit in the pause and in the publication of each round.
    rounds: Paired,
    /// Milliseconds of a commit in the pauses.
    pausing_ms: Spread,
    /// Milliseconds of a commit during publications.
    publishing_ms: Spread,
    pausing_commits: usize,
    publishing_commits: usize,
    publish_ms: Spread,
}

impl Writing {
    pub(super) fn text(&self) -> String {
        let Self { rounds, pausing_ms, publishing_ms, .. } = self;
        let told =
            |spread: &Spread| format!("median {} ms, max {}", number(spread.median), number(spread.max));
        let Spread { median, p10, p90, .. } = &rounds.ratio;
        let ratio = format!("{} (p10 {}, p90 {})", number(*median), number(*p10), number(*p90));
        format!(
            "mean commit, ratio {ratio}; publishing {}; pausing {}",
            told(publishing_ms),
            told(pausing_ms)
        )
    }
}

/// A commit: when it began, and how many milliseconds it took.
type Commit = (Instant, f64);

/// The writer's thread. Dropped, it stops.
struct Writer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<Vec<Commit>, Problem>>>,
}

impl Writer {
    fn start(mut book: Book) -> Result<Self, Problem> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let write = move || {
            let mut commits = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let (since, nth) = (Instant::now(), i64::try_from(commits.len()).unwrap_or(0));
                // Neighbouring commits are of investments far apart.
                commits.push((since, book.value_one(1 + nth * 37 % 10_000)?));
            }
            Ok(commits)
        };
        let thread = std::thread::Builder::new().name("writer".to_owned()).spawn(write);
        Ok(Self { stop, thread: Some(thread.map_err(|error| failed("start a writer", error))?) })
    }

    fn finish(mut self) -> Result<Vec<Commit>, Problem> {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        ended.unwrap_or(Ok(Ok(Vec::new()))).unwrap_or_else(|_| Err(failed("go on", "the writer ended early")))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // Whoever drops it does not want to know.
            let _ = thread.join();
        }
    }
}

pub(super) async fn measure(book: Book, site: &Site) -> Result<Writing, Problem> {
    let writer = Writer::start(book)?;
    let (mut rounds, mut publish_ms, mut pause) = (Vec::new(), Vec::new(), PAUSE);
    for round in 1..=ROUNDS {
        let begin = Instant::now();
        tokio::time::sleep(pause).await;
        let middle = Instant::now();
        publish_ms.push(api::publish(site, &format!("while writing {round}")).await?.1);
        let end = Instant::now();
        rounds.push((begin, middle, end));
        pause = (end - middle).max(PAUSE);
    }
    let commits = writer.finish()?;
    let (mut pausing, mut publishing, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for (begin, middle, end) in rounds {
        let (without, with) = (between(&commits, begin, middle), between(&commits, middle, end));
        // A half in which no commit began, on a machine that does something else, makes no pair.
        pairs.extend(mean(&without).zip(mean(&with)));
        pausing.extend(without);
        publishing.extend(with);
    }
    Ok(Writing {
        rounds: Paired::of(&pairs),
        pausing_ms: Spread::of(&pausing),
        publishing_ms: Spread::of(&publishing),
        pausing_commits: pausing.len(),
        publishing_commits: publishing.len(),
        publish_ms: Spread::of(&publish_ms),
    })
}

/// The milliseconds of the commits that began in this time.
fn between(commits: &[Commit], begin: Instant, end: Instant) -> Vec<f64> {
    commits.iter().filter(|(at, _)| begin <= *at && *at < end).map(|(_, took_ms)| *took_ms).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    let count = u32::try_from(values.len()).ok().filter(|&count| count > 0)?;
    Some(values.iter().sum::<f64>() / f64::from(count))
}

//! The store's application: this test binary again, in a process of its own, that commits as fast as it can.
//!
//! Locks between connections of one process never meet the kernel, so a writer in the test's own process would prove
//! less. What it has begun and what is committed stands in a file, which is no part of what is tested.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::PATIENCE;
use crate::lab_store::ledger;

const STORE: &str = "ASAT_LAB_WRITER_STORE";
const BOARD: &str = "ASAT_LAB_WRITER_BOARD";

/// What stands where on the board, each as eight bytes.
const BEGUN: u64 = 0;
const COMMITTED: u64 = 8;
/// What the writer is told: to go on, to rest, or to end.
const ORDER: u64 = 16;
/// What it is doing.
const DOING: u64 = 24;
/// The longest that a transaction took in microseconds.
const LONGEST: u64 = 32;
/// How long it pauses after each transaction, in microseconds.
const PAUSE: u64 = 40;

const GO_ON: u64 = 0;
const REST: u64 = 1;
const END: u64 = 2;

/// A writer at work. It ends with this value.
pub struct Writer {
    child: Child,
    board: Board,
}

/// The file in which both sides write.
struct Board(File);

impl Board {
    fn open(path: &Path) -> Self {
        let mut options = OpenOptions::new();
        Self(options.read(true).write(true).create(true).truncate(false).open(path).unwrap())
    }

    fn get(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.read_exact_at(&mut bytes, at).unwrap();
        u64::from_le_bytes(bytes)
    }

    fn set(&self, at: u64, value: u64) {
        self.0.write_all_at(&value.to_le_bytes(), at).unwrap();
    }
}

impl Writer {
    /// Starts a process that goes on with the store after its last transaction, with a pause after each.
    pub fn start(store: &Path, board: &Path, pause: Duration) -> Self {
        let file = Board::open(board);
        let seq = ledger::seq(&ledger::connect(store));
        for (at, value) in [(BEGUN, seq), (COMMITTED, seq), (ORDER, GO_ON), (DOING, REST), (LONGEST, 0)] {
            file.set(at, value);
        }
        file.set(PAUSE, pause.as_micros() as u64);
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["lab_speed::writer::another_process", "--exact"]).env(STORE, store).env(BOARD, board);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let writer = Self { child, board: file };
        writer.wait_until("the writer writes", || writer.committed() > seq);
        writer
    }

    /// The newest transaction that is surely committed.
    pub fn committed(&self) -> u64 {
        self.board.get(COMMITTED)
    }

    /// The newest transaction that may be committed.
    pub fn begun(&self) -> u64 {
        self.board.get(BEGUN)
    }

    /// The longest that a transaction took since it last rested.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.board.get(LONGEST))
    }

    /// Has the writer rest, and waits until it does, between two transactions.
    pub fn order_rest(&self) {
        self.board.set(ORDER, REST);
        self.wait_until("the writer rests", || self.board.get(DOING) == REST);
    }

    /// Has the writer go on, and waits until it does.
    pub fn order_on(&self) {
        self.board.set(ORDER, GO_ON);
        self.wait_until("the writer goes on", || self.board.get(DOING) == GO_ON);
    }

    /// Waits until something new is committed.
    pub fn wait_for_another(&self) {
        let before = self.committed();
        self.wait_until("the writer commits", || self.committed() > before);
    }

    /// Ends the writer. That it never met an error is part of the test.
    pub fn stop(mut self) {
        self.board.set(ORDER, END);
        assert!(self.child.wait().unwrap().success(), "the store's writer was disturbed");
    }

    /// Polls: the other side has no way to call.
    fn wait_until(&self, what: &str, is_so: impl Fn() -> bool) {
        let patience = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < patience, "it never came to this: {what}");
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What the other process does. In a run of all tests it has nothing to do.
#[test]
fn another_process() {
    let (Some(store), Some(board)) = (std::env::var_os(STORE), std::env::var_os(BOARD)) else { return };
    let (mut store, board) = (ledger::connect(&PathBuf::from(store)), Board::open(&PathBuf::from(board)));
    let mut seq = ledger::seq(&store);
    let (mut longest, pause) = (Duration::ZERO, Duration::from_micros(board.get(PAUSE)));
    loop {
        match board.get(ORDER) {
            GO_ON => board.set(DOING, GO_ON),
            REST => {
                board.set(DOING, REST);
                longest = Duration::ZERO;
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            _ => return,
        }
        seq += 1;
        board.set(BEGUN, seq);
        let began = Instant::now();
        ledger::commit(&mut store, seq).unwrap();
        longest = longest.max(began.elapsed());
        board.set(COMMITTED, seq);
        board.set(LONGEST, longest.as_micros() as u64);
        std::thread::sleep(pause);
    }
}

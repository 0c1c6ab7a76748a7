//! The answers to the kernel.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::thread;
use std::time::{Duration, SystemTime};

use asat_core::register::Register;
use asat_core::tree::{Kind, Node};
use asat_core::{Code, Problem};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, Notifier, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty,
    ReplyEntry, ReplyLseek, ReplyOpen, ReplyXattr, Request,
};

use super::inodes::Inodes;
use super::{Content, Settings, Versions, Watch};

/// How much the kernel asks for at once, in bytes: what it does by itself, where the library would have it ask for more.
const REQUEST_BYTES: u32 = 128 << 10;
/// So many requests for what is read ahead may wait for an answer. With fewer, the kernel leaves out what it would have asked
/// for last, and the reader waits when he comes there.
const MOST_AHEAD: u16 = 64;
/// A version of at most so many bytes is given to the kernel unasked.
const SHORT_BYTES: u64 = 1 << 20;
/// Stands in a list for a number that is told once somebody looks.
const UNTOLD: INodeNo = INodeNo(0xffff_ffff);

/// The tree, as the kernel asks for it.
pub(super) struct Files<V: Versions> {
    versions: Arc<OnceLock<V>>,
    inodes: RwLock<Inodes>,
    open: Arc<Handles<Arc<Opening<V::Open>>>>,
    lists: Handles<Arc<[(String, FileType)]>>,
    /// What nobody uses at the moment of the memory that answers are read into. New memory for each would cost more than
    /// what is read into it: the kernel gives it page by page.
    idle: Mutex<Vec<Vec<u8>>>,
    /// By this the kernel is given what it has not asked for. It is there once the tree is mounted.
    pub(super) notifier: Arc<OnceLock<Notifier>>,
    /// Held by the thread that gives something.
    giving: Mutex<()>,
    owner: Owner,
    ending: Arc<Ending>,
}

/// A file that somebody has open.
struct Opening<C> {
    content: Arc<C>,
    /// Whether its rest was given to the kernel, which is done once.
    is_given: AtomicBool,
}

impl<C> Opening<C> {
    fn of(content: Arc<C>) -> Arc<Self> {
        Arc::new(Self { content, is_given: AtomicBool::new(false) })
    }
}

/// The end of a session, be it that it is unmounted or that its connection is ended.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) is_over: AtomicBool,
    pub(super) watch: Arc<Watch>,
}

/// Who may read.
#[derive(Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
    mode: u16,
}

impl<V: Versions> Files<V> {
    pub(super) fn new(versions: Arc<OnceLock<V>>, settings: &Settings, ending: Arc<Ending>) -> Self {
        let group = settings.group.unwrap_or_else(|| rustix::process::getegid().as_raw());
        let owner = Owner { user: rustix::process::geteuid().as_raw(), group, mode: settings.mode };
        let inodes = RwLock::new(Inodes::new());
        let (open, lists, idle) = (Arc::default(), Handles::default(), Mutex::default());
        let (notifier, giving) = (Arc::default(), Mutex::default());
        Self { versions, inodes, open, lists, idle, notifier, giving, owner, ending }
    }

    fn look<T>(&self, look: impl FnOnce(&Register) -> T) -> Result<T, Errno> {
        Ok(self.versions.get().ok_or(Errno::EIO)?.look(look))
    }

    fn node(&self, number: INodeNo) -> Result<Node, Errno> {
        read(&self.inodes).node(number.0).cloned().ok_or(Errno::ESTALE)
    }

    fn kind(&self, node: &Node) -> Result<Kind, Errno> {
        self.look(|register| node.kind(register))?.ok_or(Errno::ENOENT)
    }

    /// What has a name in a folder; `None` where nothing ever will.
    fn find(&self, folder: INodeNo, name: &OsStr) -> Result<Option<(Node, Kind)>, Errno> {
        let folder = self.node(folder)?;
        let found = self.look(|register| {
            let node = folder.find(register, name.to_str()?)?;
            let kind = node.kind(register)?;
            Some((node, kind))
        })?;
        if found.is_none() && !folder.is_complete() { Err(Errno::ENOENT) } else { Ok(found) }
    }

    fn list(&self, folder: INodeNo) -> Result<Arc<[(String, FileType)]>, Errno> {
        let node = self.node(folder)?;
        self.look(|register| {
            let listed = node.list(register).into_iter();
            let kinds = listed.filter_map(|(name, node)| Some((name, file_type(&node.kind(register)?))));
            let dots = [".", ".."].map(|name| (name.to_owned(), FileType::Directory));
            dots.into_iter().chain(kinds).collect()
        })
    }

    fn link(&self, link: INodeNo) -> Result<String, Errno> {
        match self.kind(&self.node(link)?)? {
            Kind::Link(target) => Ok(target),
            Kind::Folder | Kind::File { .. } => Err(Errno::EINVAL),
        }
    }

    /// Gives the kernel the rest of a short version, of which somebody has read the beginning and soon reads more. It begins a request further, so
    /// that it stays ahead of those who read in order.
    fn give_rest(&self, number: INodeNo, opening: &Opening<V::Open>, read: usize) {
        let (content, mut at) = (&opening.content, len(read) + u64::from(REQUEST_BYTES));
        if content.length() > SHORT_BYTES || at >= content.length() {
            return;
        }
        // The kernel may have this wait until another thread has answered a read, so one thread at a time does it.
        let (Some(notifier), Ok(_alone)) = (self.notifier.get(), self.giving.try_lock()) else { return };
        if opening.is_given.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut memory = self.memory(bytes(REQUEST_BYTES));
        while at < content.length() {
            let piece = memory.get_mut(..bytes(REQUEST_BYTES)).unwrap_or_default();
            let Some(length @ 1..) = content.read_unasked(at, piece) else { break };
            if notifier.store(number, at, piece.get(..length).unwrap_or_default()).is_err() {
                break;
            }
            at += len(length);
        }
        lock(&self.idle).push(memory);
    }

    /// Memory for so many bytes at least.
    fn memory(&self, bytes: usize) -> Vec<u8> {
        let mut memory = lock(&self.idle).pop().unwrap_or_default();
        memory.resize(memory.len().max(bytes), 0);
        memory
    }

    fn attributes(&self, number: INodeNo) -> Result<(FileAttr, Duration), Errno> {
        let node = self.node(number)?;
        Ok((self.owner.attributes(number, &self.kind(&node)?), node.lasts()))
    }
}

/// Reads what may take as long as a service far away takes to answer.
fn read_far(content: &impl Content, offset: u64, size: usize, reply: ReplyData) {
    let mut memory = vec![0; size];
    match content.read_at(offset, &mut memory) {
        Ok(length) => reply.data(memory.get(..length).unwrap_or_default()),
        Err(_) => reply.error(Errno::EIO),
    }
    content.look_ahead();
}

impl<V: Versions> Filesystem for Files<V> {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Old kernels look one name of a folder up after the other.
        let _ = config.add_capabilities(InitFlags::FUSE_PARALLEL_DIROPS);
        // What is read ahead comes in several requests, which several threads answer, and the reader goes on as soon as it
        // has the first. The kernel bounds a request by what could be written in one.
        let _ = config.set_max_write(REQUEST_BYTES);
        let _ = config.set_max_background(MOST_AHEAD);
        Ok(())
    }

    fn destroy(&mut self) {
        self.ending.is_over.store(true, Ordering::Release);
        self.ending.watch.ring();
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.find(parent, name) {
            Ok(Some((node, kind))) => {
                let number = INodeNo(write(&self.inodes).tell(&node));
                reply.entry(&node.lasts(), &self.owner.attributes(number, &kind), Generation(0));
            }
            // The number 0 says "nothing", which the kernel keeps for as long as it is told; an error it would not keep.
            Ok(None) => {
                let nothing = self.owner.attributes(INodeNo(0), &Kind::Folder);
                reply.entry(&Node::LASTING, &nothing, Generation(0));
            }
            Err(error) => reply.error(error),
        }
    }

    fn forget(&self, _: &Request, number: INodeNo, times: u64) {
        write(&self.inodes).forget(number.0, times);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(number) {
            Ok((attributes, lasts)) => reply.attr(&lasts, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        match self.link(number) {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let id = match self.node(number) {
            Ok(Node::Database(id)) => id,
            Ok(_) => return reply.error(Errno::EISDIR),
            Err(error) => return reply.error(error),
        };
        let flags = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH;
        if let Some(content) = self.versions.get().and_then(|versions| versions.opened(&id)) {
            return reply.opened(self.open.add(Opening::of(content)), flags);
        }
        let (versions, open) = (Arc::clone(&self.versions), Arc::clone(&self.open));
        // It may have to wait, and those who read must not wait with it. Without a thread the reply is dropped, which
        // answers with an error.
        let opening = move || match versions.get().map(|versions| versions.open(&id)) {
            Some(Ok(content)) => reply.opened(open.add(Opening::of(content)), flags),
            Some(Err(problem)) => reply.error(errno(&problem)),
            None => reply.error(Errno::EIO),
        };
        drop(thread::Builder::new().name("opening".to_owned()).spawn(opening));
    }

    fn read(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(opening) = self.open.get(handle) else { return reply.error(Errno::EBADF) };
        let (content, size) = (&opening.content, bytes(size));
        if content.is_far() {
            // The others must not wait with it. Without a thread the reply is dropped, which answers with an error.
            let reading = move || read_far(&*opening.content, offset, size, reply);
            return drop(thread::Builder::new().name("reading".to_owned()).spawn(reading));
        }
        let mut memory = self.memory(size);
        let read = content.read_at(offset, memory.get_mut(..size).unwrap_or_default());
        match read {
            Ok(length) => reply.data(memory.get(..length).unwrap_or_default()),
            Err(_) => reply.error(Errno::EIO),
        }
        lock(&self.idle).push(memory);
        content.look_ahead();
        if let (0, Ok(length)) = (offset, read) {
            self.give_rest(number, &opening, length);
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        drop(self.open.remove(handle));
        reply.ok();
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.list(number) {
            Ok(list) => reply.opened(self.lists.add(list), FopenFlags::empty()),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let Some(list) = self.lists.get(handle) else { return reply.error(Errno::EBADF) };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for ((name, kind), next) in list.iter().zip(1..).skip(from) {
            if reply.add(UNTOLD, next, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        drop(self.lists.remove(handle));
        reply.ok();
    }

    // The kernel asks for these once, and then knows that there are none.
    fn getxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _: &Request, _: INodeNo, _: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        reply.error(Errno::ENOSYS);
    }
}

impl Owner {
    fn attributes(self, number: INodeNo, kind: &Kind) -> FileAttr {
        let (size, time) = match kind {
            Kind::Folder => (0, SystemTime::UNIX_EPOCH),
            Kind::Link(target) => (u64::try_from(target.len()).unwrap_or(0), SystemTime::UNIX_EPOCH),
            Kind::File { bytes, cut_at } => (*bytes, SystemTime::from(*cut_at)),
        };
        let perm = match kind {
            // Whoever may read may enter.
            Kind::Folder => self.mode | (self.mode & 0o444) >> 2,
            Kind::Link(_) => 0o777,
            Kind::File { .. } => self.mode,
        };
        FileAttr {
            ino: number,
            size,
            blocks: size.div_ceil(512),
            atime: time,
            mtime: time,
            ctime: time,
            crtime: time,
            kind: file_type(kind),
            perm,
            nlink: 1,
            uid: self.user,
            gid: self.group,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn file_type(kind: &Kind) -> FileType {
    match kind {
        Kind::Folder => FileType::Directory,
        Kind::Link(_) => FileType::Symlink,
        Kind::File { .. } => FileType::RegularFile,
    }
}

/// What the kernel tells a program of a problem.
fn errno(problem: &Problem) -> Errno {
    match problem.code {
        Code::UnknownStore | Code::UnknownVersion | Code::Retired | Code::NotReadable => Errno::ENOENT,
        Code::InUse => Errno::EBUSY,
        Code::StorageFull => Errno::ENOSPC,
        _ => Errno::EIO,
    }
}

/// What the kernel has open, each by a number of its own.
struct Handles<T> {
    open: RwLock<HashMap<u64, T>>,
    last: AtomicU64,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { open: RwLock::default(), last: AtomicU64::new(0) }
    }
}

impl<T: Clone> Handles<T> {
    fn add(&self, value: T) -> FileHandle {
        let number = self.last.fetch_add(1, Ordering::Relaxed);
        write(&self.open).insert(number, value);
        FileHandle(number)
    }

    fn get(&self, handle: FileHandle) -> Option<T> {
        read(&self.open).get(&handle.0).cloned()
    }

    /// The value is dropped by the caller, when the others do not wait for it.
    fn remove(&self, handle: FileHandle) -> Option<T> {
        write(&self.open).remove(&handle.0)
    }
}

fn bytes(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn len(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

//! Buckets of S3, GCS, Azure and compatible services, and folders: by Apache's `object_store`.
//!
//! Credentials come from where the services' own tools have them: the environment, files, roles of the machine. None is ever in a URL.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    GetOptions, GetRange, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode, PutOptions, PutPayload,
    RetryConfig, WriteMultipart,
};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::watch;

use crate::bucket::{Bucket, Entry, Part, Parts, part_bytes};
use crate::error::{Error, told};
use crate::layout;
use crate::protection::{self, Protection};
use crate::s3::S3;

/// How long one request may take, and how long it may take until there is a connection. A line of half a megabit a second carries a part in this time.
const TIMEOUTS: [(&str, &str); 2] = [("timeout", "150 seconds"), ("connect_timeout", "10 seconds")];
/// How often a request that may be repeated is, and for how long at most: the caller tries again later anyway.
const RETRIES: (usize, Duration) = (3, Duration::from_secs(60));
/// So many parts of one object are on their way at once, each of which is in memory.
const PARTS_AT_ONCE: usize = 2;
/// What is refused, is refused in this time; what takes longer has failed in another way.
const AT_ONCE: Duration = Duration::from_secs(2);
/// So many parts of objects are read at once.
const READS_AT_ONCE: usize = 16;

/// How many bytes of parts are in memory at once, whatever is stored. One object is stored in any case.
const BUDGET_BYTES: u64 = 64 << 20;
/// An object that is not longer than this is short.
const SHORT_BYTES: u64 = 8 << 20;
/// An object that is not longer than this is stored with one request, if the machine has the memory: in parts it takes two more than it has
/// parts. All of it is in memory, which a service may be allowed less of than the machine has.
const WHOLE_BYTES: u64 = 128 << 20;
/// It may take this part of the machine's memory; the budget in any case.
const MEMORY_PART: u64 = 64;

/// Ends what is under way, from any thread.
#[derive(Clone, Debug)]
pub struct Stop(Arc<watch::Sender<bool>>);

impl Stop {
    /// Nothing is ended yet.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Ends what is under way, and whatever is begun later, with [`Error::Stopped`].
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Default for Stop {
    fn default() -> Self {
        Self::new()
    }
}

/// How many requests were made, and how many bytes they carried. Requests that were repeated count once.
#[derive(Debug, Default)]
pub struct Requests {
    /// Those that services price as writes: creations, parts, listings.
    pub writes: AtomicU64,
    /// Those that services price as reads.
    pub reads: AtomicU64,
    /// Bytes that were sent in objects.
    pub sent_bytes: AtomicU64,
    /// Bytes that were received in objects.
    pub received_bytes: AtomicU64,
}

/// What waits for the network. It may be dropped by a thread that others wait for, and so the drop waits for nothing.
#[derive(Debug)]
struct Background(Option<Runtime>);

impl Background {
    fn wait<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        self.0.as_ref().map_or(Err(Error::Stopped), |runtime| runtime.block_on(work))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// A bucket by its service, or a folder.
#[derive(Debug)]
pub struct Service {
    url: String,
    store: Box<dyn ObjectStore>,
    s3: Option<S3>,
    runtime: Background,
    stop: Stop,
    /// A folder lists its files in no order.
    is_sorted: bool,
    /// The folder, if it is one.
    folder: Option<PathBuf>,
    requests: Requests,
    budget: Budget,
    /// What is not longer than this is stored with one request.
    whole_bytes: AtomicU64,
}

impl Service {
    /// Opens the place that a URL names: `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX`, or `file:///FOLDER`, which must
    /// exist. The service is not asked anything.
    ///
    /// # Errors
    /// [`Error::Url`] if the URL or what the environment says of the service cannot be used.
    pub fn open(url: &str, stop: Stop) -> Result<Self, Error> {
        Self::open_with(url, stop, &[])
    }

    /// The same, with options that the environment does not have, such as `endpoint` and `region`, by the names that `object_store` has
    /// for them.
    ///
    /// # Errors
    /// As [`Self::open`]; if there is no such option.
    pub fn open_with(url: &str, stop: Stop, options: &[(&str, &str)]) -> Result<Self, Error> {
        let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
        if url.contains(['@', '?', '#']) {
            // A password would stand in every message.
            let what =
                "it has more than a bucket and a prefix; credentials come from the environment".to_owned();
            let scheme = if scheme.contains(['@', '?', '#']) { "" } else { scheme };
            return Err(Error::Url { url: format!("the URL {scheme}://…"), what });
        }
        let unusable = |what: String| Error::Url { url: url.to_owned(), what };
        let (scheme, place) = url.split_once("://").ok_or_else(|| unusable("it has no scheme".to_owned()))?;
        let Opened { store, s3, prefix } = open(scheme, place, options).map_err(unusable)?;
        // With a thread of its own for the network: a caller whose disk is slow holds nobody else up.
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|error| unusable(format!("the machine has no room for it: {error}")))?;
        let store: Box<dyn ObjectStore> = match prefix.as_ref() {
            "" => store,
            _ => Box::new(PrefixStore::new(store, prefix)),
        };
        let url = url.trim_end_matches('/').to_owned();
        Ok(Self {
            url,
            store,
            s3,
            runtime: Background(Some(runtime)),
            stop,
            is_sorted: scheme != "file",
            folder: (scheme == "file").then(|| PathBuf::from(place)),
            requests: Requests::default(),
            budget: Budget::default(),
            whole_bytes: AtomicU64::new(whole_bytes()),
        })
    }

    /// The same, if objects that are longer than this are stored in parts: 64 MiB else, and up to 128 MiB on a machine with
    /// 8 GiB of memory.
    #[must_use]
    pub fn in_parts_above(self, bytes: u64) -> Self {
        Self { whole_bytes: AtomicU64::new(bytes), ..self }
    }

    /// What was asked of the service.
    #[must_use]
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Tries what these credentials can destroy, with objects below `probe/` that are made for it.
    ///
    /// # Errors
    /// [`Error::Stopped`]. That it cannot be tried is an answer.
    pub fn protection(&self) -> Result<Protection, Error> {
        if self.folder.is_some() { Ok(Protection::Folder) } else { protection::tried(self) }
    }

    /// The bucket, if it is one of S3.
    pub(crate) fn s3(&self) -> Option<&S3> {
        self.s3.as_ref()
    }

    /// Stores a small object; answers the version that the service says it is.
    pub(crate) fn store_version(&self, key: &str, bytes: &'static str) -> Result<Option<String>, Error> {
        count(&self.requests.writes, 1);
        count(&self.requests.sent_bytes, bytes.len());
        let path = Path::from(key);
        let stored = self
            .wait(async { self.store.put(&path, bytes.into()).await.map_err(self.failed("store", key)) })?;
        Ok(stored.version)
    }

    /// Waits for the service, unless this is stopped.
    pub(crate) fn wait<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let mut stopped = self.stop.0.subscribe();
        self.runtime.wait(async {
            tokio::select! {
                done = work => done,
                _ = stopped.wait_for(|stopped| *stopped) => Err(Error::Stopped),
            }
        })
    }

    fn failed(&self, doing: &'static str, key: &str) -> impl Fn(object_store::Error) -> Error {
        let (key, url) = (key.to_owned(), self.url.clone());
        move |error| {
            let (key, url, what) = (key.clone(), url.clone(), told(&error));
            match error {
                object_store::Error::PermissionDenied { .. }
                | object_store::Error::Unauthenticated { .. } => Error::Forbidden { doing, key, url, what },
                // Of a listing and of a deletion, the library has no kind for it.
                _ if [" 401 ", " 403 ", "(code: AccessDenied)"]
                    .iter()
                    .any(|status| what.contains(status)) =>
                {
                    Error::Forbidden { doing, key, url, what }
                }
                _ => Error::Service { doing, key, url, what },
            }
        }
    }

    /// That a folder is there, if it is one: what is written while a disk is away would lie below where it comes, and nothing is missing
    /// because of that.
    fn must_be_there(&self, doing: &'static str, key: &str) -> Result<(), Error> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let needs =
            if key.starts_with(layout::STORES) { folder.join(layout::REPOSITORY) } else { folder.clone() };
        if needs.exists() {
            return Ok(());
        }
        let what = format!("there is no {}; is its disk mounted?", needs.display());
        Err(Error::Service { doing, key: key.to_owned(), url: self.url.clone(), what })
    }

    /// Stores an object whose parts are all in memory, with one request. If a slow line or a server that takes no long ones does not let that
    /// through, it is stored in parts, and so is what is stored after it and is longer than half of it.
    async fn store_whole(&self, key: &str, parts: Vec<Bytes>) -> Result<(), Error> {
        count(&self.requests.writes, 1);
        count(&self.requests.sent_bytes, parts.iter().map(Bytes::len).sum());
        let whole = parts.iter().cloned().collect::<PutPayload>();
        let stored = self.store.put(&Path::from(key), whole).await.map_err(self.failed("store", key));
        match (stored, parts.split_first()) {
            (Err(Error::Service { .. }), Some((first, rest @ [_, ..]))) => {
                let mut rest = rest.iter().cloned().map(Ok);
                self.store_in_parts(key, first.clone(), &mut rest).await?;
                let bytes = parts.iter().map(Bytes::len).sum::<usize>();
                self.whole_bytes.store(u64::try_from(bytes / 2).unwrap_or(0), Ordering::Relaxed);
                Ok(())
            }
            (stored, _) => stored.map(drop),
        }
    }

    /// Stores an object in parts; the first one was taken already.
    async fn store_in_parts(
        &self,
        key: &str,
        first: Bytes,
        rest: &mut dyn Iterator<Item = Result<Bytes, asat_archive::Error>>,
    ) -> Result<(), Error> {
        let failed = self.failed("store", key);
        let upload = self.store.put_multipart(&Path::from(key)).await.map_err(&failed)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, first.len());
        count(&self.requests.writes, 2);
        let mut part: Option<Result<Bytes, asat_archive::Error>> = Some(Ok(first));
        while let Some(taken) = part {
            let sent = match taken {
                Ok(bytes) => upload.wait_for_capacity(PARTS_AT_ONCE).await.map_err(&failed).map(|()| bytes),
                Err(error) => Err(error.into()),
            };
            match sent {
                Ok(bytes) => {
                    count(&self.requests.writes, 1);
                    count(&self.requests.sent_bytes, bytes.len());
                    upload.put(bytes);
                }
                Err(error) => {
                    // If even this fails, the parts stay with the service until its own rules remove them.
                    let _ = upload.abort().await;
                    return Err(error);
                }
            }
            part = rest.next();
        }
        upload.finish().await.map(drop).map_err(failed)
    }

    async fn read_part(&self, part: &Part) -> Result<Option<Vec<u8>>, Error> {
        let (path, range) = (Path::from(part.key.as_str()), Some(GetRange::Bounded(part.range.clone())));
        let began = Instant::now();
        let found = match self.store.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await {
            Ok(found) => found.bytes().await,
            Err(error) => Err(error),
        };
        let error = match found {
            Ok(bytes) => {
                count(&self.requests.received_bytes, bytes.len());
                return Ok(Some(bytes.to_vec()));
            }
            Err(object_store::Error::NotFound { .. }) => {
                return self.must_be_there("read", &part.key).map(|()| None);
            }
            Err(error) => error,
        };
        if began.elapsed() >= AT_ONCE {
            return Err(self.failed("read", &part.key)(error));
        }
        // An object that ends before the part has its range refused, each service in its own words.
        match self.store.head(&path).await {
            Ok(there) if there.size <= part.range.start => Ok(Some(Vec::new())),
            _ => Err(self.failed("read", &part.key)(error)),
        }
    }

    /// Takes so many bytes of what parts may take in memory, once they are there. It waits for others; what is short has room of its own, so
    /// that it does not wait for what is long.
    fn reserve(&self, bytes: u64) -> Result<impl Drop, Error> {
        struct Reserved<'a>(&'a Budget, u64);
        impl Drop for Reserved<'_> {
            fn drop(&mut self) {
                *self.0.lock() -= self.1;
                self.0.freed.notify_all();
            }
        }
        // One that is longer than the budget takes all of it.
        let bytes = bytes.min(BUDGET_BYTES);
        let mut used = self.budget.lock();
        let room = BUDGET_BYTES + if bytes <= SHORT_BYTES { SHORT_BYTES } else { 0 };
        while *used > 0 && *used + bytes > room {
            if *self.stop.0.borrow() {
                return Err(Error::Stopped);
            }
            let waited = self.budget.freed.wait_timeout(used, Duration::from_millis(100));
            used = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *used += bytes;
        drop(used);
        Ok(Reserved(&self.budget, bytes))
    }
}

/// Up to which length an object is stored with one request on this machine.
fn whole_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let memory = system.totalram.saturating_mul(u64::from(system.mem_unit));
    (memory / MEMORY_PART).clamp(BUDGET_BYTES, WHOLE_BYTES)
}

/// The bytes that are taken.
#[derive(Debug, Default)]
struct Budget {
    used: Mutex<u64>,
    freed: Condvar,
}

impl Budget {
    fn lock(&self) -> MutexGuard<'_, u64> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket for Service {
    fn url(&self) -> &str {
        &self.url
    }

    fn go_on(&self) -> Result<(), Error> {
        if *self.stop.0.borrow() { Err(Error::Stopped) } else { Ok(()) }
    }

    fn create(&self, key: &str, bytes: &[u8]) -> Result<bool, Error> {
        self.must_be_there("create", key)?;
        count(&self.requests.writes, 1);
        count(&self.requests.sent_bytes, bytes.len());
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let (path, body) = (Path::from(key), bytes.to_vec().into());
        self.wait(async {
            match self.store.put_opts(&path, body, options).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                    Ok(false)
                }
                Err(error) => Err(self.failed("create", key)(error)),
            }
        })
    }

    fn store(&self, key: &str, bytes: u64, parts: &mut Parts<'_>) -> Result<(), Error> {
        self.must_be_there("store", key)?;
        let mut parts = parts.map(|part| part.map(Bytes::from));
        if bytes <= self.whole_bytes.load(Ordering::Relaxed).max(part_bytes(bytes)) {
            let _reserved = self.reserve(bytes)?;
            let parts = parts.collect::<Result<Vec<Bytes>, _>>()?;
            return self.wait(self.store_whole(key, parts));
        }
        let parts_at_once = u64::try_from(PARTS_AT_ONCE + 1).unwrap_or(u64::MAX);
        let _reserved = self.reserve(part_bytes(bytes).saturating_mul(parts_at_once))?;
        let first = parts.next().transpose()?.unwrap_or_default();
        self.wait(self.store_in_parts(key, first, &mut parts))
    }

    fn read(&self, key: &str, take: &mut dyn FnMut(&[u8]) -> Result<(), Error>) -> Result<bool, Error> {
        let (path, failed) = (Path::from(key), self.failed("read", key));
        let (mut at, mut tries) = (0, 0);
        loop {
            count(&self.requests.reads, 1);
            let before = at;
            let read = self.wait(async {
                let range = (at > 0).then_some(GetRange::Offset(at));
                let found =
                    match self.store.get_opts(&path, GetOptions { range, ..GetOptions::default() }).await {
                        Err(object_store::Error::NotFound { .. }) => {
                            return self.must_be_there("read", key).map(|()| false);
                        }
                        found => found.map_err(&failed)?,
                    };
                let mut pieces = found.into_stream();
                while let Some(piece) = pieces.next().await {
                    let piece = piece.map_err(&failed)?;
                    take(&piece)?;
                    count(&self.requests.received_bytes, piece.len());
                    at += u64::try_from(piece.len()).unwrap_or(0);
                }
                Ok(true)
            });
            match read {
                // A connection that ended early is made anew from where it ended, as long as that gets on.
                Err(Error::Service { .. }) if at > 0 && (at > before || tries < RETRIES.0) => {
                    tries = if at > before { 0 } else { tries + 1 };
                }
                read => return read,
            }
        }
    }

    fn read_parts(&self, parts: &[Part]) -> Vec<Result<Option<Vec<u8>>, Error>> {
        count(&self.requests.reads, parts.len());
        let reads = stream::iter(parts).map(|part| self.read_part(part)).buffered(READS_AT_ONCE);
        match self.wait(async { Ok(reads.collect::<Vec<_>>().await) }) {
            Ok(read) => read,
            Err(_) => parts.iter().map(|_| Err(Error::Stopped)).collect(),
        }
    }

    fn look(&self, key: &str) -> Result<Option<Entry>, Error> {
        count(&self.requests.reads, 1);
        let path = Path::from(key);
        self.wait(async {
            match self.store.head(&path).await {
                Err(object_store::Error::NotFound { .. }) => Ok(None),
                found => found.map(|found| Some(entry(found))).map_err(self.failed("look at", key)),
            }
        })
    }

    fn list(&self, prefix: &str, after: Option<&str>, most: usize) -> Result<Vec<Entry>, Error> {
        count(&self.requests.writes, most.div_ceil(1000));
        let folder = Some(Path::from(prefix)).filter(|path| !path.as_ref().is_empty());
        let failed = self.failed("list", prefix);
        self.wait(async {
            let listed = match after {
                Some(after) => self.store.list_with_offset(folder.as_ref(), &Path::from(after)),
                None => self.store.list(folder.as_ref()),
            };
            let most_taken = if self.is_sorted { most } else { usize::MAX };
            let mut entries: Vec<Entry> =
                listed.map_ok(entry).take(most_taken).try_collect().await.map_err(failed)?;
            entries.sort_by(|one, next| one.key.cmp(&next.key));
            entries.truncate(most);
            Ok(entries)
        })
    }

    fn folders(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let failed = self.failed("list", prefix);
        let listed = self.wait(async {
            self.store.list_with_delimiter(Some(&Path::from(prefix))).await.map_err(failed)
        })?;
        count(&self.requests.writes, listed.common_prefixes.len().div_ceil(1000).max(1));
        let names = listed.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned));
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    fn delete(&self, key: &str) -> Result<(), Error> {
        count(&self.requests.writes, 1);
        let path = Path::from(key);
        self.wait(async {
            match self.store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(self.failed("delete", key)(error)),
            }
        })
    }
}

fn count(counter: &AtomicU64, more: usize) {
    counter.fetch_add(u64::try_from(more).unwrap_or(0), Ordering::Relaxed);
}

/// What a URL names.
struct Opened {
    store: Box<dyn ObjectStore>,
    s3: Option<S3>,
    /// Within the store.
    prefix: Path,
}

/// Opens what a URL names.
fn open(scheme: &str, place: &str, options: &[(&str, &str)]) -> Result<Opened, String> {
    let text = |error: object_store::Error| told(&error);
    if scheme == "file" {
        if !place.starts_with('/') {
            return Err("a folder is named from the root on: file:///FOLDER".to_owned());
        }
        if !std::path::Path::new(place).is_dir() {
            return Err(format!("there is no folder {place}; is its disk mounted?"));
        }
        let folder = LocalFileSystem::new_with_prefix(place).map_err(text)?.with_fsync(true);
        return Ok(Opened { store: Box::new(folder), s3: None, prefix: Path::default() });
    }
    let (bucket, prefix) = place.split_once('/').unwrap_or((place, ""));
    if bucket.is_empty() {
        return Err("it names no bucket".to_owned());
    }
    if bucket.ends_with("--x-s3") {
        // Their listings are in no order (https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-express-differences.html).
        return Err(
            "directory buckets of S3 cannot be listed in order; use a general purpose bucket".to_owned()
        );
    }
    let options: Vec<(&str, &str)> = TIMEOUTS.into_iter().chain(options.iter().copied()).collect();
    let retry = RetryConfig { max_retries: RETRIES.0, retry_timeout: RETRIES.1, ..RetryConfig::default() };
    let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|error| error.to_string())?;
    let mut s3 = None;
    let store: Box<dyn ObjectStore> = match scheme {
        "s3" => {
            let builder = AmazonS3Builder::from_env().with_bucket_name(bucket).with_retry(retry);
            let builder = configure(builder, &options, AmazonS3Builder::with_config)?;
            let (store, asked) = S3::open(summed(builder), &prefix).map_err(text)?;
            s3 = asked;
            Box::new(store)
        }
        "gs" => {
            let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket).with_retry(retry);
            Box::new(
                configure(builder, &options, GoogleCloudStorageBuilder::with_config)?
                    .build()
                    .map_err(text)?,
            )
        }
        "az" => {
            let builder = MicrosoftAzureBuilder::from_env().with_container_name(bucket).with_retry(retry);
            Box::new(configure(builder, &options, MicrosoftAzureBuilder::with_config)?.build().map_err(text)?)
        }
        _ => return Err(format!("{scheme}:// is none of s3://, gs://, az://, file://")),
    };
    Ok(Opened { store, s3, prefix })
}

/// Has AWS told the hash of what it gets: it takes nothing else into a bucket with Object Lock. Other servers may not know that header, so it
/// is an option there.
fn summed(builder: AmazonS3Builder) -> AmazonS3Builder {
    use AmazonS3ConfigKey::{Checksum, Endpoint, S3Endpoint};
    let elsewhere = |url: String| !url.contains(".amazonaws.com");
    let is_aws =
        ![Endpoint, S3Endpoint].iter().filter_map(|key| builder.get_config_value(key)).any(elsewhere);
    if is_aws && builder.get_config_value(&Checksum).is_none() {
        return builder.with_checksum_algorithm(object_store::aws::Checksum::SHA256);
    }
    builder
}

/// Sets options by the names that the service's library has for them.
fn configure<B, K: std::str::FromStr>(
    builder: B,
    options: &[(&str, &str)],
    with: impl Fn(B, K, String) -> B,
) -> Result<B, String> {
    options.iter().try_fold(builder, |builder, (name, value)| {
        let key = name.parse().map_err(|_| format!("it has no option {name}"))?;
        Ok(with(builder, key, (*value).to_owned()))
    })
}

fn entry(found: ObjectMeta) -> Entry {
    let nanoseconds = found.last_modified.timestamp_nanos_opt().unwrap_or(0);
    let modified = Timestamp::from_nanosecond(i128::from(nanoseconds)).unwrap_or(Timestamp::UNIX_EPOCH);
    Entry { key: found.location.into(), bytes: found.size, modified }
}

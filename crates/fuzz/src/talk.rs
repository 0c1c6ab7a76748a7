//! What is said over a connection: by callers of the API to the daemon, by a server to the client, and by the daemon's own processes,
//! which may have been taken over.

use std::fmt::Debug;

use asat::outside;
use asat_client::Server;
use asat_client::sse::{Event, Parser};
use asat_host::outside as host;
use asat_host::worker::Identity;
use asat_wire as wire;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{pieces, text};

/// What is taken and written is taken again, and is the same then.
fn read<T: Serialize + DeserializeOwned + Debug>(bytes: &[u8]) {
    if let Ok(taken) = serde_json::from_slice::<T>(bytes) {
        let written = serde_json::to_string(&taken).expect("what was read can be written");
        let again: T = serde_json::from_str(&written).expect("what was written can be read");
        assert_eq!(serde_json::to_string(&again).unwrap(), written, "of {taken:?}");
    }
}

pub(crate) fn bodies(bytes: &[u8]) {
    read::<wire::PublishRequest>(bytes);
    read::<wire::MountRequest>(bytes);
    read::<wire::RenewRequest>(bytes);
    read::<wire::PinRequest>(bytes);
    read::<wire::RestoreRequest>(bytes);
    read::<wire::TagRequest>(bytes);
    read::<wire::RetentionRules>(bytes);
    read::<wire::AcceptRequest>(bytes);
    read::<wire::AcknowledgeRequest>(bytes);
}

pub(crate) fn queries(bytes: &[u8]) {
    let query = text(bytes);
    assert_eq!(outside::query(&query, true), query.is_empty(), "a route that takes none takes none");
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    assert!(outside::query(&query, false) || !query.bytes().all(is_plain), "what is not escaped can be read");
}

pub(crate) fn cursors(bytes: &[u8]) {
    if let Some((read, written)) = outside::place_in_list(&text(bytes)) {
        let again = written.split_once('.').and_then(|(_, place)| outside::place_in_list(place));
        assert_eq!(again, Some((written.clone(), written)), "of {read}");
    }
}

pub(crate) fn ranges(bytes: &[u8]) {
    let [length, header] = pieces(bytes);
    let length = length.iter().take(8).fold(0, |length, byte| length << 8 | u64::from(*byte));
    if let Some((first, end)) = outside::range(&text(header), length) {
        assert!(first <= end && end <= length, "{first}..{end} of {length}");
    }
}

/// A stream that arrives in these pieces, up to where it cannot be read.
fn stream<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<Event> {
    let mut parser = Parser::default();
    pieces.map_while(|piece| parser.push(piece).ok()).flatten().collect()
}

pub(crate) fn events(bytes: &[u8]) {
    let whole = stream(std::iter::once(bytes));
    // However the stream is cut, it says the same.
    for size in [1, 7, 64] {
        assert_eq!(stream(bytes.chunks(size)), whole, "in pieces of {size}");
    }
    assert!(whole.iter().all(|event| !event.name.is_empty()));
}

pub(crate) fn servers(bytes: &[u8]) {
    if let Ok(server) = text(bytes).parse::<Server>() {
        assert_eq!(server.to_string().parse(), Ok(server));
    }
}

pub(crate) fn workers(bytes: &[u8]) {
    let (head, words) = bytes.split_at(bytes.len().min(5));
    if let Ok(head) = head.try_into()
        && let Some((length, _)) = host::frame_head(head)
    {
        assert!(length <= 4 << 20, "a worker says how much memory the daemon takes");
    }
    for read in [host::said, host::ordered] {
        if let Ok(written) = read(words) {
            assert_eq!(read(written.as_bytes()).expect("what was written can be read"), written);
        }
    }
    if let Ok(identity) = text(words).parse::<Identity>() {
        assert_eq!(identity.to_string().parse(), Ok(identity));
    }
}

pub(crate) fn brake(bytes: &[u8]) {
    for read in [host::brake_request, host::brake_answer] {
        if let Some(written) = read(bytes) {
            assert_eq!(read(written.as_bytes()).as_ref(), Some(&written));
        }
    }
}

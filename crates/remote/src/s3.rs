//! What S3 can be asked beyond objects, and `object_store` does not ask: what a bucket keeps of what is replaced or deleted, and one version of an
//! object.
//!
//! `object_store` signs these requests as URLs, with the credentials and the client that it has for all others.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use http::{HeaderName, HeaderValue, Method, StatusCode};
use object_store::ClientOptions;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::client::{
    HttpClient, HttpConnector, HttpRequest, HttpRequestBody, HttpResponseBody, ReqwestConnector,
};
use object_store::path::Path;
use object_store::signer::{SignedUrlOptions, Signer as _};
use serde::Deserialize;

use crate::error::{line, told};
use crate::protection::{LockMode, Retention};

/// How long a signed request is valid: clocks may differ.
const VALID: Duration = Duration::from_secs(600);
/// No answer is longer.
const MOST_BYTES: usize = 64 << 10;
/// Asks for more than Object Lock in governance mode lets others do.
const BYPASS: HeaderName = HeaderName::from_static("x-amz-bypass-governance-retention");

/// A bucket of S3, asked directly.
#[derive(Debug)]
pub(crate) struct S3 {
    store: AmazonS3,
    client: HttpClient,
    /// What the keys begin with in the bucket.
    prefix: Path,
}

/// What came of a request for something to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deleted {
    /// It was done.
    Done,
    /// Access was denied.
    Denied,
    /// Neither of both, for this reason.
    Failed(String),
}

/// Keeps the client that a bucket is asked with.
#[derive(Clone, Debug, Default)]
struct Connector(Arc<Mutex<Option<HttpClient>>>);

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let client = ReqwestConnector::default().connect(options)?;
        // There may be another one before, for the credentials; the bucket's comes last.
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(client.clone());
        Ok(client)
    }
}

impl S3 {
    /// Opens a bucket; answers it also as what `object_store` knows.
    pub(crate) fn open(
        builder: AmazonS3Builder,
        prefix: &Path,
    ) -> object_store::Result<(AmazonS3, Option<Self>)> {
        let connector = Connector::default();
        let store = builder.with_http_connector(connector.clone()).build()?;
        let client = connector.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let asked = client.map(|client| Self { store: store.clone(), client, prefix: prefix.clone() });
        Ok((store, asked))
    }

    /// Whether the bucket keeps what is replaced or deleted.
    pub(crate) async fn keeps_versions(&self) -> Result<bool, String> {
        let answer = self.ask(Method::GET, &Path::default(), ("versioning", ""), false).await?;
        versioning(answer.0, &answer.1)
    }

    /// How long Object Lock keeps what is stored without saying for how long, if it does.
    pub(crate) async fn retention(&self) -> Result<Option<Retention>, String> {
        let answer = self.ask(Method::GET, &Path::default(), ("object-lock", ""), false).await?;
        retention(answer.0, &answer.1)
    }

    /// Deletes one version of an object for good; in spite of Object Lock, if that is asked for and these credentials may.
    pub(crate) async fn delete_version(&self, key: &str, version: &str, bypass: bool) -> Deleted {
        let key = Path::from(key);
        let path: Path = self.prefix.parts().chain(key.parts()).collect();
        match self.ask(Method::DELETE, &path, ("versionId", version), bypass).await {
            Ok((status, body)) => deleted(status, &body),
            Err(why) => Deleted::Failed(why),
        }
    }

    /// The status and the body of an answer.
    async fn ask(
        &self,
        method: Method,
        key: &Path,
        query: (&str, &str),
        bypass: bool,
    ) -> Result<(StatusCode, Vec<u8>), String> {
        let mut options = SignedUrlOptions::new().with_query([query]);
        if bypass {
            options = options.with_signed_header(BYPASS, HeaderValue::from_static("true"));
        }
        let url = self.store.signed_url_opts(method.clone(), key, VALID, &options).await;
        let url = url.map_err(|error| told(&error))?;
        let mut request = HttpRequest::new(HttpRequestBody::empty());
        *request.method_mut() = method;
        *request.uri_mut() = url.as_str().parse().map_err(|_| "its URL cannot be asked".to_owned())?;
        *request.headers_mut() = options.signed_headers;
        let (head, body) = self.client.execute(request).await.map_err(|error| told(&error))?.into_parts();
        Ok((head.status, read(body).await?))
    }
}

async fn read(body: HttpResponseBody) -> Result<Vec<u8>, String> {
    let (mut pieces, mut bytes) = (body.bytes_stream(), Vec::new());
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| told(&error))?);
        if bytes.len() > MOST_BYTES {
            return Err(format!("its answer is longer than {MOST_BYTES} bytes"));
        }
    }
    Ok(bytes)
}

/// The documents that are read, by the names of their roots.
#[derive(Debug, Deserialize)]
enum Document {
    // moto has the other name.
    #[serde(alias = "GetBucketVersioningResponse")]
    VersioningConfiguration(Versioning),
    ObjectLockConfiguration(ObjectLock),
    Error(Refusal),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Versioning {
    status: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ObjectLock {
    rule: Option<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Rule {
    default_retention: Option<DefaultRetention>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DefaultRetention {
    mode: String,
    #[serde(default)]
    days: u32,
    #[serde(default)]
    years: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Refusal {
    code: String,
    #[serde(default)]
    message: String,
}

fn document(body: &[u8]) -> Option<Document> {
    quick_xml::de::from_str(str::from_utf8(body).ok()?).ok()
}

/// Why an answer does not say what was asked.
fn refused(status: StatusCode, body: &[u8]) -> String {
    match document(body) {
        Some(Document::Error(Refusal { code, message })) => {
            line(&format!("the service answers {}, {code}: {message}", status.as_u16()))
        }
        _ => format!("the service answers {}, in a way that is not S3's", status.as_u16()),
    }
}

/// Reads whether a bucket keeps versions.
pub(crate) fn versioning(status: StatusCode, body: &[u8]) -> Result<bool, String> {
    match document(body) {
        Some(Document::VersioningConfiguration(Versioning { status: found })) if status.is_success() => {
            match found.as_deref() {
                Some("Enabled") => Ok(true),
                Some("Suspended") | None => Ok(false),
                Some(other) => Err(line(&format!("its versioning is {other}"))),
            }
        }
        _ => Err(refused(status, body)),
    }
}

/// Reads how long a bucket keeps what is stored.
pub(crate) fn retention(status: StatusCode, body: &[u8]) -> Result<Option<Retention>, String> {
    let rule = match document(body) {
        Some(Document::ObjectLockConfiguration(ObjectLock { rule })) if status.is_success() => rule,
        Some(Document::Error(Refusal { code, .. })) if code == "ObjectLockConfigurationNotFoundError" => None,
        _ => return Err(refused(status, body)),
    };
    let Some(DefaultRetention { mode, days, years }) = rule.and_then(|rule| rule.default_retention) else {
        return Ok(None);
    };
    let mode = match mode.as_str() {
        "GOVERNANCE" => LockMode::Governance,
        "COMPLIANCE" => LockMode::Compliance,
        _ => return Err(line(&format!("its Object Lock has mode {mode}"))),
    };
    match (days, years) {
        (0, 0) => Err("its Object Lock says no time".to_owned()),
        _ => Ok(Some(Retention { mode, days, years })),
    }
}

/// Reads what came of a deletion.
pub(crate) fn deleted(status: StatusCode, body: &[u8]) -> Deleted {
    match document(body) {
        _ if status.is_success() => Deleted::Done,
        Some(Document::Error(Refusal { code, .. })) if code == "AccessDenied" => Deleted::Denied,
        _ => Deleted::Failed(refused(status, body)),
    }
}

#[cfg(test)]
mod tests;

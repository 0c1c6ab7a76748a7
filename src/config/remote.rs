//! Where history is kept beside this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use asat_core::{Code, Problem};
use asat_remote::{Identities, Recipients, is_secret};

use super::raw;
use super::validate::{duration, wrong};

/// After how long a version that is not in the bucket is an alarm, if nothing is configured.
const LATE_AFTER: &str = "1h";
/// What names of options have that are secrets: they come from the environment.
const SECRET: [&str; 6] = ["secret", "key", "token", "password", "sas", "credential"];

/// What the place of a repository begins with.
pub const SCHEMES: [&str; 4] = ["s3://", "gs://", "az://", "file:///"];

/// Where a repository is, and what reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryPlace {
    /// `s3://BUCKET/PREFIX` and the like.
    pub url: String,
    /// What the service's library is told beside the environment, such as `endpoint`.
    pub options: BTreeMap<String, String>,
    /// The file with the identities that read what is encrypted there.
    pub identity: Option<PathBuf>,
}

impl RepositoryPlace {
    /// The options, as the crate takes them.
    #[must_use]
    pub fn options(&self) -> Vec<(&str, &str)> {
        self.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    /// Reads the identities, if a file is named.
    ///
    /// # Errors
    /// If the file cannot be used.
    pub fn identities(&self) -> Result<Option<Identities>, Problem> {
        let hint = "name a file that age-keygen has made, and that nobody but the one who runs asat may read";
        let refused = |what| Problem::new(Code::Configuration, what, hint);
        self.identity.as_deref().map(|file| Identities::read(file).map_err(refused)).transpose()
    }
}

/// A repository to which this asat publishes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteConfig {
    /// Where it is.
    pub place: RepositoryPlace,
    /// To whom everything is encrypted, as age writes recipients; nothing is if there is none.
    pub recipients: Vec<String>,
    /// Whether retention and people give a version up only when it is in the bucket.
    pub required: bool,
    /// After how long a version that is not in the bucket is an alarm.
    pub late_after: Duration,
}

/// A place that a section names, with its options.
pub(super) fn place(
    section: &str,
    url: &str,
    options: &BTreeMap<String, String>,
    identity: Option<&PathBuf>,
) -> Result<RepositoryPlace, Problem> {
    let is_place = SCHEMES.iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme));
    if !is_place || url.contains(['@', '?', '#']) || url.chars().any(char::is_control) {
        // It may have a password in it, which is not repeated.
        let what = "is not the place of a repository".to_owned();
        return Err(wrong(
            &format!("{section}.url"),
            what,
            "write for example \"s3://BUCKET/PREFIX\"; credentials come from the environment",
        ));
    }
    let names_secret = |name: &&String| SECRET.iter().any(|part| name.to_lowercase().contains(part));
    if let Some(name) = options.keys().find(names_secret) {
        let what = format!("has {name}, and secrets do not stand in the configuration");
        return Err(wrong(
            &format!("{section}.options"),
            what,
            "put it into the environment of the service (docs/remote.md)",
        ));
    }
    if let Some(file) = identity.filter(|file| !file.is_absolute()) {
        let what = match is_secret(&file.to_string_lossy()) {
            true => "is an identity, and not the name of its file".to_owned(),
            false => format!("is {}, which is no absolute path", file.display()),
        };
        return Err(wrong(
            &format!("{section}.identity"),
            what,
            "write for example \"/etc/asat/identity.txt\"",
        ));
    }
    Ok(RepositoryPlace { url: url.to_owned(), options: options.clone(), identity: identity.cloned() })
}

/// Those to whom everything is encrypted, if there are any.
///
/// # Errors
/// If one is none of age's.
pub fn recipients(texts: &[String]) -> Result<Option<Recipients>, Problem> {
    if texts.is_empty() {
        return Ok(None);
    }
    let hint = "write what age-keygen -y shows of the identity: \"age1...\"";
    Recipients::parse(texts).map(Some).map_err(|what| wrong("remote.recipients", what, hint))
}

pub(super) fn validate(raw: &raw::Remote) -> Result<RemoteConfig, Problem> {
    Ok(RemoteConfig {
        place: place("remote", &raw.url, &raw.options, raw.identity.as_ref())?,
        recipients: recipients(&raw.recipients)?.map(|recipients| recipients.texts()).unwrap_or_default(),
        required: raw.required.unwrap_or(true),
        late_after: duration("remote.late_after", raw.late_after.as_deref().unwrap_or(LATE_AFTER))?,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Config;

    fn parse(text: &str) -> Result<RemoteConfig, Problem> {
        Config::parse(&format!("[remote]\n{text}"), Path::new("/etc/asat"))
            .map(|config| config.remote.unwrap())
    }

    #[test]
    fn a_repository_has_a_place_and_what_is_left_out_is_usual() {
        let config =
            parse("url = \"s3://history/reports\"\noptions = { endpoint = \"http://127.0.0.1:9000\" }")
                .unwrap();
        assert_eq!(config.place.options(), [("endpoint", "http://127.0.0.1:9000")]);
        assert_eq!((config.required, config.late_after), (true, Duration::from_secs(3600)));
        assert!(Config::parse("", Path::new("/etc/asat")).unwrap().remote.is_none());
    }

    #[test]
    fn what_is_no_place_or_has_a_secret_is_refused_and_no_secret_is_repeated() {
        let wrong = [
            "",
            "url = \"\"",
            "url = \"s3://\"",
            "url = \"ftp://host/x\"",
            "url = \"file://relative\"",
            "url = \"s3://user:hunter2@history/x\"",
            "url = \"s3://history/x?secret=hunter2\"",
            "url = \"s3://history\"\nlate_after = \"soon\"",
            "url = \"s3://history\"\nunknown = 1",
            "url = \"s3://history\"\noptions = { aws_secret_access_key = \"hunter2\" }",
            "url = \"s3://history\"\nrecipients = [\"age1x\"]",
            "url = \"s3://history\"\nrecipients = [\"AGE-SECRET-KEY-1HUNTER2hunter2\"]",
            "url = \"s3://history\"\nidentity = \"relative\"",
            "url = \"s3://history\"\nidentity = \"AGE-SECRET-KEY-1hunter2\"",
            "url = \"s3://history\"\nrecipients = [\" age-secret-key-1hunter2\"]",
            "url = \"s3://history\"\noptions = { Session_Token = \"hunter2\" }",
        ];
        for text in wrong {
            let problem = parse(text).unwrap_err().to_string();
            assert!(!problem.contains("hunter2"), "{problem}");
        }
    }
}

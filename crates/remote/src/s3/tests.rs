//! Answers as they come, and as they should not.

use super::*;

/// What versitygw and moto answer.
const ENABLED: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>Enabled</Status></VersioningConfiguration>"#;
const LOCKED: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ObjectLockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><ObjectLockEnabled>Enabled</ObjectLockEnabled><Rule><DefaultRetention><Mode>GOVERNANCE</Mode><Days>30</Days><Years>0</Years></DefaultRetention></Rule></ObjectLockConfiguration>"#;
const DENIED: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>AccessDenied</Code><Message>Access Denied.</Message><RequestId>A1</RequestId></Error>"#;

fn kept(text: &str) -> Result<bool, String> {
    versioning(StatusCode::OK, text.as_bytes())
}

fn locked(text: &str) -> Result<Option<Retention>, String> {
    retention(StatusCode::OK, text.as_bytes())
}

#[test]
fn whether_versions_are_kept() {
    assert_eq!(kept(ENABLED), Ok(true));
    assert_eq!(kept(&ENABLED.replace("Enabled", "Suspended")), Ok(false));
    assert_eq!(kept("<VersioningConfiguration/>"), Ok(false));
    assert_eq!(kept(r#"<VersioningConfiguration xmlns="x"></VersioningConfiguration>"#), Ok(false));
    let mfa = ENABLED.replace("<Status>", "<MfaDelete>Disabled</MfaDelete><Status>");
    assert_eq!(kept(&mfa), Ok(true));
    assert_eq!(kept(&ENABLED.replace("Enabled", "Later")), Err("its versioning is Later".to_owned()));
    // Whatever it says, it was refused.
    assert!(versioning(StatusCode::NOT_IMPLEMENTED, ENABLED.as_bytes()).is_err());
    let denied = versioning(StatusCode::FORBIDDEN, DENIED.as_bytes());
    assert_eq!(denied, Err("the service answers 403, AccessDenied: Access Denied.".to_owned()));
}

#[test]
fn how_long_object_lock_keeps() {
    let days = Retention { mode: LockMode::Governance, days: 30, years: 0 };
    assert_eq!(locked(LOCKED), Ok(Some(days)));
    assert_eq!(days.to_string(), "30 days");
    let year = LOCKED.replace("<Days>30</Days><Years>0</Years>", "<Years>1</Years>");
    let year = locked(&year.replace("GOVERNANCE", "COMPLIANCE")).unwrap().unwrap();
    assert_eq!((year.mode, year.to_string().as_str()), (LockMode::Compliance, "1 year"));
    let none = "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled>";
    for rule in ["", "<Rule></Rule>", "<Rule/>"] {
        assert_eq!(locked(&format!("{none}{rule}</ObjectLockConfiguration>")), Ok(None), "{rule}");
    }
    let missing = DENIED.replace("AccessDenied", "ObjectLockConfigurationNotFoundError");
    assert_eq!(retention(StatusCode::NOT_FOUND, missing.as_bytes()), Ok(None));
    for (wrong, by) in
        [("GOVERNANCE", "NOBODY"), ("30", "0"), ("30", "-1"), ("30", "99999999999"), ("30", "many")]
    {
        assert!(locked(&LOCKED.replace(wrong, by)).is_err(), "{by}");
    }
    assert!(retention(StatusCode::FORBIDDEN, DENIED.as_bytes()).is_err());
}

#[test]
fn what_came_of_a_deletion() {
    assert_eq!(deleted(StatusCode::NO_CONTENT, b""), Deleted::Done);
    assert_eq!(deleted(StatusCode::FORBIDDEN, DENIED.as_bytes()), Deleted::Denied);
    // A clock that is wrong, or a proxy, says nothing of the right.
    let skewed = DENIED.replace("AccessDenied", "RequestTimeTooSkewed");
    for (status, body) in [(403, skewed.as_str()), (403, ""), (403, "<html>403</html>"), (503, "")] {
        let found = deleted(StatusCode::from_u16(status).unwrap(), body.as_bytes());
        assert!(matches!(found, Deleted::Failed(_)), "{body}: {found:?}");
    }
}

#[test]
fn what_is_none_of_these_answers_says_nothing() {
    let deep = "<VersioningConfiguration>".to_owned() + &"<a>".repeat(20_000);
    let long = ENABLED.replace("Enabled", &"E".repeat(60_000));
    let entities = "<!DOCTYPE a [<!ENTITY b \"Enabled\"><!ENTITY c \"&b;&b;\">]>".to_owned()
        + &ENABLED.replace("<?xml version=\"1.0\" encoding=\"UTF-8\"?>", "").replace("Enabled", "&c;");
    let twice = ENABLED.replace("</Status>", "</Status><Status>Suspended</Status>");
    let strange = [
        "",
        " ",
        "garbage",
        "{\"Status\": \"Enabled\"}",
        "<html><body>Enabled</body></html>",
        "<Status>Enabled</Status>",
        "<",
        "<VersioningConfiguration",
        "<VersioningConfiguration><Status>Enabled</VersioningConfiguration></Status>",
        "\0\u{1}\u{feff}<a/>",
        &deep,
        &long,
        &entities,
        &twice,
        DENIED,
    ];
    for text in strange {
        let told = [kept(text).unwrap_err(), locked(text).unwrap_err()];
        assert!(told.iter().all(|told| told.len() < 2_000 && !told.contains('\n')), "{told:?}");
    }
    assert!(versioning(StatusCode::OK, b"\xff\xfe<\0V\0").is_err());
    // Whatever is cut off.
    for text in [ENABLED, LOCKED] {
        for end in 0..text.len() - 1 {
            let (kept, locked) = (kept(&text[..end]), locked(&text[..end]));
            assert!(kept.is_err() && locked.is_err(), "{end}: {kept:?}, {locked:?}");
        }
    }
}

//! `/stores/{name}/tags`: names that lead to versions, and move.

use std::sync::Arc;

use asat_core::event::{Event, Reply};
use asat_core::{Code, Problem, TagName};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;

use super::extract::{self, Body, Segments};
use super::{Answer, Caller, Face};
use asat_wire::{ProblemBody, Tag, TagList, TagRequest};

/// Lists the tags of a store.
#[utoipa::path(
    get, path = "/stores/{name}/tags", operation_id = "list_tags", tag = "tags",
    params(("name" = String, Path, description = "The store")),
    responses(
        (status = 200, description = "The tags, by name", body = TagList),
        (status = 400, description = "The name cannot be read", body = ProblemBody),
        (status = 404, description = "No such store", body = ProblemBody),
    )
)]
pub(super) async fn list(
    State(face): State<Arc<Face>>,
    Segments(name): Segments<String>,
) -> Answer<Json<TagList>> {
    let store = extract::store(&name)?;
    let engine = face.handle.engine();
    let tags = engine.register().history(&store)?.tags.values().map(Tag::new).collect();
    Ok(Json(TagList { tags }))
}

/// Has a tag lead to a version, whatever it led to before. A version that has one is not given up.
#[utoipa::path(
    put, path = "/stores/{name}/tags/{tag}", operation_id = "tag", tag = "tags", request_body = TagRequest,
    params(
        ("name" = String, Path, description = "The store"),
        ("tag" = String, Path, description = "The tag, for example `month-end-2026-10`; neither a number nor `latest`"),
    ),
    responses(
        (status = 200, description = "The tag, which was there before", body = Tag),
        (status = 201, description = "A new tag", body = Tag),
        (status = 400, description = "The request cannot be read", body = ProblemBody),
        (status = 404, description = "No such store or version", body = ProblemBody),
        (status = 409, description = "The version cannot be read", body = ProblemBody),
        (status = 410, description = "The version was retired", body = ProblemBody),
        (status = 413, description = "The body is too large", body = ProblemBody),
        (status = 415, description = "The body is not JSON", body = ProblemBody),
        (status = 422, description = "A value is not allowed, or the version is another store's", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn tag(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments((name, tag)): Segments<(String, String)>,
    Body(TagRequest { version }): Body<TagRequest>,
) -> Answer<(StatusCode, Json<Tag>)> {
    let (store, name) = (extract::store(&name)?, read(&tag)?);
    let version = extract::version(&version)?;
    let (tag, is_new) = ask(&face, caller, Event::Tag { store, name, version }).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Json(tag)))
}

/// Deletes a tag; the version stays.
#[utoipa::path(
    delete, path = "/stores/{name}/tags/{tag}", operation_id = "untag", tag = "tags",
    params(
        ("name" = String, Path, description = "The store"),
        ("tag" = String, Path, description = "The tag"),
    ),
    responses(
        (status = 200, description = "The tag as it was", body = Tag),
        (status = 400, description = "A name cannot be read", body = ProblemBody),
        (status = 404, description = "No such store or tag", body = ProblemBody),
        (status = 503, description = "The daemon is stopping", body = ProblemBody),
        (status = 507, description = "There is no room to record it", body = ProblemBody),
    )
)]
pub(super) async fn untag(
    State(face): State<Arc<Face>>,
    caller: Caller,
    Segments((name, tag)): Segments<(String, String)>,
) -> Answer<Json<Tag>> {
    let (store, name) = (extract::store(&name)?, read(&tag)?);
    Ok(Json(ask(&face, caller, Event::Untag { store, name }).await?.0))
}

/// The tag as it is now, or was, and whether it is new.
async fn ask(face: &Face, caller: Caller, event: Event) -> Result<(Tag, bool), Problem> {
    match face.handle.ask(caller.by, event).await? {
        Reply::Tagged { tag, before } => Ok((Tag::new(&tag), before.is_none())),
        other => {
            let detail = format!("a tag got another answer: {other:?}");
            Err(Problem::new(Code::Internal, detail, "report this as a defect"))
        }
    }
}

fn read(text: &str) -> Result<TagName, Problem> {
    text.parse().map_err(|error: asat_core::NameError| {
        Problem::new(Code::Malformed, error.to_string(), "choose a name like month-end-2026-10")
    })
}

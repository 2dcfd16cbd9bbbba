//! Conditional requests for methods that change files: `If-Match`, `If-None-Match` and the others
//! (RFC 9110 section 13), and `If` (RFC 4918 section 10.4).
//!
//! Conditions on the resource of the request, and on the target of a COPY or MOVE, are evaluated
//! when they are changed, while no other request changes names. `If` may name other resources,
//! whose entity tags are looked up when the request begins.

use crate::authorization::authorizer::Action;
use crate::backend::path::NamespacePath;
use crate::backend::{
    BackendError, BackendErrorKind, ChangePrecondition, EntryMetadata, Precondition,
};
use crate::context::ServerContext;
use crate::http_error::HttpError;
use crate::request::ServerRequest;
use hither_http::conditions::{ConditionResult, evaluate};
use hither_http::if_header::IfHeader;
use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use std::collections::HashMap;

/// The conditions of a request.
#[derive(Debug)]
pub(crate) struct Conditions {
    headers: HeaderMap,
    states: Option<(IfHeader, HashMap<String, TaggedState>)>,
}

/// The state of a resource that the field `If` names.
#[derive(Debug)]
enum TaggedState {
    /// It is the resource of the request.
    Own,
    /// It is the target of the request.
    Target,
    /// The entity tag of another one; none if it does not exist for this client.
    Other(Option<String>),
}

impl Conditions {
    /// The conditions of a request, with the states of other resources that they name than its
    /// `target`.
    pub(crate) async fn read(
        context: &ServerContext,
        request: &ServerRequest,
        target: Option<&NamespacePath>,
    ) -> Result<Self, HttpError> {
        let headers = request.headers.clone();
        let header = IfHeader::parse(&headers)
            .map_err(|error| HttpError::new(StatusCode::BAD_REQUEST, error.to_string()))?;
        let Some(header) = header else { return Ok(Self { headers, states: None }) };
        let mut states = HashMap::new();
        for resource in header.resources() {
            let state = match NamespacePath::destination(resource, request.host.as_ref()) {
                Ok(path) if path.path() == request.path.path() => TaggedState::Own,
                Ok(path) if context.authorize(request, &path, Action::Read).is_ok() => {
                    if target.is_some_and(|target| path.path() == target.path()) {
                        states.insert(resource.to_owned(), TaggedState::Target);
                        continue;
                    }
                    let there = context.backend.stat(path.path()).await.ok();
                    TaggedState::Other(there.map(|there| there.version.etag))
                }
                Err(error) if error.status == StatusCode::BAD_REQUEST => return Err(error),
                // On another server, or not visible to this client.
                Ok(_) | Err(_) => TaggedState::Other(None),
            };
            states.insert(resource.to_owned(), state);
        }
        Ok(Self { headers, states: Some((header, states)) })
    }

    /// The conditions of a file in a batched upload: that there is none, or one of this version.
    pub(crate) fn of_upload(only_new: bool, etag: &str) -> Result<Self, HttpError> {
        let mut headers = HeaderMap::new();
        if only_new {
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        if !etag.is_empty() {
            let bad = |_| HttpError::new(StatusCode::BAD_REQUEST, "the entity tag is not valid");
            headers.insert(header::IF_MATCH, HeaderValue::from_str(etag).map_err(bad)?);
        }
        Ok(Self { headers, states: None })
    }

    /// Fails unless the conditions hold for the present entry.
    pub(crate) fn check(&self, there: Option<&EntryMetadata>) -> Result<(), BackendError> {
        self.check_change(there, None)
    }

    /// Fails unless the conditions hold for the present entry, and for that of the target.
    fn check_change(
        &self,
        there: Option<&EntryMetadata>,
        target: Option<&EntryMetadata>,
    ) -> Result<(), BackendError> {
        let version = there.map(|metadata| &metadata.version);
        let own = version.map(|version| version.etag.as_str());
        let target = target.map(|metadata| metadata.version.etag.as_str());
        let holds = self.states.as_ref().is_none_or(|(header, states)| {
            header.holds(|resource| match resource.and_then(|it| states.get(it)) {
                Some(TaggedState::Other(tag)) => tag.as_deref(),
                Some(TaggedState::Target) => target,
                Some(TaggedState::Own) | None => own,
            })
        });
        match evaluate(&self.headers, version, false) {
            ConditionResult::Proceed if holds => Ok(()),
            _ => Err(BackendError::precondition_failed()),
        }
    }

    /// The conditions on an entry that may be missing.
    pub(crate) fn on_target(self) -> Precondition {
        Box::new(move |there| self.check(there))
    }

    /// The conditions on an entry that has to exist, as a directory if the path ends with a slash.
    pub(crate) fn on_existing(self, path: &NamespacePath) -> Precondition {
        let change = self.on_change(path);
        Box::new(move |there| change(there, None))
    }

    /// As [`Self::on_existing`], and on the target of a change.
    pub(crate) fn on_change(self, path: &NamespacePath) -> ChangePrecondition {
        let needs_directory = path.is_directory();
        Box::new(move |there, target| {
            if needs_directory && there.is_some_and(|metadata| !metadata.is_directory()) {
                return Err(BackendError::not_found());
            }
            self.check_change(there, target)
        })
    }
}

/// A missing parent directory is a conflict (RFC 4918 section 9.7.1).
pub(crate) fn no_parent(error: BackendError) -> HttpError {
    match error.kind() {
        BackendErrorKind::NotFound => {
            HttpError::new(StatusCode::CONFLICT, "the parent directory does not exist")
        }
        _ => error.into(),
    }
}

//! Requests to the mock WebDAV server with faults.

use super::answers::Site;
use super::behaviour::{ChangeFault, LOGIN_PAGE, OF_ANOTHER_CLIENT, ReadFault, WebDavFault};
use super::message::{BodyEnd, Request, Response};

impl Site {
    /// The response to a request; `None` closes the connection without one.
    pub(super) fn respond(&mut self, request: &Request) -> Option<Response> {
        let here = request.path.strip_prefix("/elsewhere").unwrap_or(&request.path).to_owned();
        let fault = self.planned(&request.method, &request.path);
        if request.path == "/login" {
            return Some(Response::page(200, "text/html", LOGIN_PAGE));
        }
        match fault {
            Some(WebDavFault::Status(status)) => {
                let is_busy = matches!(status, 408 | 425 | 429 | 503);
                let after = if is_busy { "Retry-After: 0\r\n" } else { "" };
                Some(Response::new(status, after.to_owned(), Vec::new()))
            }
            Some(WebDavFault::Change(fault)) if request.is_change() => {
                self.change_wrongly(&here, request, fault)
            }
            Some(WebDavFault::Read(fault)) if !request.is_change() => {
                self.read_wrongly(&here, request, &fault)
            }
            _ => Some(self.carry_out(&here, request, None)),
        }
    }

    /// Logs a request; returns the fault that it meets.
    pub(super) fn planned(&mut self, method: &str, path: &str) -> Option<WebDavFault> {
        let nth = self.log.iter().filter(|(seen, _)| seen == method).count();
        self.log.push((method.to_owned(), path.to_owned()));
        let is_met = path != "/login" && !path.starts_with("/elsewhere/");
        let planned = self.faults.iter().find(|it| is_met && it.includes(method, nth));
        let fault = planned?.fault.clone();
        let path = self.subject(&fault, path);
        self.happened.push((fault.clone(), path));
        Some(fault)
    }

    fn change_wrongly(
        &mut self,
        here: &str,
        request: &Request,
        fault: ChangeFault,
    ) -> Option<Response> {
        let half = || request.body.get(..request.body.len() / 2).unwrap_or_default().to_vec();
        let with_body = |body| Request {
            method: request.method.clone(),
            path: here.to_owned(),
            query: request.query.clone(),
            head: request.head.clone(),
            body,
        };
        match fault {
            ChangeFault::Login(status) => Some(Response::redirect(status, "/login")),
            ChangeFault::Moved(status) => {
                Some(Response::redirect(status, &format!("/elsewhere{here}")))
            }
            ChangeFault::Claim(status, kind, body) => Some(Response::page(status, kind, body)),
            ChangeFault::Done(status, kind, body) => {
                self.carry_out(here, request, None);
                Some(Response::page(status, kind, body))
            }
            ChangeFault::Half => Some(self.carry_out(here, &with_body(half()), None)),
            ChangeFault::HalfLost => {
                self.carry_out(here, &with_body(half()), None);
                None
            }
            ChangeFault::Damaged => {
                Some(self.carry_out(here, &with_body(damaged(&request.body)), None))
            }
            ChangeFault::Lost => {
                self.carry_out(here, request, None);
                None
            }
            ChangeFault::LostAndMadeAgain => {
                if self.carry_out(here, request, None).status >= 300 {
                    self.happened.pop();
                    return None;
                }
                self.insert(here.trim_end_matches('/'), Some(OF_ANOTHER_CLIENT.to_vec()));
                None
            }
            ChangeFault::LostInSilence => {
                self.carry_out(here, request, None);
                Some(Response::silent())
            }
            ChangeFault::Silent => Some(Response::silent()),
            ChangeFault::Dropped => None,
            ChangeFault::DroppedAndRemoved => {
                self.remove(here);
                None
            }
        }
    }

    fn read_wrongly(
        &mut self,
        here: &str,
        request: &Request,
        fault: &ReadFault,
    ) -> Option<Response> {
        match fault {
            ReadFault::Login(status) => return Some(Response::redirect(*status, "/login")),
            ReadFault::Page => return Some(Response::page(200, "text/html", LOGIN_PAGE)),
            ReadFault::Dropped => return None,
            ReadFault::Silent => return Some(Response::silent()),
            ReadFault::Replaced(bytes) => self.replace(here, bytes),
            _ => {}
        }
        let mut response = self.carry_out(here, request, Some(fault));
        if !matches!(response.status, 200 | 206 | 207) {
            return Some(response);
        }
        let half = response.body.len() / 2;
        match fault {
            ReadFault::Cut => response.end = BodyEnd::Cut,
            ReadFault::Stalled => response.end = BodyEnd::Stalled,
            ReadFault::NoLength => response.end = BodyEnd::Close,
            ReadFault::NoLengthCut => {
                response.body.truncate(half);
                response.end = BodyEnd::Close;
            }
            ReadFault::Less => response.body.truncate(half),
            ReadFault::CutListing if response.status == 207 => response.body.truncate(half),
            ReadFault::Coded => response.fields.push_str("Content-Encoding: gzip\r\n"),
            ReadFault::Damaged => response.body = damaged(&response.body),
            _ => {}
        }
        Some(response)
    }

    /// Replaces the content of a file, as another client would.
    pub(super) fn replace(&mut self, path: &str, bytes: &[u8]) {
        let path = self.found(path).filter(|it| !it.ends_with('/'));
        path.into_iter().for_each(|path| self.insert(&path, Some(bytes.to_vec())));
    }

    /// The path to which a fault applies: for a name in a listing, the path of the name.
    fn subject(&self, fault: &WebDavFault, path: &str) -> String {
        let is_listing = matches!(
            fault,
            WebDavFault::Read(ReadFault::Omits | ReadFault::Refuses(_) | ReadFault::Insufficient)
        );
        let directory = self.found(path).filter(|it| is_listing && it.ends_with('/'));
        let names = directory.map(|it| self.names(&it, true)).unwrap_or_default();
        let last = names
            .into_iter()
            .skip(1)
            .rfind(|it| !self.behaviour.has_index || !it.path.trim_end_matches('/').contains("/."));
        last.map_or_else(|| path.to_owned(), |it| it.path)
    }
}

pub(super) fn damaged(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let middle = bytes.len() / 2;
    bytes.get_mut(middle).into_iter().for_each(|byte| *byte ^= 1);
    bytes
}

//! Sources of a copy: replicas of files, and Metalink documents that stand for the files that they
//! describe.

use crate::client::Client;
use crate::client::context::ClientContext;
use crate::client::mirrors::Mirror;
use crate::client::storage_path::local_path;
use async_trait::async_trait;
use hither_core::error::{Error, ErrorKind, Result};
use hither_core::storage::{DirEntry, FileKind, Storage, check_path, file_name};
use hither_core::{ReplicaSet, Source};
use hither_replicas::Replicas;
use hither_transfer::CopyPath;
use hither_transport::{Location, Protocol, ReplicaFinder, ReplicaList, is_metalink};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// The maximum size of a local document in bytes.
const MAX_DOCUMENT_BYTES: u64 = 8 << 20;

impl Client {
    /// The sources that `text` names: the files of a Metalink document, else one file or directory
    /// with these `replicas`.
    pub(super) async fn copy_sources(
        &self,
        text: &str,
        replicas: &[String],
    ) -> Result<Vec<CopyPath>> {
        let (name, listed) = match local_path(text) {
            Some(path) if is_document(&path) => {
                let name = path.display().to_string();
                let listed = ReplicaList::parse_all(&read(&path)?, &name, None)?;
                (name, listed)
            }
            Some(_) => return Ok(vec![self.copy_path(text, replicas)?]),
            None => match Location::parse(text) {
                Ok(url) if url.protocol() == Protocol::Http && is_metalink(&url) => {
                    (url.to_string(), self.context.network.listed_files(&url).await?)
                }
                _ => return Ok(vec![self.copy_path(text, replicas)?]),
            },
        };
        listed.into_iter().map(|file| self.listed_file(&name, file)).collect()
    }

    fn listed_file(&self, document: &str, listed: ReplicaList) -> Result<CopyPath> {
        let path = match file_name(&listed.name) {
            "" => listed.locations.first().map_or("", |first| file_name(first.path())),
            name => name,
        };
        check_path(path)?;
        let path = path.to_owned();
        let context = Arc::clone(&self.context);
        let storage = Arc::new(ListedFile { document: document.to_owned(), context, listed });
        Ok(CopyPath { storage, path, local: None, is_directory: false, contents: false })
    }

    /// Finds the replicas of files below `url`, by configuration and below `replicas`. `plain` is
    /// the URL as files below it are shown.
    pub(crate) fn replica_finder(
        &self,
        url: &str,
        plain: String,
        replicas: &[String],
    ) -> ReplicaFinder {
        let network = Arc::clone(&self.context.network);
        let mut mirrors = self.config().mirrors.clone();
        mirrors.add(Mirror { prefix: url.to_owned(), elsewhere: replicas.to_vec() });
        let url = url.to_owned();
        ReplicaFinder::new(network, Arc::clone(&self.context.health), move |written| {
            if written == plain {
                return mirrors.of(&url);
            }
            // Rules are about URLs as users write them.
            let base = url.split('?').next().unwrap_or_default().trim_end_matches('/');
            let rest = written.strip_prefix(plain.trim_end_matches('/'));
            let mut found = rest.map_or_else(Vec::new, |rest| mirrors.of(&format!("{base}{rest}")));
            let others = mirrors.of(written).into_iter().filter(|it| !found.contains(it));
            let others: Vec<_> = others.collect();
            found.extend(others);
            found
        })
    }
}

fn is_document(path: &Path) -> bool {
    let extension = path.extension().and_then(|it| it.to_str());
    extension.is_some_and(|it| matches!(it, "meta4" | "metalink")) && path.is_file()
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| {
        Error::new(ErrorKind::Local, format!("cannot read {}: {error}", path.display()))
    };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    file.take(MAX_DOCUMENT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_DOCUMENT_BYTES {
        let what = format!(
            "{} has more than {MAX_DOCUMENT_BYTES} bytes: that is not a Metalink document",
            path.display()
        );
        return Err(Error::new(ErrorKind::TooLarge, what));
    }
    Ok(bytes)
}

/// A storage that contains only the file of a Metalink document.
#[derive(Debug)]
struct ListedFile {
    document: String,
    context: Arc<ClientContext>,
    listed: ReplicaList,
}

impl ListedFile {
    fn find(&self) -> Result<Arc<Replicas>> {
        let mut listed = self.listed.clone();
        if listed.locations.is_empty() {
            let what = format!("{}: the document names no replica", self.document);
            return Err(Error::new(ErrorKind::NotFound, what));
        }
        let first = listed.locations.remove(0);
        let network = &self.context.network;
        let all = network.replicated(&first, Arc::clone(&self.context.health));
        network.enlist(&all, listed);
        Ok(all)
    }
}

#[async_trait]
impl Storage for ListedFile {
    fn name(&self) -> String {
        self.document.clone()
    }

    async fn stat(&self, path: &str) -> Result<DirEntry> {
        let Some(size) = self.listed.size else {
            let what = format!("{}: the document states no size", self.document);
            return Err(Error::new(ErrorKind::Unsupported, what));
        };
        Ok(DirEntry::new(path, FileKind::File, size))
    }

    fn source(&self, _: &str) -> Result<Arc<dyn Source>> {
        Ok(self.find()?)
    }

    fn replicas(&self, _: &str) -> Result<Option<Arc<dyn ReplicaSet>>> {
        Ok(Some(self.find()?))
    }
}

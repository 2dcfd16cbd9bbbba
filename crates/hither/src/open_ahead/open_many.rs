//! Many files at once, returned in the order of completion.

use crate::client::Client;
use crate::file::RemoteFile;
use futures_util::StreamExt;
use futures_util::future::{BoxFuture, FutureExt, ready};
use futures_util::stream::FuturesUnordered;
use hither_core::error::Result;
use std::fmt;
use std::sync::Arc;

/// The largest number of files that are being opened: more than are requested from any server at
/// once, so that files that a server has to make ready do not delay the others, and few enough for
/// a list of a million URLs.
const MAX_OPENING: usize = 4096;

/// An iterator over files in the order of completion: the number of each in the list, from 0, and
/// the file, or the error of opening it. Made by [`Client::open_many`].
pub struct OpenMany<'a> {
    client: &'a Client,
    urls: Box<dyn Iterator<Item = (usize, String)> + Send + 'a>,
    opening: FuturesUnordered<BoxFuture<'static, (usize, Result<RemoteFile>)>>,
}

impl fmt::Debug for OpenMany<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenMany").field("opening", &self.opening.len()).finish_non_exhaustive()
    }
}

impl Client {
    /// Opens files in parallel, bounded per server, and returns each as soon as it is open, with
    /// the number of its URL. A file that its server has to make ready first (202, or 503 with
    /// `Retry-After`) delays none of the others. A file that cannot be opened is returned as its
    /// error.
    ///
    /// For files in the order of the list, call [`Client::open`] for each: that opens ahead as
    /// well.
    ///
    /// ```no_run
    /// # let client = hither::Client::new(hither::ClientConfig::default())?;
    /// let urls = ["http://host/a.root", "http://host/b.root"];
    /// for (nth, file) in client.open_many(urls) {
    ///     println!("{}: {} bytes", urls[nth], file?.stat(&client)?.size);
    /// }
    /// # Ok::<(), hither::Error>(())
    /// ```
    pub fn open_many<'a, I>(&'a self, urls: I) -> OpenMany<'a>
    where
        I: IntoIterator<Item: Into<String> + 'a, IntoIter: Send + 'a>,
    {
        let urls = urls.into_iter().map(Into::into).enumerate();
        OpenMany { client: self, urls: Box::new(urls), opening: FuturesUnordered::new() }
    }
}

impl Iterator for OpenMany<'_> {
    type Item = (usize, Result<RemoteFile>);

    fn next(&mut self) -> Option<Self::Item> {
        while self.opening.len() < MAX_OPENING {
            let Some((nth, url)) = self.urls.next() else { break };
            self.opening.push(match self.client.file(&url) {
                Ok(file) => {
                    let task = file.path.open_ahead().map(Arc::clone);
                    if let Some(task) = &task {
                        self.client.open_ahead.enqueue(task);
                    }
                    async move {
                        let opened = match task {
                            Some(task) => task.ready().await,
                            None => Ok(()),
                        };
                        (nth, opened.map(|()| file))
                    }
                    .boxed()
                }
                Err(error) => ready((nth, Err(error))).boxed(),
            });
        }
        self.client.block_on(self.opening.next())
    }
}

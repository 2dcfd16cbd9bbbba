//! Reload: new settings for a running server.
//!
//! A reload is all or nothing. Everything that can fail (the check of the settings, key and
//! authority files, certificates, replicas, the file of the log) is made first, as at the start of
//! a server ([`PreparedReload`]). If something fails, nothing has changed, and the error has the
//! reason. Keys that only a restart changes ([`live::only_at_start`]) stay as they are, and the
//! caller gets their names.

use crate::authorization::authorizer::{AllowAll, Authorizer};
use crate::authorization::oidc_discovery::OidcDiscovery;
use crate::authorization::settings::AuthSettings;
use crate::connection::tls::{CertificateReloader, Current};
use crate::context::ServerContext;
use crate::referral::replica_map::ReplicaMap;
use crate::settings::Settings;
use crate::settings::live;
use crate::settings::live::LiveSettings;
use crate::third_party::copier::ThirdPartyCopier;
use hither_core::error::Result;
use hither_core::sync::lock;
use std::sync::{Arc, Mutex};
use tokio::runtime::Handle;
use tracing::{info, warn};

/// The parts of a server that are made of its settings, at the start and at a reload.
#[derive(Debug)]
pub(crate) struct PreparedReload {
    pub(crate) rules: LiveSettings,
    pub(crate) certificate: Option<Current>,
    /// The warnings about settings, one line each.
    pub(crate) warnings: Vec<String>,
}

impl PreparedReload {
    pub(crate) fn new(
        settings: &Settings,
        authorizer: Option<&Arc<dyn Authorizer>>,
        runtime: &Handle,
    ) -> Result<Self> {
        let has_authorizer = authorizer.is_some();
        settings.check_exposure(has_authorizer)?;
        let mut warnings = settings.warnings();
        let authorities = settings.auth.as_ref().map(AuthSettings::authorities).transpose()?;
        let files = settings.tls.clone();
        let certificate = files.map(|files| Current::load(files, authorities.flatten()));
        let authorizer = match (authorizer, &settings.auth) {
            (Some(authorizer), _) => Arc::clone(authorizer),
            (None, None) => Arc::new(AllowAll { write: settings.write }),
            (None, Some(auth)) => {
                let discovery = Arc::new(OidcDiscovery::new(runtime.clone()));
                Arc::new(auth.guard(settings.write, discovery)?)
            }
        };
        let replicas = Arc::new(ReplicaMap::new(&settings.replicas)?);
        let third_party = settings.third_party.clone();
        let third_party = third_party
            .map(|it| ThirdPartyCopier::open(it, &settings.root, runtime.clone()))
            .transpose()?;
        let limits = Arc::new(settings.limits.clone());
        let certificate = certificate.transpose()?;
        let links = settings.links.unwrap_or_else(|| settings.auth.is_none());
        let is_open = !has_authorizer && settings.auth.is_none();
        let names = settings.names.clone();
        let rules =
            LiveSettings { limits, authorizer, is_open, names, links, replicas, third_party };
        warnings.extend(certificate.iter().flat_map(|current| current.problems.iter().cloned()));
        Ok(Self { rules, certificate, warnings })
    }
}

/// Reloads the settings of a running server.
#[derive(Debug, Clone)]
pub struct Reloader(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The settings in force. Locked during a reload, so that one follows the other.
    settings: Mutex<Settings>,
    /// The caller's authorizer, which replaces that of the settings.
    authorizer: Option<Arc<dyn Authorizer>>,
    context: Arc<ServerContext>,
    tls: Option<Arc<CertificateReloader>>,
    runtime: Handle,
}

impl Reloader {
    pub(crate) fn new(
        settings: Settings,
        authorizer: Option<Arc<dyn Authorizer>>,
        context: Arc<ServerContext>,
        tls: Option<Arc<CertificateReloader>>,
        runtime: Handle,
    ) -> Self {
        let settings = Mutex::new(settings);
        Self(Arc::new(Inner { settings, authorizer, context, tls, runtime }))
    }

    /// Puts new settings in force, reads certificates, keys and authorities again, and reopens the
    /// file of the access log. May wait for the disk. Returns the keys whose new values need a
    /// restart.
    ///
    /// # Errors
    /// The problem of the new settings; nothing has changed then.
    pub fn reload(&self, settings: Settings) -> Result<Vec<&'static str>> {
        let reloaded = self.replace(settings);
        match &reloaded {
            Ok(needs_restart) => info!(?needs_restart, "settings reloaded"),
            Err(error) => warn!(%error, "settings not reloaded"),
        }
        reloaded
    }

    fn replace(&self, settings: Settings) -> Result<Vec<&'static str>> {
        let Inner { settings: now, authorizer, context, tls, runtime } = &*self.0;
        let mut now = lock(now);
        let left = live::only_at_start(&now, &settings);
        let next = live::merged(&now, settings);
        next.check()?;
        let PreparedReload { rules, certificate, .. } =
            PreparedReload::new(&next, authorizer.as_ref(), runtime)?;
        if let Some(path) = &next.access_log {
            context.records.log.reopen(path)?;
        }
        context.change_settings(rules);
        if let (Some(tls), Some(certificate)) = (tls, certificate) {
            tls.change(certificate);
        }
        *now = next;
        Ok(left)
    }
}

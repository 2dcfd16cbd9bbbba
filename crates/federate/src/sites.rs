//! Sites: the distances of endpoints from clients.
//!
//! A site is a label with the networks of its machines. A client belongs to the site of the
//! smallest network that contains its address. Endpoints of the same site are the nearest; then
//! come those of the sites that the site names as near, in its order; then all others.

use hither_core::error::{Error, ErrorKind, Result};
use hither_server::Cidr;
use serde::Deserialize;
use std::net::IpAddr;

/// The distance of an endpoint if no other is known.
pub const FAR: u16 = u16::MAX;

/// A site of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteSettings {
    /// The label, as used by endpoints.
    pub name: String,
    /// The networks of the site, such as `192.0.2.0/24`.
    #[serde(default)]
    pub networks: Vec<String>,
    /// The labels of other sites, the nearest first.
    #[serde(default)]
    pub near: Vec<String>,
}

/// The sites of a federation.
#[derive(Debug, Default)]
pub struct Sites {
    sites: Vec<SiteSettings>,
    /// Networks with the index of their site, the smallest networks first.
    networks: Vec<(Cidr, usize)>,
}

impl Sites {
    /// The sites of a configuration.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an invalid network.
    pub fn new(sites: Vec<SiteSettings>) -> Result<Self> {
        let mut networks = Vec::new();
        for (site, index) in sites.iter().zip(0..) {
            for text in &site.networks {
                let network = Cidr::parse(text).ok_or_else(|| {
                    let what = format!(
                        "sites: {text:?} of {} is not a network, expected one like 192.0.2.0/24",
                        site.name
                    );
                    Error::new(ErrorKind::Invalid, what)
                })?;
                networks.push((network, index));
            }
        }
        networks.sort_by_key(|(network, _)| std::cmp::Reverse(network.prefix_bits()));
        Ok(Self { sites, networks })
    }

    /// The distance of an endpoint with this label from a client: 0 at its own site, [`FAR`] where
    /// nothing is known.
    #[must_use]
    pub fn distance(&self, client: IpAddr, label: Option<&str>) -> u16 {
        let found = self.networks.iter().find(|(network, _)| network.contains(client));
        let site = found.and_then(|(_, index)| self.sites.get(*index));
        let (Some(site), Some(label)) = (site, label) else { return FAR };
        if site.name == label {
            return 0;
        }
        let position = site.near.iter().position(|near| near == label);
        position.and_then(|position| u16::try_from(position + 1).ok()).unwrap_or(FAR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: &str, networks: &[&str], near: &[&str]) -> SiteSettings {
        let owned = |list: &[&str]| list.iter().map(|it| (*it).to_owned()).collect();
        SiteSettings { name: name.to_owned(), networks: owned(networks), near: owned(near) }
    }

    #[test]
    fn the_smallest_network_names_the_site_of_a_client() {
        let sites = Sites::new(vec![
            site("ch", &["10.0.0.0/8", "2001:db8::/32"], &["de", "fr"]),
            site("de", &["10.7.0.0/16"], &[]),
        ])
        .unwrap();
        for (client, label, distance) in [
            ("10.1.2.3", Some("ch"), 0),
            ("::ffff:10.1.2.3", Some("ch"), 0),
            ("10.1.2.3", Some("de"), 1),
            ("2001:db8::1", Some("fr"), 2),
            ("10.7.0.1", Some("de"), 0),
            ("10.7.0.1", Some("ch"), FAR),
            ("10.1.2.3", None, FAR),
            ("192.0.2.1", Some("ch"), FAR),
        ] {
            assert_eq!(
                sites.distance(client.parse().unwrap(), label),
                distance,
                "{client} {label:?}"
            );
        }
        let error = Sites::new(vec![site("x", &["10.0.0.0/40"], &[])]).unwrap_err();
        assert!(error.to_string().contains("10.0.0.0/40"), "{error}");
    }
}

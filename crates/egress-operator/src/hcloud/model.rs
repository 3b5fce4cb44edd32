//! The provider's objects, reduced to the fields in use. Unknown fields are ignored, and null counts as absent.

use std::collections::BTreeMap;
use std::net::IpAddr;

use serde::{Deserialize, Deserializer, Serialize};

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FloatingIp {
    pub id: i64,
    /// Its name, unique in the project.
    #[serde(default, deserialize_with = "default_if_null")]
    pub name: String,
    /// Its address. For IPv6, the first address of the network.
    #[serde(deserialize_with = "parse_address")]
    pub ip: IpAddr,
    #[serde(default)]
    pub server: Option<i64>,
    #[serde(default, deserialize_with = "default_if_null")]
    pub blocked: bool,
    #[serde(default, deserialize_with = "default_if_null")]
    pub labels: BTreeMap<String, String>,
}

/// An asynchronous operation of the provider.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct HcloudAction {
    pub id: i64,
    #[serde(default)]
    pub status: HcloudActionStatus,
    #[serde(default)]
    pub error: Option<HcloudActionError>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HcloudActionStatus {
    Success,
    Error,
    /// Running, or in a state this client does not recognize.
    #[default]
    #[serde(other)]
    Running,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct HcloudActionError {
    /// Machine-readable code.
    #[serde(default, deserialize_with = "default_if_null")]
    pub code: String,
}

/// One page of floating IPs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FloatingIpPage {
    pub floating_ips: Vec<FloatingIp>,
    #[serde(default)]
    meta: Meta,
}

impl FloatingIpPage {
    /// Number of the next page, if there is one.
    #[must_use]
    pub fn next_page(&self) -> Option<u32> {
        self.meta.pagination.as_ref()?.next_page
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
struct Meta {
    #[serde(default)]
    pagination: Option<Pagination>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Pagination {
    #[serde(default)]
    next_page: Option<u32>,
}

#[derive(Debug, Deserialize)]
pub(super) struct OneFloatingIp {
    pub(super) floating_ip: FloatingIp,
}

#[derive(Debug, Deserialize)]
pub(super) struct OneAction {
    pub(super) action: HcloudAction,
}

#[derive(Debug, Deserialize)]
pub(super) struct HcloudErrorBody {
    pub(super) error: HcloudErrorDetail,
}

#[derive(Debug, Deserialize)]
pub(super) struct HcloudErrorDetail {
    #[serde(default, deserialize_with = "default_if_null")]
    pub(super) code: String,
    #[serde(default, deserialize_with = "default_if_null")]
    pub(super) message: String,
}

#[derive(Debug, Serialize)]
pub(super) struct AssignRequest {
    pub(super) server: i64,
}

#[derive(Debug, Serialize)]
pub(super) struct LabelsRequest<'a> {
    pub(super) labels: &'a BTreeMap<String, String>,
}

fn default_if_null<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Option::<T>::deserialize(from).map(Option::unwrap_or_default)
}

fn parse_address<'de, D: Deserializer<'de>>(from: D) -> Result<IpAddr, D::Error> {
    let text = String::deserialize(from)?;
    let host = text.split_once('/').map_or(text.as_str(), |(host, _)| host);
    host.parse().map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_its_first_address_and_nulls_are_defaults() {
        let text = r#"{"id": 7, "name": null, "ip": "2001:db8::/64", "server": null, "labels": null,
            "blocked": null, "home_location": {"id": 1}, "something_new": []}"#;
        let read: FloatingIp = serde_json::from_str(text).expect("a floating IP");
        assert_eq!(read.ip, "2001:db8::".parse::<IpAddr>().expect("an address"));
        assert_eq!((read.server, read.blocked), (None, false));
        assert!(read.labels.is_empty() && read.name.is_empty());
    }

    #[test]
    fn a_state_that_is_not_known_is_not_an_end() {
        let read: HcloudAction =
            serde_json::from_str(r#"{"id": 1, "status": "queued", "error": null}"#).expect("an action");
        assert_eq!(read.status, HcloudActionStatus::Running);
    }

    #[test]
    fn the_last_page_has_no_next() {
        let page = |meta: &str| -> FloatingIpPage {
            let text = format!(r#"{{"floating_ips": [], "meta": {meta}}}"#);
            serde_json::from_str(&text).expect("a page")
        };
        assert_eq!(
            page(r#"{"pagination": {"page": 1, "next_page": 2}}"#).next_page(),
            Some(2)
        );
        assert_eq!(
            page(r#"{"pagination": {"page": 2, "next_page": null}}"#).next_page(),
            None
        );
        assert_eq!(page("{}").next_page(), None);
    }
}

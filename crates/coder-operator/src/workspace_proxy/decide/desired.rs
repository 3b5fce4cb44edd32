//! How the proxy of an object is to be known: its name, what people see, and where its token is kept.

use aplomb_api::coder::{CoderWorkspaceProxy, SecretKeyRef, annotations, owner_suffix, proxy_name, truncate_name};
use kube::ResourceExt;
use sha2::{Digest, Sha256};

use crate::access::hex;
use crate::client::ProxyDisplay;

/// The longest name of a Secret.
const MAX_NAME: usize = 253;
/// The server takes no change of a proxy that has none.
const DEFAULT_ICON: &str = "/emojis/1f310.png";

/// Begins the mark of an object in the icon of its proxy, where no browser looks.
const ICON_MARK: &str = "#aplomb-";

/// What people see of the proxy, and in its icon the mark of the object: it tells a proxy that was
/// made by a call without an answer from one that another client made meanwhile.
pub(crate) fn proxy_display(object: &CoderWorkspaceProxy) -> ProxyDisplay {
    let bootstrap = object.spec.bootstrap.clone().unwrap_or_default();
    let own = || proxy_name(&object.name_any());
    let name = bootstrap.proxy_name.unwrap_or_else(own);
    ProxyDisplay {
        display_name: bootstrap.display_name.unwrap_or_else(|| name.clone()),
        icon: mark_icon(object, bootstrap.icon.unwrap_or_else(|| DEFAULT_ICON.to_owned())),
        name,
    }
}

fn mark_icon(object: &CoderWorkspaceProxy, icon: String) -> String {
    // A part of an image is named in the same place.
    match icon.contains('#') {
        true => icon,
        false => format!("{icon}{ICON_MARK}{}", owner_suffix(&object.uid().unwrap_or_default())),
    }
}

/// Whether a proxy with this icon was made for the object.
pub(super) fn is_marked(object: &CoderWorkspaceProxy, icon: &str) -> bool {
    let mark = owner_suffix(&object.uid().unwrap_or_default());
    icon.split_once(ICON_MARK).is_some_and(|(_, it)| it == mark)
}

/// Whether a proxy with this icon was made for another object.
pub(super) fn is_marked_by_other(object: &CoderWorkspaceProxy, icon: &str) -> bool {
    icon.contains(ICON_MARK) && !is_marked(object, icon)
}

/// Digest of the display fields, without the mark of the object.
pub(super) fn display_key(name: &str, display_name: &str, icon: &str) -> String {
    let mut digest = Sha256::new();
    let icon = icon.split_once(ICON_MARK).map_or(icon, |(icon, _)| icon);
    for part in [name, display_name, icon] {
        digest.update(part.as_bytes());
        digest.update([0]);
    }
    hex(&digest.finalize(), 12)
}

/// Where the token is: as the spec says, or where the operator puts it.
pub(crate) fn secret_ref(object: &CoderWorkspaceProxy) -> SecretKeyRef {
    let spec = &object.spec;
    let usual = || truncate_name(&format!("{}-proxy-token", object.name_any()), MAX_NAME);
    match (&spec.bootstrap, &spec.proxy_session_token_secret_ref) {
        (None, Some(given)) => given.clone(),
        (bootstrap, _) => {
            let named = bootstrap.as_ref().and_then(|it| it.generated_token_secret_name.clone());
            SecretKeyRef {
                name: named.unwrap_or_else(usual),
                key: "token".to_owned(),
            }
        }
    }
}

/// The value of the annotation that asks for a new token.
pub(super) fn requested_rotation(object: &CoderWorkspaceProxy) -> Option<String> {
    object.annotations().get(annotations::ROTATE).cloned()
}

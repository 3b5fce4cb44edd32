//! The API calls in use, as metrics and messages name them. A name never contains user input, such
//! as the name of a key, an organization or a proxy.

/// An API call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoderEndpoint {
    /// Read the server's version.
    BuildInfo,
    /// Read the token's user.
    User,
    /// Read an organization.
    Organization,
    /// List an organization's keys.
    ListKeys,
    /// Create a key.
    CreateKey,
    /// Delete a key.
    DeleteKey,
    /// List an organization's keys with their daemons.
    ListDaemons,
    /// Read the features of the license.
    Entitlements,
    /// Read a workspace proxy.
    GetProxy,
    /// Register a workspace proxy.
    CreateProxy,
    /// Change a workspace proxy or its token.
    PatchProxy,
    /// Delete a workspace proxy.
    DeleteProxy,
}

impl CoderEndpoint {
    /// All calls.
    pub const ALL: [Self; 12] = [
        Self::BuildInfo,
        Self::User,
        Self::Organization,
        Self::ListKeys,
        Self::CreateKey,
        Self::DeleteKey,
        Self::ListDaemons,
        Self::Entitlements,
        Self::GetProxy,
        Self::CreateProxy,
        Self::PatchProxy,
        Self::DeleteProxy,
    ];

    /// Name in messages.
    #[must_use]
    pub const fn phrase(self) -> &'static str {
        match self {
            Self::BuildInfo => "read version",
            Self::User => "read user",
            Self::Organization => "read organization",
            Self::ListKeys => "list keys",
            Self::CreateKey => "create key",
            Self::DeleteKey => "delete key",
            Self::ListDaemons => "list daemons",
            Self::Entitlements => "read entitlements",
            Self::GetProxy => "read proxy",
            Self::CreateProxy => "create proxy",
            Self::PatchProxy => "patch proxy",
            Self::DeleteProxy => "delete proxy",
        }
    }

    /// Name in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BuildInfo => "buildinfo",
            Self::User => "user",
            Self::Organization => "organization",
            Self::ListKeys => "list_keys",
            Self::CreateKey => "create_key",
            Self::DeleteKey => "delete_key",
            Self::ListDaemons => "list_daemons",
            Self::Entitlements => "entitlements",
            Self::GetProxy => "get_proxy",
            Self::CreateProxy => "create_proxy",
            Self::PatchProxy => "patch_proxy",
            Self::DeleteProxy => "delete_proxy",
        }
    }

    /// Whether the rate-limit bypass is allowed for it, if configured.
    #[must_use]
    pub const fn may_bypass(self) -> bool {
        matches!(
            self,
            Self::ListKeys
                | Self::CreateKey
                | Self::DeleteKey
                | Self::CreateProxy
                | Self::PatchProxy
                | Self::DeleteProxy
        )
    }

    /// Whether the server authenticates it. Otherwise no token is sent.
    #[must_use]
    pub const fn needs_token(self) -> bool {
        !matches!(self, Self::BuildInfo | Self::Entitlements)
    }

    /// Whether it only reads.
    #[must_use]
    pub const fn is_read(self) -> bool {
        !matches!(
            self,
            Self::CreateKey | Self::DeleteKey | Self::CreateProxy | Self::PatchProxy | Self::DeleteProxy
        )
    }
}

//! The calls that the operator knows, as metrics and messages name them. A name never holds anything that
//! somebody chose: not the name of a key, of an organisation or of a proxy.

/// A call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoderEndpoint {
    /// Which version the server is.
    BuildInfo,
    /// Whose token it is.
    User,
    /// Read an organisation.
    Organization,
    /// List an organisation's keys.
    ListKeys,
    /// Make a key.
    CreateKey,
    /// Delete a key.
    DeleteKey,
    /// List an organisation's keys with their daemons.
    ListDaemons,
    /// What the licence allows.
    Entitlements,
    /// Read a workspace proxy.
    GetProxy,
    /// Register a workspace proxy.
    CreateProxy,
    /// Change a workspace proxy or its token.
    PatchProxy,
    /// Take a workspace proxy back.
    DeleteProxy,
}

impl CoderEndpoint {
    /// All of them.
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

    /// In messages.
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

    /// In metrics.
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

    /// Whether the server may be asked not to count it, for those who want that.
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

    /// Whether the server asks who calls. A token is not sent where it does not.
    #[must_use]
    pub const fn needs_token(self) -> bool {
        !matches!(self, Self::BuildInfo | Self::Entitlements)
    }

    /// Whether it changes nothing at the server.
    #[must_use]
    pub const fn is_read(self) -> bool {
        !matches!(
            self,
            Self::CreateKey
                | Self::DeleteKey
                | Self::CreateProxy
                | Self::PatchProxy
                | Self::DeleteProxy
        )
    }
}

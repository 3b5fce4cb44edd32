//! Why something could not be done at a server, as a decision sees it.

use tokio::time::Instant;

use crate::client::{CallError, Class, Endpoint};
use crate::pushback::Pushback;

/// What came of a look in this pass.
pub(crate) type Looked<T> = Result<T, Hindrance>;

/// Why something could not be done at a server.
#[derive(Clone, Debug)]
pub(crate) enum Hindrance {
    /// Nothing was sent; it is our turn then. `limited`: because the server refused before.
    Later {
        until: Instant,
        limited: bool,
        endpoint: &'static str,
    },
    /// The server refused, now or a while ago.
    Refused(CallError),
}

impl Hindrance {
    pub(crate) fn class(&self) -> Option<Class> {
        match self {
            Self::Later { .. } => None,
            Self::Refused(error) => Some(error.class),
        }
    }

    /// Whether it passes without anybody's doing.
    pub(crate) fn passes(&self) -> bool {
        let class = self.class();
        class.is_none_or(|it| matches!(it, Class::Limited | Class::Server | Class::NoAnswer))
    }
}

/// Whether a call may have happened although nothing says so.
pub(crate) fn unclear(hindrance: &Hindrance) -> bool {
    let error = match hindrance {
        Hindrance::Later { .. } => return false,
        Hindrance::Refused(error) => error,
    };
    matches!(error.class, Class::NoAnswer | Class::Server)
}

pub(crate) fn hindrance(endpoint: Endpoint, pushback: Pushback) -> Hindrance {
    match pushback {
        Pushback::Later { until, limited } => Hindrance::Later {
            until,
            limited,
            endpoint: endpoint.phrase(),
        },
        Pushback::Refused(error) => Hindrance::Refused(error),
    }
}

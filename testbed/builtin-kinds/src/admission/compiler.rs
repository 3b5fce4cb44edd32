//! The compiler of policies: which variables their expressions see, and of what types. The types
//! are the server's; objects and parameters have none until they are evaluated.

use std::collections::BTreeMap;

use aplomb_cel::{Expression, Mistake, Type};

const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";

/// What an expression must evaluate to.
#[derive(Clone, Copy, Debug)]
pub enum Wanted {
    /// A condition.
    Bool,
    /// A message.
    Text,
    /// The value of an audit annotation.
    TextOrNull,
    /// A variable.
    Anything,
}

impl Wanted {
    fn types(self) -> Vec<Type> {
        match self {
            Self::Bool => vec![Type::Bool],
            Self::Text => vec![Type::String],
            Self::TextOrNull => vec![Type::String, Type::Null],
            Self::Anything => Vec::new(),
        }
    }
}

/// Compiles the expressions of one policy.
#[derive(Debug)]
pub struct Compiler {
    has_params: bool,
    /// The variables declared so far; `None` where expressions cannot refer to any.
    variables: Option<BTreeMap<String, Type>>,
}

impl Compiler {
    pub fn new(has_params: bool) -> Self {
        Self {
            has_params,
            variables: None,
        }
    }

    /// The same for expressions that may refer to variables of the policy.
    pub fn composing(has_params: bool) -> Self {
        Self {
            has_params,
            variables: Some(BTreeMap::new()),
        }
    }

    /// Compiles an expression.
    ///
    /// # Errors
    /// Why it does not compile.
    pub fn compile(&self, source: &str, wanted: Wanted, has_authorizer: bool) -> Result<Expression, Mistake> {
        let mut declared = vec![
            ("object", Type::Dyn),
            ("oldObject", Type::Dyn),
            ("namespaceObject", namespace()),
            ("request", request()),
        ];
        if self.has_params {
            declared.push(("params", Type::Dyn));
        }
        if has_authorizer {
            declared.push(("authorizer", Type::Opaque(AUTHORIZER)));
            declared.push(("authorizer.requestResource", Type::Opaque(RESOURCE_CHECK)));
        }
        if let Some(variables) = &self.variables {
            let fields = variables.iter().map(|(name, kind)| (name.as_str(), kind.clone()));
            declared.push(("variables", Type::object("kubernetes.variables", fields)));
        }
        Expression::compile(source, &declared, &wanted.types())
    }

    /// Compiles a variable and declares it for what is compiled after it.
    ///
    /// # Errors
    /// Why it does not compile; it is declared all the same.
    pub fn add_variable(&mut self, name: &str, source: &str) -> Result<Expression, Mistake> {
        let compiled = self.compile(source, Wanted::Anything, true);
        let kind = compiled
            .as_ref()
            .map_or(Type::Dyn, |expression| declarable(&expression.output));
        if let Some(variables) = &mut self.variables {
            variables.insert(name.to_owned(), kind);
        }
        compiled
    }
}

/// The type a variable is declared with: objects and values of libraries lose theirs.
fn declarable(kind: &Type) -> Type {
    match kind {
        Type::List(item) => Type::list(declarable(item)),
        Type::Map(key, value) => Type::Map(declarable(key).into(), declarable(value).into()),
        Type::Object(_) | Type::Optional(_) | Type::Opaque(_) | Type::Kind(_) => Type::Dyn,
        other => other.clone(),
    }
}

fn texts() -> Type {
    Type::list(Type::String)
}

fn request() -> Type {
    let triple = |name: &str, last: &'static str| {
        let fields = ["group", "version", last].map(|field| (field, Type::String));
        Type::object(name, fields)
    };
    let kind = triple("kubernetes.GroupVersionKind", "kind");
    let resource = triple("kubernetes.GroupVersionResource", "resource");
    let extra = Type::Map(Type::String.into(), texts().into());
    let user = Type::object(
        "kubernetes.UserInfo",
        [
            ("username", Type::String),
            ("uid", Type::String),
            ("groups", texts()),
            ("extra", extra),
        ],
    );
    Type::object(
        "kubernetes.AdmissionRequest",
        [
            ("kind", kind.clone()),
            ("resource", resource.clone()),
            ("subResource", Type::String),
            ("requestKind", kind),
            ("requestResource", resource),
            ("requestSubResource", Type::String),
            ("name", Type::String),
            ("namespace", Type::String),
            ("operation", Type::String),
            ("userInfo", user),
            ("dryRun", Type::Bool),
            ("options", Type::Dyn),
        ],
    )
}

fn namespace() -> Type {
    let labels = || Type::Map(Type::String.into(), Type::String.into());
    let condition = Type::object(
        "kubernetes.NamespaceCondition",
        [
            ("status", Type::String),
            ("type", Type::String),
            ("lastTransitionTime", Type::Timestamp),
            ("message", Type::String),
            ("reason", Type::String),
        ],
    );
    let status = [("conditions", Type::list(condition)), ("phase", Type::String)];
    let metadata = [
        ("name", Type::String),
        ("generateName", Type::String),
        ("namespace", Type::String),
        ("labels", labels()),
        ("annotations", labels()),
        ("UID", Type::String),
        ("creationTimestamp", Type::Timestamp),
        ("deletionGracePeriodSeconds", Type::Int),
        ("deletionTimestamp", Type::Timestamp),
        ("generation", Type::Int),
        ("resourceVersion", Type::String),
        ("finalizers", texts()),
    ];
    let spec = [("finalizers", texts())];
    Type::object(
        "kubernetes.Namespace",
        [
            ("metadata", Type::object("kubernetes.NamespaceMetadata", metadata)),
            ("spec", Type::object("kubernetes.NamespaceSpec", spec)),
            ("status", Type::object("kubernetes.NamespaceStatus", status)),
        ],
    )
}

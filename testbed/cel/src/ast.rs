//! The shape of an expression. Macros are nodes of their own.

use super::value::Val;

/// A node and its place, which is that of its operator, parenthesis or dot.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) expr: Expr,
}

#[derive(Clone, Debug)]
pub(super) enum Expr {
    Literal(Val),
    Ident(String),
    Select {
        operand: Box<Node>,
        field: String,
        optional: bool,
    },
    Has {
        operand: Box<Node>,
        field: String,
    },
    Call {
        function: String,
        target: Option<Box<Node>>,
        args: Vec<Node>,
    },
    List(Vec<(Node, bool)>),
    Map(Vec<(Node, Node, bool)>),
    Struct {
        name: String,
    },
    Macro(Box<Macro>),
}

/// A comprehension: `range.name(var, [var2,] [condition,] body)`.
#[derive(Clone, Debug)]
pub(super) struct Macro {
    pub(super) kind: MacroKind,
    pub(super) range: Node,
    pub(super) var: String,
    pub(super) var2: Option<String>,
    pub(super) condition: Option<Node>,
    pub(super) body: Node,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum MacroKind {
    All,
    Exists,
    ExistsOne,
    Map,
    Filter,
    SortBy,
    TransformList,
    TransformMap,
    TransformMapEntry,
    OptMap,
    OptFlatMap,
}

impl Node {
    pub(super) fn new(at: usize, expr: Expr) -> Self {
        Self { at, expr }
    }

    /// `a.b.c` when the node is nothing but names.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.expr {
            Expr::Ident(name) => Some(name.clone()),
            Expr::Select {
                operand,
                field,
                optional: false,
            } => operand.qualified_name().map(|prefix| format!("{prefix}.{field}")),
            _ => None,
        }
    }

    /// Whether the variable `name` occurs anywhere.
    pub(super) fn mentions(&self, name: &str) -> bool {
        self.find_map(&|node| matches!(&node.expr, Expr::Ident(ident) if ident == name).then_some(()))
            .is_some()
    }

    /// The first answer `look` gives, asked of this node and then of those in it.
    pub(super) fn find_map<T>(&self, look: &dyn Fn(&Node) -> Option<T>) -> Option<T> {
        look(self).or_else(|| self.children().into_iter().find_map(|child| child.find_map(look)))
    }

    fn children(&self) -> Vec<&Node> {
        match &self.expr {
            Expr::Literal(_) | Expr::Struct { .. } | Expr::Ident(_) => Vec::new(),
            Expr::Select { operand, .. } | Expr::Has { operand, .. } => vec![operand],
            Expr::Call { target, args, .. } => target.iter().map(AsRef::as_ref).chain(args).collect(),
            Expr::List(items) => items.iter().map(|(item, _)| item).collect(),
            Expr::Map(entries) => entries.iter().flat_map(|(key, value, _)| [key, value]).collect(),
            Expr::Macro(inner) => [&inner.range]
                .into_iter()
                .chain(&inner.condition)
                .chain([&inner.body])
                .collect(),
        }
    }
}

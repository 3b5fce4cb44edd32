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
            } => operand
                .qualified_name()
                .map(|prefix| format!("{prefix}.{field}")),
            _ => None,
        }
    }

    /// Whether the variable `name` occurs anywhere.
    pub(super) fn mentions(&self, name: &str) -> bool {
        match &self.expr {
            Expr::Literal(_) | Expr::Struct { .. } => false,
            Expr::Ident(ident) => ident == name,
            Expr::Select { operand, .. } | Expr::Has { operand, .. } => operand.mentions(name),
            Expr::Call { target, args, .. } => {
                target.iter().any(|target| target.mentions(name))
                    || args.iter().any(|arg| arg.mentions(name))
            }
            Expr::List(items) => items.iter().any(|(item, _)| item.mentions(name)),
            Expr::Map(entries) => entries
                .iter()
                .any(|(key, value, _)| key.mentions(name) || value.mentions(name)),
            Expr::Macro(inner) => {
                inner.range.mentions(name)
                    || inner
                        .condition
                        .iter()
                        .any(|condition| condition.mentions(name))
                    || inner.body.mentions(name)
            }
        }
    }
}

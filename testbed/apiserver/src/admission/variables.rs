//! The variable `variables`: named expressions, each evaluated when it is first asked for.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use aplomb_apimachinery::field::go_quote;
use aplomb_cel::{Host, Outcome, Val};

use super::policy::Variable;

/// The variables of a policy in one evaluation.
#[derive(Debug)]
pub(super) struct Variables {
    itself: Weak<Variables>,
    declared: Arc<Vec<Variable>>,
    /// What their expressions see.
    scope: Vec<(String, Val)>,
    known: Mutex<BTreeMap<String, Outcome>>,
    cost: AtomicU64,
}

impl Variables {
    pub(super) fn new(declared: &Arc<Vec<Variable>>, scope: Vec<(String, Val)>) -> Arc<Self> {
        Arc::new_cyclic(|itself| Self {
            itself: itself.clone(),
            declared: declared.clone(),
            scope,
            known: Mutex::default(),
            cost: AtomicU64::new(0),
        })
    }

    /// What expressions see: everything the variables see, and the variables.
    pub(super) fn scope(&self) -> Vec<(String, Val)> {
        let mut scope = self.scope.clone();
        if let Some(itself) = self.itself.upgrade() {
            scope.push(("variables".to_owned(), Val::Host(itself)));
        }
        scope
    }

    /// What evaluating variables has cost since this was last asked.
    pub(super) fn take_cost(&self) -> u64 {
        self.cost.swap(0, Ordering::Relaxed)
    }

    fn evaluate(&self, variable: &Variable) -> Outcome {
        let name = go_quote(&variable.name);
        let expression = variable.compiled.as_ref().map_err(|mistake| {
            let why = mistake.text();
            format!("composited variable {name} fails to compile: {why}")
        })?;
        let (outcome, cost) = expression.evaluate(self.scope());
        self.cost.fetch_add(cost, Ordering::Relaxed);
        outcome.map_err(|why| format!("composited variable {name} fails to evaluate: {why}"))
    }
}

impl Host for Variables {
    fn type_name(&self) -> &'static str {
        "kubernetes.variables"
    }

    fn field(&self, name: &str) -> Option<Outcome> {
        // A later declaration of a name replaces an earlier one.
        let variable = self.declared.iter().rev().find(|known| known.name == name)?;
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known().get(name).cloned();
        Some(found.unwrap_or_else(|| {
            // Nothing is held meanwhile: variables refer to each other.
            let outcome = self.evaluate(variable);
            known().insert(name.to_owned(), outcome.clone());
            outcome
        }))
    }
}

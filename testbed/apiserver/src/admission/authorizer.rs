//! The variable `authorizer`: questions to RBAC, built step by step and answered by `check`.

use std::sync::Arc;

use aplomb_apimachinery::validation;
use aplomb_cel::{Host, Outcome, Val};

use super::request::Request;
use crate::auth::rbac::{self, Attributes, AuthorizationDecision};
use crate::call::User;
use crate::server::ApiServer;

/// Who is asked about, and what has been said so far.
#[derive(Clone, Debug)]
struct Question {
    server: ApiServer,
    user: User,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    /// Nothing yet; what the request itself does can be asked for.
    Start(Option<Attributes>),
    Group(String),
    Resource(Attributes),
    Path(String),
    Answered(AuthorizationDecision),
}

/// The authorizer of a request.
pub(super) fn of(server: &ApiServer, request: &Request<'_>) -> Val {
    let resource = &request.call.resource;
    let asked = Attributes {
        is_resource: true,
        group: resource.group.clone(),
        resource: resource.plural.clone(),
        subresource: request.subresource.to_owned(),
        namespace: request.namespace().to_owned(),
        name: request.name.to_owned(),
        ..Attributes::default()
    };
    let question = Question {
        server: server.clone(),
        user: request.call.user.clone(),
        step: Step::Start(Some(asked)),
    };
    Val::Host(Arc::new(question))
}

impl Question {
    fn step(&self, step: Step) -> Val {
        Val::Host(Arc::new(Self { step, ..self.clone() }))
    }

    fn decide(&self, asked: &Attributes, verb: &str) -> Val {
        let asked = Attributes {
            verb: verb.to_owned(),
            ..asked.clone()
        };
        let decision = rbac::authorize(&self.server, &self.user, &asked);
        self.step(Step::Answered(decision))
    }

    fn service_account(&self, namespace: &str, name: &str) -> Outcome {
        if !validation::metadata::dns_subdomain(name, false).is_empty() {
            return Err("Invalid service account name".to_owned());
        }
        if !validation::metadata::dns_label(namespace).is_empty() {
            return Err("Invalid service account namespace".to_owned());
        }
        let everybody = "system:serviceaccounts";
        let user = User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: String::new(),
            groups: vec![everybody.to_owned(), format!("{everybody}:{namespace}")],
            ..User::default()
        };
        Ok(Val::Host(Arc::new(Self {
            user,
            server: self.server.clone(),
            step: Step::Start(None),
        })))
    }

    fn start(&self, method: &str, said: &[&str]) -> Option<Outcome> {
        match (method, said) {
            ("path", [path]) if path.trim().is_empty() => Some(Err("path must not be empty".to_owned())),
            ("path", [path]) => Some(Ok(self.step(Step::Path((*path).to_owned())))),
            ("group", [group]) => Some(Ok(self.step(Step::Group((*group).to_owned())))),
            ("serviceAccount", [namespace, name]) => Some(self.service_account(namespace, name)),
            _ => None,
        }
    }

    fn resource(&self, asked: &Attributes, method: &str, said: &str) -> Option<Outcome> {
        let mut asked = asked.clone();
        match method {
            "check" => return Some(Ok(self.decide(&asked, said))),
            "subresource" => said.clone_into(&mut asked.subresource),
            "namespace" => said.clone_into(&mut asked.namespace),
            "name" => said.clone_into(&mut asked.name),
            // RBAC does not look at selectors.
            "fieldSelector" | "labelSelector" => {}
            _ => return None,
        }
        Some(Ok(self.step(Step::Resource(asked))))
    }
}

impl Host for Question {
    fn type_name(&self) -> &'static str {
        match self.step {
            Step::Start(_) => "kubernetes.authorization.Authorizer",
            Step::Group(_) => "kubernetes.authorization.GroupCheck",
            Step::Resource(_) => "kubernetes.authorization.ResourceCheck",
            Step::Path(_) => "kubernetes.authorization.PathCheck",
            Step::Answered(_) => "kubernetes.authorization.Decision",
        }
    }

    fn field(&self, name: &str) -> Option<Outcome> {
        match &self.step {
            Step::Start(Some(asked)) if name == "requestResource" => Some(Ok(self.step(Step::Resource(asked.clone())))),
            _ => None,
        }
    }

    fn call(&self, method: &str, args: &[Val]) -> Option<Outcome> {
        let said: Option<Vec<&str>> = args
            .iter()
            .map(|arg| match arg {
                Val::String(text) => Some(&**text),
                _ => None,
            })
            .collect();
        let said = said?;
        match (&self.step, method, said.as_slice()) {
            (Step::Start(_), method, said) => self.start(method, said),
            (Step::Group(_), "resource", [name]) if name.trim().is_empty() => {
                Some(Err("resource must not be empty".to_owned()))
            }
            (Step::Group(group), "resource", [name]) => {
                let asked = Attributes {
                    is_resource: true,
                    group: group.clone(),
                    resource: (*name).to_owned(),
                    ..Attributes::default()
                };
                Some(Ok(self.step(Step::Resource(asked))))
            }
            (Step::Resource(asked), method, [said]) => self.resource(asked, method, said),
            (Step::Path(path), "check", [verb]) => {
                let asked = Attributes {
                    path: path.clone(),
                    ..Attributes::default()
                };
                Some(Ok(self.decide(&asked, verb)))
            }
            (Step::Answered(decision), "allowed", []) => Some(Ok(Val::Bool(decision.allowed))),
            (Step::Answered(decision), "reason", []) => Some(Ok(Val::text(&decision.reason))),
            (Step::Answered(_), "errored", []) => Some(Ok(Val::Bool(false))),
            (Step::Answered(_), "error", []) => Some(Ok(Val::text(""))),
            _ => None,
        }
    }
}

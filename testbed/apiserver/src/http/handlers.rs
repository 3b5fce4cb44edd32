//! One verb on one resource: negotiation, options and body in the order the server looks at them,
//! then the call, then its outcome in the form that was asked for.

use std::sync::Arc;

use aplomb_apimachinery::labels::LabelSelector;
use aplomb_apimachinery::resource::{Part, Resource};
use aplomb_apimachinery::status::ApiError;
use bytes::Bytes;

use super::body::{self, BoxedBody};
use super::convert::{Converter, ListMeta};
use super::filters::Context;
use super::negotiate::{self, Offer, Output};
use super::response::Reply;
use super::watch;
use super::{deprecation, params};
use crate::auth::{escalation, review};
use crate::call::{Call, Options, Outcome, PatchType, Verb};
use crate::subresource::{self, Subresource};

const CUSTOM_PATCH_TYPES: &str =
    "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
/// The forms a custom resource can be written in. The server names protobuf too and has no answer
/// for a body in it.
const CUSTOM_TYPES: &str = "application/json, application/yaml";

/// What a request is about, once its path has been understood.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) resource: Arc<Resource>,
    pub(super) part: Part,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) verb: Verb,
    pub(super) custom: bool,
    /// The subresource, where it is neither the object nor its status.
    pub(super) sub: Option<Subresource>,
}

impl Target {
    /// What bodies and answers are objects of.
    fn shown(&self) -> Arc<Resource> {
        self.sub
            .map_or_else(|| self.resource.clone(), |sub| sub.shows(&self.resource))
    }
}

/// The parts of a call that come from the query and the body.
#[derive(Default)]
pub(super) struct Input {
    options: Options,
    body: Bytes,
    patch_type: Option<PatchType>,
    /// What is wrong with the text of the body, if it is taken all the same.
    warning: Option<String>,
}

pub(super) async fn answer(context: &mut Context<'_>, target: Target, body: BoxedBody<'_>) -> Reply {
    let deprecated = deprecation::warning(&context.shared.server, &target.resource);
    let reply = match perform(context, target, body).await {
        Ok(reply) => reply,
        Err(error) => context.error(&error),
    };
    reply.warn(deprecated.as_slice())
}

async fn perform(context: &mut Context<'_>, target: Target, body: BoxedBody<'_>) -> Result<Reply, ApiError> {
    let offer = if target.custom {
        Offer::Custom
    } else {
        Offer::Conversions
    };
    let output = negotiate::output(&context.headers, &context.query, offer)?;
    let converter = Converter::new(target.shown(), &output, &context.query)?;
    let mut input = read(context, &target, body).await?;
    if target.verb == Verb::Watch {
        negotiate::stream(&output)?;
    }
    let warning = input.warning.take();
    let call = call(context, &target, input);
    let stated = matches!(call.verb, Verb::Create | Verb::Update).then(|| call.body.clone());
    escalation::check(&context.shared.server, &call).await?;
    let server = &context.shared.server;
    let outcome = match target.sub {
        // Rare and large: the others should not carry its room with them.
        Some(sub) => Box::pin(subresource::handle(server, sub, call)).await,
        None => server.call(call).await,
    };
    // A body that could not be read says nothing about any object.
    let read = !matches!(&outcome, Err(error) if error.code == 400);
    if let Some(body) = stated.filter(|_| read && context.shared.audit.is_some()) {
        context.record.note_object(&body);
    }
    let reply = render(context, outcome?, &converter, &output)?;
    Ok(reply.warn(warning.as_slice()))
}

pub(super) async fn read(context: &Context<'_>, target: &Target, body: BoxedBody<'_>) -> Result<Input, ApiError> {
    let query = &context.query;
    let options = match target.verb {
        Verb::Create => return read_object(context, target, body, "CreateOptions").await,
        Verb::Update => return read_object(context, target, body, "UpdateOptions").await,
        Verb::Patch => return read_patch(context, target, body).await,
        Verb::Get => params::get(query)?,
        Verb::List | Verb::Watch => by_name(params::list(query, target.verb)?, target.name.as_deref())?,
        Verb::Delete => read_delete(context, body).await?,
        Verb::DeleteCollection => {
            let list = params::list(query, Verb::List)?;
            let selector = list.label_selector.as_deref().unwrap_or_default();
            LabelSelector::parse(selector).map_err(ApiError::bad_request)?;
            let given = read_delete(context, body).await?;
            Options {
                delete: given.delete,
                dry_run: given.dry_run,
                ..list
            }
        }
    };
    Ok(Input {
        options,
        ..Input::default()
    })
}

async fn read_object(
    context: &Context<'_>,
    target: &Target,
    body: BoxedBody<'_>,
    options: &str,
) -> Result<Input, ApiError> {
    named(target)?;
    let form = negotiate::input(&context.headers)?;
    // A scale is a kind of the server's own, whatever it scales.
    let custom = target.custom && context.info.subresource != "scale";
    if custom && form == negotiate::Input::Protobuf {
        return Err(negotiate::unsupported(CUSTOM_TYPES));
    }
    let raw = body::read(body).await?;
    let options = params::write(&context.query, options)?;
    let resource = target.shown();
    let body = body::object(&raw, form, (&resource.api_version(), &resource.kind))?;
    Ok(Input {
        options,
        body,
        ..Input::default()
    })
}

/// Only a creation goes without a name; the router has seen to it for built-in kinds.
fn named(target: &Target) -> Result<(), ApiError> {
    if target.name.is_none() && target.verb != Verb::Create {
        return Err(ApiError::bad_request("name must be provided"));
    }
    Ok(())
}

async fn read_patch(context: &Context<'_>, target: &Target, body: BoxedBody<'_>) -> Result<Input, ApiError> {
    let patch_type = negotiate::patch_type(&context.headers)
        .filter(|given| !(target.custom && *given == PatchType::StrategicMerge))
        .ok_or_else(|| negotiate::unsupported(CUSTOM_PATCH_TYPES))?;
    named(target)?;
    let raw = body::read(body).await?;
    let options = params::patch(&context.query, patch_type)?;
    let (body, warning) = if patch_type == PatchType::Apply {
        body::apply(&raw, options.field_validation)?
    } else {
        (raw, None)
    };
    Ok(Input {
        options,
        body,
        patch_type: Some(patch_type),
        warning,
    })
}

async fn read_delete(context: &Context<'_>, body: BoxedBody<'_>) -> Result<Options, ApiError> {
    let raw = body::read(body).await?;
    let given = if raw.is_empty() {
        None
    } else {
        body::delete_options(&raw, negotiate::input(&context.headers)?)?
    };
    params::delete(&context.query, given.as_ref())
}

/// A list or watch of one name is one by field selector.
fn by_name(mut options: Options, name: Option<&str>) -> Result<Options, ApiError> {
    let Some(name) = name else { return Ok(options) };
    let wanted = format!("metadata.name={name}");
    match options.field_selector.as_deref() {
        None | Some("") => options.field_selector = Some(wanted),
        Some(given) if given.split(',').any(|term| term == wanted) => {}
        Some(_) => {
            let message = "fieldSelector metadata.name doesn't match requested name";
            return Err(ApiError::bad_request(message));
        }
    }
    Ok(options)
}

pub(super) fn call(context: &Context<'_>, target: &Target, input: Input) -> Call {
    let reads_many = matches!(target.verb, Verb::List | Verb::Watch);
    Call {
        verb: target.verb,
        resource: target.resource.clone(),
        part: target.part,
        view: None,
        namespace: target.namespace.clone(),
        name: if reads_many { None } else { target.name.clone() },
        options: input.options,
        body: input.body,
        patch_type: input.patch_type,
        user: context.user.clone(),
        user_agent: context.record.user_agent.clone(),
        notes: context.notes.clone(),
    }
}

fn render(context: &Context<'_>, outcome: Outcome, converter: &Converter, output: &Output) -> Result<Reply, ApiError> {
    let clock = context.shared.server.clock();
    let written = match outcome {
        Outcome::Object { code, object, warnings } => converter
            .object(object, clock.now())
            .map(|object| Reply::object(code, &object, output).warn(&warnings)),
        Outcome::List {
            resource_version,
            continue_token,
            remaining,
            items,
            warnings,
        } => {
            let meta = ListMeta {
                resource_version,
                continue_token,
                remaining,
            };
            converter
                .list(items, &meta, clock.now())
                .map(|list| list.reply(output).warn(&warnings))
        }
        Outcome::Watch(events) => Ok(Reply::stream(
            output.form,
            watch::events(events, converter.clone(), clock.clone(), output.form),
        )),
    };
    // A shape that does not fit is refused without negotiation.
    Ok(written.unwrap_or_else(|error| Reply::raw_error(&error)))
}

pub(super) async fn review(context: &mut Context<'_>, kind: review::ReviewKind, body: BoxedBody<'_>) -> Reply {
    match perform_review(context, kind, body).await {
        Ok(reply) => reply,
        Err(error) => context.error(&error),
    }
}

async fn perform_review(
    context: &mut Context<'_>,
    kind: review::ReviewKind,
    body: BoxedBody<'_>,
) -> Result<Reply, ApiError> {
    let output = negotiate::output(&context.headers, &context.query, Offer::Plain)?;
    let form = negotiate::input(&context.headers)?;
    let raw = body::read(body).await?;
    params::write(&context.query, "CreateOptions")?;
    let api_version = format!("{}/{}", context.info.group, context.info.version);
    let json = body::object(&raw, form, (&api_version, kind.name()))?;
    let request = review::Request {
        server: &context.shared.server,
        tokens: &context.shared.tokens,
        user: &context.user,
        namespace: &context.info.namespace,
        manager: params::manager(&context.query, &context.record.user_agent),
    };
    let object = review::create(kind, &json, &request)?;
    Ok(Reply::object(201, &object, &output))
}

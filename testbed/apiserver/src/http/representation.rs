//! Requests for a subresource that shows an object in another way: `/scale` and `/finalize`.

use aplomb_apimachinery::status::ApiError;
use aplomb_builtin_kinds::{self as kinds, Subkind};

use super::body::BoxedBody;
use super::convert::Converter;
use super::filters::Context;
use super::handlers::{self, Target};
use super::negotiate::{self, Offer};
use super::response::Reply;
use crate::subresource::{finalize, scale};

/// Which view.
pub(super) enum View {
    Scale(scale::Paths),
    Finalize,
}

pub(super) async fn answer(context: &mut Context<'_>, target: Target, view: View, body: BoxedBody<'_>) -> Reply {
    match show(context, &target, &view, body).await {
        Ok(reply) => reply,
        Err(error) => context.error(&error),
    }
}

async fn show(context: &mut Context<'_>, target: &Target, view: &View, body: BoxedBody<'_>) -> Result<Reply, ApiError> {
    let (offer, shown) = match view {
        View::Scale(_) => (Offer::Custom, kinds::subkind(Subkind::Scale)),
        View::Finalize => (Offer::Plain, target.resource.clone()),
    };
    let output = negotiate::output(&context.headers, &context.query, offer)?;
    let converter = Converter::new(shown, &output, &context.query)?;
    let input = handlers::read(context, target, body).await?;
    let call = handlers::call(context, target, input);
    let object = match view {
        View::Scale(paths) => scale::handle(&context.shared.server, paths, &call)?,
        View::Finalize => finalize::handle(&context.shared.server, &call)?,
    };
    let object = converter.object(object.into(), context.shared.server.clock().now())?;
    Ok(Reply::object(200, &object, &output))
}

//! The page, rendered from the same values that the JSON serializes. It adds nothing: everything on it is in an
//! [`Overview`], escaped.

mod format;

use std::fmt;
use std::sync::LazyLock;

use minijinja::value::Serde;
use minijinja::{Environment, Value, context};

use self::format::{axis_seconds, format_duration, group_thousands, percent, seconds_since, split_words, stage_color};
use crate::object_story::ObjectStory;
use crate::status::Overview;

/// Style, script and icon are separate files, so that the content policy can forbid everything inline.
pub const STYLE: &str = include_str!("../templates/console.css");
pub const SCRIPT: &str = include_str!("../templates/console.js");
pub const ICON: &str = include_str!("../templates/icon.svg");

/// Templates by name. The `.html` ending turns escaping on.
const TEMPLATES: &[(&str, &str)] = &[
    ("layout.html", include_str!("../templates/layout.html")),
    ("main.html", include_str!("../templates/main.html")),
    ("parts.html", include_str!("../templates/parts.html")),
    ("sums.html", include_str!("../templates/sums.html")),
    ("tunnels.html", include_str!("../templates/tunnels.html")),
    ("findings.html", include_str!("../templates/findings.html")),
    ("egress.html", include_str!("../templates/egress.html")),
    ("coder.html", include_str!("../templates/coder.html")),
    ("budgets.html", include_str!("../templates/budgets.html")),
    ("queues.html", include_str!("../templates/queues.html")),
    ("kinds.html", include_str!("../templates/kinds.html")),
    ("operators.html", include_str!("../templates/operators.html")),
    ("tables.html", include_str!("../templates/tables.html")),
    ("trace.html", include_str!("../templates/trace.html")),
];

static ENVIRONMENT: LazyLock<Environment<'static>> = LazyLock::new(|| {
    let mut environment = Environment::new();
    for (name, source) in TEMPLATES {
        environment
            .add_template(name, source)
            .expect("a test compiles the templates");
    }
    environment.add_filter("span", format_duration);
    environment.add_filter("ago", seconds_since);
    environment.add_filter("share", percent);
    environment.add_filter("words", split_words);
    environment.add_filter("shade", stage_color);
    environment.add_filter("axis", axis_seconds);
    environment.add_filter("grouped", group_thousands);
    environment
});

/// A template could not be rendered: a defect of the template.
#[derive(Debug)]
pub struct RenderError(minijinja::Error);

impl fmt::Display for RenderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the page cannot be rendered: {:#}", self.0)
    }
}

impl std::error::Error for RenderError {}

impl From<minijinja::Error> for RenderError {
    fn from(error: minijinja::Error) -> Self {
        Self(error)
    }
}

/// The `<main>` of the overview: on the page, and in every event.
pub fn render_overview(status: &Overview) -> Result<String, RenderError> {
    let kinds: Vec<String> = status.tables.iter().map(|it| it.kind.clone()).collect();
    let values = context! { s => Value::from(Serde(status)), kinds };
    Ok(ENVIRONMENT.get_template("main.html")?.render(values)?)
}

/// The `<main>` of one object.
pub fn render_story(story: &ObjectStory) -> Result<String, RenderError> {
    let values = context! {
        t => Value::from(Serde(&story.trace)),
        light => Value::from(Serde(&story.light)),
        picture => Value::from(Serde(&story.picture)),
    };
    Ok(ENVIRONMENT.get_template("trace.html")?.render(values)?)
}

/// A whole document around a rendered `<main>`. `events` is the path of its event stream.
pub fn render_document(title: &str, main: String, events: &str) -> Result<String, RenderError> {
    let values = context! {
        title,
        events,
        version => env!("CARGO_PKG_VERSION"),
        main => Value::from_safe_string(main),
    };
    Ok(ENVIRONMENT.get_template("layout.html")?.render(values)?)
}

#[cfg(test)]
mod tests;

//! What `aplomb get` prints: tables, names, JSON and YAML, as kubectl writes them.

use anyhow::Result;
use aplomb_console::table::{Layout, Resource, Style};
use serde_json::{Value, json};

use super::Scope;
use crate::args::{GetArgs, GetOutput};
use crate::out::{Out, json_text};

/// Objects of one kind.
pub(super) struct Found {
    pub(super) resource: Resource,
    pub(super) objects: Vec<Value>,
    /// Asked for by name, and shown in the order of the names.
    pub(super) named: bool,
    /// The one object that was asked for.
    pub(super) single: bool,
}

/// Prints what is found, first and later.
pub(super) struct Printer<'a> {
    out: &'a Out,
    output: Option<GetOutput>,
    style: Style,
    /// Objects of several kinds have their kind before their name.
    mixed: bool,
    /// Titles have been printed.
    titled: bool,
    layout: Layout,
}

impl<'a> Printer<'a> {
    pub(super) fn new(args: &GetArgs, out: &'a Out, mixed: bool) -> Self {
        let style = Style {
            wide: args.output == Some(GetOutput::Wide),
            namespaces: args.all_namespaces,
            no_headers: args.no_headers,
            prefix: String::new(),
        };
        Self {
            out,
            output: args.output,
            style,
            mixed,
            titled: false,
            layout: Layout::default(),
        }
    }

    /// Everything that was found.
    pub(super) fn all(&mut self, found: &[Found], scope: &Scope) -> Result<()> {
        match self.output {
            None | Some(GetOutput::Wide) => self.tables(found, scope),
            Some(GetOutput::Name) => self.names(found),
            Some(GetOutput::Json) => self.out.print(&json_text(&whole(found))),
            Some(GetOutput::Yaml) => self.out.print(&yaml_text(&whole(found))?),
        }
    }

    /// One object that has changed.
    pub(super) fn changed(&mut self, resource: &Resource, object: &Value) -> Result<()> {
        match self.output {
            None | Some(GetOutput::Wide) => {
                let titled = std::mem::replace(&mut self.titled, true);
                let style = Style {
                    no_headers: self.style.no_headers || titled,
                    ..self.style.clone()
                };
                let lines = resource.table([object], now()).lines(&style);
                let text = self.out.table(&mut self.layout, &lines);
                self.out.print(&text)
            }
            Some(GetOutput::Name) => self.out.print(&name_line(resource, object)),
            Some(GetOutput::Json) => self.out.print(&json_text(&plain(object))),
            Some(GetOutput::Yaml) => {
                let text = yaml_text(&plain(object))?;
                self.out.print(&format!("---\n{text}"))
            }
        }
    }

    fn tables(&mut self, found: &[Found], scope: &Scope) -> Result<()> {
        let shown: Vec<&Found> = found.iter().filter(|it| !it.objects.is_empty()).collect();
        if shown.is_empty() {
            let cluster_wide = found.iter().all(|it| !it.resource.namespaced);
            match &scope.namespace {
                Some(namespace) if !cluster_wide => {
                    eprintln!("No resources found in {namespace} namespace.");
                }
                _ => eprintln!("No resources found"),
            }
            return Ok(());
        }
        self.titled = true;
        for (n, it) in shown.into_iter().enumerate() {
            let Found {
                resource, objects, ..
            } = it;
            if n > 0 {
                self.out.print("\n")?;
            }
            if self.mixed {
                self.style.prefix = format!("{}/", resource.qualified());
                self.layout = Layout::default();
            }
            let mut table = resource.table(objects, now());
            if it.named {
                let rows = objects.iter().map(|object| resource.row(object, now()));
                table.rows = rows.collect();
            }
            let lines = table.lines(&self.style);
            let text = self.out.table(&mut self.layout, &lines);
            self.out.print(&text)?;
        }
        Ok(())
    }

    fn names(&self, found: &[Found]) -> Result<()> {
        for Found {
            resource, objects, ..
        } in found
        {
            for object in objects {
                self.out.print(&name_line(resource, object))?;
            }
        }
        Ok(())
    }
}

fn now() -> jiff::Timestamp {
    aplomb::Clock::system().now()
}

fn name_line(resource: &Resource, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{}/{name}\n", resource.qualified())
}

/// One object that was asked for by name, or a List.
fn whole(found: &[Found]) -> Value {
    if let [
        Found {
            objects,
            single: true,
            ..
        },
    ] = found
        && let [object] = &objects[..]
    {
        return plain(object);
    }
    let items: Vec<Value> = found.iter().flat_map(|it| &it.objects).map(plain).collect();
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": items })
}

/// Without the bookkeeping of who wrote which field, which `kubectl get` leaves out too.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    object
}

fn yaml_text(value: &Value) -> Result<String> {
    Ok(serde_saphyr::to_string(value)?)
}

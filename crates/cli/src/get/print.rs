//! The output of `aplomb get`: tables, names, JSON and YAML in kubectl's formats.

use anyhow::Result;
use aplomb_console::table::{KindInfo, TableLayout, TableStyle};
use serde_json::{Value, json};

use super::Scope;
use crate::args::{GetArgs, GetOutput};
use crate::output::{OutputStream, json_text};

pub(super) struct FoundObjects {
    pub(super) resource: KindInfo,
    pub(super) objects: Vec<Value>,
    /// Selected by name, and printed in the order of the names.
    pub(super) named: bool,
    pub(super) single: bool,
}

/// Prints the objects that are found, first and later.
pub(super) struct ObjectPrinter<'a> {
    out: &'a OutputStream,
    output: Option<GetOutput>,
    style: TableStyle,
    /// Several kinds are printed, so that names have their kind as a prefix.
    mixed: bool,
    titled: bool,
    layout: TableLayout,
}

impl<'a> ObjectPrinter<'a> {
    pub(super) fn new(args: &GetArgs, out: &'a OutputStream, mixed: bool) -> Self {
        let style = TableStyle {
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
            layout: TableLayout::default(),
        }
    }

    pub(super) fn print_all(&mut self, found: &[FoundObjects], scope: &Scope) -> Result<()> {
        match self.output {
            None | Some(GetOutput::Wide) => self.print_tables(found, scope),
            Some(GetOutput::Name) => self.print_names(found),
            Some(GetOutput::Json) => self.out.print(&json_text(&to_list(found))),
            Some(GetOutput::Yaml) => self.out.print(&yaml_text(&to_list(found))?),
        }
    }

    pub(super) fn print_changed(&mut self, resource: &KindInfo, object: &Value) -> Result<()> {
        match self.output {
            None | Some(GetOutput::Wide) => {
                let titled = std::mem::replace(&mut self.titled, true);
                let style = TableStyle {
                    no_headers: self.style.no_headers || titled,
                    ..self.style.clone()
                };
                let lines = resource.build_table([object], now()).to_lines(&style);
                let text = self.out.format_table(&mut self.layout, &lines);
                self.out.print(&text)
            }
            Some(GetOutput::Name) => self.out.print(&name_line(resource, object)),
            Some(GetOutput::Json) => self.out.print(&json_text(&without_managed_fields(object))),
            Some(GetOutput::Yaml) => {
                let text = yaml_text(&without_managed_fields(object))?;
                self.out.print(&format!("---\n{text}"))
            }
        }
    }

    fn print_tables(&mut self, found: &[FoundObjects], scope: &Scope) -> Result<()> {
        let shown: Vec<&FoundObjects> = found.iter().filter(|it| !it.objects.is_empty()).collect();
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
            let FoundObjects { resource, objects, .. } = it;
            if n > 0 {
                self.out.print("\n")?;
            }
            if self.mixed {
                self.style.prefix = format!("{}/", resource.qualified_name());
                self.layout = TableLayout::default();
            }
            let mut table = resource.build_table(objects, now());
            if it.named {
                let rows = objects.iter().map(|object| resource.build_row(object, now()));
                table.rows = rows.collect();
            }
            let lines = table.to_lines(&self.style);
            let text = self.out.format_table(&mut self.layout, &lines);
            self.out.print(&text)?;
        }
        Ok(())
    }

    fn print_names(&self, found: &[FoundObjects]) -> Result<()> {
        for FoundObjects { resource, objects, .. } in found {
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

fn name_line(resource: &KindInfo, object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{}/{name}\n", resource.qualified_name())
}

fn to_list(found: &[FoundObjects]) -> Value {
    if let [
        FoundObjects {
            objects, single: true, ..
        },
    ] = found
        && let [object] = &objects[..]
    {
        return without_managed_fields(object);
    }
    let items: Vec<Value> = found
        .iter()
        .flat_map(|it| &it.objects)
        .map(without_managed_fields)
        .collect();
    json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": "" }, "items": items })
}

/// Without managedFields, which `kubectl get` leaves out too.
fn without_managed_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(meta) = object["metadata"].as_object_mut() {
        meta.remove("managedFields");
    }
    object
}

fn yaml_text(value: &Value) -> Result<String> {
    Ok(serde_saphyr::to_string(value)?)
}

//! The charts as in an older release: a lower version, one optional field less in a CRD,
//! other labels. Derived from the current ones, so that they never become outdated.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

/// The field that the older release does not have; it has a default.
pub(crate) const NEW_FIELD: &str = "proofInterval";
/// The label that objects of the older release carry.
pub(crate) const OLD_LABEL: &str = "aplomb.dev/old";

pub(crate) struct OldChart {
    dir: TempDir,
}

impl OldChart {
    pub(crate) fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        let charts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts");
        copy_dir(&charts, dir.path())?;
        let older = Self { dir };
        for chart in ["aplomb", "aplomb-crds"] {
            older.edit_file(&format!("{chart}/Chart.yaml"), |text| {
                text.replace("ersion: 0.1.0", "ersion: 0.0.9")
            })?;
        }
        older.edit_file("aplomb-crds/definitions/tunnel.yaml", |text| {
            remove_key(text, NEW_FIELD)
        })?;
        let now = "app.kubernetes.io/instance: {{ .root.Release.Name }}";
        let then = format!("{OLD_LABEL}: {{{{ .root.Release.Name }}}}");
        older.edit_file("aplomb/templates/_names.tpl", |text| text.replace(now, &then))?;
        Ok(older)
    }

    pub(crate) fn chart(&self, name: &str) -> Result<String> {
        let path: PathBuf = self.dir.path().join(name);
        Ok(path.to_str().context("a path")?.to_owned())
    }

    fn edit_file(&self, file: &str, with: impl Fn(&str) -> String) -> Result<()> {
        let path = self.dir.path().join(file);
        let now = fs::read_to_string(&path)?;
        let then = with(&now);
        ensure!(now != then, "{file} has nothing to change");
        Ok(fs::write(path, then)?)
    }
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_dir(&entry.path(), &to)?,
            false => drop(fs::copy(entry.path(), to)?),
        }
    }
    Ok(())
}

/// YAML without the block under this key.
fn remove_key(text: &str, key: &str) -> String {
    let head = format!("{key}:");
    let mut inside = None;
    let keep = |line: &&str| {
        let depth = line.len() - line.trim_start().len();
        if inside.is_some_and(|start| depth > start) {
            return false;
        }
        inside = (line.trim() == head).then_some(depth);
        inside.is_none()
    };
    let lines: Vec<&str> = text.lines().filter(keep).collect();
    lines.join("\n") + "\n"
}

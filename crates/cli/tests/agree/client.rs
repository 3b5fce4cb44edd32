//! The four sources of the same objects: the page, `/status.json`, and `aplomb get` as JSON and as text.

use anyhow::{Result, ensure};
use aplomb_console::table::{KindInfo, all_resources};
use tokio::process::Command;

use crate::demo::Demo;
use crate::html::sample_page;
use crate::sample::{Cells, Object, Sample, sample_objects, sample_status};
use crate::text::parse_table;

pub(crate) struct DemoClient {
    http: reqwest::Client,
    page: String,
    kubeconfig: String,
    kinds: Vec<KindInfo>,
}

impl DemoClient {
    pub(crate) fn new(demo: &Demo) -> Result<Self> {
        Ok(Self {
            http: reqwest::Client::builder().no_proxy().build()?,
            page: demo.page.trim_end_matches('/').to_owned(),
            kubeconfig: demo.kubeconfig.clone(),
            kinds: all_resources(),
        })
    }

    async fn fetch(&self, path: &str) -> Result<String> {
        let response = self.http.get(format!("{}{path}", self.page)).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }

    pub(crate) async fn page(&self) -> Result<Sample> {
        sample_page(&self.kinds, &self.fetch("/").await?)
    }

    pub(crate) async fn status(&self) -> Result<Sample> {
        sample_status(&self.fetch("/status.json").await?)
    }

    async fn get(&self, output: &str) -> Result<String> {
        let args = ["get", "-A", "-o", output, "--kubeconfig", &self.kubeconfig];
        let output = Command::new(env!("CARGO_BIN_EXE_aplomb"))
            .args(args)
            .kill_on_drop(true)
            .output()
            .await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "aplomb {}: {said}", args.join(" "));
        Ok(String::from_utf8(output.stdout)?)
    }

    pub(crate) async fn objects(&self) -> Result<Sample> {
        sample_objects(&self.kinds, &self.get("json").await?)
    }

    pub(crate) async fn table(&self) -> Result<Vec<(Object, Cells)>> {
        parse_table(&self.kinds, &self.get("wide").await?)
    }
}

//! The pictures of the documentation, of a page that is already served: light, dark, and as a phone shows it.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::chromium::{Chromium, Tab};

/// Name, width, height, colour scheme.
const PICTURES: [(&str, u32, u32, &str); 3] = [
    ("console-light", 1120, 1000, "light"),
    ("console-dark", 1120, 1000, "dark"),
    ("console-phone", 390, 844, "light"),
];

pub(crate) async fn take(url: &str, directory: &Path) -> Result<()> {
    let profile = tempfile::tempdir()?;
    let mut browser = Chromium::start(profile.path())?;
    std::fs::create_dir_all(directory)?;
    for (name, width, height, scheme) in PICTURES {
        let tab = browser.tab().await?;
        let size =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser
            .call(&tab, "Emulation.setDeviceMetricsOverride", size)
            .await?;
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser
            .call(&tab, "Emulation.setEmulatedMedia", media)
            .await?;
        browser.open(&tab, url).await?;
        live(&mut browser, &tab).await?;
        let picture = browser
            .call(&tab, "Page.captureScreenshot", json!({ "format": "png" }))
            .await?;
        let bytes = STANDARD.decode(text(&picture["data"])?)?;
        let path = directory.join(format!("{name}.png"));
        std::fs::write(&path, bytes)?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Waits until the page says that it is live.
async fn live(browser: &mut Chromium, tab: &Tab) -> Result<()> {
    let live = "new Promise((done) => { const look = () => document.body.dataset.connection === 'live' \
        ? done(true) : requestAnimationFrame(look); look(); })";
    browser.evaluate(tab, live).await?;
    Ok(())
}

fn text(value: &Value) -> Result<&str> {
    value.as_str().context("no picture")
}

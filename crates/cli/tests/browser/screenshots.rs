//! Screenshots for the documentation, of a page that is already served: light, dark, and on a phone. Two broken
//! tunnels are added, so that the page has findings.

use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::chromium::{Chromium, Tab};
use crate::stage;

/// Name, width, height, color scheme.
const PICTURES: [(&str, u32, u32, &str); 3] = [
    ("console-light", 1120, 1330, "light"),
    ("console-dark", 1120, 1330, "dark"),
    ("console-phone", 390, 1100, "dark"),
];

/// Name, connector and origin of the added tunnels: the first has no service, the second no agent.
const BROKEN_OBJECTS: [(&str, &str, &str); 2] = [
    ("docs", "laptop", "http://localhost:9"),
    ("preview", "phone", "http://localhost:3000"),
];

pub(crate) async fn take_screenshots(url: &str, kubeconfig: &Path, directory: &Path) -> Result<()> {
    let client = stage::client(kubeconfig).await?;
    for (name, connector, origin) in BROKEN_OBJECTS {
        stage::create(&client, name, connector, origin).await?;
    }
    let profile = tempfile::tempdir()?;
    let mut browser = Chromium::start(profile.path())?;
    std::fs::create_dir_all(directory)?;
    for (name, width, height, scheme) in PICTURES {
        let tab = browser.open_tab().await?;
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        browser.call(&tab, "Emulation.setDeviceMetricsOverride", size).await?;
        let media = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        browser.call(&tab, "Emulation.setEmulatedMedia", media).await?;
        browser.navigate(&tab, url).await?;
        check_screenshot(&mut browser, &tab).await?;
        let picture = browser
            .call(&tab, "Page.captureScreenshot", json!({ "format": "png" }))
            .await?;
        let bytes = STANDARD.decode(as_text(&picture["data"])?)?;
        let path = directory.join(format!("{name}.png"));
        std::fs::write(&path, bytes)?;
        println!("{}", path.display());
    }
    Ok(())
}

/// Waits until the page is live and shows what was added.
async fn check_screenshot(browser: &mut Chromium, tab: &Tab) -> Result<()> {
    let found = "new Promise((done) => { const look = () => \
        document.body.dataset.connection === 'live' && \
        document.querySelectorAll('#findings tbody tr').length >= 2 && \
        document.querySelector('.toggle[data-light=amber]') \
        ? done(true) : requestAnimationFrame(look); look(); })";
    browser.evaluate(tab, found).await?;
    Ok(())
}

fn as_text(value: &Value) -> Result<&str> {
    value.as_str().context("no picture")
}

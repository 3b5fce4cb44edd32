//! The keys of one control plane: a throw-away authority, a serving certificate for loopback and
//! the key that signs service account tokens. Nothing here is trusted by anything else.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// Files an API server is started with.
#[derive(Debug)]
pub(crate) struct Certs {
    pub(crate) authority: PathBuf,
    pub(crate) authority_pem: String,
    pub(crate) serving: PathBuf,
    pub(crate) serving_key: PathBuf,
    pub(crate) accounts_public: PathBuf,
    pub(crate) accounts_key: PathBuf,
}

impl Certs {
    /// Makes new ones and writes them into `dir`.
    pub(crate) fn generate(dir: &Path) -> Result<Self> {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        authority
            .distinguished_name
            .push(DnType::CommonName, "aplomb test authority");
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let names = ["localhost", "127.0.0.1", "kubernetes.default.svc"].map(str::to_owned);
        let mut serving = CertificateParams::new(names.to_vec())?;
        serving.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        let serving_key = KeyPair::generate()?;
        let serving = serving.signed_by(&serving_key, &authority)?;

        let accounts = KeyPair::generate()?;
        let write = |name: &str, text: &str| -> Result<PathBuf> {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        };
        Ok(Self {
            authority: write("ca.crt", &authority.pem())?,
            authority_pem: authority.pem(),
            serving: write("apiserver.crt", &serving.pem())?,
            serving_key: write("apiserver.key", &serving_key.serialize_pem())?,
            accounts_public: write("sa.pub", &accounts.public_key_pem())?,
            accounts_key: write("sa.key", &accounts.serialize_pem())?,
        })
    }
}

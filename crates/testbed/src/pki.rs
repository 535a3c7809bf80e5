//! The certificates and keys of one control plane.
//!
//! Owns a CA, the serving pair, one client pair per user and the service account key. All of it
//! lives in the control plane's own temporary folder and ends with it. Called by the harness.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose,
};

/// The signing side, kept in memory.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// The CA certificate as PEM, for kubeconfigs.
    pub(crate) certificate: String,
}

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    /// The certificate.
    pub(crate) certificate: String,
    /// The private key.
    pub(crate) key: String,
}

impl Authority {
    /// A new CA.
    pub(crate) fn create() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = name("shipshape-testbed", None);
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
        ];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        Ok(Self {
            issuer: Issuer::new(params, key),
            certificate,
        })
    }

    /// A serving certificate for loopback and the in-cluster names.
    pub(crate) fn serving(&self) -> Result<Pair> {
        let names = [
            "127.0.0.1",
            "10.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default.svc",
        ];
        let mut params = CertificateParams::new(names.map(String::from).to_vec())?;
        params.distinguished_name = name("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(params)
    }

    /// A client certificate: the user is the common name, the group the organisation.
    pub(crate) fn client(&self, user: &str, group: Option<&str>) -> Result<Pair> {
        let mut params = CertificateParams::default();
        params.distinguished_name = name(user, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    /// A certificate for a member of etcd on loopback: its gateway is a client of its own server.
    pub(crate) fn member(&self) -> Result<Pair> {
        let names = ["127.0.0.1", "localhost"].map(String::from);
        let mut params = CertificateParams::new(names.to_vec())?;
        params.distinguished_name = name("etcd", None);
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Pair> {
        params.key_usages = vec![
            KeyUsagePurpose::DigitalSignature,
            KeyUsagePurpose::KeyEncipherment,
        ];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Pair {
            certificate,
            key: key.serialize_pem(),
        })
    }
}

/// Writes the key pair that signs and verifies service account tokens; returns both paths.
pub(crate) fn write_token_keys(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let key = KeyPair::generate()?;
    let private = write(folder, "sa.key", &key.serialize_pem())?;
    let public = write(folder, "sa.pub", &key.public_key_pem())?;
    Ok((private, public))
}

/// Writes one file into the folder and returns its path.
pub(crate) fn write(folder: &Path, file: &str, text: &str) -> Result<PathBuf> {
    let path = folder.join(file);
    fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

fn name(common: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common);
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name
}

//! Certificates of an authority, made for a test.

#![allow(dead_code)] // each test file uses what it needs

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

pub struct Identity {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    pub fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key).unwrap().pem();
        Self { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate of this number, by which it can be revoked.
    pub fn sign(&self, purpose: ExtendedKeyUsagePurpose, serial: u64) -> Identity {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost", "127.0.0.1"].map(str::to_owned);
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![purpose];
        params.serial_number = Some(serial.into());
        Identity { certificate: params.signed_by(&key, &self.issuer).unwrap().pem(), key: key.serialize_pem() }
    }

    /// The list of revoked certificates, with this number of one.
    pub fn revoke(&self, serial: u64) -> String {
        let revoked = RevokedCertParams {
            serial_number: serial.into(),
            revocation_time: date_time_ymd(2024, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2024, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: 1.into(),
            issuing_distribution_point: None,
            revoked_certs: vec![revoked],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }

    /// A client that has a certificate of this authority, or none, and knows the server by its own.
    pub fn client(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        let client = ClientConfig::builder().with_root_certificates(roots);
        Arc::new(match identity {
            None => client.with_no_client_auth(),
            Some(Identity { certificate, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()];
                let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
                client.with_client_auth_cert(chain, key).unwrap()
            }
        })
    }

    pub fn write(&self, folder: &Path) {
        let server = self.sign(ExtendedKeyUsagePurpose::ServerAuth, 1);
        fs::write(folder.join("ca-cert.pem"), &self.pem).unwrap();
        fs::write(folder.join("server-cert.pem"), server.certificate).unwrap();
        write_key(folder, &server.key, 0o600);
    }
}

pub fn write_key(folder: &Path, key: &str, mode: u32) {
    let path = folder.join("server-key.pem");
    let _ = fs::remove_file(&path);
    fs::write(&path, key).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
}

//! The folder with certificates that qemu, libnbd and nbdkit know: `ca-cert.pem`, `server-cert.pem` and
//! `server-key.pem`, and `ca-crl.pem` if certificates were revoked.
//!
//! Clients have to show a certificate of that authority. Deliberately absent: pre-shared keys, and
//! clients without certificates, whom nothing would tell from any other.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError as Unaccepted, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, InconsistentKeys,
    RootCertStore, ServerConfig, SignatureScheme,
};

use crate::transport::private_file::is_exposed;

const AUTHORITY: &str = "ca-cert.pem";
const REVOKED: &str = "ca-crl.pem";
const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";

/// Longest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// Certificates that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file that is not there, or cannot be read.
    #[error(
        "cannot read {}: {source}; expected a folder with ca-cert.pem, server-cert.pem and server-key.pem",
        path.display()
    )]
    Unreadable { path: PathBuf, source: io::Error },
    /// A private key that is no secret.
    #[error(
        "{} may be read by other users (mode {mode:04o}), expected a private file: chmod 600 {}",
        path.display(), path.display()
    )]
    Exposed { path: PathBuf, mode: u32 },
    /// A file with something else in it.
    #[error("{} holds {found}, expected {wanted}", path.display())]
    Broken { path: PathBuf, found: String, wanted: &'static str },
}

/// How connections are encrypted, and whose are taken.
#[derive(Debug, Clone)]
pub struct Certificates {
    server: Arc<ServerConfig>,
    probe: Arc<ClientConfig>,
}

impl Certificates {
    pub fn read(folder: &Path) -> Result<Self, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let authority = authority(folder, &provider)?;
        let chain = certificates(&folder.join(CERTIFICATE))?;
        let own = chain[0].clone();
        let verifier = Arc::new(KnownClients { authority, own: own.clone() });
        let key = private_key(&folder.join(KEY))?;
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| broken(&folder.join(CERTIFICATE), &error))?
            .with_client_cert_verifier(verifier)
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| unfit(folder, &error))?;
        // No connection is resumed: nothing is kept of one that ended.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let probe = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(|error| broken(&folder.join(CERTIFICATE), &error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(ThisServer { own, provider }))
            .with_client_auth_cert(chain, key)
            .map_err(|error| unfit(folder, &error))?;
        Ok(Self { server: Arc::new(server), probe: Arc::new(probe) })
    }

    pub fn server(&self) -> Arc<ServerConfig> {
        self.server.clone()
    }

    /// For a client of the server's own process, which shows the server's certificate.
    pub fn probe(&self) -> Arc<ClientConfig> {
        self.probe.clone()
    }
}

/// The authority whose clients are known.
fn authority(folder: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let path = folder.join(AUTHORITY);
    let mut roots = RootCertStore::empty();
    for certificate in certificates(&path)? {
        let added = roots.add(certificate);
        added.map_err(|error| broken(&path, &error))?;
    }
    let revoked = folder.join(REVOKED);
    let lists = if revoked.exists() { revocation_lists(&revoked)? } else { Vec::new() };
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .with_crls(lists)
        .build()
        .map_err(|error| broken(&revoked, &error))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let (text, _) = content(path)?;
    let all: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(broken(path, "no certificate")),
        Err(error) => Err(broken(path, &error)),
    }
}

fn revocation_lists(path: &Path) -> Result<Vec<CertificateRevocationListDer<'static>>, CertificateError> {
    let (text, _) = content(path)?;
    let all: Result<Vec<_>, pem::Error> = CertificateRevocationListDer::pem_slice_iter(&text).collect();
    match all {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(broken(path, "no list of revoked certificates")),
        Err(error) => Err(broken(path, &error)),
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let (text, file) = content(path)?;
    if is_exposed(&file) {
        return Err(CertificateError::Exposed { path: path.to_owned(), mode: file.mode() & 0o7777 });
    }
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| CertificateError::Broken {
        path: path.to_owned(),
        found: error.to_string(),
        wanted: "a private key in PEM, without a password",
    })
}

fn content(path: &Path) -> Result<(Vec<u8>, Metadata), CertificateError> {
    let unreadable = |source| CertificateError::Unreadable { path: path.to_owned(), source };
    let file = fs::metadata(path).map_err(unreadable)?;
    if !file.is_file() || file.len() > MOST_BYTES {
        return Err(broken(path, "no file of at most 1 MiB"));
    }
    Ok((fs::read(path).map_err(unreadable)?, file))
}

fn broken(path: &Path, found: &(impl ToString + ?Sized)) -> CertificateError {
    CertificateError::Broken {
        path: path.to_owned(),
        found: found.to_string(),
        wanted: if path.ends_with(REVOKED) {
            "lists of revoked certificates of the authority, in PEM"
        } else {
            "certificates in PEM"
        },
    }
}

/// A certificate and a key that do not belong together.
fn unfit(folder: &Path, error: &Error) -> CertificateError {
    match error {
        Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => CertificateError::Broken {
            path: folder.join(KEY),
            found: "another key".to_owned(),
            wanted: "the key of server-cert.pem",
        },
        error => broken(&folder.join(CERTIFICATE), error),
    }
}

/// Clients with a certificate of the authority; and who has the server's own key, which is a client in
/// its process that measures how long the transport takes.
#[derive(Debug)]
struct KnownClients {
    authority: Arc<dyn ClientCertVerifier>,
    own: CertificateDer<'static>,
}

impl ClientCertVerifier for KnownClients {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.authority.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if *certificate == self.own {
            return Ok(ClientCertVerified::assertion());
        }
        self.authority.verify_client_cert(certificate, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.authority.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.authority.supported_verify_schemes()
    }
}

/// The server with just this certificate.
#[derive(Debug)]
struct ThisServer {
    own: CertificateDer<'static>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for ThisServer {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if *certificate == self.own {
            Ok(ServerCertVerified::assertion())
        } else {
            Err(Unaccepted::UnknownIssuer.into())
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

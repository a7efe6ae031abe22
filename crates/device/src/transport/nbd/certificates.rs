//! The folder with certificates that qemu, libnbd and nbdkit know: `ca-cert.pem`, `server-cert.pem` and
//! `server-key.pem`, and `ca-crl.pem` if certificates were revoked.
//!
//! Clients have to show a certificate of that authority. It leaves out pre-shared keys, and clients without
//! certificates, whom nothing would tell from any other.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{
    CertificateError as Unaccepted, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, InconsistentKeys,
    RootCertStore, ServerConfig, SignatureScheme,
};

const AUTHORITY: &str = "ca-cert.pem";
const REVOKED: &str = "ca-crl.pem";
const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";

const NO_CERTIFICATE: &str = "no certificate";

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
    pub(super) server: Arc<ServerConfig>,
    /// For a client of the server's own process, which shows the server's certificate.
    pub(super) probe: Arc<ClientConfig>,
}

impl Certificates {
    pub fn read(folder: &Path) -> Result<Self, CertificateError> {
        let provider = Arc::new(ring::default_provider());
        let authority = authority(folder, &provider)?;
        let chain: Vec<CertificateDer<'_>> = items(&folder.join(CERTIFICATE), NO_CERTIFICATE)?;
        let key = private_key(&folder.join(KEY))?;
        let peers = Arc::new(KnownPeers { authority, own: chain[0].clone() });
        let versions = |error: Error| broken(&folder.join(CERTIFICATE), &error);
        let mut server = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(versions)?
            .with_client_cert_verifier(peers.clone())
            .with_single_cert(chain.clone(), key.clone_key())
            .map_err(|error| unfit(folder, &error))?;
        // No connection is resumed: nothing is kept of one that ended.
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        let probe = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(versions)?
            .dangerous()
            .with_custom_certificate_verifier(peers)
            .with_client_auth_cert(chain, key)
            .map_err(|error| unfit(folder, &error))?;
        Ok(Self { server: Arc::new(server), probe: Arc::new(probe) })
    }
}

/// The authority whose clients are known.
fn authority(folder: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<dyn ClientCertVerifier>, CertificateError> {
    let path = folder.join(AUTHORITY);
    let mut roots = RootCertStore::empty();
    for certificate in items(&path, NO_CERTIFICATE)? {
        let added = roots.add(certificate);
        added.map_err(|error| broken(&path, &error))?;
    }
    let revoked = folder.join(REVOKED);
    let lists: Vec<CertificateRevocationListDer<'_>> =
        if revoked.exists() { items(&revoked, "no list of revoked certificates")? } else { Vec::new() };
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .with_crls(lists)
        .build()
        .map_err(|error| broken(&revoked, &error))
}

/// All items of a kind that a file holds: at least one. `nothing` is what a file without any holds.
fn items<T: PemObject>(path: &Path, nothing: &str) -> Result<Vec<T>, CertificateError> {
    let (text, _) = content(path)?;
    match T::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>() {
        Ok(all) if !all.is_empty() => Ok(all),
        Ok(_) => Err(broken(path, nothing)),
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

/// Whether others may read a private key. Its group may, if it is not the user's own file: an administrator gave it to a
/// group of services.
fn is_exposed(file: &Metadata) -> bool {
    let own = file.uid() == rustix::process::geteuid().as_raw();
    let others = if own { 0o077 } else { 0o007 };
    file.mode() & others != 0
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

/// Who may be at the other end: clients with a certificate of the authority, and this process itself with the server's
/// own key, which measures as a client how long the transport takes.
#[derive(Debug)]
struct KnownPeers {
    authority: Arc<dyn ClientCertVerifier>,
    own: CertificateDer<'static>,
}

/// Signatures of both sides are checked alike.
macro_rules! signatures_as_of_the_authority {
    () => {
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
    };
}

impl ClientCertVerifier for KnownPeers {
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

    signatures_as_of_the_authority!();
}

/// For the probe: no server but this one.
impl ServerCertVerifier for KnownPeers {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_own = *certificate == self.own;
        is_own.then(ServerCertVerified::assertion).ok_or(Unaccepted::UnknownIssuer.into())
    }

    signatures_as_of_the_authority!();
}

//! The file with secrets of hosts. Each line has the host's name, its secret, and the controller's if the
//! host is to be able to check whom it talks to. What follows a `#` is a comment.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Secret, SecretError};
use crate::transport::nvme::qualified_name::{NameError, checked};
use crate::transport::private_file::is_exposed;

/// Longest file that is read.
const MOST_BYTES: u64 = 1 << 20;

/// Secrets that cannot be used. No message contains one.
#[derive(Debug, thiserror::Error)]
pub enum SecretsError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}; expected a file with lines HOSTNQN SECRET [CONTROLLER-SECRET]", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is no secret.
    #[error("{} may be read by other users (mode {mode:04o}), expected a private file: chmod 600 {}", path.display(), path.display())]
    Exposed { path: PathBuf, mode: u32 },
    /// A line with too few words or too many.
    #[error("{} line {line}: {words} words, expected HOSTNQN SECRET [CONTROLLER-SECRET]", path.display())]
    Words { path: PathBuf, line: usize, words: usize },
    /// A name that cannot be.
    #[error("{} line {line}: {source}", path.display())]
    Name { path: PathBuf, line: usize, source: NameError },
    /// A text that is no secret.
    #[error("{} line {line}: word {word} {source}", path.display())]
    Secret { path: PathBuf, line: usize, word: usize, source: SecretError },
    #[error("{} line {line}: {host} has a secret already, expected one line for each host", path.display())]
    Twice { path: PathBuf, line: usize, host: String },
    #[error("{} has no secret, expected lines HOSTNQN SECRET [CONTROLLER-SECRET]", path.display())]
    Empty { path: PathBuf },
    /// A host that may connect and could not.
    #[error("host {host} has no secret in {}", path.display())]
    Without { path: PathBuf, host: String },
}

/// The secrets of one host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSecrets {
    pub host: String,
    /// With which it shows who it is.
    pub secret: Secret,
    /// With which the controller shows the host who it is.
    pub controller: Option<Secret>,
}

/// The secrets of all hosts that may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secrets {
    path: PathBuf,
    hosts: Vec<HostSecrets>,
}

impl Secrets {
    pub fn read(path: &Path) -> Result<Self, SecretsError> {
        let unreadable = |source| SecretsError::Unreadable { path: path.to_owned(), source };
        let file = fs::metadata(path).map_err(unreadable)?;
        if !file.is_file() || file.len() > MOST_BYTES {
            let source = io::Error::other("it is no file of at most 1 MiB");
            return Err(unreadable(source));
        }
        if is_exposed(&file) {
            return Err(SecretsError::Exposed { path: path.to_owned(), mode: file.mode() & 0o7777 });
        }
        Self::of(&fs::read_to_string(path).map_err(unreadable)?, path)
    }

    /// Of the text of a file.
    pub fn of(text: &str, path: &Path) -> Result<Self, SecretsError> {
        let path = path.to_owned();
        let mut hosts: Vec<HostSecrets> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            if line.trim().is_empty() {
                continue;
            }
            let read = host_of(line, number + 1, &path)?;
            if hosts.iter().any(|host| host.host == read.host) {
                let (line, host) = (number + 1, read.host);
                return Err(SecretsError::Twice { path, line, host });
            }
            hosts.push(read);
        }
        if hosts.is_empty() {
            return Err(SecretsError::Empty { path });
        }
        Ok(Self { path, hosts })
    }

    pub fn of_host(&self, name: &[u8]) -> Option<&HostSecrets> {
        self.hosts.iter().find(|host| host.host.as_bytes() == name)
    }

    pub fn hosts(&self) -> &[HostSecrets] {
        &self.hosts
    }

    /// Whether all of these hosts have secrets.
    pub fn cover(&self, hosts: &[String]) -> Result<(), SecretsError> {
        let mut hosts = hosts.iter();
        match hosts.find(|host| self.of_host(host.as_bytes()).is_none()) {
            None => Ok(()),
            Some(host) => Err(SecretsError::Without { path: self.path.clone(), host: host.clone() }),
        }
    }
}

fn host_of(text: &str, line: usize, path: &Path) -> Result<HostSecrets, SecretsError> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if !matches!(words.len(), 2 | 3) {
        return Err(SecretsError::Words { path: path.to_owned(), line, words: words.len() });
    }
    let secret = |at: usize| {
        words[at].parse().map_err(|source| SecretsError::Secret { path: path.to_owned(), line, word: at + 1, source })
    };
    let host = checked(words[0]).map_err(|source| SecretsError::Name { path: path.to_owned(), line, source })?;
    Ok(HostSecrets { host, secret: secret(1)?, controller: words.get(2).map(|_| secret(2)).transpose()? })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const KEY: &str = "DHHC-1:01:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:";

    fn read(text: &str) -> Result<Secrets, SecretsError> {
        Secrets::of(text, Path::new("hosts"))
    }

    #[test]
    fn lines_are_hosts_and_the_rest_is_comments() {
        let text = format!("# hosts\n\nnqn.a {KEY}\n  nqn.b\t{KEY} {KEY} # both\n");
        let secrets = read(&text).unwrap();
        assert!(secrets.of_host(b"nqn.a").unwrap().controller.is_none());
        assert!(secrets.of_host(b"nqn.b").unwrap().controller.is_some());
        assert!(secrets.of_host(b"nqn.c").is_none());
        assert!(secrets.cover(&["nqn.b".to_owned()]).is_ok());
        let message = secrets.cover(&["nqn.c".to_owned()]).unwrap_err();
        assert_eq!(message.to_string(), "host nqn.c has no secret in hosts");
    }

    #[test]
    fn a_line_that_is_none_is_named_and_no_secret_is_shown() {
        let wrong = KEY.replace("ia6z", "ia6y");
        for (text, said) in [
            ("", "hosts has no secret"),
            ("nqn.a", "hosts line 1: 1 words"),
            (&format!("\nnqn.a {KEY} {KEY} {KEY}"), "hosts line 2: 4 words"),
            (&format!("host {KEY}"), "hosts line 1: nqn is \"host\""),
            (&format!("nqn.a {wrong}"), "hosts line 1: word 2 has a CRC that does not fit"),
            (&format!("nqn.a {KEY} x"), "hosts line 1: word 3 is no secret"),
            (&format!("nqn.a {KEY}\nnqn.a {KEY}"), "hosts line 2: nqn.a has a secret already"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
            assert!(!error.contains("ia6"), "{error}");
        }
    }

    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let path = std::env::temp_dir().join(format!("ioassay-secrets-{}", std::process::id()));
        fs::write(&path, format!("nqn.a {KEY}\n")).unwrap();
        for (mode, allowed) in [(0o600, true), (0o400, true), (0o644, false), (0o640, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = Secrets::read(&path);
            assert_eq!(read.is_ok(), allowed, "{mode:o}: {read:?}");
        }
        fs::remove_file(&path).unwrap();
        assert!(matches!(Secrets::read(&path), Err(SecretsError::Unreadable { .. })));
    }
}

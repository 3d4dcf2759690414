//! Who signs requests: a key with its secret, from the environment or from files, or the role that
//! a platform gives to a process.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey, AwsCredential, AwsCredentialProvider};
use object_store::{CredentialProvider, RetryConfig};

use super::http::Client;
use super::{Config, errors};
use crate::engines::error::{Error, ErrorKind};
use crate::engines::secret::Secret;

/// How long keys that were read from files are used before the files are read again.
const READ_AGAIN: Duration = Duration::from_secs(10);

/// The variables by which a platform says where the credentials of a process are: of a service
/// account of Kubernetes, and of a container.
const OF_PLATFORM: [(&str, AmazonS3ConfigKey); 7] = [
    ("AWS_WEB_IDENTITY_TOKEN_FILE", AmazonS3ConfigKey::WebIdentityTokenFile),
    ("AWS_ROLE_ARN", AmazonS3ConfigKey::RoleArn),
    ("AWS_ROLE_SESSION_NAME", AmazonS3ConfigKey::RoleSessionName),
    ("AWS_ENDPOINT_URL_STS", AmazonS3ConfigKey::StsEndpoint),
    ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", AmazonS3ConfigKey::ContainerCredentialsRelativeUri),
    ("AWS_CONTAINER_CREDENTIALS_FULL_URI", AmazonS3ConfigKey::ContainerCredentialsFullUri),
    ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", AmazonS3ConfigKey::ContainerAuthorizationTokenFile),
];
/// `false` lets a process use the role of its machine.
const MACHINE_ROLE_OFF: &str = "AWS_EC2_METADATA_DISABLED";
/// Where the machine tells its role, in place of the address of Amazon's machines.
const MACHINE_ROLE_AT: &str = "AWS_EC2_METADATA_SERVICE_ENDPOINT";

/// Who signs requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// A key and its secret, which stay the same.
    Keys(Keys),
    /// Two files, one with the access key and one with its secret. They are read again every ten
    /// seconds, so that keys are changed without a restart.
    Files {
        /// The file of the access key.
        key: PathBuf,
        /// The file of the secret key.
        secret: PathBuf,
    },
    /// The role that the platform gives to the process; its keys are fetched again before they
    /// expire. With the settings of the platform.
    Platform(Vec<(AmazonS3ConfigKey, String)>),
}

/// A key and its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Keys {
    /// The access key, which names the user.
    pub key: String,
    /// The secret key.
    pub secret: Secret,
    /// The token of temporary credentials.
    pub token: Option<Secret>,
}

impl Credentials {
    /// Those in two files, without the white space around them. Both are read once, to find
    /// mistakes at the start.
    pub fn from_files(key: &Path, secret: &Path) -> Result<Credentials, Error> {
        read_files(key, secret)?;
        Ok(Credentials::Files { key: key.to_owned(), secret: secret.to_owned() })
    }

    /// Those that the environment names: `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and, for
    /// temporary ones, `AWS_SESSION_TOKEN`; else the role of the service account
    /// (`AWS_WEB_IDENTITY_TOKEN_FILE` and `AWS_ROLE_ARN`) or of the container
    /// (`AWS_CONTAINER_CREDENTIALS_…`); else that of the machine, if `AWS_EC2_METADATA_DISABLED` is
    /// `false`.
    pub fn from_environment() -> Result<Credentials, Error> {
        Credentials::of_variables(&|name| std::env::var(name).ok())
    }

    fn of_variables(read: &dyn Fn(&str) -> Option<String>) -> Result<Credentials, Error> {
        let has = |name: &str| read(name).is_some();
        if has("AWS_ACCESS_KEY_ID") || has("AWS_SECRET_ACCESS_KEY") {
            let needed = |name: &str| {
                read(name).ok_or_else(|| {
                    let what = format!("the environment has no variable {name}");
                    let remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give files";
                    Error::new(ErrorKind::Refused, what, remedy)
                })
            };
            return Ok(Credentials::Keys(Keys {
                key: needed("AWS_ACCESS_KEY_ID")?,
                secret: Secret::new(needed("AWS_SECRET_ACCESS_KEY")?),
                token: read("AWS_SESSION_TOKEN").map(Secret::new),
            }));
        }
        let is_platform = has("AWS_WEB_IDENTITY_TOKEN_FILE") && has("AWS_ROLE_ARN")
            || has("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")
            || has("AWS_CONTAINER_CREDENTIALS_FULL_URI")
                && has("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        if is_platform {
            let settings = OF_PLATFORM.iter();
            let settings = settings.filter_map(|(name, key)| Some((*key, read(name)?)));
            return Ok(Credentials::Platform(settings.collect()));
        }
        if read(MACHINE_ROLE_OFF).is_some_and(|off| off.eq_ignore_ascii_case("false")) {
            let at = read(MACHINE_ROLE_AT).map(|at| (AmazonS3ConfigKey::MetadataEndpoint, at));
            return Ok(Credentials::Platform(at.into_iter().collect()));
        }
        let what = "the environment has no variable AWS_ACCESS_KEY_ID, and no role of a service account or container";
        let remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give files; for the role of the machine set AWS_EC2_METADATA_DISABLED=false";
        Err(Error::new(ErrorKind::Refused, what.to_owned(), remedy))
    }

    /// What gives a key for each request.
    pub(super) fn provider(&self, config: &Config) -> Result<AwsCredentialProvider, Error> {
        Ok(match self {
            Credentials::Keys(Keys { key, secret, token }) => {
                let token = token.as_ref().map(|token| token.expose().to_owned());
                let (key_id, secret_key) = (key.clone(), secret.expose().to_owned());
                let credential = AwsCredential { key_id, secret_key, token };
                Arc::new(object_store::StaticCredentialProvider::new(credential))
            }
            Credentials::Files { key, secret } => {
                let known = (Instant::now(), read_files(key, secret)?);
                Arc::new(FileKeys {
                    key: key.clone(),
                    secret: secret.clone(),
                    known: Mutex::new(known),
                })
            }
            Credentials::Platform(settings) => {
                let mut builder = AmazonS3Builder::new()
                    .with_bucket_name(&config.bucket)
                    .with_region(&config.region)
                    // The call that wants the key is repeated, and says why it fails.
                    .with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() })
                    .with_http_connector(Client::of_system(config)?);
                for (key, value) in settings {
                    builder = builder.with_config(*key, value);
                }
                let store = builder.build();
                let store = store.map_err(|error| errors::explain(&error, "", config))?;
                Arc::new(RoleKeys(Arc::clone(store.credentials())))
            }
        })
    }

    /// `text` without the secrets of these credentials.
    pub(super) fn hidden_in(&self, text: &str) -> String {
        let Credentials::Keys(Keys { secret, token, .. }) = self else { return text.to_owned() };
        let hidden = secret.hidden_in(text);
        match token {
            Some(token) => token.hidden_in(&hidden),
            None => hidden,
        }
    }
}

/// The platform does not tell the keys of the role.
#[derive(Debug, thiserror::Error)]
#[error("the keys of the role of this process cannot be fetched: {0}")]
pub struct NoRole(String);

/// The keys of the role that the platform gives, whose errors are told from those of the storage.
#[derive(Debug)]
struct RoleKeys(AwsCredentialProvider);

#[async_trait]
impl CredentialProvider for RoleKeys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let keys = self.0.get_credential().await;
        keys.map_err(|error| {
            let source = NoRole(error.to_string());
            object_store::Error::Generic { store: "S3", source: Box::new(source) }
        })
    }
}

/// The key in two files, read again now and then.
#[derive(Debug)]
struct FileKeys {
    key: PathBuf,
    secret: PathBuf,
    known: Mutex<(Instant, Arc<AwsCredential>)>,
}

impl FileKeys {
    fn read(&self, again: Duration) -> Arc<AwsCredential> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0.elapsed() >= again {
            known.0 = Instant::now();
            match read_files(&self.key, &self.secret) {
                Ok(read) => {
                    if *read != *known.1 {
                        log::info!("object storage: the key was changed by {}", self.key.display());
                    }
                    known.1 = read;
                }
                // The files may be written at this moment.
                Err(error) => log::warn!("object storage: {error}; the key from before is used"),
            }
        }
        Arc::clone(&known.1)
    }
}

#[async_trait]
impl CredentialProvider for FileKeys {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        Ok(self.read(READ_AGAIN))
    }
}

fn read_files(key: &Path, secret: &Path) -> Result<Arc<AwsCredential>, Error> {
    let read = |file: &Path| {
        let text = std::fs::read_to_string(file).map_err(|error| {
            let what = format!("cannot read {}: {error}", file.display());
            Error::new(ErrorKind::Refused, what, "name a file that Loginson may read")
        })?;
        let text = text.trim().to_owned();
        if text.is_empty() || text.contains(char::is_control) {
            let what = format!("{} is empty, or has several lines", file.display());
            return Err(Error::new(ErrorKind::Refused, what, "write one key into it"));
        }
        Ok(text)
    };
    let (key_id, secret_key) = (read(key)?, read(secret)?);
    Ok(Arc::new(AwsCredential { key_id, secret_key, token: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(variables: &[(&str, &str)]) -> Result<Credentials, Error> {
        Credentials::of_variables(&|name| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn variables_name_a_key_or_a_role() {
        let keys = of(&[("AWS_ACCESS_KEY_ID", "a"), ("AWS_SECRET_ACCESS_KEY", "b")]).unwrap();
        assert!(matches!(keys, Credentials::Keys(Keys { token: None, .. })));
        let half = of(&[("AWS_ACCESS_KEY_ID", "a")]).unwrap_err().to_string();
        assert!(half.contains("AWS_SECRET_ACCESS_KEY"), "{half}");
        let of_account = [("AWS_WEB_IDENTITY_TOKEN_FILE", "/t"), ("AWS_ROLE_ARN", "arn:r")];
        let Credentials::Platform(settings) = of(&of_account).unwrap() else { panic!() };
        assert_eq!(settings.len(), 2);
        let of_container = of(&[("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/c")]).unwrap();
        assert!(matches!(of_container, Credentials::Platform(_)));
        let of_machine = of(&[("AWS_EC2_METADATA_DISABLED", "false")]).unwrap();
        assert_eq!(of_machine, Credentials::Platform(Vec::new()));
        // Nobody is asked for the role of a machine who did not say that it has one.
        for nothing in [&[][..], &[("AWS_EC2_METADATA_DISABLED", "true")], &[("AWS_ROLE_ARN", "r")]]
        {
            let error = of(nothing).unwrap_err().to_string();
            assert!(error.contains("AWS_EC2_METADATA_DISABLED=false"), "{error}");
        }
    }

    #[test]
    fn files_are_read_again_and_the_last_good_key_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (key, secret) = (dir.path().join("key"), dir.path().join("secret"));
        assert!(Credentials::from_files(&key, &secret).is_err());
        std::fs::write(&key, "one\n").unwrap();
        std::fs::write(&secret, "first").unwrap();
        Credentials::from_files(&key, &secret).unwrap();
        let known = Mutex::new((Instant::now(), read_files(&key, &secret).unwrap()));
        let keys = FileKeys { key: key.clone(), secret: secret.clone(), known };
        std::fs::write(&key, "two").unwrap();
        std::fs::write(&secret, "second").unwrap();
        assert_eq!(keys.read(Duration::MAX).key_id, "one");
        let read = keys.read(Duration::ZERO);
        assert_eq!((read.key_id.as_str(), read.secret_key.as_str()), ("two", "second"));
        std::fs::write(&secret, "").unwrap();
        assert_eq!(keys.read(Duration::ZERO).secret_key, "second");
        assert!(!format!("{keys:?}").contains("second"));
    }
}

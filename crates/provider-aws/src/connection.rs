//! The way to one region: configuration, credentials and endpoints by the SDK's own means.
//!
//! Owns the one HTTP connector (one TLS provider for both services) and the SDK's configuration.
//! Must not log a credential: none is ever formatted here.

use aws_config::{BehaviorVersion, Region, SdkConfig};
use aws_credential_types::Credentials;
use aws_sdk_autoscaling::config::retry::RetryConfig;
use aws_smithy_http_client::Connector;
use aws_smithy_http_client::proxy::ProxyConfig;
use aws_smithy_http_client::tls::Provider as Tls;
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_runtime_api::client::http::{SharedHttpConnector, http_client_fn};
use aws_types::service_config::ServiceConfigKey;
use shipshape_provider::{Error, Result};

use crate::ec2::Ec2;

/// What both clients stand on.
pub(crate) struct Connection {
    /// The official client; its own repeats are off, because `pace` repeats for both services.
    pub(crate) autoscaling: aws_sdk_autoscaling::Client,
    /// Ours.
    pub(crate) ec2: Ec2,
}

/// Where credentials and endpoints come from.
#[derive(Clone, Default)]
pub(crate) enum Source {
    /// The environment, files and roles, as the SDK reads them.
    #[default]
    Environment,
    /// These and no others.
    Given {
        endpoint: String,
        credentials: Credentials,
    },
}

impl Connection {
    /// Asks no service yet.
    pub(crate) async fn open(region: &str, source: &Source) -> Result<Self> {
        let connector = SharedHttpConnector::new(
            Connector::builder()
                .tls_provider(Tls::Rustls(CryptoMode::Ring))
                .proxy_config(ProxyConfig::from_env())
                .build(),
        );
        let shared = connector.clone();
        let mut loader = aws_config::defaults(BehaviorVersion::latest())
            .region(Region::new(region.to_owned()))
            .http_client(http_client_fn(move |_, _| shared.clone()))
            .retry_config(RetryConfig::disabled());
        if let Source::Given {
            endpoint,
            credentials,
        } = source
        {
            loader = loader
                .endpoint_url(endpoint)
                .credentials_provider(credentials.clone());
        }
        let config = loader.load().await;
        let credentials = config.credentials_provider().ok_or_else(|| Error::Denied {
            what: format!("region {region}"),
            message: "there are no credentials".to_owned(),
        })?;
        let endpoint = ec2_endpoint(&config, region);
        tracing::debug!(region, endpoint, "EC2");
        Ok(Self {
            autoscaling: aws_sdk_autoscaling::Client::new(&config),
            ec2: Ec2::new(connector, credentials, endpoint, region.to_owned()),
        })
    }
}

/// Where EC2 is: what the environment or the profile says for it, or for all services, or its
/// public name.
fn ec2_endpoint(config: &SdkConfig, region: &str) -> String {
    let key = ServiceConfigKey::builder()
        .service_id("EC2")
        .env("AWS_ENDPOINT_URL")
        .profile("endpoint_url")
        .build();
    // An endpoint that was given by hand stands above everything in the environment.
    let is_given = config.get_origin("endpoint_url").is_client_config();
    let own = key
        .ok()
        .filter(|_| !is_given)
        .and_then(|key| config.service_config()?.load_config(key));
    own.or_else(|| config.endpoint_url().map(str::to_owned))
        .unwrap_or_else(|| {
            let fips = config.use_fips().unwrap_or_default();
            let dual = config.use_dual_stack().unwrap_or_default();
            public_name(region, fips, dual)
        })
}

fn public_name(region: &str, fips: bool, dual_stack: bool) -> String {
    let service = if fips { "ec2-fips" } else { "ec2" };
    let domain = match (region, dual_stack) {
        (region, true) if region.starts_with("cn-") => "api.amazonwebservices.com.cn",
        (_, true) => "api.aws",
        (region, false) if region.starts_with("cn-") => "amazonaws.com.cn",
        (region, false) if region.starts_with("us-isob-") => "sc2s.sgov.gov",
        (region, false) if region.starts_with("us-iso-") => "c2s.ic.gov",
        (region, false) if region.starts_with("eusc-") => "amazonaws.eu",
        (_, false) => "amazonaws.com",
    };
    format!("https://{service}.{region}.{domain}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_names_follow_the_partition() {
        let name = |region| public_name(region, false, false);
        assert_eq!(
            name("eu-central-1"),
            "https://ec2.eu-central-1.amazonaws.com"
        );
        assert_eq!(
            name("cn-north-1"),
            "https://ec2.cn-north-1.amazonaws.com.cn"
        );
        assert_eq!(
            public_name("us-gov-west-1", true, false),
            "https://ec2-fips.us-gov-west-1.amazonaws.com"
        );
        assert_eq!(
            public_name("eu-west-1", false, true),
            "https://ec2.eu-west-1.api.aws"
        );
    }
}

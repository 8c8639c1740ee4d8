//! Credential formats without a beginning of their own: the service's name leads to them, by way of an assignment. A
//! table; the rules of reading it are in `formats`. Shapes are those that the services document.

use super::formats::{Format, Left};

/// `NAME…=`, `"NAME…":`, `NAME token `, and then a value of this shape.
macro_rules! after {
    ($name:literal, $shape:literal) => {
        concat!(
            "(?i:",
            $name,
            r#"[a-z0-9_ .-]{0,25}["']?\]?[ \t]{0,3}(?:[:?]{0,2}=|=>|:|,|[ \t])[ \t]{0,3}\\?["']?)\b("#,
            $shape,
            ")"
        )
    };
}

macro_rules! rows {
    ($($rule:literal, $title:literal, $needle:literal, $shape:literal;)*) => {
        &[$(Format::live($rule, $title, &[$needle], after!($needle, $shape)).left(Left::Anything)),*]
    };
}

/// Rows in order of name.
pub(super) const FORMATS: &[Format] = rows![
    "abuseipdb_key", "an AbuseIPDB key", "abuseipdb", "[a-f0-9]{80}";
    "algolia_key", "an Algolia key", "algolia", "[a-f0-9]{32}";
    "amplitude_key", "an Amplitude key", "amplitude", "[a-f0-9]{32}";
    "assemblyai_key", "an AssemblyAI key", "assemblyai", "[a-f0-9]{32}";
    "beamer_key", "a Beamer key", "beamer", "b_[A-Za-z0-9=_-]{44,46}";
    "bitly_token", "a Bitly token", "bitly", "[a-f0-9]{40}";
    "browserstack_key", "a BrowserStack access key", "browserstack", "[A-Za-z0-9]{20}";
    "bugsnag_key", "a Bugsnag key", "bugsnag", "[a-f0-9]{32}|[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}";
    "cloudflare_key", "a Cloudflare API credential", "cloudflare", "[A-Za-z0-9_-]{40}|[a-f0-9]{37}";
    "cloudsmith_key", "a Cloudsmith key", "cloudsmith", "[a-f0-9]{40}";
    "codecov_token", "a Codecov token", "codecov", "[a-f0-9]{32}|[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}";
    "coinbase_secret", "a Coinbase secret", "coinbase", "[A-Za-z0-9_-]{64}";
    "confluent_secret", "a Confluent secret", "confluent", "[A-Za-z0-9+/]{64}";
    "datadog_key", "a Datadog key", "datadog", "[a-f0-9]{40}|[a-f0-9]{32}";
    "deepgram_key", "a Deepgram key", "deepgram", "[a-f0-9]{40}";
    "deepl_key", "a DeepL key", "deepl", "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}(?::fx)?";
    "drone_token", "a Drone CI token", "drone", "[A-Za-z0-9]{32}";
    "etherscan_key", "an Etherscan key", "etherscan", "[A-Z0-9]{34}";
    "fastly_token", "a Fastly token", "fastly", "[A-Za-z0-9=_-]{32}";
    "intercom_token", "an Intercom token", "intercom", "[A-Za-z0-9=_-]{60}";
    "jumpcloud_key", "a JumpCloud key", "jumpcloud", "[a-f0-9]{40}";
    "launchdarkly_token", "a LaunchDarkly token", "launchdarkly", "[A-Za-z0-9=_-]{40}";
    "logzio_token", "a Logz.io token", "logz", "[A-Za-z]{32}|[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}";
    "mailjet_key", "a Mailjet key", "mailjet", "[A-Za-z0-9]{32}";
    "mattermost_token", "a Mattermost token", "mattermost", "[a-z0-9]{26}";
    "messagebird_key", "a MessageBird key", "messagebird", "[A-Za-z0-9]{25}";
    "okta_token", "an Okta token", "okta", "00[A-Za-z0-9=_-]{40}";
    "opsgenie_key", "an Opsgenie key", "opsgenie", "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}";
    "pagerduty_key", "a PagerDuty key", "pagerduty", r"[a-z]\+[A-Za-z0-9_-]{18}|[A-Za-z0-9_-]{20}";
    "paypal_secret", "a PayPal client secret", "paypal", "E[A-Za-z0-9_-]{79}";
    "rollbar_token", "a Rollbar token", "rollbar", "[a-f0-9]{32}";
    "saucelabs_key", "a Sauce Labs access key", "sauce", "[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}";
    "shodan_key", "a Shodan key", "shodan", "[A-Za-z0-9]{32}";
    "sonar_login", "a SonarQube login token", "sonar.login", "[A-Za-z0-9]{40}";
    "sourcegraph_legacy_token", "a Sourcegraph token", "sourcegraph", "[a-fA-F0-9]{40}";
    "splunk_hec_token", "a Splunk collector token", "splunk", "[a-fA-F0-9]{8}(?:-[a-fA-F0-9]{4}){3}-[a-fA-F0-9]{12}";
    "telnyx_key", "a Telnyx key", "telnyx", "KEY[A-Za-z0-9_]{50,60}";
    "travisci_token", "a Travis CI token", "travis", "[A-Za-z0-9]{22}";
    "trello_token", "a Trello credential", "trello", "(?:ATTA)?[a-f0-9]{64}|[a-f0-9]{32}";
    "virustotal_key", "a VirusTotal key", "virustotal", "[a-f0-9]{64}";
    "wandb_key", "a Weights & Biases key", "wandb", "[a-f0-9]{40}";
    "zendesk_token", "a Zendesk token", "zendesk", "[A-Za-z0-9]{40}";
];

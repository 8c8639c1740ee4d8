//! Credential formats of clouds, infrastructure and observability. A table; the rules of reading it are in `formats`.
//! Formats are those that the providers document or that their secret-scanning pages list.

use super::formats::{Format, Left};

/// Rows in order of provider.
pub(super) const FORMATS: &[Format] = &[
    Format::live("aws_access_key", "an AWS access key id", &["AKIA", "ASIA", "ABIA", "ACCA"], "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    Format::live(
        "aws_secret_key",
        "an AWS secret access key",
        &["aws_secret", "awssecret", "secretaccesskey", "secret_access_key"],
        r#"(?i:(?:aws_?)?secret_?(?:access)?_?(?:key)?)(?:\\?["'])?[ \t]{0,4}(?:=>|:=|=|:|>)[ \t]{0,4}(?:\\?["'])?([A-Za-z0-9/+]{40})"#,
    )
    .left(Left::Anything),
    Format::live("aws_bedrock_key", "an Amazon Bedrock API key", &["ABSKQmVk"], "ABSKQmVk[A-Za-z0-9+/]{60,}={0,2}"),
    Format::live("aws_presigned", "a presigned AWS URL's signature", &["X-Amz-Signature="], "X-Amz-Signature=([0-9a-f]{64})")
        .lesser()
        .left(Left::Anything),
    Format::live("google_api_key", "a Google API key", &["AIza"], "AIza[A-Za-z0-9_-]{35}"),
    Format::live("google_oauth_secret", "a Google OAuth client secret", &["GOCSPX-"], "GOCSPX-[A-Za-z0-9_-]{28}"),
    Format::live("google_oauth_token", "a Google OAuth access token", &["ya29."], r"ya29\.[A-Za-z0-9_-]{20,}"),
    Format::live("google_refresh_token", "a Google OAuth refresh token", &["1//0"], "1//0[A-Za-z0-9_-]{30,}"),
    Format::live("azure_storage_key", "an Azure storage account key", &["AccountKey="], "AccountKey=([A-Za-z0-9+/]{80,88}={0,2})")
        .left(Left::Anything),
    Format::live(
        "azure_shared_key",
        "an Azure shared access key",
        &["SharedAccessKey=", "Secret="],
        "(?:SharedAccessKey|Secret)=([A-Za-z0-9+/]{42,}=)",
    )
    .left(Left::Anything),
    Format::live("azure_sas", "an Azure shared access signature", &["sig="], "sig=((?:[A-Za-z0-9]|%2[BbFf]|[+/]){42,80}(?:%3[Dd]|=))"),
    Format::live(
        "azure_client_secret",
        "a Microsoft Entra client secret",
        &["0Q~", "1Q~", "2Q~", "3Q~", "4Q~", "5Q~", "6Q~", "7Q~", "8Q~", "9Q~"],
        r"[A-Za-z0-9_~.-]{0,40}?([A-Za-z0-9_~.]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34})",
    )
    .left(Left::Word),
    Format::live("digitalocean_token", "a DigitalOcean token", &["dop_v1_", "doo_v1_", "dor_v1_"], "do[opr]_v1_[a-f0-9]{64}"),
    Format::live("render_key", "a Render API key", &["rnd_"], "rnd_[A-Za-z0-9]{28}"),
    Format::live("heroku_key", "a Heroku API key", &["HRKU-"], "HRKU-[A-Za-z0-9_-]{36,}"),
    Format::live(
        "heroku_uuid_key",
        "a Heroku API key",
        &["heroku"],
        r#"(?i:heroku[a-z0-9_ .-]{0,25}["']?[ \t]{0,3}(?:=|:|=>)[ \t]{0,3}["']?)([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"#,
    )
    .left(Left::Anything),
    Format::live("alibaba_access_key", "an Alibaba Cloud access key id", &["LTAI"], "LTAI[A-Za-z0-9]{16,24}"),
    Format::live("tencent_secret_id", "a Tencent Cloud secret id", &["AKID"], "AKID[A-Za-z0-9]{32,36}"),
    Format::live("yandex_api_key", "a Yandex Cloud API key", &["AQVN"], "AQVN[A-Za-z0-9_-]{35,38}"),
    Format::live("cloudflare_origin_key", "a Cloudflare origin CA key", &["v1.0-"], r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    Format::live("vault_token", "a HashiCorp Vault token", &["hvs.", "hvb.", "hvr."], r"hv[sbr]\.[A-Za-z0-9_-]{24,300}"),
    Format::live("terraform_token", "a Terraform Cloud token", &[".atlasv1."], r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}")
        .left(Left::Word),
    Format::live("pulumi_token", "a Pulumi access token", &["pul-"], "pul-[a-f0-9]{40}"),
    Format::live(
        "doppler_token",
        "a Doppler token",
        &["dp.pt.", "dp.st.", "dp.ct.", "dp.sa.", "dp.scim.", "dp.audit."],
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,60}",
    ),
    Format::live("fly_token", "a Fly.io token", &["fo1_", "FlyV1 "], "(?:fo1_[A-Za-z0-9_-]{43}|FlyV1 fm[12][a-z]?_[A-Za-z0-9+/=,_-]{100,})"),
    Format::live(
        "planetscale_token",
        "a PlanetScale credential",
        &["pscale_"],
        r"pscale_(?:tkn|pw|oauth|api)_[A-Za-z0-9_=.-]{32,64}",
    ),
    Format::live("databricks_token", "a Databricks token", &["dapi"], "dapi[a-f0-9]{32}(?:-[0-9])?"),
    Format::live("supabase_token", "a Supabase token", &["sbp_", "sb_secret_"], "(?:sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{30,})"),
    Format::live("netlify_token", "a Netlify token", &["nfp_", "nfc_"], "nf[pc]_[A-Za-z0-9]{36,}"),
    Format::live("age_secret_key", "an age secret key", &["AGE-SECRET-KEY-1"], "AGE-SECRET-KEY-1[0-9A-Z]{58}"),
    Format::live("openshift_token", "an OpenShift token", &["sha256~"], r"sha256~[A-Za-z0-9_-]{43}"),
    Format::live("harness_token", "a Harness token", &["pat.", "sat."], r"[ps]at\.[A-Za-z0-9_-]{22}\.[a-f0-9]{24}\.[A-Za-z0-9]{20}"),
    Format::live("prefect_key", "a Prefect API key", &["pnu_"], "pnu_[A-Za-z0-9]{36}"),
    Format::live("infracost_token", "an Infracost API token", &["ico-"], "ico-[A-Za-z0-9]{32}"),
    Format::live("tailscale_key", "a Tailscale key", &["tskey-"], "tskey-[a-z]+-[A-Za-z0-9]{6,}(?:CNTRL)?-[A-Za-z0-9]{16,}"),
    Format::live("akamai_credential", "an Akamai credential", &["akab-"], "akab-[a-z0-9]{16}-[a-z0-9]{16}"),
    Format::live("grafana_token", "a Grafana token", &["glc_", "glsa_"], "(?:glc_[A-Za-z0-9+/]{32,}={0,3}|glsa_[A-Za-z0-9]{32}_[a-fA-F0-9]{8})"),
    Format::live("newrelic_key", "a New Relic key", &["NRAK-", "NRII-", "NRJS-", "NRAL"], "(?:NRAK-[A-Z0-9]{27}|NRII-[A-Za-z0-9_-]{32}|NRJS-[a-f0-9]{19})"),
    Format::live("dynatrace_token", "a Dynatrace token", &["dt0c01.", "dt0s01."], r"dt0[a-z]01\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    Format::live("sentry_token", "a Sentry token", &["sntrys_", "sntryu_"], "(?:sntryu_[a-f0-9]{64}|sntrys_[A-Za-z0-9+/=_-]{60,})"),
    Format::live("honeycomb_key", "a Honeycomb key", &["hcaik_", "hcaic_", "hcalk_"], "hca[il][kc]_[a-z0-9]{58}"),
    Format::live("launchdarkly_key", "a LaunchDarkly key", &["sdk-", "api-", "mob-"], "(?:sdk|api|mob)-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"),
    Format::live("onepassword_token", "a 1Password token", &["ops_eyJ", "A3-"], "(?:ops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3})"),
    Format::live("artifactory_token", "an Artifactory token", &["AKCp", "cmVmdGtu"], "(?:AKCp[A-Za-z0-9]{60,75}|cmVmdGtu[A-Za-z0-9]{56})"),
    Format::live("ngrok_token", "an ngrok token", &["ngrok"], r#"(?i:ngrok[a-z_. -]{0,20}["']?[ \t:=]{1,4}["']?)([0-9][A-Za-z0-9]{24,30}_[A-Za-z0-9]{19,24})"#).left(Left::Anything),
    Format::live(
        "private_key_base64",
        "a private key in base64",
        &["LS0tLS1CRUdJTi"],
        "LS0tLS1CRUdJTi(?:BSU0EgUFJJVk|BQUklWQVRF|BFQyBQUklW|BPUEVOU1NI|BFTkNSWVBU)[A-Za-z0-9+/=]{60,}",
    ),
    Format::live("wireguard_key", "a WireGuard private key", &["PrivateKey ="], "PrivateKey = ([A-Za-z0-9+/]{43}=)"),
];

//! Credential formats of code hosts, package registries, builds and model providers. A table; the rules of reading it
//! are in `formats`. Formats are those that the providers document or that their secret-scanning pages list.

use super::formats::{Format, Left};

/// Rows in order of kind.
pub(super) const FORMATS: &[Format] = &[
    Format::live("umbra_key", "a key of Umbra", &["umbra_sk_"], "umbra_sk_[A-Za-z0-9_-]{43}"),
    Format::live("github_token", "a GitHub token", &["ghp_", "gho_", "ghu_", "ghs_", "ghr_"], "gh[pousr]_[A-Za-z0-9]{36,251}").with_checksum(),
    Format::live("github_pat", "a GitHub fine-grained token", &["github_pat_"], "github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    Format::live(
        "gitlab_token",
        "a GitLab token",
        &["glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-", "glffct-", "glwt-"],
        r"gl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat|ffct|wt)-[A-Za-z0-9_-]{20,120}(?:\.[A-Za-z0-9_.-]{5,40})?",
    ),
    Format::live("gitlab_runner_token", "a GitLab runner registration token", &["GR1348941"], "GR1348941[A-Za-z0-9_-]{20,}"),
    Format::live("bitbucket_token", "a Bitbucket token", &["ATBB", "ATCTT3xFfG"], "(?:ATBB[A-Za-z0-9]{28,36}|ATCTT3xFfG[A-Za-z0-9+/=_-]{160,240})"),
    Format::live("atlassian_token", "an Atlassian API token", &["ATATT3"], "ATATT3[A-Za-z0-9+/=_-]{150,220}"),
    Format::live("npm_token", "an npm token", &["npm_"], "npm_[A-Za-z0-9]{36}").with_checksum(),
    Format::live(
        "npmrc_token",
        "an npm registry token",
        &["_authToken="],
        r#"_authToken=["']?([A-Za-z0-9_+/=-]{20,})"#,
    )
    .left(Left::Anything),
    Format::live("pypi_token", "a PyPI token", &["pypi-AgE"], "pypi-AgE[A-Za-z0-9_-]{50,1000}"),
    Format::live("rubygems_key", "a RubyGems key", &["rubygems_"], "rubygems_[a-f0-9]{48}"),
    Format::live("crates_token", "a crates.io token", &["cio"], "cio[A-Za-z0-9]{32}"),
    Format::live("nuget_key", "a NuGet key", &["oy2"], "oy2[a-z0-9]{43}"),
    Format::live("dockerhub_token", "a Docker Hub token", &["dckr_pat_", "dckr_oat_"], "dckr_[po]at_[A-Za-z0-9_-]{27,40}"),
    Format::live("clojars_token", "a Clojars token", &["CLOJARS_"], "CLOJARS_[a-z0-9]{60}"),
    Format::live("buildkite_token", "a Buildkite token", &["bkua_", "bkaj_"], "bk(?:ua|aj)_[a-z0-9]{40}"),
    Format::live("circleci_token", "a CircleCI token", &["CCIPAT_", "CCIPRJ_"], "CCI(?:PAT|PRJ)_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}"),
    Format::live("sonar_token", "a SonarQube token", &["sqp_", "squ_", "sqa_"], "sq[pua]_[a-f0-9]{40}"),
    Format::live("sourcegraph_token", "a Sourcegraph token", &["sgp_"], "sgp_(?:[A-Za-z0-9]{16}_|local_){0,2}[a-f0-9]{40}"),
    Format::live("azure_devops_pat", "an Azure DevOps token", &["AZDO"], "[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}").left(Left::Word),
    Format::live(
        "azure_devops_legacy_pat",
        "an Azure DevOps token",
        &["azure_devops", "azuredevops", "azdo"],
        r#"(?i:az(?:ure_?devops|do)[a-z_]{0,12}(?:pat|token)["']?[ \t]{0,3}(?:=|:)[ \t]{0,3}["']?)([a-z0-9]{52})"#,
    )
    .left(Left::Anything),
    Format::live("dependency_track_key", "a Dependency-Track key", &["odt_"], "odt_(?:[A-Za-z0-9]{8}_)?[A-Za-z0-9]{32,44}"),
    Format::live(
        "contribsys_credential",
        "a Sidekiq Enterprise credential",
        &["contribsys"],
        r#"(?i:BUNDLE_(?:ENTERPRISE|GEMS)__CONTRIBSYS__COM)["']?[ \t]{0,3}(?:=|:|=>)[ \t]{0,3}["']?([a-f0-9]{8}:[a-f0-9]{8})"#,
    )
    .left(Left::Word),
    Format::live(
        "truenas_key",
        "a TrueNAS key",
        &["login_with_api_key", "truenas"],
        r"(?i:truenas|login_with_api_key)[^\n]{0,40}?\b([0-9]{1,3}-[A-Za-z0-9]{64})",
    )
    .left(Left::Anything),
    Format::live("deno_token", "a Deno Deploy token", &["ddp_", "ddw_"], "dd[pw]_[A-Za-z0-9]{36}"),
    Format::live("jfrog_reference_token", "a JFrog identity token", &["jfrog"], r#"(?i:jfrog[a-z0-9_ .-]{0,25}["']?[ \t]{0,3}(?:=|:|=>|,)[ \t]{0,3}["']?)([A-Za-z0-9]{64,73})"#).left(Left::Anything),
    Format::live("octopus_key", "an Octopus Deploy key", &["API-"], "API-[A-Z0-9]{26}"),
    Format::live("snyk_token", "a Snyk token", &["snyk"], r#"(?i:snyk[a-z0-9_ .-]{0,20}["']?[ \t]{0,3}(?:[:?]{0,2}=|:|=>|,)[ \t]{0,3}["']?)([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})"#)
        .left(Left::Anything),
    Format::live("postman_key", "a Postman key", &["PMAK-"], "PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    Format::live("readme_key", "a ReadMe key", &["rdme_"], "rdme_[a-z0-9]{70}"),
    Format::live("jetbrains_token", "a JetBrains permanent token", &["perm:", "perm-"], r"perm[:-][A-Za-z0-9+/=]{8,}\.[A-Za-z0-9+/=]{8,}\.[A-Za-z0-9]{30,}"),
    Format::live("openai_key", "an OpenAI key", &["sk-proj-", "sk-svcacct-", "sk-admin-"], "sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,200}"),
    Format::live("openai_legacy_key", "an OpenAI key", &["T3BlbkFJ"], "[A-Za-z0-9_.-]{0,40}?(sk-[A-Za-z0-9_-]{20,74}T3BlbkFJ[A-Za-z0-9_-]{20,74})").left(Left::Word),
    Format::live("anthropic_key", "an Anthropic key", &["sk-ant-"], "sk-ant-(?:api|admin|sid|oat|ort)[0-9]{2}-[A-Za-z0-9_-]{80,120}"),
    Format::live("openrouter_key", "an OpenRouter key", &["sk-or-"], "sk-or-(?:v1-)?[a-f0-9]{64}"),
    Format::live("generic_model_key", "an API key of a model provider", &["sk-"], "sk-(?:[a-f0-9]{32}|[A-Za-z0-9]{48})"),
    Format::live("langfuse_key", "a Langfuse secret key", &["sk-lf-"], "sk-lf-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"),
    Format::live("xai_key", "an xAI key", &["xai-"], "xai-[A-Za-z0-9]{80}"),
    Format::live("groq_key", "a Groq key", &["gsk_"], "gsk_[A-Za-z0-9]{52}"),
    Format::live("perplexity_key", "a Perplexity key", &["pplx-"], "pplx-[A-Za-z0-9]{48,56}"),
    Format::live("nvidia_key", "an NVIDIA key", &["nvapi-"], "nvapi-[A-Za-z0-9_-]{60,70}"),
    Format::live("fireworks_key", "a Fireworks key", &["fw_"], "fw_[A-Za-z0-9]{22,24}"),
    Format::live("huggingface_token", "a Hugging Face token", &["hf_", "api_org_"], "(?:hf|api_org)_[A-Za-z]{34}"),
    Format::live("replicate_token", "a Replicate token", &["r8_"], "r8_[A-Za-z0-9]{37}"),
    Format::live("langsmith_key", "a LangSmith key", &["lsv2_"], "lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    Format::live("pinecone_key", "a Pinecone key", &["pcsk_"], "pcsk_[A-Za-z0-9]{5,6}_[A-Za-z0-9]{60,68}"),
    Format::live("tavily_key", "a Tavily key", &["tvly-"], "tvly-(?:dev-|prod-)?[A-Za-z0-9_-]{30,}"),
    Format::live("cerebras_key", "a Cerebras key", &["csk-"], "csk-[a-z0-9]{48}"),
    Format::live("anyscale_key", "an Anyscale key", &["esecret_"], "esecret_[A-Za-z0-9]{26,40}"),
    Format::live("voyage_key", "a Voyage AI key", &["pa-"], "pa-[A-Za-z0-9_-]{43}"),
    Format::live("elevenlabs_key", "an ElevenLabs key", &["sk_"], "sk_[a-f0-9]{48}"),
];

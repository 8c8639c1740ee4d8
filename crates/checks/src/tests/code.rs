//! An example and a counter-example of every format of code hosts, registries, builds and model providers.
//! All are made up; the parts are joined by the compiler, so that scanners of this repository have nothing to find.

// Rule, a text that it must find, a text that it must leave alone.
formats![
    (umbra_key, concat!("umbra_sk_", "x7Qd0ZbV2mTfK9rLwYc1", "Hs8NpJg4uEoA6iB3XtCkRvM"), "umbra_sk_create"),
    (github_token, concat!("ghu_", "EETHeLvdo974qdAZEl", "ChbMBh8oIMw2WaU9NW"), "ghu_xxxxxxxxxxxxxxxxxxxx"),
    (
        github_pat,
        concat!(
            "github_pat_",
            "pnMi7QMx5A8P9Uv42gDCqT_Antz8GBx9Yh1avcW16",
            "B6ovnscJlCK11rtodUkRx63idBSV5WBExE5c0yAha"
        ),
        "github_pat_xxxxxxxxxxxxxxxxxxxx",
    ),
    (gitlab_token, concat!("glpat-", "2Hyuez1yFy", "4HRAYF41i1"), "glpat-xxxxxxxxxxxxxxxxxxxx"),
    (gitlab_runner_token, concat!("GR1348941", "oh9PZ2OHrU", "mAshasx9zk"), "GR1348941xxxxxxxxxxxxxxxxxxxx"),
    (bitbucket_token, concat!("ATBB", "lKhxo7o9AFLwOO", "LUVZ3DWbqIg0fM"), "ATBBxxxxxxxxxxxxxxxxxxxx"),
    (
        atlassian_token,
        concat!(
            "ATATT3",
            "sThAxMVaNvcs74OTC2VvYkOa7kYEFGGTiHfD3tFusnCNCuI04nhOnkaZPRWJp3Vod7LcQ9gdD2T",
            "NiOeT65kqollyyjXpAuiyuIEHOvqoI2BKfKAiQXY0NeA0QrP2UIaQXUUJBg1TvmfqApOF5edqN1"
        ),
        "ATATT3xxxxxxxxxxxxxxxxxxxx",
    ),
    (npm_token, concat!("npm_", "0e5IH8gdjHAULnirMo", "mnzYhEqBM1k325TE4x"), "npm_xxxxxxxxxxxxxxxxxxxx"),
    (npmrc_token, concat!("_authToken=", "HKcWHMk307", "1YR7MQZkHr"), "_authToken=xxxxxxxxxxxxxxxxxxxx"),
    (
        pypi_token,
        concat!("pypi-AgE", "aOQYaGbyhLKI3RJoqoJhx2swN", "fi8KNPLJZEeWs4UpqFOEl7hBB"),
        "pypi-AgExxxxxxxxxxxxxxxxxxxx",
    ),
    (
        rubygems_key,
        concat!("rubygems_", "dcd5174567fb300f681791c9", "7723729b895a9f33d99ccf88"),
        "rubygems_xxxxxxxxxxxxxxxxxxxx",
    ),
    (crates_token, concat!("cio", "WegRhVYnIdBojFXS", "JWxUUvafmy0AJI9N"), "cioxxxxxxxxxxxxxxxxxxxx"),
    (nuget_key, concat!("oy2", "xozvyi27cpvcj8etx05sy", "6xmr7oo5rl59hn4e06qehg"), "oy2xxxxxxxxxxxxxxxxxxxx"),
    (dockerhub_token, concat!("dckr_oat_", "f0OeF54eXQ2J6", "fID1Ks3Mkf3mJO"), "dckr_oat_xxxxxxxxxxxxxxxxxxxx"),
    (
        clojars_token,
        concat!("CLOJARS_", "4r3agzqp6sgsdqkpi63i4ajn8wtsdu", "3eoyq2jqhip6n2kgu3u7ylljrza4ge"),
        "CLOJARS_xxxxxxxxxxxxxxxxxxxx",
    ),
    (buildkite_token, concat!("bkua_", "f1kogopdufey7wgc7i86", "g42ufufhzgvdpq9dvwh4"), "bkua_xxxxxxxxxxxxxxxxxxxx"),
    (
        circleci_token,
        concat!("CCIPAT_", "We9Cl6PEkc2DXrbdkYmobL_Dl1UleAt", "JB3gQUimf03d6oFSHQIgBi3OYw0fPWVQ"),
        "CCIPAT_xxxxxxxxxxxxxxxxxxxx",
    ),
    (sonar_token, concat!("sqp_", "3513caa34823f651c8dd", "02b39979a53b8b96a450"), "sqp_xxxxxxxxxxxxxxxxxxxx"),
    (sourcegraph_token, concat!("sgp_", "ca951fc6a56dbb68aeb5", "dcf0c2874ef5adc8d4f4"), "sgp_xxxxxxxxxxxxxxxxxxxx"),
    (octopus_key, concat!("API-", "J3CNJGE8YX5FU", "L8J58UQTO3R0T"), "API-xxxxxxxxxxxxxxxxxxxx"),
    (snyk_token, concat!("snyk", "=7559fbc2-8f18-932", "3-f4a1-df652f4993ef"), "snykxxxxxxxxxxxxxxxxxxxx"),
    (
        postman_key,
        concat!("PMAK-", "e6a56b2c5f9138df2312a755-c297", "8cb5ceb921b4a420dd53cd8152b1c0"),
        "PMAK-xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        readme_key,
        concat!("rdme_", "y1tx7x8una9e5emx64amndu967kixiwm939", "lveu4ms48ddd3uelwyxe8n2939r74jnj76f"),
        "rdme_xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        jetbrains_token,
        concat!("perm-", "bCDa75I2.4tCpjJ2Q.gaGwdb", "taUZzh2RD8gMtIxj7WMuWCWr"),
        "perm-xxxxxxxxxxxxxxxxxxxx",
    ),
    (openai_key, concat!("sk-proj-", "L4qwVO61OzP1LdJsrvlw", "QFzErfb3mwqicvF2Xe87"), "sk-proj-xxxxxxxxxxxxxxxxxxxx"),
    (
        openai_legacy_key,
        concat!("sk-XHoEFZx", "E35XTXgQBN3IET", "3BlbkFJr4gP9X993d8K1bB2IMX3"),
        "sk-XHoEFZxE35XTXgQBN3IET3BlbkFJxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        anthropic_key,
        concat!(
            "sk-ant-",
            "api49-RnUbIblJqjfRMHR3bkl4xS0kpRC1EN1pJjxUD",
            "FJf7hw0pNYLgTMzDONoICgFtifWHgeU8ZtjCasgjCY4"
        ),
        "sk-ant-xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        openrouter_key,
        concat!("sk-or-", "5b3f6b0befa6af1d7fa79b09c0d6c81b", "8f69c738b65129bde4a986370ba18dec"),
        "sk-or-xxxxxxxxxxxxxxxxxxxx",
    ),
    (generic_model_key, concat!("sk-", "b1ce57a5d78f7fd8", "c955dcf5809e9f04"), "sk-xxxxxxxxxxxxxxxxxxxx"),
    (langfuse_key, concat!("sk-lf-", "187396a7-6197-959a", "-0533-f0cc05eceb24"), "sk-lf-xxxxxxxxxxxxxxxxxxxx"),
    (
        xai_key,
        concat!("xai-", "LqTM5cjO1mHHqhApmFzjcTjv5nL6xmhLaLFtvzJE", "haCSdw3gj5vBwhREnzYQeEhtqJKe1zKAUu2uoX68"),
        "xai-xxxxxxxxxxxxxxxxxxxx",
    ),
    (groq_key, concat!("gsk_", "JQ6lsQfNKOd5nXv4Av9RRjwA7u", "o1Hth9feqwSg6jncEK0f4ITQtH"), "gsk_xxxxxxxxxxxxxxxxxxxx",),
    (
        perplexity_key,
        concat!("pplx-", "3Z4BEz1QPCzirMdZ58z699Uk", "Kvhq9ZnfhgiN8Qf2K2VsRsEg"),
        "pplx-xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        nvidia_key,
        concat!("nvapi-", "okLqhA6cSbNWdDESQd0JCTzmza3IQg", "7bXhcq8iWrAHFAuQaGE0zPj9pryMwt"),
        "nvapi-xxxxxxxxxxxxxxxxxxxx",
    ),
    (fireworks_key, concat!("fw_", "tU1h5Eu1CyF", "lPs2VOI3Uzv"), "fw_xxxxxxxxxxxxxxxxxxxx"),
    (huggingface_token, concat!("hf_", "ASSBalnVvxrfbNVFo", "QdojhEleqXefqymPT"), "hf_xxxxxxxxxxxxxxxxxxxx"),
    (replicate_token, concat!("r8_", "AZP4QYKBFNY4itOFZS", "0Z5eVBC6KhYQLCOkp72"), "r8_xxxxxxxxxxxxxxxxxxxx"),
    (
        langsmith_key,
        concat!("lsv2_", "pt_bf31705cf4329ead1d36", "0465797d235f_020cd34f89"),
        "lsv2_xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        pinecone_key,
        concat!("pcsk_", "hgIXP_9WIW4qTPKPb3lyE7LxhMNf21HzE", "Oeul5AgPZvoqicRkLh6WOFCvaxTbhxI0e"),
        "pcsk_xxxxxxxxxxxxxxxxxxxx",
    ),
    (tavily_key, concat!("tvly-", "sUzO94CM8zc7xkv", "sG2l6FvuVVPYbRv"), "tvly-xxxxxxxxxxxxxxxxxxxx"),
    (elevenlabs_key, concat!("sk_", "537fd338883e3c3661a262b4", "7a6eb9a2d46f1e850dc4d7ed"), "sk_xxxxxxxxxxxxxxxxxxxx",),
    (dependency_track_key, concat!("odt_", "COX6Jhw7Hd11XzWL", "8MHpoKEzViXZya8c"), "odt_COX6Jhw7Hd11Xz"),
    (
        contribsys_credential,
        concat!("BUNDLE_ENTERPRISE__CONTRIBSYS__COM=", "1f1bd38f", ":1f34920f"),
        "BUNDLE_ENTERPRISE__CONTRIBSYS__COM=1f1bd3"
    ),
    (
        truenas_key,
        concat!("truenas key 7-", "6w70WAKadYEjW1W5bSapfQ7Dh3yEg42ipqnX1fkk", "jbd93oQGXy9KTUMAFGrM14gE"),
        "truenas key 7-6w70WAKadYEjW1W5bSapfQ7Dh3yEg4"
    ),
    (deno_token, concat!("ddp_", "NAsIrsD3mbLFecbVja", "fQ4gGnRfXBkg8QysD4"), "ddp_NAsIrsD3mbLFecbV"),
    (
        jfrog_reference_token,
        concat!("JFROG_TOKEN=", "FIS0Xzm41PB2qs353f2Huu6mXrxWUREVXXPHzGIz", "3qyV4J1TQt7frRgjix7YSdn6"),
        "JFROG_TOKEN=FIS0Xzm41PB2qs353f2Huu6mXrxWUR"
    ),
    (
        cerebras_key,
        concat!("csk-", "9d7bhirkvd7yftfx3ad2j5z8e1ahcyicqql8fec9", "y6el4n8u"),
        "csk-9d7bhirkvd7yftfx3ad2j5"
    ),
    (anyscale_key, concat!("esecret_", "uEomFKB8KyVQ3J", "YmzSgnYNPPtPQv"), "esecret_uEomFKB8KyVQ"),
    (voyage_key, concat!("pa-", "v9PBmGGwYPnqwYo8kwQj1qH9CstFpS8gELRersl9", "a6s"), "pa-v9PBmGGwYPnqwYo8kwQ"),
    (
        azure_devops_pat,
        concat!("Zqumpm08hsE8JNpjJOQGa2rb19FlY0mG1ylvuh", "fJXqIEnomef2mSJ5CMTIeg1ZTVnVv2fgKD0f6Y", "AZDO", "YIgr"),
        "Zqumpm08hsE8JNpjJOQGAZDO"
    ),
    (
        azure_devops_legacy_pat,
        concat!("AZURE_DEVOPS_EXT_PAT=", "qw3hd7ynk5zr2m4tvb6xjc8pl", "fs9ga1oe0iu3hd7ynk5zr2m4tvb"),
        "AZURE_DEVOPS_EXT_PAT=qw3hd7ynk5zr2m4tvb6xjc8pl"
    ),
];

//! An example and a counter-example of every format of clouds, infrastructure and observability.
//! All are made up; the parts are joined by the compiler, so that scanners of this repository have nothing to find.

// Rule, a text that it must find, a text that it must leave alone.
formats![
    (aws_access_key, concat!("AKIA", "UJZDE8GX", "D6NCF10E"), "AKIAxxxxxxxxxxxxxxxxxxxx"),
    (
        aws_secret_key,
        concat!("aws_secret", "_access_key = DPhKg3UNGFeQd", "78dyuIEzcoUGNRqyXEHteeQLgAo"),
        "aws_secretxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        aws_bedrock_key,
        concat!("ABSKQmVk", "pzg5BpervCipOxfqmIpXJYz48UvC22", "Xq5pLsOBmd5uFcN2CScI1MTvUlM8EZ"),
        "ABSKQmVkxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        aws_presigned,
        concat!("X-Amz-Signature=", "050bf72fbf666f69e87a1d5ad0b57048", "efc48738d444a157d52ed8748d31d309"),
        "X-Amz-Signature=xxxxxxxxxxxxxxxxxxxx",
    ),
    (google_api_key, concat!("AIza", "ESw9L3IaEhY2Tzqpt", "glHcPfqhlrzX5h9jMb"), "AIzaxxxxxxxxxxxxxxxxxxxx"),
    (google_oauth_secret, concat!("GOCSPX-", "El5QkYL3s9QpPa", "X9hQr0EsvDnreN"), "GOCSPX-xxxxxxxxxxxxxxxxxxxx"),
    (google_oauth_token, concat!("ya29.", "rUz6AceVrw", "t9p4Ld9UyO"), "ya29.xxxxxxxxxxxxxxxxxxxx"),
    (google_refresh_token, concat!("1//0", "bF9NiaZ9I5vOXvt", "XYqfxXIOoN4RHCg"), "1//0xxxxxxxxxxxxxxxxxxxx"),
    (
        azure_storage_key,
        concat!("AccountKey=", "I4ZnapEeld8VkiWWtwbULzesBrrxKZXH9oxS1jpN", "oPtl9xMXx2TpQK0Emd2q4xlCM5AmiaujRBEzA1LF"),
        "AccountKey=xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        azure_shared_key,
        concat!("SharedAccessKey=", "sPALOLQ5tyPBBHF7FMJeV", "EhWUSave3QVD7FQKQFEnD="),
        "SharedAccessKey=xxxxxxxxxxxxxxxxxxxx",
    ),
    (azure_sas, concat!("sig=", "sQIy3uVVgfJMm7jzDwJ1sb", "YStBOTzEzeGElJMytczd%3D"), "sig=xxxxxxxxxxxxxxxxxxxx"),
    (azure_client_secret, concat!("tsd9Q~M5LN", "Tq5QIKDOdxV0tt", "r9syzTZUhuTDx"), "tsd9Q~xxxxxxxxxxxxxxxxxxxx"),
    (
        digitalocean_token,
        concat!("dor_v1_", "4c3b41ef18a04d593cdc679c21849758", "4bd8c2ebec8b3c47ce6dbb3edc4f7f1f"),
        "dor_v1_xxxxxxxxxxxxxxxxxxxx",
    ),
    (render_key, concat!("rnd_", "q8Zr1LmX0pTn5v", "Kc2JhWq8Zr1LmX"), "rnd_q8Zr1LmX0pTn5vKc2JhWq8Z"),
    (heroku_key, concat!("HRKU-", "YwzbtVXH5PdjHFQ8v8", "5u5YeO9LmzSwdZtMuy"), "HRKU-xxxxxxxxxxxxxxxxxxxx"),
    (
        heroku_uuid_key,
        concat!("heroku", "_api_key=46f3aa70-8af4", "-daa5-af6f-d107cb08d11a"),
        "herokuxxxxxxxxxxxxxxxxxxxx",
    ),
    (alibaba_access_key, concat!("LTAI", "O2U04R8X", "TXnWZYSH"), "LTAIxxxxxxxxxxxxxxxxxxxx"),
    (tencent_secret_id, concat!("AKID", "8OA6rawox4kw6P06", "pzD4uKwJ0TQgpUYb"), "AKIDxxxxxxxxxxxxxxxxxxxx"),
    (yandex_api_key, concat!("AQVN", "1TIPitVq0DW52L2U4", "xI289v3rip6Dy31jd8"), "AQVNxxxxxxxxxxxxxxxxxxxx"),
    (
        cloudflare_origin_key,
        concat!(
            "v1.0-",
            "4980451cdd4aa15cc9b08639-6394535dc987a10055db87ae7cf35d1b157f6c70434f9ae6ffad5bb0a08e",
            "0ee8a7e221708bca4f121f1f0d8027b9a8cc7e48f047101f75733f08ce04d3f798992909ef1c56c6d57456"
        ),
        "v1.0-xxxxxxxxxxxxxxxxxxxx",
    ),
    (vault_token, concat!("hvr.", "Jd31kjAC2yue", "Wgot6rZ8bnTK"), "hvr.xxxxxxxxxxxxxxxxxxxx"),
    (
        terraform_token,
        concat!("jpqvvA8rJo", "Xr2Z.atlasv1.y", "UlkrOVz8KjjZpLSHI55zBnUzecfRXh5BWjiy7Uo8eHVQYnmky2QBXzYEXz6"),
        "xxxxxxxxxxxxxx.atlasv1.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ),
    (pulumi_token, concat!("pul-", "a2439f6ac00bee311b72", "ddece70b967cfe3bcbfd"), "pul-xxxxxxxxxxxxxxxxxxxx"),
    (doppler_token, concat!("dp.pt.", "CBUtsoKHdKGLMmWr8MXH", "2bUZaQcOeBrt5LKL5JyW"), "dp.pt.xxxxxxxxxxxxxxxxxxxx"),
    (fly_token, concat!("fo1_", "ovpDchnr5Cycjy4kAcc4B", "moVqZg8J3D6yjhJfLsYKsp"), "fo1_xxxxxxxxxxxxxxxxxxxx"),
    (planetscale_token, concat!("pscale_", "tkn_Agz7ysg8A2zXat", "qMkYuqaV9e9l7nKU5Y"), "pscale_xxxxxxxxxxxxxxxxxxxx",),
    (databricks_token, concat!("dapi", "020a4424f92c9be7", "c737aced62d782c8"), "dapixxxxxxxxxxxxxxxxxxxx"),
    (supabase_token, concat!("sbp_", "5db930c2250728469dbe", "3be5612b89accb089c34"), "sbp_xxxxxxxxxxxxxxxxxxxx"),
    (netlify_token, concat!("nfp_", "9Ip0wHpL1gQVKK67Oe", "2yOQQ6DOK6nTxEoYin"), "nfp_xxxxxxxxxxxxxxxxxxxx"),
    (
        age_secret_key,
        concat!("AGE-SECRET-KEY-1", "SD6QUK3OETUXCGAX7ZKPA8UUVHN6Z", "VLAL6NO78VILOZBK1KDT7ITNNUCYB"),
        "AGE-SECRET-KEY-1xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        openshift_token,
        concat!("sha256~", "XMmMTStPtlEaANjENggqH", "w1PqHrS7GMrltqARDbFRU5"),
        "sha256~xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        harness_token,
        concat!("pat.", "uDPbIP7wAP50WPxF1elYbV.9b1b81bf0c2", "c4c4c73c81ef3.bU76Gtgb7KlCfH2vpvK0"),
        "pat.xxxxxxxxxxxxxxxxxxxx",
    ),
    (prefect_key, concat!("pnu_", "oyDSgCVDGhvvtMgZKO", "qNbQqdFP5dAsOqZGMa"), "pnu_xxxxxxxxxxxxxxxxxxxx"),
    (infracost_token, concat!("ico-", "FirSXVPRqqVOCZas", "2bEJFEDiMQ6oGYgr"), "ico-xxxxxxxxxxxxxxxxxxxx"),
    (tailscale_key, concat!("tskey-", "p-QMGq7f-kzc", "SE7l05eIJEebI"), "tskey-xxxxxxxxxxxxxxxxxxxx"),
    (akamai_credential, concat!("akab-", "blcehupdorwkx0rk", "-22laif81pjqhhyfo"), "akab-xxxxxxxxxxxxxxxxxxxx"),
    (grafana_token, concat!("glc_", "AJC3WF3TlU26vyj3", "7lc9py81kiMThNeu"), "glc_xxxxxxxxxxxxxxxxxxxx"),
    (newrelic_key, concat!("NRAK-", "VIXW69OR6I6B0", "1LC8SRH2X74P68"), "NRAK-xxxxxxxxxxxxxxxxxxxx"),
    (
        dynatrace_token,
        concat!(
            "dt0c01.",
            "YWL1VRPK76SLH9LBPX664I90.3KCXFBUJBDLITSG6K0J",
            "8SULI2K2ZLITYI9U9PZXF7V3G89HQGJVU0B8GGL0QUDJR"
        ),
        "dt0c01.xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        sentry_token,
        concat!("sntryu_", "d554e88b434d4b565582ec3c07bb3f7c", "e1de8a1b1a1e6ef692a1439b57e8e4a9"),
        "sntryu_xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        honeycomb_key,
        concat!("hcaik_", "v4zxb5ch4efzuoq2f2892t78w5n1e", "0h6wi81npopovbzrsda70t9ytk433"),
        "hcaik_xxxxxxxxxxxxxxxxxxxx",
    ),
    (launchdarkly_key, concat!("sdk-", "36bd84fa-9f12-5d4a", "-556d-4443efac841d"), "sdk-xxxxxxxxxxxxxxxxxxxx"),
    (
        onepassword_token,
        concat!(
            "ops_eyJ",
            "AXNaiQ9VQiBE8iQsjpXEkj7t8Y4kQ60wBWaB8SQBXDlDPjthpd",
            "Gm6VEisQWGJ9Evyz2dcyPL7tizR7hV0ueqx1Qanjk20MF2Bii2"
        ),
        "ops_eyJxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        artifactory_token,
        concat!("AKCp", "kDJz70cVLaa2lSbMArF0tiIIQczl3r", "4tLtAwBm2XUBDbQPPlGcN7EosOGOOG"),
        "AKCpxxxxxxxxxxxxxxxxxxxx",
    ),
    (ngrok_token, concat!("ngrok", "=9HUbUe7KyZesKUYycLiGro", "Gcj_6fGEvPqyX2IFnrwaeeY"), "ngrokxxxxxxxxxxxxxxxxxxxx",),
    (
        private_key_base64,
        concat!(
            "LS0tLS1CRUdJTiBQ",
            "UklWQVRFIEtFWS0tLS0tCk1JSUVwQUlCQUFLQ0FRRUF1Vm9H",
            "VGFGU1dwM1lONUpDOGxPZEw4d21XcGFNNzNVYU56aFlpcUE3"
        ),
        "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSUVwQUlCQUFLQ0FRRUF1Vm9HVGFGU1dwM1lONUpDOGxPZEw4d21XcGFN",
    ),
    (
        wireguard_key,
        concat!("PrivateKey =", " rIn3bfL7dSjG5m5jKVXOm", "o0vPPcs02Zg8fbipy3JNOW="),
        "PrivateKey =xxxxxxxxxxxxxxxxxxxx",
    ),
];

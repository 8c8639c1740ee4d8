//! An example and a counter-example of every format that a service's name leads to. All are made up; the parts are
//! joined by the compiler, so that scanners of this repository have nothing to find.

// Rule, a text that it must find, a text that it must leave alone.
formats![
    (
        abuseipdb_key,
        concat!(
            "ABUSEIPDB_KEY=",
            "f50540a7edca5b4eec0a0f98b7fd216d63d17418",
            "e52d2d058b3abc4aa0df28d2993a370361fd9eec"
        ),
        "ABUSEIPDB_KEY=f50540a7edca5b4eec0a0f98b7fd216d63d174"
    ),
    (
        algolia_key,
        concat!("algolia_admin_key: \"", "39ea79497344d3bc", "f7d49a2a09115e67"),
        "algolia_admin_key: \"39ea79497344d3"
    ),
    (
        amplitude_key,
        concat!("amplitude_api_key = ", "425209ada870573c", "a7570574185c68b3"),
        "amplitude_api_key = 425209ada87057"
    ),
    (
        assemblyai_key,
        concat!("ASSEMBLYAI_API_KEY=", "e9239e086bc8dd10", "0f0e0134f156f051"),
        "ASSEMBLYAI_API_KEY=e9239e086bc8dd"
    ),
    (
        beamer_key,
        concat!("beamer = ", "b_tmq9yDCMSc0hf3KjWevOvPf4GNiMPSbf8nPblD", "H8qrCx"),
        "beamer = b_tmq9yDCMSc0hf3KjWev"
    ),
    (
        bitly_token,
        concat!("bitly_token = ", "1312427c89aedc8c08e0", "26d8b2ba8ad5e3b4edb0"),
        "bitly_token = 1312427c89aedc8c08"
    ),
    (
        browserstack_key,
        concat!("BROWSERSTACK_ACCESS_KEY=", "8q12sxlahI", "Jhh3Swkbx9"),
        "BROWSERSTACK_ACCESS_KEY=8q12sxla"
    ),
    (
        bugsnag_key,
        concat!("bugsnag_api_key = ", "b84c349bcaf30428", "b891e753e4ee2a38"),
        "bugsnag_api_key = b84c349bcaf304"
    ),
    (
        cloudflare_key,
        concat!("CLOUDFLARE_API_TOKEN=", "jPUZLF2bI0VTVaMxHMYt", "EAdjSXtri5nAk8UeloAW"),
        "CLOUDFLARE_API_TOKEN=jPUZLF2bI0VTVaMxHM"
    ),
    (
        cloudsmith_key,
        concat!("cloudsmith ", "7653acaafa9d88cd671b", "98f50044af8603f5c1dc"),
        "cloudsmith 7653acaafa9d88cd67"
    ),
    (
        codecov_token,
        concat!("CODECOV_TOKEN=", "860e7527-da28-5bdc", "-443c-cb28d23a0235"),
        "CODECOV_TOKEN=860e7527-da28-5b"
    ),
    (
        coinbase_secret,
        concat!("coinbase_secret = ", "ToC3zvlZHVJccffqwAs47Dd61RoSHqZlBkU0Wttq", "pkRzoxePCdOh05gm29mcKjZD"),
        "coinbase_secret = ToC3zvlZHVJccffqwAs47Dd61RoSHq"
    ),
    (
        confluent_secret,
        concat!("confluent_secret = ", "8wvLNf4gWZuKI5siRndAeUqcHTOlR5mDsy1q2kGD", "3VPHkS2thxjEWs4UMXvsGz60"),
        "confluent_secret = 8wvLNf4gWZuKI5siRndAeUqcHTOlR5"
    ),
    (
        datadog_key,
        concat!("datadog_app_key: ", "c3b953aa71b3830a13fc", "f93e3e3f13c90335515c"),
        "datadog_app_key: c3b953aa71b3830a13"
    ),
    (
        deepgram_key,
        concat!("deepgram_key = ", "5d368d565a03f0ab4e9d", "f161652e9639911b08fd"),
        "deepgram_key = 5d368d565a03f0ab4e"
    ),
    (
        deepl_key,
        concat!("DEEPL_AUTH_KEY=", "8fc22442-18bc-f198-", "6187-d25fef061b71:fx"),
        "DEEPL_AUTH_KEY=8fc22442-18bc-f19"
    ),
    (drone_token, concat!("DRONE_TOKEN=", "JzYuC11r7LnoUXBV", "pdktoKQ59nqjm12x"), "DRONE_TOKEN=JzYuC11r7LnoUX"),
    (
        etherscan_key,
        concat!("etherscan_key = ", "PAY4GVC6WNDHP74KK", "2RJ5S9MQDWSRZOWPM"),
        "etherscan_key = PAY4GVC6WNDHP74"
    ),
    (
        fastly_token,
        concat!("FASTLY_API_TOKEN=", "kUIKcUaLXs6RFVwk", "PC7GRVHxqGcbfSil"),
        "FASTLY_API_TOKEN=kUIKcUaLXs6RFV"
    ),
    (
        intercom_token,
        concat!("intercom_token = ", "6gmprQC3GKWIRFkwt4PBvIXDEWtihmb8MzAKHPFr", "9zx8I7Z6HD8psrDAKCFj"),
        "intercom_token = 6gmprQC3GKWIRFkwt4PBvIXDEWti"
    ),
    (
        jumpcloud_key,
        concat!("jumpcloud_key = ", "fd46bb741a7a8068bc16", "2492eb10cf7e31e4b123"),
        "jumpcloud_key = fd46bb741a7a8068bc"
    ),
    (
        launchdarkly_token,
        concat!("launchdarkly_token = ", "bHTYCOB6JqCpsNa3rDDp", "SBQTWnVrxUBNIvxqXLsJ"),
        "launchdarkly_token = bHTYCOB6JqCpsNa3rD"
    ),
    (
        logzio_token,
        concat!("logzio_token = ", "313aa81f-675e-6943", "-044e-ccb50d2e3f7b"),
        "logzio_token = 313aa81f-675e-69"
    ),
    (mailjet_key, concat!("mailjet_key = ", "d2d00c8addd4d99a", "d860fc3e98646b83"), "mailjet_key = d2d00c8addd4d9"),
    (
        mattermost_token,
        concat!("mattermost_token = ", "5iu94cvzyjuh3", "6lyhwq041m0sq"),
        "mattermost_token = 5iu94cvzyju"
    ),
    (messagebird_key, concat!("messagebird_key = ", "EGpZ8r4qyBYC", "ncyZ3BXqaNDci"), "messagebird_key = EGpZ8r4qyB"),
    (
        okta_token,
        concat!("okta_token = ", "00O4tvWii8yJYYmJY1WBtblbCAk4n6SzcgBavV91", "VN"),
        "okta_token = 00O4tvWii8yJYYmJY1W"
    ),
    (
        opsgenie_key,
        concat!("opsgenie_key = ", "83682515-3000-f575", "-84f7-1aaba5f2fe9f"),
        "opsgenie_key = 83682515-3000-f5"
    ),
    (pagerduty_key, concat!("pagerduty_key = ", "u+vvVR0FV5", "BjLVjvxaS5"), "pagerduty_key = u+vvVR0F"),
    (
        paypal_secret,
        concat!(
            "paypal_client_secret = ",
            "Enj2KcU5yqR2BU7oWiReckZNRz4OxEs2M1HK0Qdb",
            "LLHbGpfNnGTiEBkhZdxTqzeG1ZPPnetDHMZpR9fz"
        ),
        "paypal_client_secret = Enj2KcU5yqR2BU7oWiReckZNRz4OxEs2M1HK0Q"
    ),
    (
        rollbar_token,
        concat!("ROLLBAR_ACCESS_TOKEN=", "a0b568b55cdbb4f6", "c42c0267f207507d"),
        "ROLLBAR_ACCESS_TOKEN=a0b568b55cdbb4"
    ),
    (
        saucelabs_key,
        concat!("SAUCE_ACCESS_KEY=", "a3609a7b-1501-5cab", "-fea1-ce305461f49f"),
        "SAUCE_ACCESS_KEY=a3609a7b-1501-5c"
    ),
    (shodan_key, concat!("shodan_key = ", "LtNftgsie1UUThsI", "KsATf3rQCKDjv34e"), "shodan_key = LtNftgsie1UUTh"),
    (
        sonar_login,
        concat!("sonar.login=", "a33048f11ce2860e835e", "25d5100a0b0c77008eb5"),
        "sonar.login=a33048f11ce2860e83"
    ),
    (
        sourcegraph_legacy_token,
        concat!("sourcegraph_token = ", "ca19cede29432457c4af", "bd9187952612da8be1e4"),
        "sourcegraph_token = ca19cede29432457c4"
    ),
    (
        splunk_hec_token,
        concat!("splunk_token = ", "84c45b04-c01f-476f", "-d06e-7c6f1f4d44c1"),
        "splunk_token = 84c45b04-c01f-47"
    ),
    (
        telnyx_key,
        concat!("telnyx_key = ", "KEYDcoxvuNDt3nXEHqixk4h80iAvcBF1OcbfstVg", "9CleK9yjAuBU26J4wA"),
        "telnyx_key = KEYDcoxvuNDt3nXEHqixk4h80iA"
    ),
    (travisci_token, concat!("travis_token = ", "t98OXI6mToN", "OomwgZkpR5K"), "travis_token = t98OXI6mT"),
    (
        trello_token,
        concat!("TRELLO_TOKEN=", "9435565a6567476badbc9c64ee27fb75f3d68a5b", "455523e2c68e336ae93663f7"),
        "TRELLO_TOKEN=9435565a6567476badbc9c64ee27fb"
    ),
    (
        virustotal_key,
        concat!("virustotal_key = ", "eda56ffea7730351e8cf57b3c4f3c95188e24e5d", "e5b4fd6588acd888f1b44e8e"),
        "virustotal_key = eda56ffea7730351e8cf57b3c4f3c9"
    ),
    (
        wandb_key,
        concat!("WANDB_API_KEY=", "5454a9aa9d801391b445", "cf0ffa3960cd2a05957f"),
        "WANDB_API_KEY=5454a9aa9d801391b4"
    ),
    (
        zendesk_token,
        concat!("zendesk_token = ", "yJUWEyXslMUIWsEosW0z", "dPFmhQCCEVFyyXp7KRE2"),
        "zendesk_token = yJUWEyXslMUIWsEosW"
    ),
];

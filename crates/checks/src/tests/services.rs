//! An example and a counter-example of every format of messaging, payment and other services.
//! All are made up; the parts are joined by the compiler, so that scanners of this repository have nothing to find.

// Rule, a text that it must find, a text that it must leave alone.
formats![
    (slack_token, concat!("xoxp-", "73736966-", "lNdNSsLTOG"), "xoxp-xxxxxxxxxxxxxxxxxxxx"),
    (
        slack_app_token,
        concat!("xapp-", "9-Y-7-qzyz1v3zooj34o6g4", "hl96wqfzvyf2nvi02x188vx"),
        "xapp-xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        slack_config_token,
        concat!(
            "xoxe-",
            "7-fnbZkcHAeZSkKFhqsghfeqnax9NOAuk9siYXZdVPPEyV3CRZkbdAIiuoiSU",
            "6Y57QWHUzFGzrjLZtTDgFG3TgNcvyymOItHYFdhUwOXTWR7MT3SYojCz7rnK9"
        ),
        "xoxe-xxxxxxxxxxxxxxxxxxxx",
    ),
    (slack_cookie, concat!("xoxd-", "8h7n1cVn1JpuBAYosJir", "8zyD1EWVV6lA3zJFHfcq"), "xoxd-xxxxxxxxxxxxxxxxxxxx"),
    (
        slack_webhook,
        concat!("hooks.slack.com/", "services/EocybODPkx9hZBu", "TO89RISScm4qzcYTqiBqE2Xuo"),
        "hooks.slack.com/xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        discord_webhook,
        concat!("/api/webhooks/", "01131600935699692/F5gvUytvlrtILaOgyCDxF", "G6kGRWKr8Hn5usmtkR3dE8YGOZmjZr6oOqRK6ku"),
        "/api/webhooks/xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        discord_bot_token,
        concat!("discord", ": O8OGmQSeLuxAHpCI3NlIkfkL.9AX", "X54.spE95FRy4I55gsg9LSfiwj5fiT5"),
        "discordxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        teams_webhook,
        concat!(
            ".webhook.office.com/",
            "webhookb2/9e08d4882519ac791661ea17f72a4e5f829c@4078fdf583d450ca66e9ccea37f52d0e0f81/",
            "IncomingWebhook/c4d5cce94f94cbb826e0d9e024fad926/efbaa3bdbac6b08152ec00882d75077e7a7d"
        ),
        ".webhook.office.com/xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        telegram_bot_token,
        concat!("67039460:AA", "3z6O2huJkvg2tAm4", "mLu5Nw2cM2wSeZgk"),
        "12:AAxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    ),
    (twilio_secret, concat!("twilio", "=41f6e3f4db0425b", "53b1f96044e217c12"), "twilioxxxxxxxxxxxxxxxxxxxx"),
    (
        sendgrid_key,
        concat!("SG.", "21i7khmLQFOQvCUjR6hC.uytxVTdBa", "5ZzswbNf9Gp4CD8sjLV4m6oCBtNayf"),
        "SG.xxxxxxxxxxxxxxxxxxxx",
    ),
    (mailgun_key, concat!("key-", "a0cee8bf059e4c4f", "2ae37def0c19a524"), "key-xxxxxxxxxxxxxxxxxxxx"),
    (mailchimp_key, concat!("0883a16bde", "ddc3f41cd63732", "20a08c21-us3"), "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-us3"),
    (
        brevo_key,
        concat!("xkeysib-", "a9a5cbab055c0c4be3d1bf142b9482d7fe5b3239", "84158e8f1d6368f1d76ea977-0MTeDT7QMxmWOouT"),
        "xkeysib-xxxxxxxxxxxxxxxxxxxx",
    ),
    (stripe_live_key, concat!("sk_live_", "H9xKx", "FtAn1"), "sk_live_xxxxxxxxxxxxxxxxxxxx"),
    (stripe_test_key, concat!("sk_test_", "PgA1V", "y5lto"), "sk_test_xxxxxxxxxxxxxxxxxxxx"),
    (webhook_secret, concat!("whsec_", "KcDJ24BQQKZ2", "susQ3P7BRUPn"), "whsec_xxxxxxxxxxxxxxxxxxxx"),
    (
        square_token,
        concat!("EAAA", "HZVGGA91kIfLDX6SPNx7NtRRIUiQSm", "kQt3OdILg6Z7c6X4KjH8uBo1spojgG"),
        "EAAAxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        braintree_token,
        concat!("access_token$production$", "mh831qky9z2ahara$183a667", "cea762ec61b5394c7170ef1f2"),
        "access_token$production$xxxxxxxxxxxxxxxxxxxx",
    ),
    (shopify_token, concat!("shpat_", "D11502bEE4db2392", "8337ab96FEDe295C"), "shpat_xxxxxxxxxxxxxxxxxxxx"),
    (
        plaid_token,
        concat!("access-production-", "8efbc947-5288-c9ce", "-eab6-d8ae4a46bde3"),
        "access-production-xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        plaid_sandbox_token,
        concat!("access-sandbox-", "0f651100-f01e-0117", "-b18e-192770f5b4c9"),
        "access-sandbox-xxxxxxxxxxxxxxxxxxxx",
    ),
    (razorpay_key, concat!("rzp_live_", "ANrQDTe", "M4wnvTz"), "rzp_live_xxxxxxxxxxxxxxxxxxxx"),
    (
        adyen_key,
        concat!("AQE", "ZiblUhDWKLJhNaVYGnKMFgeswfrvlxRcUNRCKsXXt", "SQFMLm5QeO2C2cPLOK4yPCmy77dRbF9a377ptROsD"),
        "AQExxxxxxxxxxxxxxxxxxxx",
    ),
    (flutterwave_key, concat!("FLWSECK-", "ybn88ipzrlrpw42l4", "8xo68l3m6nowxt2-X"), "FLWSECK-xxxxxxxxxxxxxxxxxxxx"),
    (flutterwave_test_key, concat!("FLWSECK_TEST", "66E6HG", "00396E"), "FLWSECK_TESTxxxxxxxxxxxxxxxxxxxx"),
    (lob_key, concat!("live_", "251686202a2de251c", "66c78253166132a8e2"), "live_xxxxxxxxxxxxxxxxxxxx"),
    (
        easypost_key,
        concat!("EZAK", "SGJMAY8t76flkJY1J8RCkygLqRr", "52omYU8TGwVAQpS94oODsCuyBL7"),
        "EZAKxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        shippo_key,
        concat!("shippo_live_", "723686f21d0d4033a3fd", "50ca3c441895f43bc8ad"),
        "shippo_live_xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        duffel_key,
        concat!("duffel_live_", "KfYiS2lATW4EdjIKrVc7p", "2qymjMwrVFv1GWtMCpW2mK"),
        "duffel_live_xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        facebook_token,
        concat!("EAAC", "vMtPj4lrZYiLfaS6aCbk55ZS2dXOm87IfekAidod", "2ANJKfwepTCD0UFW4GImIOMiRtFA0fXo55Zs01Pq"),
        "EAACxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        twitter_bearer,
        concat!("AAAAAAAAAAAAAAAAAAAAA", "9On0dwQfz7zDz6NWri3zjK4fDAoCF9", "lOcbmH474gy2SRfdHP1lttYk2lrTh8"),
        "AAAAAAAAAAAAAAAAAAAAAxxxxxxxxxxxxxxxxxxxx",
    ),
    (
        dropbox_token,
        concat!(
            "sl.",
            "vBnKNqdC2PU8ldzkPpXnl4f54Uy5aUWrfKyopT8zqYg9mHPv8puBXdWHB2Gb",
            "oIi3Ix7QkanAQgJZUUCFMOfsY9wVJFN6hrrzUQNVIVXYZzdP8VqvSNeCwZ6x"
        ),
        "sl.xxxxxxxxxxxxxxxxxxxx",
    ),
    (notion_token, concat!("ntn_", "U5SCdmNlyd4xtoZO1O72", "Lmq0LVjy5awvtSxEQg4E"), "ntn_xxxxxxxxxxxxxxxxxxxx"),
    (linear_key, concat!("lin_api_", "Ad82Kk2RKNgjagQ5wKJd", "EcuYlLAYHi3MIUuhM8Me"), "lin_api_xxxxxxxxxxxxxxxxxxxx"),
    (figma_token, concat!("figd_", "I44b7Do7QSjZxAWcpJmO", "6vxpqoi84Omps3TuGjbO"), "figd_xxxxxxxxxxxxxxxxxxxx"),
    (hubspot_token, concat!("pat-na", "8-18430543-db3d-d9e", "3-4d8c-22a1ba9d1c17"), "pat-naxxxxxxxxxxxxxxxxxxxx"),
    (
        airtable_token,
        concat!("airtable", ": patBYsnygY84yxXfu.28fc7108fc34aeecb0e035", "cabae6d5984afa6cb7e29185a02fcbacd0e61312a7"),
        "airtablexxxxxxxxxxxxxxxxxxxx",
    ),
    (
        airtable_personal_token,
        concat!("patQm7xTz3LbW4yRd", ".", "4f2a9c1e7d6b5a4938271605f4e3d2c1", "b0a998874f2a9c1e7d6b5a4938271605"),
        "patQm7xTz3LbW4yRd.4f2a9c1e7d6b5a4938271605f4e3d2c1"
    ),
    (
        ethereum_key,
        concat!("accounts: ['0x", "4f2a9c1e7d6b5a4938271605f4e3d2c1", "b0a998874f2a9c1e7d6b5a4938271605", "']"),
        "accounts: ['0x4f2a9c1e7d6b5a4938271605f4e3d2c1b0a99887']"
    ),
    (asana_token, concat!("asana", ":c97a98a0419a82d", "322d19b43e73c7087"), "asanaxxxxxxxxxxxxxxxxxxxx"),
    (typeform_token, concat!("tfp_", "5En3havydHtsXLjwutl7", "m9Y4WIpDcmc6YRS9oN44"), "tfp_xxxxxxxxxxxxxxxxxxxx"),
    (
        contentful_token,
        concat!("CFPAT-", "MHpXiXotqhZrAqXohHoM7", "qOpzWCyhIg4QfAdfsQig6H"),
        "CFPAT-xxxxxxxxxxxxxxxxxxxx",
    ),
    (mapbox_token, concat!("sk.eyJ", "amVOOO5fhJSfX2OXQvIb", ".KvwXMGgA4SGX3tjLRcwb"), "sk.eyJxxxxxxxxxxxxxxxxxxxx"),
    (
        frameio_token,
        concat!("fio-u-", "dAxkuPi43OP4VIzntv7tkJXUQqPrGBTC", "U10tAPgxgzKUsqNevDKz4MToGKJ8NkIt"),
        "fio-u-xxxxxxxxxxxxxxxxxxxx",
    ),
    (adobe_secret, concat!("p8e-", "TV3QryAFMYRvGC9l", "n7prMNU1LKAd0DME"), "p8e-xxxxxxxxxxxxxxxxxxxx"),
    (
        salesforce_token,
        concat!(
            "00D",
            "JmqGP1r20SrJ!VgzvCjtUH8YFKoFOi6TJ6X59uVgip4Vie",
            "Ej8a9cQ2zvv526TaEXOxfowFuj6yxYTgDfeHVx3b52ijxxu"
        ),
        "00Dxxxxxxxxxxxxxxxxxxxx",
    ),
    (clickup_key, concat!("pk_", "985748_CDJ9UNILAJOM", "9U5CVKHRDQ55D15V1EBC"), "pk_xxxxxxxxxxxxxxxxxxxx"),
    (scrapfly_key, concat!("scp-live-", "0e018b7f65c446fe", "d60d5a37c707eb7f"), "scp-live-xxxxxxxxxxxxxxxxxxxx"),
    (wakatime_key, concat!("waka_", "68afbce9-71d3-eb9f", "-ef78-ea9b519282b6"), "waka_xxxxxxxxxxxxxxxxxxxx"),
    (otp_secret, concat!("otpauth://", "totp/someone?secre", "t=WYXPJ6OL4QJUWU2K"), "otpauth://xxxxxxxxxxxxxxxxxxxx"),
    (
        password_hash,
        concat!("$5$", "9$2Uz3x4F0O3vZzng7AbuOXeJTfY0yNUJtXlXB4gQ3Tp", "i2doH9CjbiMdw1SfqRpZB8nOVgQbpBo1N7tHEVDN4j7x"),
        "$5$xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        bcrypt_hash,
        concat!("$2b$", "20$pThQbBwogTK8RHjoq6odvTWex", "Yl7QlIioN2e8p0E0GlcPGS3yRbel"),
        "$2b$xxxxxxxxxxxxxxxxxxxx",
    ),
    (
        telegram_bot_url,
        concat!("tgram://", "966889661:RCZ3IwEF6y5kyy3JBNWqb9Mt8sCG3C", "RKbKe"),
        "tgram://966889661:RCZ3IwEF6y"
    ),
    (
        twilio_sid,
        concat!("TWILIO_ACCOUNT_SID=", "ACcab83bb43e451f9", "ab2845ad0f3d761f3"),
        "TWILIO_ACCOUNT_SID=ACcab83bb43e451"
    ),
    (
        zapier_webhook,
        concat!("hooks.zapier.com/hooks/catch/", "9601005/", "53rz8em6/"),
        "hooks.zapier.com/hooks/catch/960100"
    ),
    (
        tines_webhook,
        concat!("acme.tines.com/webhook/", "b715568b9126bef73fecde3b53f79a8a/fba7010", "70d26d7f79a73aff5cfd45011"),
        "acme.tines.com/webhook/b715568b9126bef73fecde3b53f79a"
    ),
    (
        make_webhook,
        concat!("hook.eu1.make.com/", "kbx5q936fr18g3ci", "x3lgk9rshx7qaksr"),
        "hook.eu1.make.com/kbx5q936fr18g3"
    ),
    (pagarme_key, concat!("ak_live_", "CoAqUvlPaJQ5WE2", "RlTZQcYTbYTTBPy"), "ak_live_CoAqUvlPaJQ5W"),
    (paystack_key, concat!("pk_live_", "6c4393a96e78c3403049", "d3e8474f2a7dccc06616"), "pk_live_6c4393a96e78c34030"),
    (fleetbase_key, concat!("flb_live_", "z5BhgJjH3L", "Z7wM6GKHVj"), "flb_live_z5BhgJjH"),
    (
        fullstory_key,
        concat!(
            "na1.",
            "k9tCSi5eIeeaAXZY7rzsj6HoV5D0bA2DAzqx2T4R",
            "c1hotdHNYgt0sgCWBn1Bue6bsBu4RstbtSPrwfm7",
            "4O5bFGEhS2v3y7X6Qd4V"
        ),
        "na1.k9tCSi5eIeeaAXZY7rzsj6HoV5D0bA2DAzqx2T4Rc1hotdHN"
    ),
    (pubnub_key, concat!("sub-c-", "c97570cf-1dcb-9210", "-7c90-7cbeac0ddd60"), "sub-c-c97570cf-1dcb-92"),
    (
        teamwork_token,
        concat!("tkn.v1_", "M31d8gfXEsmvvroDJYlviXJxwM55dkAiByZzlcYL", "Jg1WZ7GLUBiYWSnLJ2ki8zhPjGbSwmOXpybP"),
        "tkn.v1_M31d8gfXEsmvvroDJYlviXJxwM55dkAiByZz"
    ),
    (
        pushbullet_token,
        concat!("pushbullet_token = ", "o.d72QNWSF3EH6FEh", "cKtkErbdgVK0lE89h"),
        "pushbullet_token = o.d72QNWSF3EH6F"
    ),
    (
        intra42_secret,
        concat!("s-s4t2ud-", "b92c07423fb388dfa93ee3419300aed2e779eda3", "14554f625b65a91d1cbb5371"),
        "s-s4t2ud-b92c07423fb388dfa93ee3419300ae"
    ),
    (klaviyo_key, concat!("pk_", "bd6a2ba11015b11f5", "c9538f28f41ec36f2"), "pk_bd6a2ba11015b11"),
    (checkout_key, concat!("sk_", "e5fa8b4e-cfe5-dc94", "-fa78-e5fa039c77d2"), "sk_e5fa8b4e-cfe5-dc"),
];

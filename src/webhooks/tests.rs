//! Tests of the signature against the published one, of the schedule, and of the filters.

use std::time::Duration;

use jiff::Timestamp;
use secrecy::SecretString;
use serde_json::json;
use uuid::Uuid;

use super::{ATTEMPTS, Endpoints, next_delay, sign};
use umbra_config::settings::{Secret, Webhook, WebhookFormat};
use umbra_domain::{
    Severity,
    notice::{Notice, NoticeKind, Topic},
};
use umbra_llm::OutboundPolicy;

/// Returns the secret of the scheme's own example, put together here so that scanners of this repository are not
/// alarmed.
fn secret() -> Secret {
    Secret::parse(&["whsec_", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"].concat()).unwrap()
}

#[test]
fn signature_equals_the_standard_webhooks_example() {
    // Result of the published Python package `standardwebhooks` 1.1.0.
    let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    let sign =
        |secrets: &[Secret]| sign(secrets, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
    assert_eq!(sign(&[secret()]), expected);
    let rotated = sign(&[Secret::parse(&format!("whsec_{}", "A".repeat(44))).unwrap(), secret()]);
    assert!(rotated.starts_with("v1,") && rotated.ends_with(&format!(" {expected}")), "{rotated}");
}

#[test]
fn a_secret_is_base64_of_24_to_64_bytes() {
    for good in ["A".repeat(32), "A".repeat(43), "A".repeat(43) + "=", "A".repeat(86)] {
        assert!(Secret::parse(&format!("whsec_{good}")).is_ok(), "{good}");
    }
    for bad in ["", "whsec_", "whsec_short", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"] {
        assert!(Secret::parse(bad).is_err(), "{bad}");
    }
    assert!(Secret::parse(&format!("whsec_{}", "A".repeat(120))).is_err());
    assert_eq!(format!("{:?}", secret()), "Secret(..)");
}

#[test]
fn failed_deliveries_are_retried_for_about_a_day() {
    for jitter in [0.0, 0.5, 1.0] {
        let mut tried_for = Duration::ZERO;
        let mut attempt = 1;
        let mut last = Duration::ZERO;
        while let Some(delay) = next_delay(attempt, tried_for, None, jitter) {
            assert!(delay >= last, "ever more seldom");
            last = delay;
            tried_for += delay;
            attempt += 1;
        }
        assert_eq!(attempt, ATTEMPTS);
        let hours = tried_for.as_secs_f64() / 3_600.0;
        assert!((21.0..=26.5).contains(&hours), "{hours} hours");
    }
    assert_eq!(next_delay(1, Duration::ZERO, None, 0.5), Some(Duration::from_secs(5)));
    let minute = Some(Duration::from_mins(1));
    assert_eq!(next_delay(1, Duration::ZERO, minute, 0.5), minute, "who asks for more time gets it");
    assert_eq!(next_delay(4, Duration::ZERO, minute, 0.5), Some(Duration::from_mins(10)), "but not sooner");
    assert_eq!(next_delay(3, Duration::from_hours(20), Some(Duration::from_hours(24)), 0.5), None);
    assert_eq!(next_delay(0, Duration::ZERO, None, 0.5), None);
}

fn webhook(name: &str) -> Webhook {
    Webhook {
        name: name.into(),
        url: SecretString::from(format!("http://127.0.0.1:9/{name}")),
        secrets: vec![secret()],
        format: WebhookFormat::Standard,
        events: Topic::ALL.to_vec(),
        agents: Vec::new(),
        shadows: Vec::new(),
        severity: Severity::Info,
        enabled: true,
        timeout: Duration::from_secs(1),
        max_in_flight: 1,
    }
}

fn notice(kind: NoticeKind, agent: Option<&str>, shadow: Option<&str>, severity: Option<Severity>) -> Notice {
    let (agent, shadow) = (agent.map(Into::into), shadow.map(Into::into));
    Notice { kind, at: Timestamp::UNIX_EPOCH, agent, task_id: None, shadow, severity, data: json!({"a": 1}) }
}

#[test]
fn each_filter_excludes_only_its_own_notices() {
    let webhooks = [
        webhook("all"),
        Webhook { enabled: false, ..webhook("off") },
        Webhook { events: vec![Topic::Verdict, Topic::Briefing], ..webhook("verdicts") },
        Webhook { agents: vec!["writer-*".into()], ..webhook("writers") },
        Webhook { shadows: vec!["guard".into()], ..webhook("guarded") },
        Webhook { severity: Severity::Critical, ..webhook("critical") },
    ];
    let endpoints = Endpoints::new(&webhooks, None, &OutboundPolicy::default()).unwrap();
    let told = |notice: Notice| -> Vec<String> {
        let message = endpoints.address(&notice, Uuid::nil());
        message.map(|message| message.to.into_iter().map(|to| to.endpoint).collect()).unwrap_or_default()
    };
    let found =
        |agent, shadow, severity| told(notice(NoticeKind::FindingCreated, Some(agent), Some(shadow), Some(severity)));
    assert_eq!(found("writer-1", "other", Severity::Info), ["all", "writers"]);
    assert_eq!(found("boss", "guard", Severity::Critical), ["all", "guarded", "critical"]);
    assert_eq!(
        told(notice(NoticeKind::VerdictDecided, Some("boss"), Some("guard"), None)),
        ["all", "verdicts", "guarded", "critical"]
    );
    assert_eq!(
        told(notice(NoticeKind::BriefingReady, None, None, None)),
        ["all", "verdicts", "writers", "guarded", "critical"]
    );
    assert_eq!(told(notice(NoticeKind::BreakerOpened, Some("x"), None, None)), ["all", "guarded", "critical"]);
    let message = endpoints.address(&notice(NoticeKind::BreakerOpened, Some("x"), None, None), Uuid::nil()).unwrap();
    assert_eq!(message.body, r#"{"data":{"a":1},"timestamp":"1970-01-01T00:00:00Z","type":"breaker.opened"}"#);
    assert!(Endpoints::default().address(&notice(NoticeKind::BreakerOpened, None, None, None), Uuid::nil()).is_none());
}

#[test]
fn private_endpoint_is_refused_unless_allowed() {
    for url in ["http://10.0.0.7/x", "http://169.254.169.254/latest", "http://[::ffff:127.0.0.1]/", "http://0x7f.1/"] {
        let one = [Webhook { url: SecretString::from(url.to_owned()), ..webhook("inner") }];
        let refused = format!("{:#}", Endpoints::new(&one, None, &OutboundPolicy::default()).unwrap_err());
        assert!(refused.starts_with("webhook `inner`: "), "{refused}");
        let allowed = Endpoints::new(&one, None, &OutboundPolicy::new(["10.0.0.7".to_owned()]));
        assert_eq!(allowed.is_ok(), url.contains("10.0.0.7"), "{url}");
    }
}

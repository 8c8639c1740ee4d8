//! Schemas of other versions: those from before 0.1.0 are adopted or refused, and later ones are used as they are.

use reqwest::Method;
use sqlx::Row;

use crate::support::{Schema, Umbra};

/// Checksums and names of the migrations before 0.1.0, `SHA384  NUMBER_WORDS.sql` a line.
const REPLACED: &str = include_str!("../../migrations/replaced.txt");
/// Schema of 0.1.0 without later migrations.
const INITIAL: &str = include_str!("../../migrations/0001_initial.sql");

/// Records that the schema has the first `count` of the migrations before 0.1.0 and nothing else.
async fn record_replaced(schema: &Schema, count: usize) {
    let rows = REPLACED.lines().take(count).map(|line| {
        let (checksum, name) = line.split_once("  ").unwrap_or_default();
        let (version, words) = name.trim_end_matches(".sql").split_once('_').unwrap_or_default();
        format!("({version}, '{}', true, '\\x{checksum}', 1)", words.replace('_', " "))
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), count);
    schema
        .run(&format!(
            "DELETE FROM _sqlx_migrations;
             INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES {}",
            rows.join(", ")
        ))
        .await;
}

/// Returns numbers and words of the recorded migrations.
async fn recorded(schema: &Schema) -> Vec<(i64, String)> {
    let rows = schema.rows("SELECT version, description FROM _sqlx_migrations ORDER BY version").await;
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn schema_with_all_replaced_migrations_opens_with_its_data() {
    let schema = Schema::fresh().await;
    schema.run(&format!("CREATE SCHEMA {}", schema.name)).await;
    schema.run(INITIAL).await;
    // A table as sqlx makes it.
    schema
        .run(
            "CREATE TABLE _sqlx_migrations (version bigint PRIMARY KEY, description text NOT NULL,
                 installed_on timestamptz NOT NULL DEFAULT now(), success boolean NOT NULL, checksum bytea NOT NULL,
                 execution_time bigint NOT NULL);
             INSERT INTO api_key (id, name, hash, scopes, agents)
             VALUES ('0197a3c1-d2e4-7f00-a1b2-c3d4e5f60718', 'earlier', '\\x00', '{read}', '{*}')",
        )
        .await;
    record_replaced(&schema, REPLACED.lines().count()).await;
    // Two servers at once: one of them adopts the schema, the other one finds it adopted. Later migrations run on it.
    let (first, second) = tokio::join!(Umbra::with().on(&schema).go(), Umbra::with().on(&schema).go());
    let recorded = recorded(&schema).await;
    assert!(recorded.iter().zip(1..).all(|((version, _), n)| *version == n), "{recorded:?}");
    assert_eq!(recorded[0], (1, "initial".to_owned()));
    for server in [&first, &second] {
        let listed = server.cli(&["keys", "list"], None);
        assert!(String::from_utf8_lossy(&listed.stdout).contains("earlier"), "{listed:?}");
    }
}

#[tokio::test]
async fn schema_with_some_replaced_migrations_is_refused_with_the_way_out() {
    let mut umbra = Umbra::with().go().await;
    umbra.stop();
    umbra.unchecked();
    record_replaced(&umbra.schema, 20).await;
    let before = recorded(&umbra.schema).await;
    for command in [&["migrate"] as &[&str], &["serve", "--bind", "127.0.0.1:0"]] {
        let refused = umbra.cli(command, None);
        let text = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(1), "{text}");
        for part in [&umbra.schema.name, "before 0.1.0", "0026_numbers_of_lists.sql", "pg_dump", "database.schema"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
    assert_eq!(recorded(&umbra.schema).await, before, "a refusal changes nothing");
}

#[tokio::test]
async fn schema_of_a_later_version_is_used_as_it_is() {
    let mut umbra = Umbra::with().go().await;
    umbra.stop();
    // The number of a replaced migration, which the next ones have again.
    let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time)
                 VALUES (26, 'of a later version', true, '\\x00', 1)";
    umbra.schema.run(later).await;
    let before = recorded(&umbra.schema).await;
    let again = Umbra::with().on(&umbra.schema).go().await;
    assert_eq!(again.send(Method::GET, "/readyz", &[], None).await.status, 200);
    assert_eq!(recorded(&umbra.schema).await, before);
}

#[tokio::test]
async fn row_with_a_code_of_a_later_version_is_left_out_of_its_list() {
    let umbra = Umbra::with().go().await;
    let known = 12;
    for reason in [known, 99] {
        let row = format!(
            "INSERT INTO skip_count (shadow, reason, day, replica, n)
             VALUES ('reviewer', {reason}, '2026-11-01', '0197a3c1-d2e4-7f00-a1b2-c3d4e5f60718', 3)"
        );
        umbra.schema.run(&row).await;
    }
    let skips = umbra.items("/v1/skips").await;
    assert_eq!(skips.len(), 1, "{skips:?}");
    assert_eq!((&skips[0]["reason"], &skips[0]["count"]), (&"not_sampled".into(), &3.into()));
}

//! Tools of frameworks that drop or empty a project's database. In: one call. Out: what it would destroy. Each tool is
//! known with the verbs by which it does so.

use super::Sight;
use umbra_analysis::shell::Call;
use umbra_domain::Severity::Critical;

/// Tool, and its verbs after which data is gone; several words stand one after the other.
const TOOLS: &[(&str, &[&str])] = &[
    (
        "rails rake",
        &["db:drop", "db:drop:all", "db:reset", "db:purge", "db:truncate_all", "db:migrate:reset", "db:schema:load"],
    ),
    ("artisan", &["migrate:fresh", "migrate:reset", "migrate:refresh", "db:wipe"]),
    ("manage.py django-admin", &["flush", "reset_db", "sqlflush"]),
    ("mix", &["ecto.drop", "ecto.reset"]),
    ("alembic", &["downgrade base"]),
    ("flask", &["db downgrade"]),
    ("flyway", &["clean"]),
    ("liquibase", &["drop-all", "dropAll"]),
    ("prisma", &["migrate reset", "db push --force-reset", "db push --accept-data-loss"]),
    ("sequelize sequelize-cli", &["db:drop", "db:migrate:undo:all"]),
    ("typeorm", &["schema:drop"]),
    ("mikro-orm", &["schema:drop", "schema:fresh"]),
    ("knex", &["migrate:rollback --all"]),
    ("dbmate diesel", &["drop", "database reset", "database drop"]),
    ("sqlx", &["database drop", "database reset"]),
    ("migrate", &["drop"]),
    ("drush", &["sql-drop", "sql:drop", "site:install"]),
    ("wp", &["db reset", "db drop", "site empty"]),
    ("console", &["doctrine:database:drop", "doctrine:schema:drop"]),
    ("dotnet dotnet-ef", &["ef database drop", "database drop"]),
    ("supabase", &["db reset"]),
    ("hasura", &["metadata clear"]),
];

/// What the call destroys.
pub(super) fn look(call: &Call, sights: &mut Vec<Sight>) {
    // `python manage.py flush`, `php artisan migrate:fresh`, `bin/rails db:drop`.
    let run =
        matches!(call.program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.'), "python" | "php" | "ruby");
    let script = call.args.first().map(|arg| arg.text.rsplit('/').next().unwrap_or_default()).filter(|_| run);
    let tool = script.unwrap_or(&call.program);
    let Some((_, verbs)) = TOOLS.iter().find(|(names, _)| names.split(' ').any(|name| name == tool)) else { return };
    let words: Vec<&str> = call.args.iter().skip(usize::from(run)).map(|arg| arg.text.as_str()).collect();
    let said = verbs.iter().any(|verb| {
        let parts: Vec<&str> = verb.split(' ').collect();
        words.windows(parts.len()).any(|window| window == parts)
            || parts.iter().any(|part| part.starts_with('-')) && parts.iter().all(|part| words.contains(part))
    });
    if said {
        let what = format!("`{}` drops or empties the project's database.", call.shown());
        sights.push(Sight::new("database_destruction", Critical, what));
    }
}

//! `umbra keys create|list|revoke`: manages API keys.

use clap::Subcommand;
use rand::Rng;
use serde_json::json;

use super::{CommandFailure, GlobalOptions, answer, answer_json, complain, table, usage};
use umbra_config::Environment;
use umbra_domain::{
    KeyId,
    clock::Clock,
    key::{AgentGlobs, Scope, may_bind, mint},
};

/// Action on keys.
#[derive(Debug, Subcommand)]
pub(super) enum KeysAction {
    /// Make a key; it is shown this once.
    Create {
        /// Name of the key.
        #[arg(long)]
        name: String,
        /// Scopes of the key: ingest, read, decide, declare, admin; repeat it, or separate by commas.
        #[arg(long = "scope", required = true, value_delimiter = ',')]
        scopes: Vec<String>,
        /// Agents that the key may speak for, as globs; all without it.
        #[arg(long = "agent", value_delimiter = ',')]
        agents: Vec<String>,
    },
    /// List keys, never their secrets.
    List,
    /// Revoke a key.
    Revoke {
        /// Id of the key, as `list` shows it.
        id: String,
    },
}

pub(super) async fn run(global: &GlobalOptions, action: KeysAction) -> Result<(), CommandFailure> {
    match action {
        KeysAction::Create { name, scopes, agents } => create(global, &name, &scopes, agents).await,
        KeysAction::List => list(global).await,
        KeysAction::Revoke { id } => revoke(global, &id).await,
    }
}

async fn create(
    global: &GlobalOptions,
    name: &str,
    scopes: &[String],
    agents: Vec<String>,
) -> Result<(), CommandFailure> {
    let parsed: Vec<Scope> = scopes.iter().filter_map(|word| Scope::parse(word)).collect();
    if parsed.len() < scopes.len() {
        let unknown = scopes.iter().filter(|word| Scope::parse(word).is_none()).map(|word| format!("{word:?}"));
        let unknown = unknown.collect::<Vec<_>>().join(", ");
        return usage(format!("--scope: unknown: {unknown}: write ingest, read, decide, declare or admin"));
    }
    if name.trim().is_empty() || name.len() > 100 {
        return usage("--name: 1 to 100 bytes, not blank");
    }
    let agents = if agents.is_empty() { vec!["*".to_owned()] } else { agents };
    if let Err(error) = AgentGlobs::compile(&agents) {
        return usage(format!("--agent: {error}"));
    }
    if !may_bind(&parsed, &agents) {
        return usage("a key with the scope read or admin sees every agent: leave out --agent, or that scope");
    }
    // Before a server's first start it makes the installation; beside the address of a server that would be a mistake.
    let has_server = Environment::of_process().get("UMBRA_URL").is_some();
    let (setup, database) = if has_server { global.open_existing().await? } else { global.open().await? };
    let installation = database.store.installation(rand::rng().random()).await?;
    let key = mint(rand::rng().random());
    let id = KeyId(Clock::system().new_id());
    database.store.keys().add(id, name, &installation.hash_key(&key), scopes, &agents).await?;
    database.close().await;
    if global.json {
        return answer_json(&json!({"id": id, "key": key}));
    }
    let place = match &setup.settings.database.url {
        Some(_) => "the configured database".to_owned(),
        None => std::path::absolute(&setup.settings.storage.data_dir)?.display().to_string(),
    };
    let (scopes, agents) = (scopes.join(", "), agents.join(", "));
    complain(&format!("{id}: {scopes} for {agents}, in {place}. The key is shown only now:"));
    answer(&key);
    Ok(())
}

async fn list(global: &GlobalOptions) -> Result<(), CommandFailure> {
    let (_, database) = global.open_existing().await?;
    let keys = database.store.keys().list().await?;
    database.close().await;
    let mut rows = table::new(&["id", "name", "scopes", "agents", "made", "revoked"]);
    for key in &keys {
        rows.add_row([
            key.id.to_string(),
            table::plain(&key.name),
            key.scopes.join(", "),
            table::plain(&key.agents.join(", ")),
            key.created_at.strftime("%Y-%m-%d %H:%M").to_string(),
            key.revoked_at.map_or("-".into(), |at| at.strftime("%Y-%m-%d %H:%M").to_string()),
        ]);
    }
    global.print(&json!({"items": keys}), || match keys.len() {
        0 => "no keys: a server on loopback is open to every local process".to_owned(),
        _ => rows.to_string(),
    })
}

async fn revoke(global: &GlobalOptions, id: &str) -> Result<(), CommandFailure> {
    let id: KeyId = id.parse().map_err(|error| CommandFailure::Usage(format!("{id}: {error}")))?;
    let (_, database) = global.open_existing().await?;
    let known = database.store.keys().revoke(id).await?;
    database.close().await;
    if !known {
        return Err(CommandFailure::Error(anyhow::anyhow!("key {id} not found; umbra keys list shows the keys")));
    }
    global.print(&json!({"id": id, "revoked": true}), || {
        format!("{id} is revoked; servers refuse the key within a second")
    })
}

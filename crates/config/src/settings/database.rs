//! `database`: the Postgres that holds everything.

use std::{path::PathBuf, time::Duration};

use secrecy::SecretString;

use super::{
    super::{
        file::read_secret,
        keys::Keys,
        number::{Time, whole},
        shape::{Flag, Maybe},
        text::{path, text},
    },
    ms, secs,
    section::section,
};

section! {
    /// The Postgres (15 or newer) that holds everything.
    Database {
        /// Address with user and password: `postgres://user:password@host:5432/name`. `DATABASE_URL` sets it too.
        /// Without it a private Postgres is started in `storage.data_dir`.
        url: Option<SecretString> = None, Maybe(text("the URL of a Postgres", 16_384, parse_url).secret());
        /// A file that holds the URL alone, instead of `url`.
        url_file: Option<PathBuf> = None, Maybe(path());
        /// The schema that holds the tables. Services with different schemas do not see each other.
        schema: String = "umbra".to_owned(), text("a schema's name", 63, parse_schema);
        /// Most connections, over all pools of this process.
        max_connections: u32 = 16, whole(3..=1_000);
        /// Longest that a request waits for a database that does not answer; it then counts as away until it answers
        /// again.
        deadline: Duration = secs(2), Time(ms(200)..=secs(60));
        /// Start although Postgres has `fsync` off or the role is a superuser. A metric says so.
        allow_unsafe: bool = false, Flag;
    }
    rules read_url_file;
}

fn parse_url(url: &str) -> Result<SecretString, String> {
    let known = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    let printable = url.chars().all(|c| c.is_ascii_graphic());
    if known && printable {
        Ok(SecretString::from(url.to_owned()))
    } else {
        Err("write postgres://user:password@host:5432/name, without spaces; percent-encode signs in the password"
            .to_owned())
    }
}

fn parse_schema(name: &str) -> Result<String, String> {
    let mut chars = name.chars();
    let starts = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_');
    let goes_on = chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if starts && goes_on && !name.starts_with("pg_") {
        Ok(name.to_owned())
    } else {
        Err("use a-z, 0-9 and _, not beginning with a digit or pg_".to_owned())
    }
}

fn read_url_file(database: &mut Database, keys: &mut Keys<'_>) {
    let Some(path) = &database.url_file else { return };
    if database.url.is_some() {
        keys.fault("url_file", "both url and url_file are set", "remove one of the two");
        return;
    }
    match read_secret(path).and_then(|text| parse_url(&text)) {
        Ok(url) => database.url = Some(url),
        Err(why) => keys.fault("url_file", "the file has no URL of a Postgres", why),
    }
}

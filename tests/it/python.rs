//! The Python package in `clients/python`: its own tests, against servers that they start.
#![expect(clippy::expect_used, clippy::disallowed_methods, reason = "a test may panic; PYTHONPATH is its own")]

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

/// Returns a search path of Python with the package and its dependencies, which are installed with pip if need be.
pub fn path() -> OsString {
    static PATH: OnceLock<OsString> = OnceLock::new();
    PATH.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let packages = root.join("target/python");
        let given = env::var_os("PYTHONPATH").unwrap_or_default();
        let folders = [root.join("clients/python/src"), packages.clone()].into_iter().chain(env::split_paths(&given));
        let path = env::join_paths(folders).expect("paths without colons");
        let imports = ["-c", "import umbra_shadow"];
        let has_all = Command::new("python3").args(imports).env("PYTHONPATH", &path).output();
        if !has_all.expect("python3 is there").status.success() {
            let install = ["-m", "pip", "install", "--quiet", "--target"];
            let mut pip = Command::new("python3");
            let installed = pip.args(install).arg(&packages).args(["httpx", "pydantic"]).output().expect("pip runs");
            assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        }
        path
    })
    .clone()
}

/// Runs files of tests one after another.
async fn passes(files: &'static [&str]) {
    let run = tokio::task::spawn_blocking(move || {
        let tests: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/python/tests");
        for file in files {
            let output = Command::new("python3")
                .arg(tests.join(file))
                .env("PYTHONPATH", path())
                .env("PYTHONDONTWRITEBYTECODE", "1")
                .env("UMBRA", env!("CARGO_BIN_EXE_umbra"))
                .env_remove("UMBRA_URL")
                .env_remove("UMBRA_API_KEY")
                .env_remove("AGENT_SAFE_MODE")
                .output()
                .expect("python3 is there");
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && said.contains("\nOK") && !said.contains("skipped"), "{file}: {said}");
        }
    });
    run.await.expect("it ends");
}

#[tokio::test]
async fn client_follows_decisions_and_reads_the_api() {
    passes(&["test_tools.py", "test_arguments.py", "test_guarded_twice.py", "test_async_api.py", "test_sync_api.py"])
        .await;
}

#[tokio::test]
async fn sidecar_follows_rulings_and_its_fake_agrees() {
    passes(&["test_package.py", "test_calls.py", "test_sidecar.py", "test_fake.py", "test_posting.py"]).await;
}

#[tokio::test]
async fn sidecar_without_a_server_stops_no_agent() {
    passes(&["test_sidecar_away.py", "test_outages.py"]).await;
}

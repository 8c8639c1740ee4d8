//! Reads files of rules of the built-in checks.

use std::path::PathBuf;

use umbra_checks::faults;
use umbra_config::{Loaded, Report, checks::read};
use umbra_domain::{CheckRule, RuleFile};

/// Reads files of rules of the built-in checks; each is checked together with those before it.
///
/// # Errors
/// Every fault of every file.
pub fn read_rules(paths: &[PathBuf]) -> Result<Loaded<Vec<RuleFile>>, Report> {
    let mut files: Vec<RuleFile> = Vec::new();
    let (mut found, mut warnings) = (Vec::new(), Vec::new());
    for path in paths {
        let earlier: Vec<CheckRule> = files.iter().flat_map(|file| file.rules.iter().cloned()).collect();
        match read(path, &|rule| faults(rule, &earlier)) {
            Ok(loaded) => {
                files.push(loaded.value);
                warnings.extend(loaded.warnings);
            }
            Err(report) => {
                found.extend(report.faults);
                warnings.extend(report.warnings);
            }
        }
    }
    if found.is_empty() { Ok(Loaded { value: files, warnings }) } else { Err(Report { faults: found, warnings }) }
}

//! Commands that overwrite disks and files beyond recovery. In: one call. Out: the disk or file that it would
//! overwrite. A disk is known by its name under `/dev`.

use super::Detection;
use umbra_analysis::shell::{
    ProgramCall,
    targets::{PathKind, is_credential_file, is_disk},
};
use umbra_domain::Severity::{Critical, Warning};

/// Adds the disks and files that the call overwrites.
pub(super) fn detect_overwritten_disks(call: &ProgramCall, sights: &mut Vec<Detection>) {
    let destroyed = match call.program.as_str() {
        "mkswap" | "mkfs" | "newfs" | "mke2fs" => true,
        "dd" => output_of_dd(call).is_some_and(is_disk),
        "shred" | "wipe" | "tee" | "cp" => call.operands().any(is_disk),
        program => program.starts_with("mkfs."),
    };
    if destroyed {
        // A disk image is a file of the project.
        let image = call.operands().last().is_some_and(|to| to.contains('.') && call.target(to) <= PathKind::Inside);
        let severity = if image && call.program.starts_with("mk") { Warning } else { Critical };
        sights.push(Detection::of(call, "disk_overwrite", severity, "destroys the data on a disk."));
    } else if let Some(severity) = overwritten(call) {
        sights.push(Detection::of(call, "overwrite", severity, "overwrites a file beyond recovery."));
    }
    if let Some(disk) = call.writes.iter().map(|to| to.text.as_str()).find(|to| is_disk(to)) {
        sights.push(Detection::new("disk_overwrite", Critical, format!("Writes output over the disk `{disk}`.")));
    }
}

/// Returns the severity of overwriting a file; `None` where no file that matters is overwritten.
fn overwritten(call: &ProgramCall) -> Option<umbra_domain::Severity> {
    match call.program.as_str() {
        "shred" | "wipe"
            if call.operands().any(|path| call.target(path) >= PathKind::Home || is_credential_file(path)) =>
        {
            Some(Critical)
        }
        "shred" | "wipe" => Some(Warning),
        "dd" => {
            let to = output_of_dd(call)?;
            (call.target(to) >= PathKind::Home && !to.starts_with("/dev/")).then_some(Warning)
        }
        "truncate" => {
            let empties = call.args.iter().any(|arg| matches!(arg.text.as_str(), "0" | "-s0" | "--size=0"));
            (empties && call.operands().any(|path| call.target(path) >= PathKind::Outside)).then_some(Warning)
        }
        _ => None,
    }
}

fn output_of_dd(call: &ProgramCall) -> Option<&str> {
    call.args.iter().find_map(|arg| arg.text.strip_prefix("of="))
}

//! Reader of configuration files: a path in, a checked value or faults out. Reads at most [`MAX_FILE_BYTES`].

use std::{fs::File, io::Read, path::Path};

use super::{
    Loaded, Report,
    fault::{Faults, SourcePosition},
    tree::{MAX_FILE_BYTES, Node, parse},
};

/// Parser of a text: notes every fault of its syntax.
pub(super) type Parse = fn(usize, &str, &mut Faults) -> Option<Node>;

/// Reads a file and checks its tree.
pub(super) fn read_checked<T>(
    path: &Path,
    parse: Parse,
    check: impl FnOnce(&Node, &mut Faults) -> Option<T>,
) -> Result<Loaded<T>, Report> {
    let mut faults = Faults::default();
    let found = read_tree(path, parse, &mut faults).and_then(|root| check(&root, &mut faults));
    faults.finish(found)
}

/// Checks the tree of a text in YAML. Faults call it `name`.
pub(super) fn checked<T>(
    name: &str,
    text: &str,
    check: impl FnOnce(&Node, &mut Faults) -> Option<T>,
) -> Result<Loaded<T>, Report> {
    let mut faults = Faults::default();
    let source = faults.add_source(name, text);
    let found = parse(source, text, &mut faults).and_then(|root| check(&root, &mut faults));
    faults.finish(found)
}

/// Reads and parses a file as a source of its own.
pub(super) fn read_tree(path: &Path, parse: Parse, faults: &mut Faults) -> Option<Node> {
    let text = read_text(path);
    let source = faults.add_source(&path.display().to_string(), text.as_deref().unwrap_or_default());
    match text {
        Ok(text) => parse(source, &text, faults),
        Err(refused) => {
            let at = SourcePosition { source, line: refused.line, column: refused.column };
            faults.fault(at, refused.message, refused.help);
            None
        }
    }
}

/// Reads a secret that stands alone in a file, without white space around it. The error says what is wrong.
pub(super) fn read_secret(path: &Path) -> Result<String, String> {
    let text = read_text(path).map_err(|refused| format!("{}; {}", refused.message, refused.help))?;
    let secret = text.trim();
    if secret.is_empty() {
        Err("the file is empty: write the secret into the file".to_owned())
    } else {
        Ok(secret.to_owned())
    }
}

/// Reason why a file was not read, with its place.
pub(super) struct Refused {
    line: usize,
    column: usize,
    message: String,
    help: String,
}

/// True for a regular file, for standard input and inherited descriptors, and for a path that does not exist: opening
/// it tells why. False for a directory, a device, or a pipe, which would block until a writer opens it.
fn is_readable_file(path: &Path) -> bool {
    let inherited = path == Path::new("/dev/stdin") || path.starts_with("/dev/fd");
    inherited || path.metadata().map_or(true, |meta| meta.is_file())
}

/// Reads a text file of at most [`MAX_FILE_BYTES`].
pub(super) fn read_text(path: &Path) -> Result<String, Refused> {
    let refused = |message: String, help: &str| Refused { line: 0, column: 0, message, help: help.to_owned() };
    if !is_readable_file(path) {
        return Err(refused("this is not a regular file".to_owned(), "name a file, or /dev/stdin to pipe one in"));
    }
    let mut bytes = Vec::new();
    // One byte more than the limit, which reveals a file that is too long.
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes)).map_err(|error| {
        refused(format!("the file cannot be read: {error}"), "check the path, and that this user may read the file")
    })?;
    if bytes.len() > MAX_FILE_BYTES {
        let message = format!("the file has more than {MAX_FILE_BYTES} bytes");
        return Err(refused(message, "split the file, or remove what does not belong here"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let valid = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(error.as_bytes().get(..valid).unwrap_or_default()).into_owned();
        Refused {
            line: before.matches('\n').count() + 1,
            column: before.chars().rev().take_while(|c| *c != '\n').count() + 1,
            message: "the file is not UTF-8 here".to_owned(),
            help: "save the file as UTF-8".to_owned(),
        }
    })
}

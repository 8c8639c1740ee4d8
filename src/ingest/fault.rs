//! Faults of a request: a bounded list with JSON pointers. A fault never repeats a value of the request, only names of
//! fields.

/// Fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestFault {
    /// Place as a JSON pointer (RFC 6901); empty is the whole. It ends early, at the enclosing object, where a key in
    /// it is longer than 80 bytes or not printable.
    pub pointer: String,
    /// Kind of fault: one of [`code`].
    pub code: &'static str,
    /// Description of the fault and its remedy, for a person.
    pub detail: String,
}

/// Kinds of fault. They are part of the wire contract.
pub mod code {
    /// More bytes than an event may have.
    pub const TOO_LARGE: &str = "too_large";
    /// More events than a batch may have.
    pub const TOO_MANY_EVENTS: &str = "too_many_events";
    /// Arrays and objects nested too deep.
    pub const TOO_DEEP: &str = "too_deep";
    /// More JSON values than an event may have.
    pub const TOO_MANY_NODES: &str = "too_many_nodes";
    /// Nothing was sent.
    pub const EMPTY: &str = "empty";
    /// Bytes that are not UTF-8.
    pub const NOT_UTF8: &str = "not_utf8";
    /// Not JSON, or JSON followed by something else.
    pub const SYNTAX: &str = "syntax";
    /// The character U+0000, which the database cannot hold.
    pub const NUL: &str = "nul";
    /// A key that occurs twice in one object.
    pub const DUPLICATE_KEY: &str = "duplicate_key";
    /// A key that the JSON library keeps for itself.
    pub const RESERVED_KEY: &str = "reserved_key";
    /// A field that the contract does not have.
    pub const UNKNOWN_FIELD: &str = "unknown_field";
    /// A field that must be given.
    pub const MISSING: &str = "missing";
    /// Another JSON type than the field has.
    pub const TYPE: &str = "type";
    /// A number, a time or a text's length outside its range.
    pub const RANGE: &str = "range";
    /// A text of another form than the field has, or an unknown word.
    pub const FORMAT: &str = "format";
    /// Last in the list where there were more faults than are listed.
    pub const MORE: &str = "more";
}

/// Place of a value: a path on the stack, written out only for faults.
#[derive(Clone, Copy)]
pub(super) enum At<'a> {
    Root,
    Key(&'a At<'a>, &'a str),
    Index(&'a At<'a>, usize),
}

/// Most bytes of one key in a pointer: keys come from outside, and a pointer is sent back with each fault.
const POINTER_KEY_BYTES: usize = 80;

impl At<'_> {
    /// Returns this place as a JSON pointer.
    pub fn pointer(self) -> String {
        let mut pointer = String::new();
        self.append_to(&mut pointer);
        pointer
    }

    /// Appends the path; true if all of it could be written.
    fn append_to(self, pointer: &mut String) -> bool {
        let (parent, step) = match self {
            Self::Root => return true,
            Self::Key(parent, key) => (parent, key.replace('~', "~0").replace('/', "~1")),
            Self::Index(parent, index) => (parent, index.to_string()),
        };
        let fits = parent.append_to(pointer) && step.len() <= POINTER_KEY_BYTES && !step.contains(char::is_control);
        if fits {
            pointer.push('/');
            pointer.push_str(&step);
        }
        fits
    }
}

/// Most faults that are listed; the rest are counted.
const LISTED: usize = 32;

/// Faults found so far.
#[derive(Default)]
pub(super) struct RequestFaults {
    /// Number of lines of the body before the text that is read.
    lines_before: usize,
    listed: Vec<RequestFault>,
    more: usize,
}

impl RequestFaults {
    /// Returns an empty list for a text that has so many lines before it.
    pub fn behind(lines_before: usize) -> Self {
        Self { lines_before, ..Self::default() }
    }

    /// Returns the number of lines of the body before the text that is read.
    pub fn lines_before(&self) -> usize {
        self.lines_before
    }

    /// Adds a fault at a place.
    pub fn add(&mut self, at: At<'_>, code: &'static str, detail: impl Into<String>) {
        self.add_with(at, code, || detail.into());
    }

    /// Adds a fault whose text is work to make; it is made only if the fault is listed.
    pub fn add_with(&mut self, at: At<'_>, code: &'static str, detail: impl FnOnce() -> String) {
        if self.listed.len() < LISTED {
            self.add_at(at.pointer(), code, detail());
        } else {
            self.more += 1;
        }
    }

    /// Adds a fault at a place that is written out already.
    pub fn add_at(&mut self, pointer: String, code: &'static str, detail: impl Into<String>) {
        self.listed.push(RequestFault { pointer, code, detail: detail.into() });
    }

    /// True if a fault of this kind is listed.
    pub fn has(&self, code: &str) -> bool {
        self.listed.iter().any(|fault| fault.code == code)
    }

    /// Appends the faults of another reading.
    pub fn append(&mut self, mut other: Self) {
        self.listed.append(&mut other.listed);
        self.more += other.more;
    }

    /// Adds a fault and returns `None` in place of a value.
    pub fn refuse<T>(&mut self, at: At<'_>, code: &'static str, detail: impl Into<String>) -> Option<T> {
        self.add(at, code, detail);
        None
    }

    /// Returns the value if it could be made without any fault. A reader that returns `None` has added a fault.
    pub fn unless_any<T>(mut self, value: Option<T>) -> Result<T, Vec<RequestFault>> {
        if self.more > 0 {
            let detail = format!("and {} more faults; these are the first", self.more);
            self.add_at(String::new(), code::MORE, detail);
        }
        value.filter(|_| self.listed.is_empty()).ok_or(self.listed)
    }
}

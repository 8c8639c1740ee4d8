//! Reader of a shell's syntax tree: collects the commands that it runs. In: a tree. Out: pipelines, functions,
//! comments. The script's own variables are followed from the top down; branches are not distinguished.

use std::collections::HashMap;

use tree_sitter::Node;

use super::{
    parse::{DEEPEST, Parsed, Pipeline, ShellCommand, Word},
    printed,
    words::SPLIT,
};

/// Longest value of a variable that is followed, in bytes.
const LONGEST_VALUE: usize = 4096;

pub(super) struct Reader<'s> {
    pub(super) script: &'s str,
    pub(super) parsed: Parsed,
    /// Values of the script's variables so far; items of a list are joined by [`SPLIT`].
    pub(super) variables: HashMap<String, String>,
    /// Bytes inserted for variables so far.
    pub(super) spent: usize,
    /// Input of the command under evaluation, where it is known.
    input: Option<String>,
    /// True while a word is evaluated that names a program and consists of several parts.
    pub(super) naming: bool,
}

impl<'s> Reader<'s> {
    /// Reads the content of a script from its tree.
    pub(super) fn read(script: &'s str, root: Node<'_>) -> Parsed {
        let mut reader =
            Self { script, parsed: Parsed::default(), variables: HashMap::new(), spent: 0, input: None, naming: false };
        reader.statements(root, 0);
        reader.parsed
    }

    pub(super) fn source(&self, node: Node<'_>) -> &'s str {
        self.script.get(node.byte_range()).unwrap_or_default()
    }

    /// Collects the pipelines under a node that is not itself part of one.
    pub(super) fn statements(&mut self, node: Node<'_>, depth: usize) {
        if depth > DEEPEST {
            self.parsed.deep = true;
            return;
        }
        match node.kind() {
            "pipeline" | "command" | "redirected_statement" => {
                let pipeline = self.stages(node, depth + 1);
                if !pipeline.is_empty() {
                    self.learn(&pipeline);
                    self.parsed.pipelines.push(pipeline);
                }
            }
            "declaration_command" | "variable_assignment" | "unset_command" => {
                let words = self.source(node).split_whitespace().map(Word::plain).collect();
                self.parsed.pipelines.push(vec![ShellCommand {
                    words,
                    span: node.byte_range(),
                    ..ShellCommand::default()
                }]);
                if node.kind() == "variable_assignment" {
                    self.assign(node, depth + 1);
                } else {
                    self.inside(node, depth);
                }
            }
            "function_definition" => {
                let part = |field: &str| node.child_by_field_name(field).map(|part| self.source(part));
                if let (Some(name), Some(body)) = (part("name"), part("body")) {
                    self.parsed.functions.push((name.to_owned(), body.to_owned()));
                }
                self.inside(node, depth);
            }
            "for_statement" => {
                let mut cursor = node.walk();
                let name = node.child_by_field_name("variable").map(|name| self.source(name).to_owned());
                let values: Vec<Word> = node
                    .children_by_field_name("value", &mut cursor)
                    .flat_map(|value| self.words(value, depth + 1))
                    .collect();
                if let Some(name) = name {
                    self.set(name, texts(&values));
                }
                if let Some(body) = node.child_by_field_name("body") {
                    self.statements(body, depth + 1);
                }
            }
            "comment" => self.parsed.comments.push(node.byte_range()),
            _ => self.inside(node, depth),
        }
    }

    pub(super) fn inside(&mut self, node: Node<'_>, depth: usize) {
        let mut cursor = node.walk();
        for child in node.named_children(&mut cursor) {
            self.statements(child, depth + 1);
        }
    }

    /// Remembers the value of a variable.
    fn assign(&mut self, node: Node<'_>, depth: usize) {
        let Some(name) = node.child_by_field_name("name").map(|name| self.source(name).to_owned()) else { return };
        let mut cursor = node.walk();
        let adds = node.children(&mut cursor).any(|child| child.kind() == "+=");
        let before = if adds { self.variables.get(&name).cloned().unwrap_or_default() } else { String::new() };
        let value = match node.child_by_field_name("value") {
            None => Some(String::new()),
            Some(value) if value.kind() == "array" => {
                let mut items = value.walk();
                let words: Vec<Word> =
                    value.named_children(&mut items).flat_map(|item| self.words(item, depth + 1)).collect();
                Some(texts(&words))
            }
            Some(value) => {
                let word = self.word(value, depth + 1);
                // The output of a substitution is unknown, unless [`printed`] determines it.
                (word.runs.is_empty() || !word.text.is_empty()).then_some(word.text)
            }
        };
        match value {
            Some(value) => self.set(name, before + &value),
            None => drop(self.variables.remove(&name)),
        }
    }

    fn set(&mut self, name: String, value: String) {
        if value.len() <= LONGEST_VALUE {
            self.variables.insert(name, value);
        }
    }

    /// Remembers variables that a command sets: `set -- …` and `read NAME <<< …`.
    fn learn(&mut self, pipeline: &[ShellCommand]) {
        let [command] = pipeline else { return };
        let text = |at: usize| command.words.get(at).map_or("", |word| word.text.as_str());
        match (text(0), text(1)) {
            ("set", "--") => self.set("@".to_owned(), texts(command.words.get(2..).unwrap_or_default())),
            ("read" | "mapfile" | "readarray", _) => {
                if let (Some(name), Some(given)) =
                    (command.words.last(), command.given.as_ref().or(self.input.as_ref()))
                {
                    let (name, given) = (name.text.clone(), given.trim_end().to_owned());
                    self.set(name, given);
                }
            }
            _ => {}
        }
    }

    /// Returns the commands that a node contributes to the pipeline around it.
    fn stages(&mut self, node: Node<'_>, depth: usize) -> Pipeline {
        if depth > DEEPEST {
            self.parsed.deep = true;
            return Vec::new();
        }
        match node.kind() {
            "command" => vec![self.command(node, depth)],
            "pipeline" => {
                let mut stages: Pipeline = Vec::new();
                let mut cursor = node.walk();
                for child in node.named_children(&mut cursor) {
                    let own = self.stages(child, depth + 1);
                    self.input = match own.as_slice() {
                        [command] => printed::next(command, self.input.as_deref()),
                        _ => None,
                    };
                    stages.extend(own);
                }
                self.input = None;
                stages
            }
            "redirected_statement" => {
                let mut stages = Vec::new();
                let mut cursor = node.walk();
                // A here-string given to a loop is read within it.
                let given = node.named_children(&mut cursor).find(|child| child.kind() == "herestring_redirect");
                // Substitutions in a here-string are read in their place, and only there: reading them twice at each
                // level explodes.
                let still = |word: &Node<'_>| !self.source(*word).contains(['(', '`']);
                let given = given.and_then(|given| given.named_child(0)).filter(still);
                let given = given.map(|word| self.word(word, depth + 1).text);
                self.input = given.or(self.input.take());
                for child in node.named_children(&mut cursor) {
                    if child.kind().ends_with("_redirect") {
                        if stages.is_empty() {
                            stages.push(ShellCommand { span: node.byte_range(), ..ShellCommand::default() });
                        }
                        let after = self.redirect(child, stages.last_mut(), depth + 1);
                        stages.extend(after);
                    } else {
                        stages.extend(self.stages(child, depth + 1));
                    }
                }
                self.input = None;
                stages
            }
            // A group: its pipelines stand for themselves, and their first commands read the piped input.
            _ => {
                let first = self.parsed.pipelines.len();
                self.inside(node, depth);
                let own = self.parsed.pipelines.get(first..).unwrap_or_default();
                own.iter().filter_map(|pipeline| pipeline.first().cloned()).collect()
            }
        }
    }

    fn command(&mut self, node: Node<'_>, depth: usize) -> ShellCommand {
        let mut command = ShellCommand { span: node.byte_range(), ..ShellCommand::default() };
        let mut cursor = node.walk();
        let mut end = None;
        for child in node.children(&mut cursor) {
            match child.kind() {
                "variable_assignment" => {
                    self.inside(child, depth + 1);
                    self.started_by(child, depth + 1);
                }
                kind if kind.ends_with("_redirect") => {
                    let _ = self.redirect(child, Some(&mut command), depth + 1);
                }
                _ => {
                    let mut words = self.words(child, depth + 1);
                    // A line that continues within a word; the grammar splits it.
                    let joined = end.is_some_and(|end| self.script.get(end..child.start_byte()) == Some("\\\n"));
                    if let (true, Some(last), false) = (joined, command.words.last_mut(), words.is_empty()) {
                        let rest = words.remove(0);
                        last.text.push_str(&rest.text);
                        last.raw.push_str(&rest.raw);
                    }
                    command.words.extend(words);
                    end = Some(child.end_byte());
                }
            }
        }
        command
    }

    /// Adds the command that a variable before a program holds: `GIT_SSH_COMMAND='…' git fetch`.
    fn started_by(&mut self, setting: Node<'_>, depth: usize) {
        const NAMES: &str = "\
            GIT_SSH_COMMAND GIT_SSH GIT_PROXY_COMMAND GIT_EXTERNAL_DIFF GIT_PAGER GIT_EDITOR GIT_SEQUENCE_EDITOR \
            PAGER MANPAGER EDITOR VISUAL RSYNC_RSH";
        let name = setting.child_by_field_name("name").map(|name| self.source(name));
        if let (true, Some(value)) =
            (name.is_some_and(|name| NAMES.split(' ').any(|known| known == name)), setting.child_by_field_name("value"))
        {
            let words = vec![Word::plain("sh"), Word::plain("-c"), self.word(value, depth)];
            self.parsed.pipelines.push(vec![ShellCommand {
                words,
                span: setting.byte_range(),
                ..ShellCommand::default()
            }]);
        }
    }

    /// Notes a redirection in the command. Returns the pipeline that may follow on a here-document's line.
    fn redirect(&mut self, node: Node<'_>, command: Option<&mut ShellCommand>, depth: usize) -> Pipeline {
        let mut after = Vec::new();
        let Some(command) = command else { return after };
        let mut cursor = node.walk();
        match node.kind() {
            "file_redirect" => {
                let operator = self.source(node).trim_start_matches(|c: char| c.is_ascii_digit());
                // In `rm 2>/dev/null -rf /etc` the grammar takes the arguments for more files.
                let mut files = node.children_by_field_name("destination", &mut cursor);
                let target = files.next().map(|to| {
                    if to.kind() != "process_substitution" {
                        return self.word(to, depth + 1);
                    }
                    // `bash < <(echo rm -rf /)`
                    let (output, runs) = self.substitution(to, depth + 1);
                    command.given = output.or(command.given.take()).filter(|_| operator.starts_with('<'));
                    Word { raw: self.source(to).to_owned(), runs, ..Word::default() }
                });
                for argument in files {
                    let words = self.words(argument, depth + 1);
                    command.words.extend(words);
                }
                if operator.starts_with('>') || operator.starts_with("&>") || operator.starts_with("<>") {
                    command.writes.extend(target);
                } else {
                    command.reads.extend(target);
                }
            }
            "herestring_redirect" => {
                let words: Vec<Word> =
                    node.named_children(&mut cursor).map(|child| self.word(child, depth + 1)).collect();
                command.given = words.into_iter().map(|word| word.text.replace(SPLIT, " ")).next_back();
            }
            _ => {
                for child in node.named_children(&mut cursor) {
                    match child.kind() {
                        "heredoc_body" => {
                            command.given = Some(self.source(child).to_owned());
                            self.inside(child, depth + 1);
                        }
                        "heredoc_start" | "heredoc_end" | "file_descriptor" => {}
                        kind if kind.ends_with("_redirect") => {
                            after.extend(self.redirect(child, Some(&mut *command), depth + 1));
                        }
                        "pipeline" | "command" | "redirected_statement" | "subshell" => {
                            after.extend(self.stages(child, depth + 1));
                        }
                        "word" | "string" | "raw_string" | "concatenation" => {
                            let words = self.words(child, depth + 1);
                            command.words.extend(words);
                        }
                        _ => self.statements(child, depth + 1),
                    }
                }
            }
        }
        after
    }

    /// Returns a substitution's output, where the script determines it, and the programs that the substitution runs.
    pub(super) fn substitution(&mut self, node: Node<'_>, depth: usize) -> (Option<String>, Vec<String>) {
        let first = self.parsed.pipelines.len();
        self.inside(node, depth + 1);
        let own = self.parsed.pipelines.get(first..).unwrap_or_default();
        let programs = own.iter().flatten().filter_map(|command| command.words.first());
        let programs = programs.map(|program| program.text.clone()).collect();
        let output = match own {
            [pipeline] => printed::pipeline_output(pipeline),
            _ => None,
        };
        (output, programs)
    }
}

fn texts(words: &[Word]) -> String {
    let texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    texts.join(&SPLIT.to_string())
}

//! Programs that print, with the options that leave it at that. In: a program and its arguments. Out: whether it is one of
//! them and all of its options are known. An option that is not known may load a configuration, run a program, or write.

/// Programs none of whose options does more than print.
const PRINTING: &str = "arch basename cal cat cd cksum cmp column comm cut df diff dir dirname du echo egrep expr false fgrep \
    fold free getent grep groups head hexdump id jq join last locale ls lsblk lscpu lsmod lsusb md5sum b2sum netstat nl \
    nproc od paste pgrep printenv ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum \
    sha512sum shasum stat strings sum tac tail tr true tty uname uptime vmstat wc whereis which who whoami \
    zegrep zfgrep zgrep";
/// Programs that print where they are given no more than options of these letters.
const BARE: [(&str, &str); 7] = [
    ("date", "uRI"),
    ("env", ""),
    ("hostname", "fsidIA"),
    ("less", "NSRFX"),
    ("more", ""),
    ("mount", ""),
    ("nvidia-smi", "qL"),
];
/// Programs whose version may be asked for.
const VERSIONED: &str = "bash cargo clang docker gcc git go java kubectl make node npm perl php pip pip3 python python3 ruby rustc terraform";

/// What a program prints, and with which options.
struct Program {
    name: &'static str,
    /// Its subcommands that print, in one word or two; none where it has none.
    words: &'static str,
    /// Options of one letter; behind a colon those that take a value, as `getopt` has it.
    letters: &'static str,
    /// Other options, without what is behind `=`.
    options: &'static str,
}

const PROGRAMS: [Program; 29] = [
    Program {
        name: "ag",
        words: "",
        letters: "A:B:C:ciLlQsSvwg:",
        options: "--hidden --nocolor --nogroup --literal --ignore-case",
    },
    Program { name: "base64", words: "", letters: "dDw:", options: "--decode --wrap --ignore-garbage" },
    Program { name: "bzcat", words: "", letters: "", options: "" },
    Program {
        name: "cargo",
        words: "tree version search",
        letters: "dip:e:F:qv",
        options: "--all-features --charset --depth --duplicates --edges --exclude --features --format --frozen --invert --limit --locked \
            --no-dedupe --no-default-features --offline --package --prefix --prune --quiet --target --verbose --workspace",
    },
    Program { name: "crontab", words: "-l", letters: "u:", options: "" },
    Program { name: "dig", words: "", letters: "46t:x:p:c:q:", options: "" },
    Program {
        name: "docker",
        words: "images inspect logs ps stats top version info history port diff search image.ls image.inspect image.history \
            container.ls container.inspect container.logs container.stats container.top container.port volume.ls volume.inspect \
            network.ls network.inspect system.df compose.ps compose.logs compose.ls",
        letters: "aqfn:tsl",
        options: "--all --details --digests --filter --follow --format --human --last --latest --limit --no-stream --no-trunc --quiet \
            --services --since --size --status --tail --timestamps --type --until",
    },
    Program {
        name: "fd",
        words: "",
        letters: "aHIsgipLuFe:t:d:E:0l1",
        options: "--absolute-path --exclude --extension --fixed-strings --full-path --glob --hidden --ignore-case --max-depth --min-depth \
            --no-ignore --size --type --changed-within --changed-before",
    },
    Program {
        name: "file",
        words: "",
        letters: "bihLskr",
        options: "--brief --mime --mime-type --mime-encoding --dereference",
    },
    Program {
        name: "gh",
        words: "pr.list pr.view pr.diff pr.checks pr.status issue.list issue.view issue.status repo.view repo.list run.list run.view \
            release.list release.view auth.status search.issues search.prs search.code search.repos search.commits workflow.list \
            workflow.view label.list",
        letters: "A:B:H:L:R:S:a:b:cd:e:j:l:q:s:t:u:v",
        options: "--all --app --archived --assignee --author --base --branch --comments --commit --created --draft --event --exit-status \
            --fork --head --jq --job --json --label --language --limit --log --log-failed --merged --milestone --name-only --no-archived \
            --order --owner --patch --repo --required --search --sort --source --state --status --template --topic --updated --user \
            --verbose --visibility --workflow --yaml",
    },
    Program {
        name: "git",
        words: "blame cat-file describe diff log ls-files ls-tree rev-list rev-parse shortlog show status grep merge-base \
            name-rev for-each-ref count-objects show-ref stash.list worktree.list reflog.show",
        letters: "C:EFG:HL:MPS:U:abcdehilmn:opqrstuvwyz",
        options: "--abbrev --abbrev-commit --abbrev-ref --absolute-git-dir --after --all --always --ancestry-path --author --before --binary \
            --boundary --branch --branches --cached --cc --cherry-pick --color --column --committer --contains --count --date --date-order \
            --decorate --deleted --diff-filter --dirty --email --exact-match --exclude-standard --extended-regexp --files-with-matches \
            --find-renames --first-parent --fixed-strings --follow --format --full-index --full-name --function-context --git-dir --graph \
            --grep --heads --histogram --ignore-all-space --ignore-blank-lines --ignore-case --ignore-space-at-eol --ignore-space-change \
            --ignored --incremental --is-ancestor --is-inside-work-tree --left-right --line-number --line-porcelain --list --long --match \
            --max-count --max-depth --merged --merges --minimal --modified --name-only --name-status --no-abbrev --no-color --no-decorate \
            --no-ext-diff --no-index --no-merges --no-patch --no-renames --no-textconv --not --numbered --numstat --objects --oneline \
            --only-matching --others --patch --patience --perl-regexp --points-at --porcelain --pretty --quiet --raw --reflog --relative \
            --remotes --reverse --short --shortstat --show-current --show-prefix --show-signature --show-stash --show-toplevel \
            --simplify-merges --since --skip --sort --stage --staged --stat --summary --symbolic-full-name --tags --text --topo-order \
            --unified --unmerged --until --untracked-files --verbose --verify --walk-reflogs --word-diff --word-regexp",
    },
    Program {
        name: "go",
        words: "list version doc",
        letters: "",
        options: "-all -c -cmd -deps -e -f -find -json -m -retracted -short -src -test -u -v -versions",
    },
    Program {
        name: "helm",
        words: "get history list ls show status version search",
        letters: "n:o:aAl:qrd",
        options: "--all --all-namespaces --date --deployed --devel --failed --filter --kube-context --max --namespace --output --pending \
            --regexp --reverse --revision --selector --short --show-desc --superseded --uninstalled --version --versions",
    },
    Program { name: "host", words: "", letters: "aCt:vW:46", options: "" },
    Program {
        name: "journalctl",
        words: "",
        letters: "u:fexrn:o:S:U:b:kp:t:g:aqN",
        options: "--all --boot --catalog --disk-usage --dmesg --fields --follow --grep --identifier --lines --list-boots --no-hostname \
            --no-pager --output --output-fields --pager-end --priority --quiet --reverse --since --system --unit --until --user \
            --user-unit --utc",
    },
    Program {
        name: "kubectl",
        words: "api-resources api-versions describe explain get logs top version cluster-info config.view \
            config.current-context config.get-contexts config.get-clusters auth.can-i auth.whoami rollout.status rollout.history",
        letters: "AL:R:c:fl:n:o:pqv:w",
        options: "--all-containers --all-namespaces --api-group --api-version --chunk-size --client --cluster --container --containers \
            --context --field-selector --flatten --follow --ignore-not-found --label-columns --limit-bytes --list --max-log-requests \
            --minify --namespace --namespaced --no-headers --output --output-watch-events --prefix --previous --quiet --recursive \
            --request-timeout --revision --selector --short --show-events --show-kind --show-labels --show-managed-fields --since \
            --since-time --sort-by --subresource --sum --tail --template --timeout --timestamps --verbs --warnings-as-errors --watch \
            --watch-only",
    },
    Program {
        name: "npm",
        words: "ls list ll outdated view info show explain ping search",
        letters: "alpgsw:",
        options: "--all --depth --dev --global --include --json --link --long --omit --package-lock-only --parseable --prod --production \
            --searchlimit --silent --unicode --workspace --workspaces",
    },
    Program { name: "nslookup", words: "", letters: "", options: "-type -query -debug -port -timeout" },
    Program {
        name: "pip",
        words: "list show freeze check index.versions",
        letters: "olquv",
        options: "--all --disable-pip-version-check --exclude --exclude-editable --files --format --include-editable --local --no-color \
            --not-required --outdated --pre --quiet --uptodate --user --verbose",
    },
    Program {
        name: "rg",
        words: "",
        letters: "0A:B:C:E:FHIM:NPST:UVacd:e:g:hij:lm:nopqr:st:uvwx",
        options: "--after-context --before-context --case-sensitive --color --column --context --count --count-matches --encoding \
            --files --files-with-matches --files-without-match --fixed-strings --follow --glob --heading --hidden --iglob --ignore-case \
            --invert-match --json --line-number --line-regexp --max-columns --max-count --max-depth --multiline --no-config --no-filename \
            --no-heading --no-ignore --no-line-number --no-messages --null --only-matching --passthru --pcre2 --pretty --quiet --regexp \
            --replace --smart-case --sort --sortr --stats --text --threads --trim --type --type-list --type-not --unrestricted --vimgrep \
            --with-filename --word-regexp",
    },
    Program {
        name: "ss",
        words: "",
        letters: "46aeHilmnopstuwx",
        options: "--all --listening --numeric --processes --summary --tcp --udp",
    },
    Program {
        name: "systemctl",
        words: "cat is-active is-enabled is-failed list-units list-timers list-unit-files list-dependencies show status",
        letters: "aln:o:p:qt:",
        options: "--all --failed --full --lines --no-legend --no-pager --output --plain --property --quiet --recursive --state --system \
            --type --user --value",
    },
    Program {
        name: "terraform",
        words: "plan show output version providers state.list state.show graph validate",
        letters: "",
        options: "-compact-warnings -destroy -detailed-exitcode -draw-cycles -json -no-color -raw -refresh-only -type",
    },
    Program {
        name: "tree",
        words: "",
        letters: "acdDfFghiI:JL:npP:rstuvC",
        options: "--dirsfirst --du --filelimit --gitignore --noreport --prune --si",
    },
    Program {
        name: "uniq",
        words: "",
        letters: "cdDif:s:uw:z",
        options: "--all-repeated --check-chars= --count --group --ignore-case --repeated --skip-chars= --skip-fields= --unique \
            --zero-terminated",
    },
    Program { name: "xzcat", words: "", letters: "", options: "" },
    Program {
        name: "yq",
        words: "",
        letters: "CMNPI:cej:no:p:r",
        options: "--colors --indent --input-format --no-colors --no-doc --null-input --output-format --prettyPrint --unwrapScalar",
    },
    Program { name: "zcat", words: "", letters: "f", options: "" },
    Program { name: "zstdcat", words: "", letters: "", options: "" },
];
/// Subcommands that print alone, and do something with a word behind them; `.` parts it from one that does not.
const ALONE: [(&str, &str, &str); 3] =
    [("terraform", "providers", "schema"), ("kubectl", "cluster-info", ""), ("crontab", "-l", "")];
/// What `test` asks.
const TESTS: &str =
    "-a -b -c -d -e -f -g -h -k -n -o -p -r -s -t -u -w -x -z -G -L -N -O -S -ef -eq -ge -gt -le -lt -ne -nt -ot";

/// True if a program has commands of its own, some of which print: `kubectl`, `git`.
pub(super) fn has_commands(program: &str) -> bool {
    program == "aws" || PROGRAMS.iter().any(|known| known.name == program && known.words.contains(' '))
}

/// Whether a program prints, whatever it is given.
pub(super) fn only_prints(program: &str) -> bool {
    among(PRINTING, program)
}

/// Whether a program prints with these arguments; nothing where it is none of those that are known here.
pub(super) fn prints(program: &str, rest: &[String]) -> Option<bool> {
    if only_prints(program) {
        let acts = ["--output", "--pager", "--open", "--exec", "--in-place", "--delete"];
        return Some(!rest.iter().any(|word| acts.iter().any(|one| word.starts_with(one))));
    }
    if let Some((_, letters)) = BARE.iter().find(|(name, _)| *name == program) {
        let shows = |word: &String| match word.strip_prefix('-') {
            Some(option) => option.chars().all(|c| letters.contains(c)),
            None => program == "date" && word.starts_with('+') || program == "less" && !word.starts_with('+'),
        };
        return Some(rest.iter().all(shows));
    }
    if among(VERSIONED, program)
        && matches!(rest, [only] if ["--version", "-V", "-v", "version"].contains(&only.as_str()))
    {
        return Some(true);
    }
    match program {
        // An element of an array that is named here is evaluated.
        "[" | "test" => {
            return Some(rest.iter().all(|word| !word.starts_with('-') || is_number(word) || among(TESTS, word)));
        }
        "printf" => return Some(rest.iter().all(|word| !word.starts_with('-'))),
        _ => {}
    }
    let name = if program == "pip3" { "pip" } else { program };
    let known = PROGRAMS.iter().find(|known| known.name == name)?;
    if program == "git" && lists(rest) {
        return Some(true);
    }
    let Some(rest) = behind_subcommand(known, rest) else { return Some(false) };
    let Some(operands) = operands(known, rest) else { return Some(false) };
    Some(program != "uniq" || operands.len() < 2)
}

/// `git branch -a`, `git remote -v`: they list unless something is named.
fn lists(rest: &[String]) -> bool {
    let known = "-a -r -v -vv -l --all --list --remotes --show-current --verbose";
    let rest = if rest.first().is_some_and(|word| word == "-C") { rest.get(2..).unwrap_or_default() } else { rest };
    rest.split_first()
        .is_some_and(|(first, after)| among("branch remote tag", first) && after.iter().all(|word| among(known, word)))
}

/// What stands behind the subcommand, if that is one that prints.
fn behind_subcommand<'w>(program: &Program, mut rest: &'w [String]) -> Option<&'w [String]> {
    if program.words.is_empty() {
        return Some(rest);
    }
    // What stands before the subcommand: where it works.
    let takes: &[&str] = match program.name {
        "git" => &["-C"],
        "kubectl" | "helm" => &["-n", "--namespace", "--context", "--kube-context"],
        _ => &[],
    };
    while let Some((first, after)) = rest.split_first() {
        if takes.contains(&first.as_str()) {
            rest = after.get(1..).unwrap_or_default();
        } else if first == "--no-pager" || takes.iter().any(|one| first.starts_with(&format!("{one}="))) {
            rest = after;
        } else {
            break;
        }
    }
    let (first, after) = rest.split_first()?;
    let both = || after.first().map(|second| format!("{first}.{second}"));
    if let Some((.., then)) = ALONE.iter().find(|(name, word, _)| *name == program.name && word == first) {
        let second = after.iter().find(|word| !word.starts_with('-'));
        return second.is_none_or(|second| second == then).then_some(after);
    }
    if among(program.words, first) {
        return Some(after);
    }
    both().filter(|both| among(program.words, both)).and_then(|_| after.get(1..))
}

/// What is no option, where all options are known.
fn operands<'w>(program: &Program, rest: &'w [String]) -> Option<Vec<&'w String>> {
    let mut found = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if word == "--" {
            found.extend(words);
            break;
        }
        if !word.starts_with('-') || word == "-" || is_number(word) {
            found.push(word);
            continue;
        }
        let name = word.split('=').next().unwrap_or_default();
        let valued = among(program.options, &format!("{name}="));
        let takes = if valued || among(program.options, name) {
            valued && name == word
        } else if word.starts_with("--") {
            return None;
        } else {
            takes_next(program.letters, word)?
        };
        if takes {
            words.next()?;
        }
    }
    Some(found)
}

/// Whether letters such as `-an` take the next word; nothing where one of them is not known.
fn takes_next(letters: &str, word: &str) -> Option<bool> {
    let mut own = word.chars().skip(1);
    while let Some(c) = own.next() {
        if c == ':' {
            return None;
        }
        let behind = letters.split_once(c)?.1;
        if behind.starts_with(':') {
            return Some(own.next().is_none());
        }
    }
    Some(false)
}

pub(super) fn is_number(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|digits| !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit()))
}

fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

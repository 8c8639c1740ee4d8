//! Whether a command only looks. In: a line of a shell, or a list of arguments. Out: whether every program in it is known to
//! print and nothing else, with options that are harmless there. What is not known does not only look.

use super::{
    lexicon::{Act, verb},
    request, shell,
};

/// Programs that print, whatever they are given.
const PRINTING: &str = "arch b2sum basename bzcat cal cat cksum cmp column comm cut df diff dir dirname du echo egrep expr false fgrep \
    fold free getent grep groups head hexdump id jq join last locale ls lsblk lscpu lsmod lsof lspci lsusb md5sum netstat nl \
    nproc nslookup od paste pgrep printenv ps pwd readlink realpath rev seq sha1sum sha224sum sha256sum sha384sum \
    sha512sum shasum stat strings sum tac tail tr true tty uname uptime vmstat wc wdiff whereis which who whoami xzcat \
    zcat zegrep zfgrep zgrep zstdcat";
/// Programs that print unless one of these stands among their arguments, as an option or its beginning.
const PRINTING_WITHOUT: [(&str, &str); 13] = [
    // An element of an array that is named here is evaluated.
    ("[", "-v"),
    ("printf", "-v"),
    ("test", "-v"),
    ("ag", "--pager"),
    ("base64", "-o --output"),
    ("dig", "-f -k"),
    ("fd", "-x -X --exec"),
    ("file", "-C --compile"),
    ("host", "-f"),
    ("rg", "--pre --hostname-bin"),
    ("ss", "-K --kill"),
    ("tree", "-o -R --output"),
    ("yq", "-i --inplace -s --split"),
];
/// Programs that print where they are given nothing, or no more than options of these letters.
const BARE: [(&str, &str); 7] = [
    ("date", "uRI"),
    ("env", ""),
    ("hostname", "fsidIA"),
    ("less", "NSRFX"),
    ("more", ""),
    ("mount", ""),
    ("nvidia-smi", "qL"),
];
/// Programs that print, given these words first; after a `!`, without these options.
const PRINTING_WITH: [(&str, &str, &str); 14] = [
    ("cargo", "tree version search", ""),
    ("crontab", "-l", "-e -r"),
    ("docker", "images inspect logs ps stats top version info history port diff search", ""),
    (
        "gh",
        "pr.list pr.view pr.diff pr.checks pr.status issue.list issue.view issue.status repo.view repo.list run.list run.view \
      release.list release.view auth.status search.issues search.prs search.code search.repos workflow.list workflow.view",
        "--web -w",
    ),
    (
        "git",
        "blame cat-file describe diff log ls-files ls-tree rev-list rev-parse shortlog show status grep merge-base \
      name-rev for-each-ref count-objects stash.list worktree.list reflog.show",
        "--output --ext-diff --textconv --open-files-in-pager -O --upload-pack --exec --filters",
    ),
    ("go", "list version doc", "-exec -toolexec -modfile -mod"),
    ("helm", "get history list ls show status version search", "--output-dir --post-renderer"),
    ("journalctl", "", "--vacuum --rotate --flush --sync --cursor-file --setup-keys --relinquish --smart --update -D"),
    (
        "kubectl",
        "api-resources api-versions describe explain get logs top version cluster-info config.view \
      config.current-context config.get-contexts auth.can-i rollout.status rollout.history",
        "--output-directory",
    ),
    ("npm", "ls list outdated view explain ping", "--prefix --script-shell"),
    ("pip", "list show freeze check index", "--log --python"),
    ("pip3", "list show freeze check index", "--log --python"),
    (
        "systemctl",
        "cat is-active is-enabled is-failed list-units list-timers list-unit-files show status",
        "-H --host --root --now",
    ),
    ("terraform", "show output version providers state.list state.show graph validate", "-out -chdir"),
];
/// Programs whose version may be asked for.
const VERSIONED: &str = "bash cargo clang docker gcc git go java kubectl make node npm perl php pip pip3 python python3 ruby rustc terraform";
/// What `find` goes by and prints.
const FOUND: &str = "-H -L -P -a -amin -and -anewer -atime -cmin -cnewer -ctime -daystart -depth -empty -executable -false -follow -gid -group \
    -ilname -iname -inum -ipath -iregex -iwholename -links -lname -ls -maxdepth -mindepth -mmin -mount -mtime -name -newer \
    -newermt -nogroup -noleaf -not -nouser -o -or -path -perm -print -print0 -printf -prune -quit -readable -regex -regextype \
    -samefile -size -true -type -uid -user -wholename -writable -xdev -xtype";
/// Commands of Redis that look.
const OF_REDIS: &str = "bitcount bitpos dbsize dump echo exists expiretime geodist geohash geopos get getbit getrange hexists hget hgetall \
    hkeys hlen hmget hrandfield hscan hstrlen hvals info keys lastsave lindex llen lpos lrange mget pfcount ping pttl randomkey \
    scan scard sdiff sinter sismember smembers smismember srandmember sscan strlen sunion ttl type xinfo xlen xpending xrange \
    xrevrange zcard zcount zlexcount zmscore zrange zrangebylex zrangebyscore zrank zrevrange zrevrangebyscore zrevrank zscan zscore \
    config.get client.list client.info client.id memory.usage memory.stats object.encoding object.idletime object.freq \
    object.refcount slowlog.get slowlog.len cluster.info cluster.nodes cluster.slots cluster.shards acl.whoami acl.list \
    command.count command.info command.docs function.list latency.latest latency.history";

/// Whether a line only looks.
pub(super) fn looks(line: &str) -> bool {
    shell::commands(line).is_some_and(|all| all.iter().all(|words| one(words, all.len() == 1)))
}

/// Whether a list of arguments, the program first, only looks.
pub(super) fn argv_looks(words: &[String]) -> bool {
    !words.is_empty() && one(words, true)
}

/// Whether arguments only look behind the words by which a tool is named: `git_log` with `--oneline`.
pub(super) fn named_looks(name: &[String], arguments: &[String]) -> bool {
    !name.is_empty() && one(&[name, arguments].concat(), false)
}

/// Whether a command of Redis only looks.
pub(super) fn redis_looks(words: &[String]) -> bool {
    words.first().is_some_and(|first| {
        let first = first.to_ascii_lowercase();
        let both = words.get(1).map(|second| format!("{first}.{}", second.to_ascii_lowercase()));
        !words.iter().any(|word| word.contains(['\r', '\n']) || word.eq_ignore_ascii_case("store"))
            && (among(OF_REDIS, &first) || both.is_some_and(|both| among(OF_REDIS, &both)))
    })
}

fn one(words: &[String], alone: bool) -> bool {
    let Some((program, rest)) = words.split_first() else { return true };
    // Another folder may have another program of that name.
    let installed = ["/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/"];
    let program = installed.iter().find_map(|folder| program.strip_prefix(folder)).unwrap_or(program);
    let none = |refused: &str| !refused.split_whitespace().any(|bad| rest.iter().any(|word| is_option(word, bad)));
    if among(PRINTING, program) {
        return none("--output --pager --open --exec --in-place --delete");
    }
    if let Some((_, refused)) = PRINTING_WITHOUT.iter().find(|(name, _)| *name == program) {
        return none(refused);
    }
    if let Some((_, letters)) = BARE.iter().find(|(name, _)| *name == program) {
        let shows = |word: &String| match word.strip_prefix('-') {
            Some(option) => option.chars().all(|c| letters.contains(c)),
            None => program == "date" && word.starts_with('+') || program == "less" && !word.starts_with('+'),
        };
        return rest.iter().all(shows);
    }
    if among(VERSIONED, program)
        && matches!(rest, [only] if ["--version", "-V", "-v", "version"].contains(&only.as_str()))
    {
        return true;
    }
    if let Some((_, subcommands, refused)) = PRINTING_WITH.iter().find(|(name, ..)| *name == program) {
        return none(refused) && subcommand(program, subcommands, rest);
    }
    match program {
        "aws" => aws(rest),
        "awk" | "gawk" | "mawk" => awk(rest),
        "curl" => request::curl_looks(rest),
        "find" => rest.iter().all(|word| !word.starts_with('-') || among(FOUND, word) || is_number(word)),
        "sed" => sed(rest),
        "sort" => rest.iter().all(|word| match word.strip_prefix('-') {
            Some(option) if option.starts_with('-') => {
                ["-reverse", "-numeric-sort", "-unique", "-human-numeric-sort", "-key="]
                    .iter()
                    .any(|known| option.starts_with(known))
            }
            Some(option) => option.chars().all(|c| c.is_ascii_digit() || "bcdfghiknrstuvMRVz,.:|".contains(c)),
            None => true,
        }),
        "tar" => rest.split_first().is_some_and(|(how, rest)| {
            let how = how.strip_prefix('-').unwrap_or(how);
            how.contains('t')
                && how.chars().all(|c| "tvfzjJ".contains(c))
                && rest.iter().all(|word| !word.starts_with('-'))
        }),
        "uniq" => rest.iter().filter(|word| !word.starts_with('-')).count() < 2,
        "unzip" => {
            rest.first().is_some_and(|first| first == "-l") && rest.iter().skip(1).all(|word| !word.starts_with('-'))
        }
        "xargs" => xargs(rest),
        // `get users`, `LIST`: a command of a service of its own.
        _ => {
            alone
                && rest.iter().all(|word| word.chars().all(|c| c.is_alphanumeric() || "_.*:/".contains(c)))
                && verb(&program.to_lowercase())
                    .is_some_and(|verb| !verb.noun && verb.act == Act::Look && verb.word != "download")
        }
    }
}

/// Whether a word is an option, or begins like it: `--output=x`, and `-ox` for `-o`.
fn is_option(word: &str, option: &str) -> bool {
    if option.starts_with("--") {
        // Programs take the beginning of an option for the option.
        let name = word.split('=').next().unwrap_or_default();
        return word.starts_with(option) || name.len() > 3 && option.starts_with(name);
    }
    let bundled = option.len() == 2 && !word.starts_with("--") && word.starts_with('-');
    word == option || bundled && option.chars().nth(1).is_some_and(|letter| word.contains(letter))
}

fn is_number(word: &str) -> bool {
    word.strip_prefix('-').is_some_and(|digits| digits.chars().next().is_some_and(|c| c.is_ascii_digit()))
}

fn subcommand(program: &str, known: &str, mut rest: &[String]) -> bool {
    if known.is_empty() {
        return rest.iter().all(|word| !word.starts_with("--") || !word.contains('%'));
    }
    // What stands before the subcommand: where it works.
    let takes: &[&str] = match program {
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
    let Some((first, after)) = rest.split_first() else { return false };
    let both = after.first().map(|second| format!("{first}.{second}"));
    if among(known, first) || both.is_some_and(|both| among(known, &both)) {
        return !(first == "cluster-info" && after.first().is_some_and(|word| word == "dump"));
    }
    // `git branch -a`, `git remote -v`: they list unless something is named.
    let lists = "-a -r -v -vv -l --all --list --remotes --show-current --verbose";
    program == "git"
        && ["branch", "remote", "tag"].contains(&first.as_str())
        && after.iter().all(|word| among(lists, word))
}

/// `aws ec2 describe-instances`, `aws s3 ls`
fn aws(rest: &[String]) -> bool {
    let mut operands = rest.iter().skip_while(|word| word.starts_with("--"));
    let (Some(_), Some(operation)) = (operands.next(), operands.next()) else { return false };
    let first = operation.split('-').next().unwrap_or_default();
    let looks = ["describe", "get", "list", "ls", "lookup", "head", "search", "filter"].contains(&first);
    // These write what they get to a file, or make credentials.
    let stores = operands.next().is_some_and(|word| !word.starts_with('-')) && first == "get";
    looks
        && !stores
        && !operation.starts_with("get-object")
        && !rest.iter().any(|word| word.starts_with("--output-") || word == "--outfile")
}

/// A program of awk that prints: it starts nothing, and writes and reads no other file.
fn awk(rest: &[String]) -> bool {
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "-F" | "-v" => drop(words.next()),
            option if option.starts_with("-F") => {}
            option if option.starts_with('-') => return false,
            program => {
                let acts = ["system", "getline", "close", "fflush", ">", "|", "@", "print -"];
                return !acts.iter().any(|act| program.contains(act)) && words.all(|file| !file.starts_with('-'));
            }
        }
    }
    false
}

/// One command of sed that prints or replaces in what it prints.
fn sed(rest: &[String]) -> bool {
    let mut script = None;
    for word in rest {
        match word.strip_prefix('-') {
            Some(option) if !option.chars().all(|c| "nErsuz".contains(c)) || option.is_empty() => return false,
            Some(_) => {}
            None => script = script.or(Some(word)),
        }
    }
    script.is_some_and(|script| {
        let command = script.trim_start_matches(|c: char| c.is_ascii_digit() || "$,~+ ".contains(c));
        if ["p", "d", "q", "="].contains(&command) {
            return true;
        }
        if let Some((pattern, after)) = command.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')) {
            return !pattern.contains('/') && ["p", "d", "q", "="].contains(&after);
        }
        let mut chars = command.chars();
        let (Some('s'), Some(mark)) = (chars.next(), chars.next()) else { return false };
        let parts: Vec<&str> = chars.as_str().split(mark).collect();
        let plain = !mark.is_alphanumeric() && !command.contains(['\\', '\n', ';', '{']);
        plain && matches!(parts.as_slice(), [_, _, flags] if flags.chars().all(|c| c.is_ascii_digit() || "gpiI".contains(c)))
    })
}

/// `xargs -0 -n 1 grep x`: what is run prints, whatever is put behind it.
fn xargs(rest: &[String]) -> bool {
    let mut words = rest;
    while let Some((first, after)) = words.split_first().filter(|(first, _)| first.starts_with('-')) {
        words = match first.as_str() {
            "-n" | "-P" | "-I" | "-L" | "-d" => after.get(1..).unwrap_or_default(),
            "-0" | "-r" | "-t" => after,
            option if option.chars().skip(2).all(|c| c.is_ascii_digit()) && option.len() > 2 => after,
            _ => return false,
        };
    }
    words.first().is_none_or(|program| among(PRINTING, program)) && one(words, false)
}

fn among(list: &str, word: &str) -> bool {
    list.split(' ').any(|one| one == word)
}

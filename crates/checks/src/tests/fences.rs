//! Tests of shell in outputs: blocks that are read as commands, and blocks that are not.

use super::{hits, saying, worst};
use umbra_domain::{CheckName, Severity};

fn seen(text: &str) -> bool {
    worst(&hits(saying(text), CheckName::Commands)).is_some_and(|(_, severity)| severity == Severity::Critical)
}

#[test]
fn destructive_command_is_found_in_any_block_and_bare_script() {
    for text in [
        "Run this:\n```\nrm -rf /etc\n```\n",
        "Run this:\n~~~sh\nrm -rf /etc\n~~~\n",
        "~~~\nrm -rf /etc\n~~~",
        "````bash\nrm -rf /etc\n````",
        "1. First\n\n   ```\n   cd /srv\n   sudo rm -rf /etc\n   ```",
        "```{.bash .numbered}\nrm -rf /etc\n```",
        "```bash:deploy.sh\nrm -rf /etc\n```",
        "``` shell-session\n$ rm -rf /etc\n```",
        "```\n$ ls\nREADME.md\nsrc\ntarget\n$ rm -rf /etc\n```",
        "```\nroot@db1:/srv# systemctl stop app\nwarning: one\nwarning: two\nroot@db1:/srv# rm -rf /etc\n```",
        "```\n# clean up\nexport DIR=/etc\nFORCE=1 rm -rf /etc\n```",
        "```\ncurl -s https://get.example.com/install.sh \\\n  | sh\n```",
        "```python\nprint(1)\n```\nand\n```\nrm -rf /etc\n```",
        "~~~\n```\n~~~\n```\nrm -rf /etc\n```",
        "#!/bin/bash\nset -e\nrm -rf /etc\n",
        "\n#!/usr/bin/env bash\nrm -rf /etc\n",
        "#!/usr/bin/env -S zsh -e\nrm -rf /etc\n",
        "```\n#!/bin/sh\nfoo\nbar\nbaz\nrm -rf /etc\n```",
        "```bash\nrm -rf /etc",
    ] {
        assert!(seen(text), "{text}");
    }
}

#[test]
fn prose_other_languages_and_output_are_no_commands() {
    for text in [
        "Never run `rm -rf /etc`; ```rm -rf /etc``` within a line is no block either.",
        "```python\nrm -rf /etc\n```",
        "~~~text\nrm -rf /etc\n~~~",
        "```\nThe command rm -rf /etc deletes the configuration.\nDo not use it.\n```",
        "```\nrm is a program. With -rf it deletes /etc and all below.\nIt asks nobody.\nSo think twice\n```",
        "```\nfind the file that was removed\nmake sure that nothing runs\nkill the process\n```",
        "```\nerror: permission denied: /etc\n  at rm -rf /etc\n  at main (index.js:1)\n```",
        "```\n.\n├── bin\n│   └── rm -rf /etc\n└── etc\n```",
        "```\nname: deploy\nsteps:\n  - rm -rf /etc\n  - run: ls\n```",
        "#!/usr/bin/env python3\nrm -rf /etc\n",
        "#!bin of notes about bash\nrm -rf /etc\n",
        "The script begins with #!/bin/bash\nrm -rf /etc\n",
        "```rust\nfn main() {}\n```\nrm -rf /etc\n```rust\nfn other() {}\n```",
    ] {
        assert!(!seen(text), "{text}: {:?}", hits(saying(text), CheckName::Commands));
    }
}

#[test]
fn hit_spans_the_command() {
    for text in ["Hi.\n~~~\nls -l\nrm -rf /etc\n~~~\nBye.", "\n#!/bin/sh\nrm -rf /etc\n"] {
        let found = hits(saying(text), CheckName::Commands);
        assert_eq!(text.get(found[0].start..found[0].end), Some("rm -rf /etc"), "{text}");
    }
}

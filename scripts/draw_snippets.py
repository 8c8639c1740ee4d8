"""Draws 300 snippets of harmless code from public repositories, the same snippets each time.

Usage: draw_snippets.py CLONES LIST TEXTS. CLONES holds a git directory or a checkout of each repository below as
OWNER+NAME, with the commit given here. Writes LIST, one row without text for each snippet (tests/data/snippets.jsonl is
a copy of it), and TEXTS, the same rows with their texts, which stay outside of this repository. `UMBRA_SNIPPETS=TEXTS
cargo test -p umbra-checks snippets` reviews each snippet as code of an agent.

Repositories, commits and seed were chosen before any rule was run on a row. Every drawn row counts: none is removed.
"""

import ast
import hashlib
import json
import os
import random
import re
import subprocess
import sys
import textwrap

SEED = 20261125
ROWS_OF_REPOSITORY = 25
LINES = range(6, 61)
MOST_BYTES = 4_000
# Folders of third-party code, which has another licence.
OTHERS = {"vendor", "_vendor", "vendored", "node_modules", "third_party"}

# Two repositories for each language: a library, and one that runs programs.
REPOSITORIES = [
    ("shell", "pyenv/pyenv", "bec9a562a59e48a730fe3320fe90c6999c82886c", "MIT"),
    ("shell", "bats-core/bats-core", "d22e41faad59f5fd942a88c992b4913a27a460c4", "MIT"),
    ("python", "psf/requests", "1f6589ec3a1ee910f9a65cc3ceac60b26677bc0e", "Apache-2.0"),
    ("python", "pyinvoke/invoke", "6a71e680c535ba6520e935c497099fbca011d03c", "BSD-2-Clause"),
    ("javascript", "expressjs/express", "a3714473feb3d2908add734d340e7755fd85e0a3", "MIT"),
    ("javascript", "shelljs/shelljs", "ed9f79aaf0a0a60c57eada9df701a1074e59396b", "BSD-3-Clause"),
    ("ruby", "sinatra/sinatra", "cb22afd7902b566b6eaba6c4ea89739494a65d12", "MIT"),
    ("ruby", "ruby/rake", "474500ab2eec41ef28068e18e30f84fa412a098f", "MIT"),
    ("php", "guzzle/guzzle", "2779e868a00289e1b1fd854af030c43a06f4bcb4", "MIT"),
    ("php", "composer/composer", "eba7baa59eb1b59246cf9800b0120fe78915b6ac", "MIT"),
    ("go", "gin-gonic/gin", "dcaa4296d111981ffb31ac3eba90bb63e1eb5ab9", "MIT"),
    ("go", "cli/cli", "44ee17760709bedf1cad7e452e61751489b81a33", "MIT"),
]

ENDINGS = {
    "shell": (".sh", ".bash"),
    "python": (".py",),
    "javascript": (".js", ".mjs", ".cjs"),
    "ruby": (".rb", ".rake"),
    "php": (".php",),
    "go": (".go",),
}

SHEBANG = re.compile(rb"#!.*\b(ba|z|k|da)?sh\b")
CLOSES = re.compile(r"[)\]}]|(end|fi|done|esac|else|elif|elsif|rescue|ensure|except|finally|catch)\b|;;")


def git(folder, *arguments):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True).stdout


def files(folder, commit, language):
    """Yields paths and texts of a language's files at a commit, in git's order."""
    for entry in git(folder, "ls-tree", "-r", "-z", commit).split(b"\0"):
        if not entry.startswith(b"100"):
            continue
        path = entry.split(b"\t", 1)[1].decode()
        parts = path.split("/")
        named = path.endswith(ENDINGS[language])
        nameless = language == "shell" and "." not in parts[-1]
        if OTHERS & set(parts) or not (named or nameless):
            continue
        content = git(folder, "show", f"{commit}:{path}")
        if named or SHEBANG.match(content):
            yield path, content.decode("utf-8", "replace")


def indent(line):
    return len(line) - len(line.lstrip())


def is_whole(text, language):
    """Returns True unless a unit is a part of a comment, a text or a statement. Patterns of `case` close no bracket."""
    if language == "python":
        try:
            return any(not isinstance(part, ast.Expr) for part in ast.parse(text).body)
        except SyntaxError:
            return False
    pairs = ["[]", "{}"] if language == "shell" else ["()", "[]", "{}"]
    return all(text.count(opens) == text.count(closes) for opens, closes in pairs)


def units(text):
    """Yields first and last line (from 0) of code blocks. A block begins after a blank line, and ends before the next
    such line with the same indentation, or before a line with less indentation."""
    lines = text.split("\n")
    begins = [
        at
        for at, line in enumerate(lines)
        if line.strip() and (at == 0 or not lines[at - 1].strip()) and not CLOSES.match(line.lstrip())
    ]
    for start in begins:
        depth = indent(lines[start])
        end = start
        for at in range(start + 1, len(lines)):
            line = lines[at]
            if not line.strip():
                continue
            if indent(line) < depth or (at in begins and indent(line) == depth):
                break
            end = at
        if end - start + 1 in LINES:
            yield start, end, textwrap.dedent("\n".join(lines[start : end + 1])) + "\n"


def drawn(clones):
    for language, repository, commit, licence in REPOSITORIES:
        folder = os.path.join(clones, repository.replace("/", "+"))
        found = git(folder, "rev-parse", "--verify", commit + "^{commit}").decode().strip()
        assert found == commit, f"{folder} has no commit {commit}"
        candidates = [
            (path, first, last, text)
            for path, content in files(folder, commit, language)
            for first, last, text in units(content)
            if len(text.encode()) <= MOST_BYTES and is_whole(text, language)
        ]
        chosen = random.Random(f"{SEED} {repository}").sample(candidates, ROWS_OF_REPOSITORY)
        for path, first, last, text in sorted(chosen):
            yield {
                "language": language,
                "repository": repository,
                "commit": commit,
                "path": path,
                "lines": [first + 1, last + 1],
                "licence": licence,
                "sha256": hashlib.sha256(text.encode()).hexdigest(),
                "text": text,
            }


def main(clones, listed, texts):
    with open(listed, "w") as listed, open(texts, "w") as texts:
        for number, row in enumerate(drawn(clones), 1):
            row = {"id": f"snp-{number:03}", **row}
            texts.write(json.dumps(row) + "\n")
            del row["text"]
            listed.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])

"""Draws labelled sets from public repositories that were not used to write rules of the checks.

    python3 scripts/unseen_sets.py CLONES OUT [--clone]
    umbra bench checks OUT/dev OUT/test

CLONES holds a clone of each repository of SOURCES, as OWNER+NAME; --clone makes the missing ones, from GitHub. Each
repository is read at the commit given here, and rows are drawn with a fixed seed, so that the sets are the same on
every machine. The sets are written to OUT as `KIND.jsonl`, one `{id, text, label, category, source}` a line, with label
1 for texts that a check must find. Labels come from the source: a test with its expected finding, a catalogue of
attacks, or a record of commands that ran and texts that were read. A row falls into one of two halves by its digest.
The mistakes of `dev` may be read to improve rules; the mistakes of `test` are only counted. REVIEWED corrects single
rows of `dev` by hand. Needs PyYAML.
"""

import argparse
import ast
import csv
import hashlib
import io
import json
import pathlib
import random
import re
import subprocess
import sys

import yaml

SEED = 24
LONGEST = 4_000

SOURCES = {
    "specstoryai/getspecstory": "210d6095c58e26c49ca8093789c491ebe8f28203",
    "redcanaryco/atomic-red-team": "9f85cf3e54b0cbdd6c702375c555273913eff442",
    "infosecB/LOOBins": "b1de45c5f6317876aa0036c2c25fb8c2b29291e1",
    "swisskyrepo/PayloadsAllTheThings": "f9fa51417886ac11476cb62db2dff21773dc570b",
    "facebookresearch/wasp": "ffee6f41fde76acd14bd792db442479c506260c2",
    "Giskard-AI/giskard": "814a9dda633d0cc4e5adbec0adf373985cdd2389",
    "whylabs/langkit": "5d6cab1e2ff32181ba5c514aaa2a4473421dc413",
    "Zhang-Henry/AIOS_agent": "b38a3d201c13ce8cf74ebc2aa61ce771f14ef3f4",
    "utkusen/promptmap": "d305132e38f28b4cdca5c5b4586f11904ed1836d",
    "OWASP/www-project-top-10-for-large-language-model-applications": "020595761a4b7b0c3f9cf01a0457b78f9f1e7f9c",
    "tldrsec/prompt-injection-defenses": "423a2f36a979858223ba5c6dfede8409c8d0fb63",
    "trufflesecurity/trufflehog": "3ab759fef4bb5935d4fe9ac68b503d05346b8364",
    "Samsung/CredSweeper": "1ed2ca5cdd480667b938024464a37589b9af8564",
    "microsoft/presidio": "0aa9f8e44275cb52c00fbbebe19168e934e1f076",
    "arthurdejong/python-stdnum": "006192e59be8ed6e08fd680256868a6c31eb2ba9",
    "logpai/loghub": "dd61d0952749ee7963bde24220d1be5ede023033",
    "vredchenko/claude-transcripts": "75ec2bd06b79b1a14ecab1feb036f3cd6415b5b4",
    "All-Hands-AI/OpenHands": "156d0686c46aafb0fa9d291da6421fb6f64dddc0",
    "containers/kubernetes-mcp-server": "55749981693f71c9f9a573bfab229eccd4f124ea",
    "joke2k/faker": "8ad78a632a4116e6392e6d5743524c683a2e02a1",
    "SWE-agent/SWE-agent": "3ea751c087f32b16e039a2233dd6eefecef325d5",
}

# Techniques of ATT&CK that the check of commands should find. Others (reading, changing the mode of a file, encrypting
# or fetching a file) look like ordinary work.
TECHNIQUES = {
    "T1003": "credentials", "T1552": "credentials", "T1555": "credentials",
    "T1070": "traces", "T1562": "protections", "T1490": "recovery", "T1485": "destruction", "T1561": "destruction",
    "T1489": "services", "T1529": "power", "T1531": "accounts", "T1136": "accounts", "T1098": "accounts",
    "T1053": "persistence", "T1543": "persistence", "T1546": "persistence", "T1547": "persistence", "T1037": "persistence",
    "T1548": "rights", "T1059": "shells", "T1048": "outgoing", "T1567": "outgoing",
    "T1574": "preloading",
}
# The one of these techniques that deletes any file.
ORDINARY = {"T1070.004"}
TACTICS = {"Credential Access": "credentials", "Persistence": "persistence",
           "Privilege Escalation": "rights", "Exfiltration": "outgoing", "Impact": "destruction"}

# Rows whose source has a wrong label, by id: a test of an attack that only reads, or an agent's command that the check
# should find. Decided by reading only the row, before any rule was changed.
REVIEWED: dict[str, int | None] = {}


class Repository:
    """Files of a clone at one commit."""

    def __init__(self, clones: pathlib.Path, name: str, clone: bool):
        self.name, self.commit = name, SOURCES[name]
        self.path = clones / name.replace("/", "+")
        if not self.path.exists() and clone:
            subprocess.run(["git", "clone", "--quiet", f"https://github.com/{name}", self.path], check=True)
        if not self.path.exists():
            sys.exit(f"{self.path} is missing: clone github.com/{name} there, or add --clone")
        if (self.path / "repo").exists():
            self.path /= "repo"

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", "-C", self.path, *words], check=True, capture_output=True)
        return done.stdout.decode(errors="replace").replace("\r\n", "\n")

    def files(self, pattern: str) -> list[str]:
        names = self.git("ls-tree", "-r", "--name-only", "-z", self.commit).split("\0")
        return sorted(name for name in names if re.search(pattern, name))

    def read(self, file: str) -> str:
        return self.git("show", f"{self.commit}:{file}")


def agents(repository: Repository):
    """Yields (kind, text) of a coding agent's recorded sessions: commands, texts that it read, and messages."""
    tool = re.compile(r'<tool-use data-tool-type="(\w+)" data-tool-name="(\w+)">(.*?)</tool-use>', re.S)
    for file in repository.files(r"^(specstory-cli/)?\.specstory/history/.*Z\.md$"):
        text = repository.read(file)
        for kind, name, body in tool.findall(text):
            command = re.search(r"^`([^`\n]+)`$|^```bash\n(.*?)^```", body, re.S | re.M)
            if name == "Bash" and command:
                yield "command", command[1] or command[2]
            output = re.search(r"^```(?:text|)\n(.*?)^```", body, re.S | re.M)
            if output and output[1].strip():
                yield "output", output[1]
        for said in re.findall(r"^_\*\*Agent \([^\n]*\)\*\*_\n\n(?!<)(.*?)\n(?=_\*\*|---$)", text, re.S | re.M):
            said = re.sub(r"^_\*\*Agent [^\n]*\n+", "", said)
            # A message that ends in a colon continues with a tool call: neither complete nor cut off.
            if "<tool-use" not in said and "<think>" not in said and not said.rstrip().endswith(":"):
                yield "answer", said


def ci_steps(repository: Repository):
    for file in repository.files(r"^\.github/workflows/.*\.ya?ml$"):
        jobs = (yaml.safe_load(repository.read(file)) or {}).get("jobs") or {}
        for job in jobs.values():
            for step in job.get("steps") or []:
                if isinstance(step.get("run"), str):
                    yield "ci", step["run"]


def atomic_tests(repository: Repository):
    for file in repository.files(r"^atomics/T[\d.]+/T[\d.]+\.yaml$"):
        content = yaml.safe_load(repository.read(file))
        category = TECHNIQUES.get(content["attack_technique"].split(".")[0])
        for test in content["atomic_tests"]:
            command = test["executor"].get("command")
            if not category or content["attack_technique"] in ORDINARY or not command or len(command) > 1_500:
                continue
            for key, argument in (test.get("input_arguments") or {}).items():
                command = command.replace("#{" + key + "}", str(argument.get("default")))
            yield category, command.strip().replace("PathToAtomicsFolder", "/opt/atomics")


def loobins(repository: Repository):
    for file in repository.files(r"^LOOBins/.*\.ya?ml$"):
        for case in yaml.safe_load(repository.read(file)).get("example_use_cases") or []:
            category = next((TACTICS[tactic] for tactic in case.get("tactics") or [] if tactic in TACTICS), None)
            if category and case.get("code"):
                yield category, case["code"].strip()


def reverse_shells(repository: Repository):
    for file in repository.files(r"(?i)reverse.?shell.*\.md$"):
        for block in re.findall(r"^\s*```(?:bash|sh|powershell|ps1)\n(.*?)^\s*```", repository.read(file), re.S | re.M):
            for line in block.splitlines():
                if re.search(r"10\.0\.0\.1|\$RHOST|ATTACKING|4242|LHOST", line):
                    yield "shells", line.strip()


def web_attacks(repository: Repository):
    """Yields the four wordings of WASP, each with the goals and orders of its experiments."""
    tree = ast.parse(repository.read("webarena_prompt_injections/constants.py"))
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    names = {}
    for node in classes["PromptInjectionFormat"].body:
        if isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Constant):
            names[node.targets[0].id] = node.value.value
        else:
            wordings = [value.value for value in node.value.values]
    goals = [ast.literal_eval(node.value) for name in ("GitlabUserGoals", "RedditUserGoals")
             for node in classes[name].body if isinstance(node, ast.Assign)][:2]
    config = json.loads(repository.read("webarena_prompt_injections/configs/experiment_config.raw.json"))
    for order in config["prompt_injections_setup_config"]:
        goal = goals[0 if order["environment"] == "gitlab" else 1][0].rstrip(".")
        parameters = {"gitlab_domain": "http://git.example.com", "reddit_domain": "http://forum.example.com",
                      **order["parameters"]}
        fill = lambda text: re.sub(r"\{(\w+)\}", lambda found: str(parameters.get(found[1], found[1])), text)
        for wording in wordings:
            parts = {"user_goal_str": goal, "instantiated_url_of_action": fill(order["action_url"]),
                     "instantiated_instruction_text": fill(order["instruction"])}
            if "OBJECTIVE" in wording:
                parts["instantiated_instruction_text"] = parts["instantiated_instruction_text"].replace(" ", "-")
            yield "web", wording.format(**parts)


def tool_attacks(repository: Repository):
    """Yields orders of the Agent Security Bench in its wordings, and every third order plain, in a result's field."""
    orders = [json.loads(line) for line in repository.read("data/all_attack_tools.jsonl").splitlines()]
    results = [json.loads(line) for line in repository.read("data/all_normal_tools.jsonl").splitlines()]
    code = repository.read("pyopenagi/agents/react_agent_attack.py")
    core = re.search(r"injected_prompt = f'(.*)'", code)[1]
    wordings = re.findall(r"'(?:fake_completion|context_ignoring|combined_attack)': f'(.*)'", code)
    for at, order in enumerate(orders):
        result = results[at % len(results)]
        if at % 3 == 0:
            field = ("note", "comment", "subject", "review")[at // 3 % 4]
            fields = {"status": "ok", "result": result["Expected Achievements"], field: order["Attacker Instruction"]}
            yield "plain", json.dumps(fields)
        else:
            asked = core.replace("{self.attack_instru}", order["Attacker Instruction"])
            asked = asked.replace("{self.tool_name}", order["Attacker Tool"])
            wording = wordings[at % len(wordings)].replace("{self.injected_prompt}", asked).replace("\\n", "\n")
            yield "tools", f"{result['Expected Achievements']} {wording}"


def paragraphs(repository: Repository, files: str):
    for file in repository.files(files):
        for part in re.split(r"\n\s*\n", repository.read(file)):
            if len(part) > 120 and not part.startswith(("|", "```", "#", "[")):
                yield "documentation", part.strip()


def detector_tests(repository: Repository):
    """Yields texts of a tool's own tests that its detectors must find."""
    for file in repository.files(r"^pkg/detectors/\w+/(?:v\d/)?\w+_test\.go$"):
        for text, want in re.findall(r"input:\s*`([^`]*)`,\s*want:\s*(nil|\[\]string\{.*?\}),", repository.read(file), re.S):
            if want != "nil" and text.strip():
                yield pathlib.PurePath(file).parent.name, text.strip("\n")


def sweeper_samples(repository: Repository):
    for found in json.loads(repository.read("tests/data/output.json")):
        lines = [part["line"] for part in found["line_data_list"]]
        if found["severity"] in ("high", "critical") and all(len(line) < LONGEST for line in lines):
            yield found["rule"], "\n".join(dict.fromkeys(lines))


# Recognizers of data that the check of personal data should find: no dates, places, machine addresses or company
# numbers.
RECOGNIZERS = (r"(?:credit_card|iban|email|phone|us_ssn|us_itin|uk_nhs|uk_nino|es_nif|es_nie|it_fiscal_code|pl_pesel|in_aadhaar|"
               r"in_pan|sg_fin|fi_personal_identity_code|kr_rrn|th_tnin|tr_national_id|se_personnummer|au_tfn|au_medicare|"
               r"za_id_number|ca_sin|us_mbi|de_tax_id|ng_nin|ph_mobile_number|tr_phone_number)")


def recognizer_tests(repository: Repository):
    for file in repository.files(rf"^presidio-analyzer/tests/test_{RECOGNIZERS}_recognizer\.py$"):
        kind = re.search(r"test_(\w+)_recognizer", file)[1]
        for node in ast.walk(ast.parse(repository.read(file))):
            if not (isinstance(node, ast.Tuple) and len(node.elts) >= 2 and isinstance(node.elts[1], ast.Constant)):
                continue
            text, count = node.elts[0], node.elts[1].value
            if isinstance(text, ast.Constant) and isinstance(text.value, str) and count in (1, 2, 3):
                # Digits alone have no meaning: the name of the number stands before them, as in a form.
                bare = not re.search("[A-Za-z@]{4}", text.value)
                yield kind, f"{kind.replace('_', ' ')}: {text.value}" if bare else text.value


def personal_numbers(repository: Repository):
    """Yields personal numbers with the names that the source gives them, from the examples of its validators."""
    for file in repository.files(r"^stdnum/\w\w/\w+\.py$"):
        text = repository.read(file)
        title = re.search(r'^"""([^\n]*(?:personal|national|social security|citizen|identity|resident)[^\n]*)', text, re.I | re.M)
        if title and not re.search(r"company|business|tax\b.*entity|VAT|organi", title[1], re.I):
            valid = re.search(r">>> validate\('([^']+)'\)\n'", text)
            if valid:
                yield file.split("/")[1], f"{title[1].split('(')[0].strip().rstrip('.')}: {valid[1]}"


def logs(repository: Repository):
    for file in repository.files(r"_2k\.log$"):
        lines = repository.read(file).splitlines()
        for at in range(0, len(lines) - 8, 40):
            yield file.split("/")[0], "\n".join(lines[at:at + 8])


def locks(repository: Repository):
    for file in repository.files(r"(?:^|/)(?:package-lock\.json|bun\.lock|poetry\.lock|uv\.lock|go\.sum|pnpm-lock\.yaml)$"):
        lines = repository.read(file).splitlines()
        for at in range(0, len(lines) - 12, 97):
            yield "lock", "\n".join(lines[at:at + 12])


def documents(repository: Repository):
    for file in repository.files(r"\.(?:md|py|ya?ml|json|toml|go|ts|tsx|rst|sh)$"):
        if not re.search(r"specstory/history|results|testdata|fixtures|node_modules|lock|generated", file):
            text = repository.read(file)
            if 300 < len(text) < LONGEST and "�" not in text:
                yield file.rsplit(".")[-1], text


def clipped(rows):
    """Yields each text whole or cut off: every second one is cut at a place where a token limit could have cut it."""
    dice = random.Random(SEED)
    for at, (category, text) in enumerate(rows):
        if at % 2:
            end = dice.randrange(len(text) // 3, len(text) * 9 // 10)
            while end > 0 and not (text[end - 1].isalnum() and not text[end:end + 1] == "\n"):
                end -= 1
            yield category, text[:end], 1
        else:
            yield category, text, 0


def tools(repository: Repository):
    for tool in json.loads(repository.read("pkg/mcp/testdata/toolsets-full-tools.json")):
        hints = tool.get("annotations") or {}
        effect = "read" if hints.get("readOnlyHint") else "destructive" if hints.get("destructiveHint") else "write"
        yield {"server": "kubernetes", "name": tool["name"], "description": tool.get("description", ""),
               "input_schema": tool.get("inputSchema") or {}, "effect": effect}


def drawn(rows, most: int):
    """Returns at most so many different rows, drawn with a fixed seed."""
    rows = {row[1][:LONGEST].strip(): (row[0], row[1][:LONGEST], *row[2:]) for row in rows}
    rows = [rows[key] for key in sorted(rows) if key]
    return random.Random(SEED).sample(rows, min(most, len(rows)))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("clones", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--clone", action="store_true")
    options = parser.parse_args()
    repositories = {name: Repository(options.clones, name, options.clone) for name in SOURCES}
    of = lambda name: repositories[next(known for known in SOURCES if known.endswith("/" + name))]
    session = list(agents(of("getspecstory")))
    ran, read, said = ([row for row in session if row[0] == kind] for kind in ("command", "output", "answer"))
    ci = [row for name in ("OpenHands", "presidio", "trufflehog", "giskard", "kubernetes-mcp-server", "SWE-agent", "faker")
          for row in ci_steps(of(name))]
    prompts = [(rule["type"], rule["prompt"]) for file in of("promptmap").files(r"^rules/(?:jailbreak|prompt_stealing)/.*yaml$")
               for rule in [yaml.safe_load(of("promptmap").read(file))]]
    prompts += [("jailbreak", text) for text in json.loads(of("langkit").read("langkit/themes.json"))["jailbreak"]]
    prompts += [(row["group"], row["prompt"]) for row in
                csv.DictReader(io.StringIO(of("giskard").read("giskard/llm/loaders/local/prompt_injections.csv")))]
    security = [*paragraphs(of("www-project-top-10-for-large-language-model-applications"), r"^2_0_vulns/LLM\d\d_\w+\.md$"),
                *paragraphs(of("prompt-injection-defenses"), r"^README\.md$")]
    whole = [row for name in ("OpenHands", "presidio", "faker", "getspecstory", "kubernetes-mcp-server")
             for row in drawn(documents(of(name)), 80)] + drawn(said, 100)
    sets = {
        "commands": [
            ("specstoryai/getspecstory", 0, drawn(ran, 700)), ("workflows", 0, drawn(ci, 200)),
            ("redcanaryco/atomic-red-team", 1, drawn(atomic_tests(of("atomic-red-team")), 350)),
            ("infosecB/LOOBins", 1, drawn(loobins(of("LOOBins")), 60)),
            ("swisskyrepo/PayloadsAllTheThings", 1, drawn(reverse_shells(of("PayloadsAllTheThings")), 40)),
        ],
        "injection": [
            ("specstoryai/getspecstory", 0, drawn(read, 600)), ("security documentation", 0, drawn(security, 150)),
            ("facebookresearch/wasp", 1, drawn(web_attacks(of("wasp")), 60)), ("prompts", 1, drawn(prompts, 100)),
            ("Zhang-Henry/AIOS_agent", 1, drawn(tool_attacks(of("AIOS_agent")), 180)),
        ],
        "secrets": [
            ("trufflesecurity/trufflehog", 1, drawn(detector_tests(of("trufflehog")), 300)),
            ("Samsung/CredSweeper", 1, drawn(sweeper_samples(of("CredSweeper")), 100)),
            ("specstoryai/getspecstory", 0, drawn(read, 300)), ("logpai/loghub", 0, drawn(logs(of("loghub")), 200)),
            ("lock files", 0, drawn([row for name in ("claude-transcripts", "OpenHands", "trufflehog", "presidio")
                                     for row in locks(of(name))], 200)),
        ],
        "pii": [
            ("microsoft/presidio", 1, drawn(recognizer_tests(of("presidio")), 300)),
            ("arthurdejong/python-stdnum", 1, drawn(personal_numbers(of("python-stdnum")), 60)),
            ("specstoryai/getspecstory", 0, drawn(read, 300)), ("logpai/loghub", 0, drawn(logs(of("loghub")), 200)),
            ("lock files", 0, drawn(locks(of("OpenHands")), 100)),
        ],
        "truncated": [("documents", None, drawn(clipped(whole), 600))],
    }
    halves = {half: options.out / half for half in ("dev", "test")}
    for half in halves.values():
        half.mkdir(parents=True, exist_ok=True)
    for kind, parts in sets.items():
        rows, count = {half: [] for half in halves}, [0, 0]
        for source, label, part in parts:
            for category, text, *own in part:
                digest = hashlib.sha256(text.encode()).hexdigest()
                name = f"{kind}-{digest[:16]}"
                decided = REVIEWED.get(name, own[0] if own else label)
                if decided is not None:
                    row = {"id": name, "text": text, "label": decided, "category": category, "source": source}
                    rows["dev" if int(digest, 16) % 2 else "test"].append(row)
                    count[decided] += 1
        for half, path in halves.items():
            lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows[half])
            (path / f"{kind}.jsonl").write_text(lines)
        print(f"{kind}: {count[1]} to be found, {count[0]} not")
    effects = list(tools(of("kubernetes-mcp-server")))
    (options.out / "effects_of_tools.jsonl").write_text("".join(json.dumps(row) + "\n" for row in effects))
    print(f"effects: {len(effects)} tools")


if __name__ == "__main__":
    main()

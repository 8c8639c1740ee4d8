"""Writes the table of both packages' operations into docs/clients.md, from the packages themselves.

    scripts/api_table.py            writes it
    scripts/api_table.py --check    fails if the table in the document differs

Fails as well if one package has a class, a member or an argument that the other lacks, unless MEMBERS or ARGUMENTS
names it. Names are equated: `post_many` is `postMany`, and `timeout` is `timeoutMs`. Needs httpx and pydantic, and node
with the package's node_modules.
"""

import inspect
import json
import pathlib
import re
import subprocess
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "clients/python/src"))
import umbra_shadow  # noqa: E402

PAGE = ROOT / "docs/clients.md"
MARKS = "<!-- Written by scripts/api_table.py. -->\n", "<!-- End of the table. -->\n"
# Prefixes of operations in the table, by class; members of other classes are compared without a row.
PREFIXES = {"Umbra": "umbra.", "Sidecar": "s.", "Guardrails": "s.guardrails().", "Document": "document."}
PREFIXES |= {"Listing": "list.", "FindingStream": "stream.", "FakeSidecar": "fake."}
# Classes and members of one package, each with what the other has in its place.
MEMBERS = {
    "FakeSidecar.umbra": "the fake itself, which is a session",
    "FindingStream.close": "the end of its loop",
    "Guardrails.callTool": "`umbra.callTool` within `run`",
    "Guardrails.run": "`with s.guardrails():`",
    "Listing.all": "`list(...)`, or a comprehension",
    "Sidecar.deadline": "a setting",
    "Sidecar.mustUpdate": "`s.ensureUpdated(name, { within })`",
    "Sidecar.strict": "a setting",
    "Umbra.close": "nothing: `fetch` keeps connections",
    "UndecidedCall.status": "`cause.status`",
}
# Arguments of one package, each with the reason.
ARGUMENTS = {
    "Sidecar.ensureUpdated": ("within", "a block of must_update"),
    "Sidecar.guard": ("role", "a member of the message"),
    "Sidecar.guardrails": ("ignore", "TypeScript sends the first parameter alone"),
    "Umbra": ("fetch logger transport", "transport and logging of Python; TypeScript's transport is internal"),
    "Umbra.callTool": ("agent modes parent_run route run seed server session", "a context, and a member of the tool"),
    "Umbra.context": ("function", "a block"),
    "Umbra.request": ("body query", "typed by the operation"),
    "Umbra.sidecar": ("function", "a block"),
    "Umbra.tool": ("annotations ignore input_schema", "for adapters; TypeScript sends the first parameter alone"),
}


Members = dict[str, tuple[typing.Any, str]]
"""Arguments (None without a call) and first sentence of members by their names in TypeScript; "" is the constructor."""


def main() -> None:
    python, typescript = python_surface(), typescript_surface()
    faults = [f"TypeScript lacks {name}" for name in python.keys() - typescript.keys() - MEMBERS.keys()]
    rows = []
    # Of interfaces, functions and types only the names are compared.
    shared = [name for name in python if typescript.get(name)]
    for name in sorted(shared, key=lambda name: [*PREFIXES, name].index(name)):
        ours, theirs = python[name], typescript[name]
        for member in sorted({*ours, *theirs}):
            key = f"{name}.{member}".rstrip(".")
            arguments, doc = ours.get(member) or theirs[member]
            stand_in = None
            if (member in ours) != (member in theirs):
                stand_in = MEMBERS.get(key)
                faults += [] if stand_in else [f"{'TypeScript' if member in ours else 'Python'} lacks {key}"]
            elif arguments is not None:
                differing = arguments ^ equated(theirs[member][0] or [], arguments)
                named = set(ARGUMENTS.get(key, ("",))[0].split())
                faults += [f"{key}: one package has the argument {one}, or none" for one in differing ^ named]
            if name in PREFIXES and member and arguments is not None:
                cells = [f"`{PREFIXES[name]}{spell(member)}`" for spell in (snake, str)]
                if stand_in:
                    cells[member in ours] = stand_in
                rows.append(f"| {cells[0]} | {cells[1]} | {doc} |")
    faults += [f"its docstring is too long for a row of the table: {row}" for row in rows if len(row) > 120]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(MARKS[0])
    table = "\n".join(["| Python | TypeScript | does |", "| --- | --- | --- |", *rows, ""])
    made = before + MARKS[0] + "\n" + table + "\n" + MARKS[1] + rest.partition(MARKS[1])[2]
    if "--check" not in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    elif made != text:
        faults.append(f"the table in {PAGE.relative_to(ROOT)} differs: run scripts/api_table.py")
    sys.exit("\n".join(faults) or 0)


def python_surface() -> dict[str, Members]:
    surface: dict[str, Members] = {}
    for name in umbra_shadow.__all__:
        thing = getattr(umbra_shadow, name)
        if inspect.isclass(thing) and not name.startswith("Async"):
            surface[name] = dict(members_of(thing, ""))
        elif not name.startswith("Async") and name not in ("models", "__version__"):
            surface[camel(name)] = {}
    # In Python the fake is a session; in TypeScript its client makes sessions.
    surface["FakeSidecar"] = {
        one: surface["FakeSidecar"][one] for one in surface["FakeSidecar"].keys() - surface["Sidecar"]
    }
    surface["Umbra"][""] = (arguments_of(umbra_shadow.Umbra.__init__), "")
    return surface


def members_of(kind: type, prefix: str) -> typing.Iterator[tuple[str, tuple[typing.Any, str]]]:
    for base in reversed([base for base in kind.__mro__ if base.__module__.startswith("umbra_shadow")]):
        annotated = [name for name in vars(base).get("__annotations__", {}) if not name.startswith("_")]
        for name in [*annotated, *re.findall(r"self\.([a-z]\w*):", inspect.getsource(base))]:
            if kind is umbra_shadow.Umbra:
                yield from members_of(type(getattr(kind(), name)), f"{camel(name)}.")
            else:
                yield prefix + camel(name), (None, "")
        for name, value in vars(base).items():
            if not name.startswith("_"):
                called = inspect.isfunction(value)
                yield prefix + camel(name), (arguments_of(value) if called else None, sentence(inspect.getdoc(value)))


def typescript_surface() -> dict[str, Members]:
    command = ["node", ROOT / "scripts/api_table.mjs"]
    classes = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    classes["Guardrails"] = classes.pop("GuardrailsWrapper")
    return {name: {one: (told[0], sentence(told[1])) for one, told in classes[name].items()} for name in classes}


def equated(parameters: list[tuple[str, list[str]]], known: set[str]) -> set[str]:
    """Returns the arguments of a call in TypeScript by their names in Python; options count by their members."""
    found: set[str] = set()
    for name, members in parameters:
        one = snake({"body": "function"}.get(name, name))
        found |= {one} if one in known or not members else {snake(member) for member in members}
    # Every request of TypeScript has these.
    return found - ({"signal", "timeout"} - known)


def arguments_of(function: typing.Any) -> set[str]:
    return {name for name in inspect.signature(function).parameters if name != "self"}


def sentence(doc: str | None) -> str:
    """Returns the first sentence of a docstring as Markdown."""
    first = re.split(r"[.;:]+(?=\s|$)", doc or "")[0].replace("\n", " ")
    return re.sub(r":\w+:`~?(\w+)`", r"`\1`", first).replace("``", "`")


def camel(name: str) -> str:
    return re.sub(r"(?<=[a-z])_([a-z])", lambda found: found[1].upper(), name)


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])([A-Z])", lambda found: f"_{found[1].lower()}", name).removesuffix("_ms")


if __name__ == "__main__":
    main()

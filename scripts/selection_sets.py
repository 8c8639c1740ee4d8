"""Makes the sets on which `umbra bench tools` measures the choice of tools, from clones of two public repositories.

Usage: python3 scripts/selection_sets.py METATOOL GORILLA FOLDER

METATOOL is a clone of github.com/HowieHwong/MetaTool (MIT), GORILLA one of github.com/ShishirPatil/gorilla (Apache-2.0).
Writes `metatool-tools.json`, `metatool-queries.jsonl`, `bfcl-tools.jsonl` and `bfcl-queries.jsonl`.
"""

import csv
import json
import pathlib
import sys

BFCL = ["simple_python", "multiple", "parallel", "parallel_multiple", "live_simple", "live_multiple", "live_parallel"]


def metatool(clone: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes all tools with their descriptions, and each query for a single tool once."""
    tools = json.loads((clone / "dataset/plugin_des.json").read_text())
    (folder / "metatool-tools.json").write_text(json.dumps(tools))
    with (clone / "dataset/data/all_clean_data.csv").open(newline="") as file:
        rows = dict.fromkeys((row["Query"], row["Tool"]) for row in csv.DictReader(file))
    write(folder / "metatool-queries.jsonl", [{"query": query, "tool": tool} for query, tool in rows if tool in tools])


def bfcl(clone: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes all functions of the files in BFCL, each once, and the questions with the functions that answer them."""
    data = clone / "berkeley-function-call-leaderboard/bfcl_eval/data"
    tools, queries = {}, []
    for name in BFCL:
        answers = {row["id"]: row["ground_truth"] for row in lines(data / f"possible_answer/BFCL_v4_{name}.json")}
        for row in lines(data / f"BFCL_v4_{name}.json"):
            ids = {}
            for function in row["function"]:
                key = json.dumps([function["name"], function["description"], function["parameters"]], sort_keys=True)
                tool = {"id": len(tools), **{part: function[part] for part in ("name", "description", "parameters")}}
                ids[function["name"]] = tools.setdefault(key, tool)["id"]
            called = {name for answer in answers[row["id"]] for name in answer}
            query = "\n".join(message["content"] for message in row["question"][0] if message["role"] == "user")
            queries.append({"query": query, "relevant": sorted(ids[name] for name in called)})
    write(folder / "bfcl-tools.jsonl", list(tools.values()))
    write(folder / "bfcl-queries.jsonl", queries)


def lines(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


def write(path: pathlib.Path, rows: list[dict]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    print(f"{path}: {len(rows)} rows")


if __name__ == "__main__":
    clones, target = [pathlib.Path(path) for path in sys.argv[1:3]], pathlib.Path(sys.argv[3])
    target.mkdir(parents=True, exist_ok=True)
    metatool(clones[0], target)
    bfcl(clones[1], target)

"""A coding agent of LangChain with a sidecar, which guards its tools, keeps its plan and remembers what worked.

No file is edited before the plan has changed (sidecar.yaml): the first edit is blocked, the model reads the reason,
adds to the plan and edits again. The next run is told which calls solved this task.

    pip install './clients/python[langchain]' langchain-openai
    UMBRA__SIDECAR__PATH=examples/langgraph_sidecar/sidecar.yaml umbra serve &
    export OPENAI_API_KEY=...              # and OPENAI_BASE_URL, OPENAI_MODEL for models of another server
    python examples/langgraph_sidecar/agent.py 'Invoices show the month before. Fix it.'
"""

import os
import sys
from collections.abc import Callable
from typing import Any

from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

from umbra_shadow import Sidecar, Umbra, quote_patterns
from umbra_shadow.adapters.langchain import UmbraMiddleware

TASK = " ".join(sys.argv[1:]) or "Invoices show the month before. Fix it."
PROMPT = "You fix bugs: search the code, then edit the file. If a tool is refused, do what the reason says."
FILES = {"invoice.py": "def month(day):\n    return day.month - 1\n"}


def search_code(text: str) -> list[str]:
    """Search the code for a text. Returns lines with their file."""
    return [f"{path}: {line}" for path, code in FILES.items() for line in code.splitlines() if text in line]


def edit_file(path: str, before: str, after: str) -> str:
    """Replace a text in a file by another."""
    if before not in FILES.get(path, ""):
        return f"{path} has no such text"
    FILES[path] = FILES[path].replace(before, after)
    return f"{path} is changed"


def plan_of(session: Sidecar) -> Callable[[str], str]:
    """Returns the tool by which the model writes its plan."""

    def add_to_plan(step: str) -> str:
        """Add a step to the plan."""
        todo = session.document("todo")
        todo.edit({"op": "append_item", "section": "plan", "text": step, "state": "open"})
        return todo.text

    return add_to_plan


def main() -> None:
    tools: list[Callable[..., Any]] = [search_code, edit_file]
    shown = [{"server": "code", "name": one.__name__, "description": one.__doc__} for one in tools]
    documents = {"todo": "# Todo\n\n## Plan\n"}
    with Umbra(agent="coder") as umbra, umbra.sidecar(task=TASK, tools=shown, documents=documents) as session:
        known = session.turn(TASK).patterns
        agent = create_agent(
            ChatOpenAI(model=os.environ.get("OPENAI_MODEL", "gpt-5-mini")),
            [*tools, plan_of(session)],
            system_prompt="\n\n".join([PROMPT, quote_patterns(known)]),
            middleware=[UmbraMiddleware(umbra, sidecar=session, server="code", effects={"search_code": "read"})],
        )
        answer = agent.invoke({"messages": [{"role": "user", "content": TASK}]})["messages"][-1].text
        session.message(answer)
        for one in session.interventions:
            print(f"{one.rule}: {one.reason}")
        print(session.document("todo").text)
    print(answer)


if __name__ == "__main__":
    main()

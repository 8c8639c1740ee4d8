"""Times of calls by the Python client and by the bare request, for `scripts/overhead.sh`: overhead.py URL ROUNDS"""

import asyncio
import gc
import http.client
import inspect
import json
import random
import statistics
import sys
import time
import uuid
from collections.abc import Callable
from typing import Any

import httpx
from umbra_shadow import AsyncUmbra, Umbra

ARGUMENTS = {"to": "ann@example.com", "subject": "Your order", "text": "It left our warehouse today. " * 30}
TOOL = {"server": "mail", "name": "send_email"}
JSON = {"content-type": "application/json"}
# Rounds before the measured ones, in which connections are made and code gets warm.
WARM = 50


def decision() -> dict[str, Any]:
    """Returns the body of a decision, as the client sends it."""
    call = {"call_id": uuid.uuid4().hex, "agent": "overhead", "run": "overhead", "deadline_ms": 60_000}
    return {**call, "tool": TOOL, "arguments": ARGUMENTS, "declared_effect": "write"}


async def measure(url: str, rounds: int) -> None:
    host = url.removeprefix("http://")
    plain, pooled, later_pooled = http.client.HTTPConnection(host), httpx.Client(), httpx.AsyncClient()
    umbra, later = (kind(url, agent="overhead", run="overhead", decision_timeout=60) for kind in (Umbra, AsyncUmbra))

    @umbra.tool(effect="write", server="mail")
    def send_email(to: str, subject: str, text: str) -> str:
        return "sent"

    @later.tool(effect="write", server="mail", name="send_email")
    async def send_email_later(to: str, subject: str, text: str) -> str:
        return "sent"

    def by_hand(path: str, body: dict[str, Any]) -> Any:
        plain.request("POST", path, json.dumps(body), JSON)
        return json.loads(plain.getresponse().read())

    async def by_hand_later(path: str, body: dict[str, Any]) -> Any:
        return (await later_pooled.post(url + path, content=json.dumps(body), headers=JSON)).json()

    with umbra.sidecar() as s:
        async with later.sidecar() as t:
            call = {"tool": TOOL, "arguments": ARGUMENTS}

            def guard(session: str | None) -> dict[str, Any]:
                return {"session": session, "call": call, "deadline_ms": 54_000}

            # Each group begins with its bare request.
            groups: list[dict[str, Callable[[], Any]]] = [
                {
                    "decision: http.client": lambda: by_hand("/v1/decide", decision()),
                    "decision: httpx": lambda: pooled.post(
                        f"{url}/v1/decide", content=json.dumps(decision()), headers=JSON
                    ).json(),
                    "umbra.decide": lambda: umbra.decide({**call, "declared_effect": "write"}),
                    "@umbra.tool": lambda: send_email(**ARGUMENTS),
                },
                {
                    "decision, async: httpx": lambda: by_hand_later("/v1/decide", decision()),
                    "await umbra.decide": lambda: later.decide({**call, "declared_effect": "write"}),
                    "@umbra.tool, async": lambda: send_email_later(**ARGUMENTS),
                },
                {
                    "question to the sidecar: http.client": lambda: by_hand("/v1/guard", guard(s.id)),
                    "s.guard": lambda: s.guard(call),
                },
                {
                    "question to the sidecar, async: httpx": lambda: by_hand_later("/v1/guard", guard(t.id)),
                    "await s.guard": lambda: t.guard(call),
                },
            ]
            kinds = [kind for group in groups for kind in group.items()]
            times: dict[str, list[float]] = {name: [] for name, _ in kinds}
            for turn in range(-WARM, rounds):
                random.shuffle(kinds)
                for name, make in kinds:
                    began = time.perf_counter()
                    made = make()
                    answer = await made if inspect.isawaitable(made) else made
                    took = time.perf_counter() - began
                    assert answer == "sent" or (answer if isinstance(answer, dict) else vars(answer))["decision"] in (
                        "execute",
                        "allow",
                    ), answer
                    umbra.flush(60), await later.flush(60)
                    if turn >= 0:
                        times[name].append(1_000 * took)
            show(groups, times)
    plain.close(), pooled.close(), umbra.close()
    await later_pooled.aclose(), await later.aclose()


def show(groups: list[dict[str, Callable[[], Any]]], times: dict[str, list[float]]) -> None:
    """Prints the rows of the table."""
    for group in groups:
        bare = statistics.median(times[next(iter(group))])
        for name in group:
            middle, late = statistics.median(times[name]), statistics.quantiles(times[name], n=100)[98]
            print(f"{'Python, ' + name:52}{middle:8.2f}{late:8.2f}{middle / bare:8.2f}")


if __name__ == "__main__":
    gc.freeze()
    asyncio.run(measure(sys.argv[1], int(sys.argv[2])))

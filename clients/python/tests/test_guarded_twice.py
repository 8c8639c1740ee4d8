"""Tests of tools with two guards around them: the decorator, and an adapter or a call by name."""

import asyncio
import json
import unittest
import urllib.request
import uuid
from typing import Any

import support
from support import PATIENT, setUpModule

from umbra_shadow import ApprovalRequired, AsyncUmbra, Umbra, UndecidedCall
from umbra_shadow.adapters._boundary import ToolBoundary

__all__ = ["setUpModule"]

AWAY = "http://127.0.0.1:9"
ASKED: dict[str, Any] = {"payment": "p1", "amount": 500}


class Case(unittest.TestCase):
    def setUp(self) -> None:
        self.ran: list[Any] = []
        self.agent = f"desk-{uuid.uuid4().hex[:8]}"
        self.umbra = self.client()

    def client(self, url: str | None = None) -> Umbra:
        umbra = Umbra(url or support.URL, agent=self.agent, decision_timeout=1.0 if url else PATIENT)
        self.addCleanup(umbra.close)
        return umbra

    def refund(self, umbra: Umbra, effect: str | None = None) -> Any:
        """Returns a guarded function with a default that no model gives."""

        @umbra.tool(server="shop", effect=effect)
        def refund(payment: str, amount: float, note: str = "none") -> str:
            self.ran.append(payment)
            return "refunded"

        return refund

    def rows(self, kind: str = "decision") -> list[Any]:
        self.assertTrue(self.umbra.flush(PATIENT))
        url = f"{support.URL}/v1/audit?agent={self.agent}&kind={kind}"
        with urllib.request.urlopen(url) as answer:
            return [json.loads(line) for line in answer.read().splitlines()]

    def rehearse(self) -> None:
        body = {"scope": "agent", "value": self.agent, "execution": "shadow", "reason": "a rehearsal"}
        self.umbra.request("PUT", "/v1/execution", body=body)


class Once(Case):
    """One decision, one approval and one outcome for both guards."""

    def approved(self, call: Any) -> None:
        """Checks a call that runs after one approval."""
        with self.assertRaises(ApprovalRequired) as asked:
            call()
        self.umbra.approvals.approve(asked.exception.approval_id, "ok")
        self.assertEqual((call(), self.ran), ("refunded", ["p1"]))
        self.assertEqual(len(list(self.umbra.approvals.list(agent=self.agent))), 1)
        self.assertEqual(([one["decision"] for one in self.rows()], len(self.rows("outcome"))), (["ask", "execute"], 1))

    def test_call_by_name_of_a_decorated_function(self) -> None:
        refund = self.refund(self.umbra)
        self.approved(lambda: self.umbra.call_tool("refund", ASKED, lambda: refund(**ASKED), server="shop"))

    def test_adapters_and_the_decorator_above_each_other(self) -> None:
        refund, guards = self.refund(self.umbra), [ToolBoundary(self.umbra, server="shop") for _ in range(2)]

        def inner() -> Any:
            return guards[1].made(guards[1].call("refund", ASKED, lambda: refund(**ASKED)))

        self.approved(lambda: guards[0].made(guards[0].call("refund", ASKED, inner)))

    def test_coroutine_functions_and_calls_that_are_made_later(self) -> None:
        umbra, ran = AsyncUmbra(support.URL, agent=self.agent, decision_timeout=PATIENT), self.ran

        @umbra.tool(server="shop")
        async def refund(payment: str, amount: float, note: str = "none") -> str:
            await asyncio.sleep(0)
            ran.append(payment)
            return "refunded"

        async def run() -> str:
            async with umbra:
                boundary = ToolBoundary(umbra, server="shop")
                begun = await boundary.begin(boundary.call("refund", ASKED))
                if begun.error is not None:
                    raise begun.error
                result: str = await boundary.end(begun.call, lambda: refund(**ASKED))
                await umbra.flush(PATIENT)
                return result

        self.approved(lambda: asyncio.run(run()))

    def test_rules_of_a_session_are_asked_once(self) -> None:
        arguments = {"payment": "p1", "amount": 20}
        with self.umbra.sidecar(task="refund") as s:
            refund = s.guardrails()(self.refund(self.umbra))
            boundary = ToolBoundary(self.umbra, s, "shop")
            boundary.made(boundary.call("refund", arguments, lambda: refund(**arguments)))
            with s.guardrails():
                tool = self.refund(self.umbra)
                self.umbra.call_tool("refund", arguments, lambda: tool(**arguments), server="shop")
        assert s.summary is not None and s.summary.session is not None
        self.assertEqual((len(self.rows()), s.summary.session.messages), (2, 2))

    def test_read_runs_while_the_server_is_away(self) -> None:
        away = self.client(AWAY)

        def call(effect: str | None) -> Any:
            tool = self.refund(away, effect=effect)
            return away.call_tool("refund", ASKED, lambda: tool(**ASKED), server="shop", effect="read")

        with self.assertLogs("umbra_shadow", "WARNING"):
            self.assertEqual((call(None), call("read")), ("refunded", "refunded"))
            self.assertRaises(UndecidedCall, call, "destructive")
        self.assertEqual(self.ran, ["p1", "p1"])


class Twice(Case):
    """Calls that have a decision of their own, though they are made within another call."""

    def test_two_names_are_told_once(self) -> None:
        refund, arguments = self.refund(self.umbra), {"payment": "p1", "amount": 20}
        with self.assertLogs("umbra_shadow", "WARNING") as logs:
            for _ in range(2):
                self.umbra.call_tool("refund", arguments, lambda: refund(**arguments))
        self.assertEqual(len(logs.output), 1)
        self.assertIn("refund is guarded twice, as refund and as shop.refund", logs.output[0])
        self.assertIn("Give both guards the same server=, or drop one", logs.output[0])
        self.assertEqual([one["tool"] for one in self.rows()], ["refund", "shop.refund"] * 2)

    def test_stricter_effect_is_decided(self) -> None:
        """A guard that takes the tool for a read leads past no rehearsal."""
        self.rehearse()

        @self.umbra.tool(effect="destructive", stub="as if")
        def get_page(url: str) -> str:
            raise AssertionError("it ran")

        self.assertEqual(self.umbra.call_tool("get_page", {"url": "a"}, lambda: get_page("a"), effect="read"), "as if")
        self.assertEqual([one["decision"] for one in self.rows()], ["execute", "stub"])

    def test_other_arguments_and_other_agents_are_decided(self) -> None:
        refund, arguments = self.refund(self.umbra), {"payment": "p1", "amount": 20}
        self.umbra.call_tool("refund", arguments, lambda: refund("p1", 30), server="shop")
        self.umbra.call_tool("refund", arguments, lambda: refund("p1", 20, note="x"), server="shop")

        def elsewhere() -> Any:
            with self.umbra.context(session="another"):
                return refund(**arguments)

        self.umbra.call_tool("refund", arguments, elsewhere, server="shop")
        self.assertEqual(len(self.rows()), 6)

    def test_function_that_calls_itself_is_decided_again(self) -> None:
        left = [1, 2]

        @self.umbra.tool(server="shop")
        def list_refunds() -> str:
            return list_refunds() if left and left.pop() else "none"

        self.umbra.call_tool("list_refunds", {}, list_refunds, server="shop")
        self.assertEqual(len(self.rows()), 3)

    def test_call_after_the_end_is_decided(self) -> None:
        """A task that the function has started keeps its context."""

        @self.umbra.tool(server="shop")
        async def list_refunds() -> str:
            return "none"

        async def run() -> None:
            later: list[Any] = []

            async def start() -> None:
                later.append(asyncio.ensure_future(wait()))

            async def wait() -> str:
                await is_over.wait()
                return await list_refunds()

            is_over, umbra = asyncio.Event(), self.umbra._core.async_client()
            await umbra.call_tool("list_refunds", {}, start, server="shop")
            is_over.set()
            await asyncio.gather(*later)
            await umbra.aclose()

        asyncio.run(run())
        self.assertEqual(len(self.rows()), 2)


if __name__ == "__main__":
    unittest.main()

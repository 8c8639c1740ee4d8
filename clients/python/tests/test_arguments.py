"""Tests of the arguments of calls: those that were decided run, and none shows what the model did not give."""

import asyncio
import unittest
import uuid
from typing import Any

import support
from support import PATIENT, Case, setUpModule

from umbra_shadow import AsyncUmbra, Blocked

__all__ = ["setUpModule"]


class Decided(Case):
    """The arguments that were decided are those that run."""

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        self.ran: list[Any] = []
        self.run_id = uuid.uuid4().hex
        self.umbra = AsyncUmbra(support.URL, agent=self.agent, run=self.run_id, decision_timeout=PATIENT)
        self.addAsyncCleanup(self.umbra.aclose)

    async def changed(self, call: Any, arguments: dict[str, Any]) -> str:
        """Returns the reason why a call is blocked whose arguments change while it is decided."""
        task = asyncio.ensure_future(call)
        await asyncio.sleep(0)
        arguments["amount"] = 9999
        with self.assertRaises(Blocked) as blocked:
            await task
        self.assertEqual(self.ran, [])
        return blocked.exception.reason

    async def test_call_with_changed_arguments_does_not_run(self) -> None:
        @self.umbra.tool(effect="write", server="bank")
        async def pay(order: dict[str, Any]) -> None:
            self.ran.append(order["amount"])

        async def send() -> None:
            self.ran.append(order["amount"])

        order: dict[str, Any] = {"amount": 1}
        self.assertEqual(await self.changed(pay(order), order), "arguments_changed")
        order = {"amount": 1}
        by_name = self.umbra.call_tool("pay", order, send, server="bank", effect="write")
        self.assertEqual(await self.changed(by_name, order), "arguments_changed")
        self.assertTrue(await self.umbra.flush(PATIENT))
        audit = await self.umbra.request("GET", "/v1/audit", query={"run": self.run_id, "kind": "outcome", "limit": 1})
        self.assertEqual(audit["outcome"]["status"], "error", audit)
        await pay(order)
        self.assertEqual(self.ran, [9999])

    async def test_judged_call_with_changed_arguments_does_not_run(self) -> None:
        async with self.sidecar() as s:

            async def pay(order: dict[str, Any]) -> None:
                self.ran.append(order["amount"])

            order: dict[str, Any] = {"amount": 1}
            self.assertEqual(await self.changed(s.guardrails()(pay)(order), order), "arguments_changed")
            order["amount"] = 1
            task = asyncio.ensure_future(s.guardrails("warn")(pay)(order))
            await asyncio.sleep(0)
            order["amount"] = 2
            with self.assertLogs("umbra_shadow", "WARNING") as logs:
                await task
            self.assertEqual((self.ran, "changed while" in logs.output[0]), ([2], True), logs.output)

    async def test_function_that_returns_no_awaitable_is_no_fault(self) -> None:
        result = await self.umbra.call_tool("pay", {}, lambda: "paid", effect="write")  # type: ignore[arg-type, return-value]
        self.assertEqual(result, "paid")
        async with self.sidecar() as s:
            result = await s.guardrails().call_tool("pay", {}, lambda: "paid")  # type: ignore[arg-type, return-value]
            self.assertEqual(result, "paid")
        away = self.quick("http://127.0.0.1:9")
        result = await away.call_tool("look", {}, lambda: "seen", effect="read")  # type: ignore[arg-type, return-value]
        self.assertEqual(result, "seen")


if __name__ == "__main__":
    unittest.main()

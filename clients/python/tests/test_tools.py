"""Tests of the boundary around tools with real servers, in shadow and live, with `tools.yaml` beside this file."""

import asyncio
import contextlib
import dataclasses
import decimal
import http.server
import json
import os
import threading
import unittest
import unittest.mock
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any, cast

from support import Server

from umbra_shadow import ApprovalRequired, Blocked, Umbra, UndecidedCall, _tools
from umbra_shadow._json import plain
from umbra_shadow._merge import merged

SERVERS: dict[str, Server] = {}


def setUpModule() -> None:
    for mode in ("shadow", "live"):
        SERVERS[mode] = Server(BOUNDARY__EXECUTION=mode)
        unittest.addModuleCleanup(SERVERS[mode].end)


class Proxy(http.server.ThreadingHTTPServer):
    """Proxy that passes questions on to a server until it hangs."""

    def __init__(self, target: Any) -> None:
        super().__init__(("127.0.0.1", 0), Passing)
        self.target, self.hangs, self.over = target, threading.Event(), threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self) -> Any:
        self.over.set()
        self.shutdown()
        self.server_close()


class Passing(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> Any:
        proxy = cast(Proxy, self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if proxy.hangs.is_set():
            proxy.over.wait(20.0)
            return
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(proxy.target + self.path, body, headers)
        with urllib.request.urlopen(request) as answer:
            said = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, format: str, *args: object) -> None:
        pass


@dataclasses.dataclass
class Refund:
    id: str
    amount: decimal.Decimal
    parts: tuple[object, ...]


@dataclasses.dataclass
class Made:
    id: str
    status: str


class Calls(unittest.TestCase):
    """Tools of a shop."""

    mode = "live"

    def setUp(self) -> None:
        self.ran: list[Any] = []
        self.url = SERVERS[self.mode].url
        self.umbra = Umbra(
            self.url, agent="python-test", session="s", run=uuid.uuid4().hex, seed="7", decision_timeout=20.0
        )
        self.addCleanup(self.umbra.close)
        self.refund, self.get_refund, self.list_refunds = self.shop(self.umbra)

    def tearDown(self) -> None:
        self.assertTrue(self.umbra.flush(20.0))

    def shop(self, umbra: Umbra) -> Any:
        @umbra.tool(effect="destructive", server="shop")
        def refund(payment: str, amount: float, note: str = "") -> dict[str, object]:
            self.ran.append(("refund", payment, amount, note))
            return {"id": "real-1", "status": "refunded"}

        @umbra.tool(effect="read", server="shop")
        def get_refund(id: str) -> dict[str, object]:
            self.ran.append(("get_refund", id))
            return {"id": id, "status": "settled"}

        @umbra.tool(effect="read", server="shop")
        def list_refunds(page: int = 0) -> dict[str, object]:
            return {"data": [{"id": f"old-{page}", "status": "settled"}], "next": None if page else "1"}

        return refund, get_refund, list_refunds

    def outcomes(self, **filters: Any) -> Any:
        """Returns the audit's outcomes of this test's run."""
        self.assertTrue(self.umbra.flush(20.0))
        run = self.umbra._core.config.place.run
        with urllib.request.urlopen(f"{self.url}/v1/audit?run={run}&kind=outcome") as answer:
            return [json.loads(line) for line in answer.read().splitlines()]


class BothModes(Calls):
    """Behaviour in every execution."""

    def test_rules_and_schemas_hold(self) -> None:
        for arguments, reason in [(("pay-1", -1), "invalid_arguments"), (("pay-1", 5000), "policy")]:
            with self.assertRaises(Blocked) as refused:
                self.refund(*arguments)
            self.assertEqual((refused.exception.reason, self.ran), (reason, []))

    def test_call_that_needs_approval_names_it(self) -> None:
        with self.assertRaises(ApprovalRequired) as asked:
            self.refund("pay-1", 500)
        self.assertTrue(asked.exception.approval_id.startswith("apr_"))
        self.assertEqual(self.ran, [])

    def test_call_that_needs_approval_gets_it_within_guardrails(self) -> None:
        with self.umbra.sidecar(task="refund") as s:
            with self.assertLogs("umbra_shadow", "WARNING"), self.assertRaises(Blocked):
                # Nothing but the rules decides about a plain function.
                s.guardrails(server="shop", name="refund")(lambda **arguments: None)(payment="pay-9", amount=500)
            with s.guardrails():
                with self.assertRaises(ApprovalRequired) as asked:
                    self.refund("pay-9", 500)
                self.umbra.approvals.approve(asked.exception.approval_id, "spoke with the customer")
                self.assertEqual(self.refund("pay-9", 500)["status"], "refunded")
        self.assertEqual(len(s.interventions), 1)

    def test_server_away_lets_only_declared_reads_run(self) -> None:
        gone = Umbra("http://127.0.0.1:9", agent="python-test", decision_timeout=1.0)

        @gone.tool(effect="read")
        def get_page(url: Any) -> Any:
            return url

        @gone.tool
        def unknown(x: Any) -> Any:
            self.ran.append(x)

        self.assertEqual(get_page("x"), "x")
        for tool in (unknown, gone.tool(effect="write")(lambda x: self.ran.append(x))):
            with self.assertRaises(UndecidedCall):
                tool(1)
        self.assertEqual(self.ran, [])

    def test_tool_that_was_called_a_write_does_not_run_while_the_server_hangs(self) -> None:
        proxy = Proxy(self.url)
        self.addCleanup(proxy.end)
        client = Umbra(f"http://127.0.0.1:{proxy.server_port}", agent="python-test", decision_timeout=2.0)
        self.addCleanup(client.close)

        @client.tool(effect="read", server="shop")
        def refund(payment: Any, amount: Any) -> Any:
            self.ran.append("refund")

        @client.tool(effect="read", server="shop")
        def get_refund(id: Any) -> Any:
            return id

        with contextlib.suppress(ApprovalRequired):
            refund("pay-1", 500)
        self.assertEqual(get_refund("a"), "a")
        client.flush(20.0)
        proxy.hangs.set()
        with self.assertRaises(UndecidedCall) as refused:
            refund("pay-1", 20)
        self.assertIn("the server has said that it is none", refused.exception.detail)
        self.assertEqual((get_refund("b"), self.ran), ("b", []))

    def test_rehearsed_changes_are_merged_into_a_result(self) -> None:
        live = {"data": [{"id": 1, "by": {"at": 1}, "tags": ["a"]}, {"id": "2"}, {"id": 3}, {"id": None}, 7], "left": 0}
        fields = {"by": {"name": "Ann", "at": None}, "tags": []}
        put = [{"id": "2", "new": 1}, {"id": "9"}]
        lists = {"items": "data", "key": "id", "put": put, "remove": ["3"], "patch": {"1": fields}}
        changed = {"id": 1, "by": {"at": None, "name": "Ann"}, "tags": []}
        data = [changed, {"id": "2", "new": 1}, {"id": None}, 7]
        for more, left, end in [("left", 0, [{"id": "9"}]), ("left", True, []), (None, True, [{"id": "9"}])]:
            laid = merged(plain({**live, "left": left}), {**lists, "more": more})
            self.assertEqual(laid, {"data": data + end, "left": left})
        record = {"items": "item", "key": "", "put": [], "remove": [], "patch": {"1": fields}}
        for result, expected in [
            ({"item": {"id": 1, "error": None}}, {"item": {"id": 1, "error": None, **fields}}),
            ({"item": {"error": "not_found"}}, {"item": {"error": "not_found"}}),
            ({"item": None}, {"item": None}),
            ("text", "text"),
        ]:
            self.assertEqual(merged(result, record), expected)
        text = {"edits": [{"oldText": "was", "newText": "is"}], "remove": ["b"], "add": ["a", "c"]}
        for items, result, expected in [
            ("at.text", {"at": {"text": "a\nb\nwas was"}}, {"at": {"text": "a\nis was\nc"}}),
            ("", "was", "is\na\nc"),
            ("text", {"text": 5}, {"text": 5}),
        ]:
            self.assertEqual(merged(result, {"items": items, "key": "", "text": text}), expected)

    def test_recursive_result_is_returned_unchanged(self) -> None:
        result: dict[str, list[Any]] = {"data": []}
        result["data"] += [result, result]
        call = _tools.Call.given(_tools.Tool(name="list"), {}, lambda: result)
        answer = {"merge": {"items": "data", "key": "id", "remove": ["a"]}}
        with self.assertLogs("umbra_shadow", "WARNING"), unittest.mock.patch.object(_tools, "MOST_MERGED", 10_000):
            self.assertIs(call.merged(result, answer), result)

    def test_odd_results_and_errors_reach_the_caller(self) -> None:
        class Odd(Exception):
            def __str__(self) -> Any:
                raise ZeroDivisionError

        many, deep = list(range(300_000)), cast(Any, [])
        for _ in range(5_000):
            deep = [deep]

        @self.umbra.tool(effect="read", server="shop", name="get_refund")
        def get(id: Any) -> Any:
            if id == "odd":
                raise Odd
            return many if id == "many" else deep

        self.assertIs(get("many"), many)
        self.assertIs(get("deep"), deep)
        self.assertRaises(Odd, get, "odd")

    def test_coroutine_tool_is_called_concurrently(self) -> None:
        @self.umbra.tool(effect="read", server="shop")
        async def get_refund(id: Any) -> Any:
            return id

        async def many() -> Any:
            async with contextlib.AsyncExitStack() as stack:
                stack.push_async_callback(self.umbra._core.async_client().aclose)
                return await asyncio.gather(*(get_refund(str(n)) for n in range(50)))

        self.assertEqual(asyncio.run(many()), [str(n) for n in range(50)])

    def test_wrong_use_is_refused_at_once(self) -> None:
        def generator() -> Iterator[int]:
            yield 1

        with self.assertRaises(TypeError):
            self.umbra.tool(generator)
        with self.assertRaises(ValueError):
            self.umbra.tool(effect="harmless")
        with self.assertRaises(ValueError):
            Umbra("localhost:7817")
        with self.assertRaises(TypeError):
            self.refund("pay-1")


class BothModesInShadow(BothModes):
    mode = "shadow"


class InShadow(Calls):
    mode = "shadow"

    def test_run_in_shadow_reads_its_own_writes(self) -> None:
        made = self.refund("pay-1", 49.99)
        self.assertEqual(made, {"id": "shadow-1", "status": "refunded"})
        self.assertEqual(self.get_refund("shadow-1"), made)
        pages = [[item["id"] for item in self.list_refunds(page)["data"]] for page in (0, 1)]
        self.assertEqual(pages, [["old-0"], ["old-1", "shadow-1"]])
        self.assertEqual(self.get_refund(id="old-1")["status"], "settled")
        self.assertEqual(self.ran, [("get_refund", "old-1")])

    def test_process_is_the_run_of_calls_without_one(self) -> None:
        with Umbra(self.url, agent="python-process", decision_timeout=20.0) as umbra:
            refund, get_refund, _ = self.shop(umbra)
            made = [refund(f"pay-{n}", 49.99)["id"] for n in (1, 2)]
            self.assertEqual(made, ["shadow-1", "shadow-2"])
            self.assertEqual([get_refund(id)["status"] for id in made], ["refunded"] * 2)
        self.assertEqual(self.ran, [])

    def test_tool_without_contract_returns_its_own_stub_or_is_blocked(self) -> None:
        @self.umbra.tool(effect="write", stub=lambda to, text: {"sent_to": to})
        async def send(to: Any, text: Any) -> Any:
            self.ran.append("send")

        @self.umbra.tool(effect="write")
        def post(text: Any) -> Any:
            self.ran.append("post")

        self.assertEqual(asyncio.run(send("a@example.com", "hi")), {"sent_to": "a@example.com"})
        with self.assertRaises(Blocked) as refused:
            post("hi")
        self.assertEqual(refused.exception.reason, "no_contract")
        self.assertEqual(post("hi", _guard_stub={"ok": True}), {"ok": True})  # type: ignore[call-arg]
        self.assertEqual(self.ran, [])

    def test_stub_is_returned_as_written_by_one_decision(self) -> None:
        refunded = Refund("re_1", decimal.Decimal("49.99"), ("a", b"b"))
        schema = {"type": "object", "required": ["id"], "properties": {"status": {"enum": ["pending", "refunded"]}}}
        for stub, output_schema in [
            (refunded, None),
            ({"status": "refunded", "id": "t1"}, schema),
            (None, None),
            (("a", 1), None),
            (b"bytes", None),
        ]:
            run = uuid.uuid4().hex

            @self.umbra.tool(effect="write", name="settle", stub=stub, output_schema=output_schema)
            def settle(payment: Any) -> Any:
                self.ran.append(payment)

            with self.umbra.context(run=run):
                self.assertIs(settle("pay-1"), stub)
            url = f"{self.url}/v1/audit?run={run}"
            with urllib.request.urlopen(url) as answer:
                rows = [json.loads(line) for line in answer.read().splitlines()]
            self.assertEqual([row["decision"] for row in rows], ["stub"], stub)
        self.assertEqual(self.ran, [])

        @self.umbra.tool(effect="write", stub={"status": "gone"}, output_schema=schema)
        def odd() -> Any:
            self.ran.append("odd")

        with self.assertRaises(Blocked) as refused:
            odd()
        self.assertEqual(refused.exception.reason, "invalid_stub")

    def test_stub_of_a_contract_has_the_annotated_type(self) -> None:
        @self.umbra.tool(effect="destructive", server="shop", name="refund")
        def typed(payment: str, amount: float) -> Made:
            raise AssertionError("it ran")

        @self.umbra.tool(effect="destructive", server="shop", name="refund")
        def wrong(payment: str, amount: float) -> int:
            raise AssertionError("it ran")

        @self.umbra.tool(effect="destructive", server="shop", name="refund")
        def nothing(payment: str, amount: float) -> None:
            raise AssertionError("it ran")

        self.assertEqual(typed("pay-1", 2.0), Made("shadow-1", "refunded"))
        self.assertIsNone(nothing("pay-1", 2.0))
        with self.assertRaises(Blocked) as refused:
            wrong("pay-1", 2.0)
        self.assertEqual(refused.exception.reason, "invalid_stub")


class Refused(unittest.TestCase):
    def call(self, umbra: Umbra, amount: int = 20) -> Blocked:
        with self.assertRaises(Blocked) as refused:
            umbra.call_tool("refund", {"payment": "p1", "amount": amount}, lambda: self.fail("it ran"), server="shop")
        return refused.exception

    def test_refused_key_is_told_once_to_the_operator_and_not_to_the_model(self) -> None:
        server = Server(("keys", "create", "--name", "k", "--scope", "read", "--json"))
        self.addCleanup(server.end)
        for key, status in ((None, 401), (json.loads(server.said[0])["key"], 403)):
            umbra = Umbra(server.url, key, agent="a", decision_timeout=20.0)
            self.addCleanup(umbra.close)
            with self.assertLogs("umbra_shadow", "WARNING") as logs:
                blocked = [self.call(umbra) for _ in range(2)]
            self.assertIn(f"no call is decided, so none runs: POST /v1/decide was refused ({status})", logs.output[0])
            self.assertEqual(len(logs.output), 1)
            for one in blocked:
                self.assertIn("no decision about this agent's calls can be had", str(one))
                self.assertNotIn("umbra keys", str(one))
    def test_read_that_is_not_believed_is_told_once(self) -> None:
        server = Server(("keys", "create", "--name", "k", "--scope", "decide", "--json"))
        self.addCleanup(server.end)
        umbra = Umbra(server.url, json.loads(server.said[0])["key"], agent="a", decision_timeout=20.0)
        self.addCleanup(umbra.close)
        with self.assertLogs("umbra_shadow", "WARNING") as logs:
            for name in ("frobnicate", "frobnicate", "get_page"):
                self.assertEqual(umbra.call_tool(name, {}, lambda: 1, effect="read"), 1)
        self.assertEqual(len(logs.output), 1)
        self.assertIn("frobnicate is declared a read, and counts as none", logs.output[0])
        self.assertIn("a key without the scope `declare`", logs.output[0])

    def test_server_that_is_away_is_told_once(self) -> None:
        away = Umbra("http://127.0.0.1:9", agent="a", decision_timeout=1.0)
        with self.assertLogs("umbra_shadow", "WARNING") as logs:
            self.call(away)
            self.call(away)
        self.assertEqual(len(logs.output), 1)
        self.assertIn("calls that may change something do not run, such as that of shop.refund", logs.output[0])


class Live(Calls):
    def test_failing_stub_does_not_stop_a_live_call(self) -> None:
        @self.umbra.tool(effect="write", stub=lambda payment: 1 // 0)
        def settle(payment: Any) -> Any:
            return "settled"

        self.assertEqual(settle("pay-1"), "settled")

    def test_live_call_runs_and_is_reported(self) -> None:
        self.assertEqual(self.refund("pay-1", 20, note="x")["id"], "real-1")
        self.assertEqual(self.ran, [("refund", "pay-1", 20, "x")])
        [outcome] = self.outcomes()
        self.assertEqual((outcome["status"], outcome["tool"]), ("ok", "shop.refund"), outcome)

    def test_methods_of_classes_are_tools(self) -> None:
        umbra = self.umbra

        class Pages:
            @classmethod
            @umbra.tool(effect="read")
            def get_page(cls, url: str) -> str:
                return f"{cls.__name__} {url}"

            @staticmethod
            @umbra.tool(effect="read")
            def get_text(url: str) -> str:
                return url

        self.assertEqual((Pages.get_page("a"), Pages().get_text("b")), ("Pages a", "b"))
        self.assertEqual(len(self.outcomes()), 2)

    def test_error_of_the_tool_reaches_the_caller_and_the_audit(self) -> None:
        @self.umbra.tool(effect="read")
        def get_page(url: Any) -> Any:
            raise KeyError(url)

        with self.assertRaises(KeyError):
            get_page("x")
        [outcome] = self.outcomes()
        self.assertEqual(outcome["status"], "error", outcome)

    def test_safe_mode_of_the_program_blocks_live_writes(self) -> None:
        for name, value in [("AGENT_SAFE_MODE", "true"), ("agent_safe_mode", "on")]:
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name, None)
            with self.assertRaises(Blocked) as refused:
                self.refund("pay-1", 20)
            self.assertEqual((refused.exception.reason, self.ran), ("safe_mode_mismatch", []), name)
            os.environ.pop(name)


if __name__ == "__main__":
    unittest.main()

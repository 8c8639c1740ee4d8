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

from support import Server
from umbra_shadow import ApprovalRequired, AsyncUmbra, Blocked, StubFault, Umbra, UndecidedCall, _tools
from umbra_shadow._json import plain
from umbra_shadow._merge import merged

SERVERS = {}


def setUpModule():
    for mode in ("shadow", "live"):
        SERVERS[mode] = Server(BOUNDARY__EXECUTION=mode)
        unittest.addModuleCleanup(SERVERS[mode].end)


class Between(http.server.BaseHTTPRequestHandler):
    """Proxy that passes questions on to the server until it is told to hang."""

    hangs, over = threading.Event(), threading.Event()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.hangs.is_set():
            self.over.wait(20.0)
            return
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.server.target + self.path, body, headers)
        with urllib.request.urlopen(request) as answer:
            said = answer.read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


@dataclasses.dataclass
class Refund:
    id: str
    amount: decimal.Decimal
    parts: tuple


@dataclasses.dataclass
class Made:
    id: str
    status: str


class Calls:
    """Tests that hold in every execution."""

    mode: str
    kind = Umbra

    def setUp(self):
        self.ran = []
        self.url = SERVERS[self.mode].url
        self.umbra = umbra = Umbra(self.url, agent="python-test", session="s", run=uuid.uuid4().hex, seed="7", timeout=20.0)

        @umbra.tool(effect="destructive", server="shop")
        def refund(payment: str, amount: float, note: str = "") -> dict:
            self.ran.append(("refund", payment, amount, note))
            return {"id": "real-1", "status": "refunded"}

        @umbra.tool(effect="read", server="shop")
        def get_refund(id: str) -> dict:
            self.ran.append(("get_refund", id))
            return {"id": id, "status": "settled"}

        @umbra.tool(effect="read", server="shop")
        def list_refunds(page: int = 0) -> dict:
            return {"data": [{"id": f"old-{page}", "status": "settled"}], "next": None if page else "1"}

        self.refund, self.get_refund, self.list_refunds = refund, get_refund, list_refunds

    def tearDown(self):
        self.assertTrue(self.umbra.flush(20.0))

    @unittest.skipUnless(MODE == "shadow", "of a rehearsal")
    def test_a_rehearsal_reads_what_it_only_seemed_to_write(self):
        made = self.refund("pay-1", 49.99)
        self.assertEqual(made, {"id": "shadow-1", "status": "refunded"})
        self.assertEqual(self.get_refund("shadow-1"), made)
        pages = [[item["id"] for item in self.list_refunds(page)["data"]] for page in (0, 1)]
        self.assertEqual(pages, [["old-0"], ["old-1", "shadow-1"]])
        self.assertEqual(self.get_refund(id="old-1")["status"], "settled")
        self.assertEqual(self.ran, [("get_refund", "old-1")])

    @unittest.skipUnless(MODE == "shadow", "of a rehearsal")
    def test_without_a_run_the_process_remembers_what_it_only_seemed_to_write(self):
        umbra = Umbra(agent="python-process", timeout=20.0)
        refund, get_refund = umbra.tool(**SHOP)(self.real_refund), umbra.tool(**SHOP)(self.real_get_refund)
        made = [refund(f"pay-{n}", 49.99)["id"] for n in (1, 2)]
        self.assertEqual(made, ["shadow-1", "shadow-2"])
        self.assertEqual([self.get_refund(id)["status"] for id in made], ["refunded"] * 2)
        self.assertEqual(self.ran, [])

    @unittest.skipUnless(MODE == "shadow", "of a rehearsal")
    def test_without_a_contract_the_tools_own_stub_is_returned_or_nothing_runs(self):
        @umbra.tool(effect="write", stub=lambda to, text: {"sent_to": to})
        async def send(to, text):
            self.ran.append("send")

        @umbra.tool(effect="write")
        def post(text):
            self.ran.append("post")

        self.assertEqual(asyncio.run(send("a@example.com", "hi")), {"sent_to": "a@example.com"})
        with self.assertRaises(Blocked) as refused:
            post("hi")
        self.assertEqual(refused.exception.reason, "no_contract")
        self.assertEqual(post("hi", _guard_stub={"ok": True}), {"ok": True})
        self.assertEqual(self.ran, [])

    @unittest.skipUnless(MODE == "shadow", "of a rehearsal")
    def test_a_stub_is_returned_as_its_author_wrote_it_by_one_decision(self):
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

            @umbra.tool(effect="write", name="settle", stub=stub, output_schema=output_schema)
            def settle(payment):
                self.ran.append(payment)

            with umbra.context(run=run):
                self.assertIs(settle("pay-1"), stub)
            url = f"{self.url}/v1/audit?run={run}"
            with urllib.request.urlopen(url) as answer:
                rows = [json.loads(line) for line in answer.read().splitlines()]
            self.assertEqual([row["decision"] for row in rows], ["stub"], stub)
        self.assertEqual(self.ran, [])

        @umbra.tool(effect="write", stub={"status": "gone"}, output_schema=schema)
        def odd():
            self.ran.append("odd")

        with self.assertRaises(Blocked) as refused:
            odd()
        self.assertEqual(refused.exception.reason, "invalid_stub")

    @unittest.skipUnless(MODE == "shadow", "of a rehearsal")
    def test_what_a_contract_says_has_the_type_that_the_function_returns(self):
        @umbra.tool(effect="destructive", server="shop", name="refund")
        def typed(payment: str, amount: float) -> Made:
            raise AssertionError("it ran")

        @umbra.tool(effect="destructive", server="shop", name="refund")
        def wrong(payment: str, amount: float) -> int:
            raise AssertionError("it ran")

        @umbra.tool(effect="destructive", server="shop", name="refund")
        def nothing(payment: str, amount: float) -> None:
            raise AssertionError("it ran")

        self.assertEqual(typed("pay-1", 2.0), Made("shadow-1", "refunded"))
        self.assertIsNone(nothing("pay-1", 2.0))
        with self.assertRaises(Blocked) as refused:
            wrong("pay-1", 2.0)
        self.assertEqual(refused.exception.reason, "invalid_stub")

    @unittest.skipUnless(MODE == "live", "of calls that run")
    def test_a_stub_that_cannot_be_made_stops_no_call_that_runs(self):
        @umbra.tool(effect="write", stub=lambda payment: 1 // 0)
        def settle(payment):
            return "settled"

        self.assertEqual(settle("pay-1"), "settled")

    @unittest.skipUnless(MODE == "live", "of calls that run")
    def test_what_may_run_runs_and_its_result_passes_unchanged(self):
        self.assertEqual(self.refund("pay-1", 20, note="x")["id"], "real-1")
        self.assertEqual(self.ran, [("refund", "pay-1", 20, "x")])

    @unittest.skipUnless(MODE == "live", "of calls that run")
    def test_an_error_of_the_tool_is_the_callers(self):
        @umbra.tool(effect="read")
        def get_page(url):
            raise KeyError(url)

        with self.assertRaises(KeyError):
            get_page("x")

    @unittest.skipUnless(MODE == "live", "of calls that run")
    def test_a_program_in_safe_mode_runs_nothing_that_the_server_takes_for_live(self):
        for name, value in [("AGENT_SAFE_MODE", "true"), ("agent_safe_mode", "on")]:
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name, None)
            with self.assertRaises(Blocked) as refused:
                self.refund("pay-1", 20)
            self.assertEqual((refused.exception.reason, self.ran), ("safe_mode_mismatch", []), name)
            os.environ.pop(name)

    def test_rules_and_schemas_hold_in_every_mode(self):
        for arguments, reason in [(("pay-1", -1), "invalid_arguments"), (("pay-1", 5000), "policy")]:
            with self.assertRaises(Blocked) as refused:
                self.refund(*arguments)
            self.assertEqual((refused.exception.reason, self.ran), (reason, []))

    def test_what_needs_an_approval_says_who_is_asked(self):
        with self.assertRaises(ApprovalRequired) as asked:
            self.refund("pay-1", 500)
        self.assertTrue(asked.exception.approval_id.startswith("apr_"))
        self.assertEqual(self.ran, [])

    def test_a_server_that_is_away_lets_reads_run_and_nothing_else(self):
        gone = umbra.Client(url="http://127.0.0.1:9", agent="python-test", timeout=1.0)

        @umbra.tool(effect="read", client=gone)
        def get_page(url):
            return url

        @umbra.tool(client=gone)
        def unknown(x):
            self.ran.append(x)

        self.assertEqual(get_page("x"), "x")
        for tool in (unknown, umbra.tool(effect="write", client=gone)(lambda x: self.ran.append(x))):
            with self.assertRaises(UndecidedCall):
                tool(1)
        self.assertEqual(self.ran, [])

    def test_what_the_server_has_called_no_read_does_not_run_while_it_hangs(self):
        between = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Between)
        threading.Thread(target=between.serve_forever, daemon=True).start()
        self.addCleanup(lambda: (Between.over.set(), between.shutdown(), between.server_close()))
        client = umbra.Client(url=f"http://127.0.0.1:{between.server_port}", agent="python-test", timeout=20.0)

        @umbra.tool(effect="read", server="shop", client=client)
        def refund(payment, amount):
            self.ran.append("refund")

        @umbra.tool(effect="read", server="shop", client=client)
        def get_refund(id):
            return id

        with contextlib.suppress(ApprovalRequired):
            refund("pay-1", 500)
        self.assertEqual(get_refund("a"), "a")
        client.flush(20.0)
        Between.hangs.set()
        client.timeout = 0.2
        with self.assertRaises(UndecidedCall) as refused:
            refund("pay-1", 20)
        self.assertIn("the server has said that it is none", refused.exception.detail)
        self.assertEqual((get_refund("b"), self.ran), ("b", []))

    def test_a_result_is_merged_as_the_server_merges_it(self):
        live = {"data": [{"id": 1, "by": {"at": 1}, "tags": ["a"]}, {"id": "2"}, {"id": 3}, {"id": None}, 7], "left": 0}
        fields = {"by": {"name": "Ann", "at": None}, "tags": []}
        put = [{"id": "2", "new": 1}, {"id": "9"}]
        lists = {"items": "data", "key": "id", "put": put, "remove": ["3"], "patch": {"1": fields}}
        changed = {"id": 1, "by": {"at": None, "name": "Ann"}, "tags": []}
        data = [changed, {"id": "2", "new": 1}, {"id": None}, 7]
        for more, left, end in [("left", 0, [{"id": "9"}]), ("left", True, []), (None, True, [{"id": "9"}])]:
            merged = umbra._merge(umbra._plain({**live, "left": left}), {**lists, "more": more})
            self.assertEqual(merged, {"data": data + end, "left": left})
        record = {"items": "item", "key": "", "put": [], "remove": [], "patch": {"1": fields}}
        for result, expected in [
            ({"item": {"id": 1, "error": None}}, {"item": {"id": 1, "error": None, **fields}}),
            ({"item": {"error": "not_found"}}, {"item": {"error": "not_found"}}),
            ({"item": None}, {"item": None}),
            ("text", "text"),
        ]:
            self.assertEqual(umbra._merge(result, record), expected)
        text = {"edits": [{"oldText": "was", "newText": "is"}], "remove": ["b"], "add": ["a", "c"]}
        for items, result, expected in [
            ("at.text", {"at": {"text": "a\nb\nwas was"}}, {"at": {"text": "a\nis was\nc"}}),
            ("", "was", "is\na\nc"),
            ("text", {"text": 5}, {"text": 5}),
        ]:
            self.assertEqual(umbra._merge(result, {"items": items, "key": "", "text": text}), expected)

    def test_a_result_that_holds_itself_returns_as_it_is(self):
        result = {"data": []}
        result["data"] += [result, result]
        run = umbra._Run(None, {"call_id": "c"}, {"merge": {"items": "data", "key": "id", "remove": ["a"]}}, {})
        with self.assertLogs("umbra", "WARNING"), unittest.mock.patch.object(umbra, "_MOST_MERGED", 10_000):
            self.assertIs(run.finish(lambda: result), result)

    def test_what_a_tool_answers_is_its_callers_whatever_it_is(self):
        class Odd(Exception):
            def __str__(self):
                raise ZeroDivisionError

        many, deep = list(range(300_000)), []
        for _ in range(5_000):
            deep = [deep]

        @umbra.tool(effect="read", server="shop", name="get_refund")
        def get(id):
            if id == "odd":
                raise Odd
            return many if id == "many" else deep

        self.assertIs(get("many"), many)
        self.assertIs(get("deep"), deep)
        self.assertRaises(Odd, get, "odd")

    def test_threads_and_tasks_share_a_client(self):
        @umbra.tool(effect="read", server="shop")
        async def get_refund(id):
            return id

        async def many():
            return await asyncio.gather(*(get_refund(str(n)) for n in range(50)))

        self.assertEqual(asyncio.run(many()), [str(n) for n in range(50)])

    def test_what_is_no_tool_is_refused_at_once(self):
        with self.assertRaises(TypeError):
            umbra.tool(lambda: (yield))
        with self.assertRaises(ValueError):
            umbra.tool(effect="harmless")
        with self.assertRaises(ValueError):
            umbra.Client(url="localhost:7817")
        with self.assertRaises(TypeError):
            self.refund("pay-1")


if __name__ == "__main__":
    unittest.main()

"""Tests of the arguments of calls: those that were decided run, and none shows what the model did not give."""

import asyncio
import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import unittest
import unittest.mock
import uuid
from typing import Any

import pydantic
import pydantic.dataclasses
import support
from support import PATIENT, Case, Peer, answers, setUpModule

from umbra_shadow import APIError, AsyncFakeSidecar, AsyncUmbra, Blocked, Umbra, UndecidedCall, _tools
from umbra_shadow._guardrails import told
from umbra_shadow._json import encoded

__all__ = ["setUpModule"]


def nested(levels: int) -> Any:
    inner: Any = 1
    for _ in range(levels):
        inner = [inner]
    return inner


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

    async def test_arguments_that_cannot_be_stored_are_not_decided_in_another_form(self) -> None:
        async def run() -> None:
            self.ran.append(1)

        nul, key = r"contains U\+0000, which cannot be stored", "a\0b"
        cases: list[tuple[Any, str]] = [
            ("x\0y", nul),
            ({key: 1}, nul),
            ([["x\0y"]], nul),
            *((nested(levels), "nested more than 32 deep") for levels in (31, 32, 50)),
            *((nested(levels), "nested too deeply") for levels in (70, 900)),
        ]
        fake = AsyncFakeSidecar()
        async with self.sidecar() as s, fake:
            for value, wanted in cases:
                for call in (
                    self.umbra.call_tool("get_x", {"a": value}, run, effect="read"),
                    s.guardrails().call_tool("get_x", {"a": value}, run),
                    fake.guardrails().call_tool("get_x", {"a": value}, run),
                ):
                    with self.assertRaisesRegex(Blocked, wanted) as blocked:
                        await call
                    self.assertIn(blocked.exception.reason, ("invalid_request", "unreadable"))
            asked = {"tool": "get_x", "arguments": {"a": "x\0y"}}
            for question in (self.umbra.decide(asked), s.guard(asked), s.turn(planned_calls=[asked])):
                with self.assertRaisesRegex(APIError, nul):
                    await question
            # The deepest arguments that are decided.
            await self.umbra.call_tool("get_x", {"a": nested(30)}, run, effect="read")
            await s.guardrails().call_tool("get_x", {"a": nested(29)}, run)
            self.assertEqual(self.ran, [1, 1])

    async def test_model_is_told_what_is_wrong_with_the_question(self) -> None:
        async def run() -> None:
            raise AssertionError("it ran")

        with self.assertRaises(Blocked) as refused:
            await self.umbra.call_tool("get_x", dict.fromkeys("abcd", "\0"), run)
        fault = "contains U+0000, which cannot be stored: leave the character out"
        faults = "; ".join(f"/arguments/{name}: {fault}" for name in "abc")
        listed = "the request has invalid values; errors lists them"
        self.assertEqual(refused.exception.detail, f"Umbra refused the question: {listed}: {faults}")

    async def test_function_that_returns_no_awaitable_is_no_fault(self) -> None:
        result = await self.umbra.call_tool("pay", {}, lambda: "paid", effect="write")  # type: ignore[arg-type, return-value]
        self.assertEqual(result, "paid")
        async with self.sidecar() as s:
            result = await s.guardrails().call_tool("pay", {}, lambda: "paid")  # type: ignore[arg-type, return-value]
            self.assertEqual(result, "paid")
        away = self.quick("http://127.0.0.1:9")
        result = await away.call_tool("look", {}, lambda: "seen", effect="read")  # type: ignore[arg-type, return-value]
        self.assertEqual(result, "seen")


class Connection:
    def __repr__(self) -> str:
        return "Connection(postgres://app:pw@db/prod)"


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Options:
    page: int
    on: object = dataclasses.field(default_factory=Connection)


class Query(pydantic.BaseModel):
    text: str
    price: decimal.Decimal = decimal.Decimal("1.50")


@dataclasses.dataclass
class Account:
    owner: str
    token: str = dataclasses.field(default="pw-1", repr=False)
    _cache: str = "pw-2"


class Login(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    user: str
    word: str = pydantic.Field(default="pw-3", repr=False)
    code: str = pydantic.Field(default="pw-4", exclude=True)
    pin: pydantic.SecretStr = pydantic.SecretStr("pw-5")
    within: Any = None

    @pydantic.computed_field(repr=False)  # type: ignore[prop-decorator]
    @property
    def digest(self) -> str:
        return self.word


Logins = pydantic.RootModel[list[Login]]


@pydantic.dataclasses.dataclass
class Device:
    name: str
    serial: str = pydantic.Field(default="pw-6", repr=False)
    key: str = pydantic.Field(default="pw-7", exclude=True)


class Forms(unittest.TestCase):
    """Arguments as JSON."""

    def sent(self, **arguments: Any) -> dict[str, Any]:
        return _tools.Call.given(_tools.Tool(name="x"), arguments, lambda: None).arguments

    def test_object_of_an_unknown_class_is_sent_as_its_class(self) -> None:
        deep: Any = Connection()
        for _ in range(20):
            deep = {"in": Options(1, deep)}
        sent = self.sent(a=Connection(), b=[{"c": Connection()}], d={Connection(): 1, ("e", Connection()): 2}, f=deep)
        self.assertEqual((sent["a"], sent["b"]), ("<Connection>", [{"c": "<Connection>"}]))
        self.assertNotIn("pw", json.dumps(sent))
        self.assertEqual(self.sent(a=Options(1), b=Connection, c=len)["a"], {"page": 1, "on": "<Connection>"})
        with Umbra("http://127.0.0.1:9") as umbra:
            asked = umbra._decision_request({"tool": "x", "arguments": {"a": Connection()}})
        self.assertEqual(asked.body["arguments"], {"a": "<Connection>"})

    def test_values_of_known_classes_are_sent_as_they_are(self) -> None:
        id = uuid.UUID(int=7)
        for value, wanted in [
            (decimal.Decimal("1.50"), "1.50"),
            (id, str(id)),
            (pathlib.PurePosixPath("a/b"), "a/b"),
            (ipaddress.ip_address("10.0.0.1"), "10.0.0.1"),
            (pydantic.TypeAdapter(pydantic.AnyUrl).validate_python("https://a.example/x"), "https://a.example/x"),
            (datetime.date(2026, 1, 2), "2026-01-02"),
            (datetime.timezone.utc, "UTC"),
            (b"a\xff", "a\\xff"),
            (Color.RED, "red"),
            (collections.deque([1, 2]), [1, 2]),
            (range(2), [0, 1]),
            (Query(text="x"), {"text": "x", "price": "1.50"}),
            ({1: "a", None: "b", Color.RED: "c"}, {"1": "a", "None": "b", "red": "c"}),
        ]:
            self.assertEqual(self.sent(x=value)["x"], wanted, value)

    def test_fields_that_their_class_hides_are_left_out(self) -> None:
        account, device = {"owner": "ann"}, {"name": "d"}
        login = {"user": "ann", "pin": "<SecretStr>", "within": None}
        for value, wanted in [
            (Account("ann"), account),
            ([{"a": Account("ann")}], [{"a": account}]),
            (Device("d"), device),
            (Login.model_validate({"user": "ann", "_own": "pw-8", "more": 1}), {**login, "more": 1}),
            (Login(user="ann", within=(Device("d"), Account("ann"))), {**login, "within": [device, account]}),
            (Login(user="ann", within=[{"b": Login(user="ann")}]), {**login, "within": [{"b": login}]}),
            (Logins([Login(user="ann")]), [login]),
        ]:
            self.assertEqual(self.sent(x=value)["x"], wanted)
            self.assertNotIn("pw-", json.dumps(self.sent(x=value)))

    def test_hidden_fields_of_results_are_left_out(self) -> None:
        core = unittest.mock.Mock()
        login = {"user": "ann", "pin": "**********", "within": [{"owner": "ann"}, repr(Connection())]}
        for result, wanted in [
            (Account("ann"), {"owner": "ann"}),
            (Login(user="ann", within=(Account("ann"), Connection())), login),
        ]:
            call = _tools.Call.given(_tools.Tool(name="x"), {}, lambda: None)
            _tools.Outcome(core, call).succeeded(result)
            self.assertEqual(core.report.call_args.args[1]["result"], wanted)
            self.assertEqual(json.loads(told({"tool": "x"}, result)["results"][0]["content"]), wanted)
            self.assertEqual(json.loads(encoded({"content": result})), {"content": wanted})

        def find() -> Device:
            return Device("d", serial="s-1")

        call = _tools.Call.of_function(_tools.Tool(find), (), {})
        merge = {"items": "", "patch": {"": {"name": "e"}}}
        self.assertEqual(call.merged(find(), {"merge": merge}), Device("e", "s-1"))

    def test_unequal_bytes_are_unequal_as_json(self) -> None:
        for value, wanted in {
            b"\xff\xfegood": r"\xff\xfegood",
            b"\xfa\xfbgood": r"\xfa\xfbgood",
            rb"\xff\xfegood": r"\x5cxff\x5cxfegood",
            b"\\\xff": r"\\xff",
            b"PK\0\3": "PK\\x00\3",
            "a\\b ä\n".encode(): "a\\b ä\n",
        }.items():
            for kind in (bytes, bytearray, memoryview):
                given: Any = kind(value)
                self.assertEqual(self.sent(x=given, y={"z": [given]}), {"x": wanted, "y": {"z": [wanted]}})
                self.assertEqual(json.loads(encoded(given)), wanted)

    def test_argument_without_end_is_told_with_its_tool(self) -> None:
        ring: list[Any] = []
        ring.append(ring)
        with Umbra("http://127.0.0.1:9") as umbra:
            words = r"^bank.pay was not run \(unreadable\): its arguments have no form in JSON: "
            with self.assertRaisesRegex(Blocked, words):
                umbra.call_tool("pay", {"order": ring}, lambda: self.fail("it ran"), server="bank")

    def test_values_that_json_does_not_have_equal_no_text(self) -> None:
        wanted = ["<float inf>", "<float -inf>", "<float nan>"]
        self.assertEqual(self.sent(x=[float("inf"), -float("inf"), float("nan")])["x"], wanted)
        halves = ["a\ud800b", "\udc00?", "\ud83d\ude00", {"\ud800": 1}]
        self.assertEqual(self.sent(x=halves)["x"], ["a\ufffdb", "\ufffd?", "\U0001f600", {"\ufffd": 1}])
        self.assertEqual(json.loads(encoded({"\ud800": "\udc00"})), {"\ufffd": "\ufffd"})


class Away(Case):
    async def test_model_is_not_told_the_address(self) -> None:
        async def pay() -> None:
            raise AssertionError("it ran")

        proxy = answers(503, b'{"detail": "busy at 10.1.2.3"}')
        async with Peer(proxy) as busy, Peer(answers(200, b"{}")) as other:
            for url in ("http://127.0.0.1:9", busy.url, other.url):
                with self.assertLogs("umbra_shadow", "WARNING") as logs, self.assertRaises(UndecidedCall) as undecided:
                    await self.patient(url).call_tool("pay", {}, pay, effect="write")
                told = str(undecided.exception)
                self.assertTrue(told.startswith("pay was not run (unavailable): Umbra did not answer"), told)
                self.assertNotRegex(told, r"http:|127\.|10\.1|connection")
                self.assertIn(url, logs.output[0])
                self.assertIn(url, str(undecided.exception.__cause__))
        async with Peer(answers(400, b'{"detail": "no"}')) as refusing:
            with self.assertRaises(Blocked) as refused:
                await self.patient(refusing.url).call_tool("pay", {}, pay, effect="write")
            self.assertEqual(refused.exception.detail, "Umbra refused the question: no")


class LongTexts(Case):
    async def test_long_text_without_an_answer_is_blocked(self) -> None:
        padded = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8" + " x" * 2_000_000
        async with self.sidecar() as s:
            told, asked = await s.message(padded), await s.guard(message=padded)
            self.assertEqual((told.decision, told.said.decision, asked.decision), ("block", "block", "block"))
            self.assertIn("so long that the server did not judge it", str(asked.reason))
            self.assertTrue(told.blocked and told.unjudged and told.degraded and asked.unjudged, told)
            self.assertFalse((await s.message("short")).blocked)
            # Without a text there is nothing to hold back.
            self.assertFalse((await s.message(results=[{"tool": "web.fetch", "content": padded}])).blocked)
        async with Peer(answers(503, b"{}")) as away, self.sidecar(client=self.patient(away.url)) as s:
            self.assertFalse((await s.guard(message="short")).blocked)
            self.assertTrue((await s.guard(message="x" * 100_000)).blocked)


class Documents(Case):
    async def test_document_that_is_too_large_is_refused(self) -> None:
        async with self.sidecar() as s:
            document = await s.document("big")
            for text in ("x " * 150_000, "x " * 2_500_000):
                with self.assertRaises(APIError) as refused:
                    await document.put(text)
                self.assertEqual((refused.exception.status, document.exists), (413, False))
            await document.put("x\n")
            edit = {"op": "append_text", "text": "x " * 150_000}
            with self.assertRaises(APIError):
                await document.edit(edit)

    async def test_misspelt_name_of_a_document_is_told_once(self) -> None:
        async with self.sidecar(documents={"todo": support.TODO}) as s:
            with self.assertLogs("umbra_shadow", "WARNING") as logs:
                for name in ("tood", "tood", "todo", "findings"):
                    await s.document(name)
            self.assertEqual(len(logs.output), 1)
            self.assertIn("the session has no document tood, which is empty until a put: is todo meant", logs.output[0])


class Misuse(unittest.TestCase):
    def test_event_with_a_value_without_a_form_is_refused(self) -> None:
        with Umbra("http://127.0.0.1:9", timeout=0.1) as umbra:
            odd: Any = {"output": object()}
            for post in (lambda: umbra.events.post(odd), lambda: umbra.events.post_many([odd])):
                with self.assertRaisesRegex(ValueError, "object has no form in JSON"):
                    post()

    def test_empty_address_is_refused(self) -> None:
        with self.assertRaisesRegex(ValueError, "url is empty"):
            Umbra(url="")


if __name__ == "__main__":
    unittest.main()

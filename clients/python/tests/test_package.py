"""Tests of the package as such: generated code, settings, errors, and servers of other versions."""

import ast
import asyncio
import contextlib
import copy
import inspect
import json
import os
import pathlib
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import typing
import unittest
import unittest.mock
from collections.abc import Iterator
from typing import Any

import httpx
import support
from support import Case, Peer, setUpModule

import umbra_shadow
from umbra_shadow import (
    APIError,
    AsyncDocument,
    AsyncFindingStream,
    AsyncUmbra,
    FindingStream,
    SessionOver,
    Umbra,
    Unavailable,
    UndecidedCall,
    errors,
    models,
)
from umbra_shadow._config import Config
from umbra_shadow._core import Core
from umbra_shadow._requests import EventDecoder, Request, ServerEvent
from umbra_shadow._sync import io
from umbra_shadow._terms import EditLike
from umbra_shadow.adapters._boundary import ToolBoundary

__all__ = ["setUpModule"]

PACKAGE = pathlib.Path(support.HERE.parent, "src", "umbra_shadow")
TOOLS = support.HERE.parent / "tools"


class Generated(unittest.TestCase):
    def test_synchronous_twin_is_as_generated(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for source, target in [
                (PACKAGE / "_async", PACKAGE / "_sync"),
                (support.HERE / "test_async_api.py", support.HERE / "test_sync_api.py"),
            ]:
                made = pathlib.Path(folder, target.name)
                subprocess.run([sys.executable, TOOLS / "make_sync.py", source, made], check=True)
                for file in [made] if made.is_file() else sorted(made.glob("*.py")):
                    kept = target if made.is_file() else target / file.name
                    if file.name != "io.py":
                        self.assertEqual(file.read_text(), kept.read_text(), f"{kept}: run generate.sh")

    def test_both_clients_have_the_same_methods(self) -> None:
        kinds = [
            ("Umbra", "AsyncUmbra"),
            ("Sidecar", "AsyncSidecar"),
            ("FakeSidecar", "AsyncFakeSidecar"),
            ("Document", "AsyncDocument"),
            ("Listing", "AsyncListing"),
            ("FindingStream", "AsyncFindingStream"),
        ]
        for sync, asynchronous in kinds:
            now, later = (
                {name for name in dir(getattr(umbra_shadow, kind)) if not name.startswith("_")}
                for kind in (sync, asynchronous)
            )
            self.assertEqual({"close" if name == "aclose" else name for name in later}, now | ({"close"} & later))
            for name in now & later:
                one, other = (
                    getattr(getattr(umbra_shadow, sync), name),
                    getattr(getattr(umbra_shadow, asynchronous), name),
                )
                if callable(one):
                    self.assertEqual(
                        list(inspect.signature(one).parameters), list(inspect.signature(other).parameters), name
                    )
        resources = typing.get_type_hints(Umbra)
        for name, kind in typing.get_type_hints(AsyncUmbra).items():
            if not name.startswith("_"):
                public = [{one for one in dir(of) if not one.startswith("_")} for of in (kind, resources[name])]
                self.assertEqual(*public)

    def test_exported_names_exist(self) -> None:
        self.assertEqual(set(umbra_shadow.__all__) - set(dir(umbra_shadow)), set())
        self.assertLessEqual(set(errors.__all__), set(umbra_shadow.__all__))
        self.assertFalse(hasattr(umbra_shadow, "sidcar"))


class Errors(unittest.TestCase):
    def test_errors_survive_pickle_and_copy(self) -> None:
        decision = {"approval": {"id": "apr_1", "expires_at": "2026-01-01T00:00:00Z"}, "rule": "mails"}
        conflict = errors.Contradiction("Plan / a", "words", "stored: b; sent: c")
        made: list[errors.UmbraError] = [
            errors.UmbraError("odd"),
            errors.APIError("GET /v1/x", 400, {"code": "invalid", "errors": [{"pointer": "/a", "detail": "no"}]}),
            errors.Unavailable("away", 503),
            errors.WrongAddress("no server"),
            errors.Blocked("mail.send", "policy", "no mails", decision),
            errors.ApprovalRequired("mail.send", decision),
            errors.UndecidedCall("mail.send", "unavailable", "no answer"),
            errors.ResultWithheld("web.fetch", "no secrets", decision),
            errors.StubFault("mail.send", "timeout", {"error": "timeout"}),
            errors.SessionOver("closed"),
            errors.Conflict("todo", "changed", [conflict]),
            errors.NotUpdated("todo", "plan", "the last turn", ["Write the plan."]),
        ]
        kinds = {errors.UmbraError}
        while more := {kind for one in kinds for kind in one.__subclasses__()} - kinds:
            kinds |= more
        named = {kind for kind in kinds if kind.__module__ == errors.__name__}
        self.assertEqual({type(error) for error in made}, named)
        for error in made:
            copies = [pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]
            for one in [*copies, copy.copy(error), copy.deepcopy(error)]:
                told = [(type(of), str(of), of.args, vars(of)) for of in (one, error)]
                self.assertEqual(told[0], told[1])


class Pages(unittest.TestCase):
    def test_edits_are_listed_with_their_members(self) -> None:
        page, missing = (support.HERE.parent / "README.md").read_text(), list[str]()
        for kind in typing.get_args(EditLike):
            if not hasattr(kind, "model_fields"):
                continue
            fields = {name: field for name, field in kind.model_fields.items() if name != "op"}
            members = {name if field.is_required() else f"[{name}]" for name, field in fields.items()}
            op = kind.model_fields["op"].default
            (listed,) = re.findall(rf"(?m)^ +{op} +(.*)$", AsyncDocument.edit.__doc__ or "")
            self.assertEqual(set(listed.split(", ")), members, op)
            missing += [] if f"`{op}`" in page else [op]
        self.assertEqual(missing, [])

    def test_readme_stands_alone(self) -> None:
        # The package has this page, and none of the files beside it in the repository.
        targets = re.findall(r"\]\(([^)]*)\)", (support.HERE.parent / "README.md").read_text())
        self.assertEqual([target for target in targets if not target.startswith(("https://", "#"))], [])

    def test_examples_name_what_there_is(self) -> None:
        docs = support.HERE.parents[2] / "docs"
        pages = [support.HERE.parent / "README.md", docs / "clients.md", docs / "boundary.md"]
        blocks = [block for page in pages for block in re.findall(r"(?ms)^```python\n(.*?)^```", page.read_text())]
        self.assertGreater(len(blocks), 8)
        for block in blocks:
            tree = ast.parse(compile_async(block))
            for node in ast.walk(tree):
                if isinstance(node, ast.ImportFrom) and node.module == "umbra_shadow":
                    self.assertLessEqual({one.name for one in node.names}, set(umbra_shadow.__all__))
                if isinstance(node, ast.Attribute):
                    self.assertTrue(exists(ast.unparse(node)), ast.unparse(node))


def compile_async(block: str) -> str:
    """Returns an example as a coroutine function, in which it may await."""
    return "async def example():\n" + "".join(f"    {line}\n" for line in block.splitlines())


def exists(chain: str) -> bool:
    """Returns True unless the chain of attributes begins with a client or a session, and leads nowhere."""
    first, *names = chain.split(".")
    roots: dict[str, object] = {"umbra": Umbra("http://127.0.0.1:9"), "s": umbra_shadow.FakeSidecar()}
    found = roots.get(first)
    for name in names if found is not None else ():
        if not name.isidentifier():
            return True
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
        if callable(found) or found is None:
            return True
    return True


class Settings(unittest.TestCase):
    def test_environment_sets_what_arguments_leave_out(self) -> None:
        with tempfile.NamedTemporaryFile("w", suffix=".key") as key:
            key.write("umbra_sk_of_file\n\n")
            key.flush()
            env = {
                **{"UMBRA_URL": "https://umbra.example/base/", "UMBRA_API_KEY_FILE": key.name, "UMBRA_AGENT": "a"},
                **{"UMBRA_SESSION": "s", "UMBRA_RUN": "r", "UMBRA_SEED": "7"},
            }
            with unittest.mock.patch.dict(os.environ, env):
                config = Umbra()._core.config
                self.assertEqual((config.url, config.api_key), ("https://umbra.example/base", "umbra_sk_of_file"))
                place = config.place
                self.assertEqual((place.agent, place.session, place.run, place.seed), ("a", "s", "r", "7"))
                self.assertEqual(Umbra("http://h", "k", "b")._core.config.place.agent, "b")

    def test_missing_file_of_the_key_is_told(self) -> None:
        with unittest.mock.patch.dict(os.environ, {"UMBRA_API_KEY": "", "UMBRA_API_KEY_FILE": "/nowhere/key"}):
            with self.assertRaisesRegex(ValueError, "UMBRA_API_KEY_FILE names cannot be read.*/nowhere/key"):
                Umbra()

    def test_wrong_settings_are_refused(self) -> None:
        for url in ("localhost:7817", "ftp://h", "http://", "https://user:pw@h", "http://h?k=v"):
            with self.assertRaisesRegex(ValueError, "is not an address of a server") as refused:
                Umbra(url)
            self.assertNotIn("pw", str(refused.exception))
        with self.assertRaisesRegex(ValueError, "ends in /v1: leave that out"):
            Umbra("http://h:7817/v1/")
        wrong: list[dict[str, Any]] = [{"timeout": 0}, {"decision_timeout": -1}, {"timeout": "5"}, {"timeout": None}]
        for settings in wrong:
            with self.assertRaisesRegex(ValueError, "in seconds and above 0"):
                Umbra(**settings)
        with self.assertRaisesRegex(ValueError, "characters that no key has") as bad:
            Umbra(api_key="umbra_sk_x\n")
        self.assertNotIn("umbra_sk", str(bad.exception))

    def test_values_of_wrong_types_are_told(self) -> None:
        umbra = Umbra("http://127.0.0.1:9", timeout=0.1)

        def enter(**place: Any) -> None:
            with umbra.context(**place):
                self.fail("it was entered")

        wrong: list[tuple[Any, dict[str, Any], str]] = [
            (Umbra, {"agent": 5}, "^agent is a text, not int$"),
            (Umbra, {"api_key": b"umbra_sk_x"}, "^api_key is a text, not bytes$"),
            (enter, {"run": 5}, "^run is a text, not int$"),
            (enter, {"modes": "careful"}, "^modes is a list of names, not str$"),
            (umbra.sidecar, {"modes": 5}, "^modes is a list of names, not int$"),
            (umbra.sidecar, {"task": ["x"]}, "^task is a text, not list$"),
            (umbra.sidecar, {"documents": ["a"]}, "^documents has texts by name, {'todo': '# Todo'}: it is not list$"),
            (umbra.sidecar, {"documents": {"a": 5}}, "^the document 'a' is a text, or {'text'.*: 5$"),
            (umbra.sidecar, {"documents": {"a": {"txt": "x"}}}, "^the document 'a' is a text, or {'text'"),
            (umbra.tool, {"name": 5}, "^name is a text, not int$"),
        ]
        for give, given, words in wrong:
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                give(**given)
        waits: list[Any] = [-1, 61, 1.5, True, "20"]
        for wait in waits:
            with self.subTest(wait), self.assertRaisesRegex(ValueError, "wait is a whole number .* from 0 to 60"):
                umbra.events.post({"output": "x"}, wait=wait)

    def test_what_cannot_be_asked_for_is_told(self) -> None:
        umbra, nothing, text = Umbra("http://127.0.0.1:9", timeout=0.1), typing.cast(Any, None), typing.cast(Any, "2")
        wrong: list[tuple[Any, type[Exception], str]] = [
            (lambda: umbra.findings.get(nothing), TypeError, "^an id or a name in findings is a text, not None$"),
            (lambda: umbra.events.get(""), ValueError, "^an id or a name in events is empty$"),
            (lambda: umbra.request("GET", "v1/status"), ValueError, "^path begins with a slash.*not 'v1/status'$"),
            (lambda: umbra.events.list(limit=-1), ValueError, "^limit is a whole number .*, not -1$"),
            (lambda: umbra.findings.list(limit=typing.cast(Any, "5")), ValueError, "^limit is .*, not '5'$"),
            (lambda: umbra.findings.stream(typing.cast(Any, 5)), ValueError, "^after is the resume_cursor"),
            (lambda: umbra.approvals.wait("a", text), ValueError, "^timeout is in seconds .*, not '2'$"),
            (lambda: umbra.events.verdict("e", wait=text), ValueError, "^wait is in seconds .*, not '2'$"),
            (lambda: umbra.call_tool("", {}, print), ValueError, "^the name of a tool is empty$"),
            (lambda: umbra.tool(name=" "), ValueError, "^the name of a tool is empty$"),
            (lambda: umbra_shadow.FakeSidecar(rules=typing.cast(Any, ["block"])), TypeError, "^rules is a"),
            (lambda: umbra_shadow.FakeSidecar(rules=typing.cast(Any, print)), TypeError, "^rules is a list"),
        ]
        for ask, kind, words in wrong:
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                ask()

    def test_calls_of_wrong_types_are_told_before_the_question(self) -> None:
        umbra, function = Umbra("http://127.0.0.1:9"), lambda: "ran"
        guarded: Any = umbra_shadow.FakeSidecar()
        wrong: list[tuple[Any, Any, str]] = [
            ("ok", function, "^the arguments of mail.send are a dictionary, not str: json.loads reads a text$"),
            (None, function, "^the arguments of mail.send are a dictionary, not NoneType"),
            ({}, "sent", "^the call of mail.send is a function, as lambda: .*, not str$"),
        ]
        kinds: list[Any] = [classmethod, staticmethod, property]
        with guarded as s:
            for arguments, run, words in wrong:
                for at in (umbra, s.guardrails()):
                    with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                        at.call_tool("send", arguments, run, server="mail")
            for kind in kinds:
                for decorate in (umbra.tool, umbra.tool(name="send"), s.guardrails()):
                    words = f"^a tool is a function: write @{kind.__name__} above the decorator"
                    with self.subTest(kind), self.assertRaisesRegex(TypeError, words):
                        decorate(kind(function))

    def test_settings_of_adapters(self) -> None:
        umbra = Umbra("http://127.0.0.1:9")
        wrong: list[tuple[dict[str, Any], type[Exception], str]] = [
            ({"effects": "read"}, TypeError, "effects has values by the tool's name"),
            ({"effects": ["refund"]}, TypeError, "effects has values by the tool's name"),
            ({"server": ["shop"]}, TypeError, "server has values by the tool's name"),
            ({"stubs": {"refund": object()}}, TypeError, "the stub of refund is .* a form in JSON: object has no"),
            ({"stubs": {"refund": asyncio.sleep}}, TypeError, "the stub of refund is a plain function"),
            ({"umbra": Umbra}, TypeError, "an adapter needs a client, .*, not the class Umbra$"),
            ({"sidecar": umbra.sidecar()}, SessionOver, "the session has not begun: with umbra.sidecar"),
        ]
        for settings, kind, words in wrong:
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                ToolBoundary(**{"umbra": umbra, **settings})
        boundary = ToolBoundary(umbra, server={"refunds": "shop"}, effects={"get": "read", "gett": "read"})
        boundary.check_names(["get", "delete"])
        with self.assertRaisesRegex(ValueError, "server names 'refunds', which is no tool here: is it 'refund'"):
            boundary.check_names(["get", "refund"])

    def test_key_is_in_no_text(self) -> None:
        umbra = Umbra("http://127.0.0.1:9", api_key="umbra_sk_hidden", timeout=0.1, decision_timeout=0.1)
        texts = [repr(umbra), repr(umbra._core.config), repr(umbra.sidecar())]
        for ask in (lambda: umbra.status(), lambda: umbra.decide({"tool": "x"})):
            with self.assertRaises(Unavailable) as gone:
                ask()
            texts += [repr(gone.exception), str(gone.exception)]
        self.assertNotIn("hidden", " ".join(texts))

    def test_values_of_queries_have_the_form_of_the_api(self) -> None:
        request = Request(
            "GET", "/v1/findings", params={"verified": True, "agent": None, "since": "2026-01-01T00:00:00+00:00"}
        )
        self.assertEqual(request.target, "/v1/findings?verified=true&since=2026-01-01T00%3A00%3A00%2B00%3A00")

    def test_server_sent_events_are_decoded(self) -> None:
        decoder = EventDecoder()
        lines = ["id: 1", "event: finding", "data: a", "data: b", "", ": keep-alive", "", "retry: 2000", "id: 2", ""]
        events = [event for line in lines if (event := decoder.feed(line))]
        self.assertEqual(events, [ServerEvent("1", "finding", "a\nb"), ServerEvent("2", "", "")])


class OtherServers(unittest.TestCase):
    """Servers of other versions, in place of the network."""

    def answering(self, status: int, body: object) -> Umbra:
        def respond(request: httpx.Request) -> httpx.Response:
            return httpx.Response(status, json=body)

        config = Config.of("http://other", "umbra_sk_x", "a", None, None, None, 0.2, 1.0)
        return Core(config, httpx.MockTransport(respond)).sync_client()

    def test_newer_members_and_values_are_kept(self) -> None:
        verdict = {"event_id": "evt_1", "verdict": "postponed", "reasons": [], "moon": "full"}
        read = self.answering(200, verdict).events.verdict("evt_1")
        self.assertEqual((read.verdict, read.model_extra), ("postponed", {"moon": "full"}))

    def test_unknown_decision_runs_nothing(self) -> None:
        umbra = self.answering(200, {"decision": "perhaps", "effect": "write"})
        with self.assertRaisesRegex(UndecidedCall, "decision 'perhaps'"):
            umbra.call_tool("send", {}, lambda: self.fail("it ran"))

    def test_answer_about_another_call_runs_nothing(self) -> None:
        for answer in ({}, {"call_id": "another"}, {"call_id": None}):
            umbra = self.answering(200, {"decision": "execute", "effect": "write", **answer})
            with self.assertRaisesRegex(UndecidedCall, "no server of Umbra: it answered about call"):
                umbra.call_tool("send", {}, lambda: self.fail("it ran"))

    def test_unknown_verdict_of_the_rules_is_no_answer(self) -> None:
        ruling = {
            "decision": "perhaps",
            "would": "allow",
            "inputs": "",
            "policy_version": "",
            "degraded": False,
            "warnings": [],
        }
        with self.answering(200, ruling).sidecar() as s:
            answer = s.guard({"tool": "send"})
            self.assertEqual((answer.decision, answer.degraded), ("allow", True))
            self.assertIn("'perhaps' is unknown", answer.warnings[0])

    def test_answers_of_other_programs_are_told_apart(self) -> None:
        for status, body, kind, words in [
            (200, {"hello": "world"}, Unavailable, "no server of Umbra"),
            (200, ["x"], Unavailable, "no server of Umbra"),
            (302, {}, Unavailable, "it answered 302"),
            (404, {"title": "Not Found"}, Unavailable, "no server of Umbra: it answered 404: Not Found"),
            (404, {"title": "Not Found", "code": "not_found"}, APIError, "refused .404.: Not Found"),
            (401, {"detail": "no key", "errors": 5}, APIError, "UMBRA_API_KEY"),
            (500, {"detail": "broken"}, Unavailable, "broken"),
        ]:
            fault: Any
            with self.assertRaisesRegex(kind, words) as fault:
                self.answering(status, body).status()
            self.assertEqual(fault.exception.status, status if status >= 300 else None)
        with self.assertRaisesRegex(Unavailable, "findings is no list"):
            list(self.answering(200, {"hello": "world"}).findings.list())


class Deadlines(Case):
    async def test_one_deadline_holds_for_a_whole_request(self) -> None:
        async def drips_its_head(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            for sign in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 10_000:
                writer.write(bytes([sign]))
                await writer.drain()
                if peer.over.is_set():
                    return
                await asyncio.sleep(0.02)

        for behave in (drips_its_head, Peer.trickles, Peer.hangs):
            async with Peer(behave) as peer:
                with Umbra(peer.url, decision_timeout=0.3) as umbra:
                    async with AsyncUmbra(peer.url, decision_timeout=0.3) as later:
                        began = time.monotonic()
                        for asked in (asyncio.to_thread(umbra.decide, {"tool": "x"}), later.decide({"tool": "x"})):
                            with self.assertRaises(UndecidedCall) as undecided:
                                await asked
                            self.assertIn("no answer in time", str(undecided.exception.__cause__))
                        self.assertLess(time.monotonic() - began, 5.0, behave.__name__)


class LostAnswers(Case):
    async def test_event_is_stored_once_when_its_answer_is_lost(self) -> None:
        async def loses_the_first_answer(
            peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
        ) -> None:
            if peer.accepted > 1:
                await peer.passes_on(reader, writer)
                return
            host, port = support.URL.rpartition("/")[2].split(":")
            answers, requests = await asyncio.open_connection(host, int(port))
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            requests.write(head + await reader.readexactly(length))
            await answers.readuntil(b"\r\n\r\n")
            requests.close()

        async with Peer(loses_the_first_answer) as peer, AsyncUmbra(peer.url, agent=self.agent) as umbra:
            await umbra.events.post({"output": "Once."})
            self.assertEqual(
                (peer.accepted, [one.output async for one in umbra.events.list(agent=self.agent)]), (2, ["Once."])
            )


class EarlyAnswers(Case):
    async def test_refusal_of_a_request_that_was_not_read_is_told(self) -> None:
        async def refuses_unread(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 413 X\r\nContent-Length: 2\r\n\r\n{}")
            await writer.drain()

        async with Peer(refuses_unread) as peer:
            with Umbra(peer.url) as umbra, self.assertRaises(APIError) as large:
                await asyncio.to_thread(umbra.events.post, {"output": "x" * 16_000_000})
            self.assertEqual(large.exception.status, 413)


class BusyServers(Case):
    async def test_events_that_a_busy_server_refuses_are_posted_again(self) -> None:
        busy = {"index": 0, "spooled": False, "error": {"code": "overloaded", "status": 503, "detail": "busy"}}
        told = json.dumps({"accepted": 0, "replayed": 0, "rejected": 1, "results": [busy]}).encode()

        async def is_busy_at_first(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if peer.accepted > 1:
                await peer.passes_on(reader, writer)
                return
            head = await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))
            writer.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(told) + told)
            await writer.drain()

        async with Peer(is_busy_at_first) as peer, AsyncUmbra(peer.url, agent=self.agent) as umbra:
            posted = await umbra.events.post_many([{"output": "Once."}])
            self.assertEqual((posted.accepted, posted.rejected, posted.results[0].error), (1, 0, None))
            self.assertEqual([one.output async for one in umbra.events.list(agent=self.agent)], ["Once."])


class Streams(unittest.TestCase):
    """Streams of findings that are closed while they wait."""

    # A stream that has begun. Answers after which a stream waits: no answer, for a finding, for another attempt.
    BEGUN = b"200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 7"
    WAITS = (b"", BEGUN, b"503 X\r\nContent-Length: 0")

    def setUp(self) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        listener.settimeout(support.PATIENT)
        self.listener, self.url = listener, f"http://127.0.0.1:{listener.getsockname()[1]}"
        self.slept = threading.Event()
        original = io.sleep

        def sleep(seconds: float) -> None:
            self.slept.set()
            original(3 * support.PATIENT)

        patch = unittest.mock.patch.object(io, "sleep", sleep)
        patch.start()
        self.addCleanup(patch.stop)

    def answer(self, head: bytes) -> None:
        connection, _ = self.listener.accept()
        self.addCleanup(connection.close)
        if head:
            connection.sendall(b"HTTP/1.1 " + head + b"\r\n\r\n")

    def wait_for(self, stream: FindingStream, head: bytes) -> None:
        """Returns when the stream waits."""
        if head.startswith(b"503"):
            self.assertTrue(self.slept.wait(support.PATIENT))
        until = time.monotonic() + support.PATIENT
        while time.monotonic() < until and not self.slept.is_set():
            if stream._findings._waiting is not None and (not head or stream.resume_cursor):
                break
            time.sleep(0)

    def test_stream_ends_when_another_thread_closes_it(self) -> None:
        for head in self.WAITS:
            with self.subTest(head), Umbra(self.url, timeout=3 * support.PATIENT) as umbra:
                stream, found = umbra.findings.stream(), list[models.Finding]()
                thread = threading.Thread(target=lambda: found.extend(stream), daemon=True)
                thread.start()
                self.answer(head)
                self.wait_for(stream, head)
                with self.assertNoLogs("umbra_shadow"):
                    stream.close()
                    thread.join(support.PATIENT)
                self.assertEqual((thread.is_alive(), found), (False, []))
                self.assertEqual(list(stream), [])
                kept: Any = umbra._http._transport_of
                self.assertEqual([one for one in kept[1]._pool.connections if not one.is_idle()], [])

    def test_stream_ends_when_a_handler_of_a_signal_closes_it(self) -> None:
        with Umbra(self.url, timeout=3 * support.PATIENT) as umbra:
            stream = umbra.findings.stream()

            def interrupt() -> None:
                self.answer(self.BEGUN)
                self.wait_for(stream, self.BEGUN)
                os.kill(os.getpid(), signal.SIGUSR1)

            before = signal.signal(signal.SIGUSR1, lambda *_: stream.close())
            self.addCleanup(signal.signal, signal.SIGUSR1, before)
            thread = threading.Thread(target=interrupt)
            thread.start()
            self.assertEqual(list(stream), [])
            thread.join()


class AsyncStreams(Case):
    async def test_stream_ends_when_another_task_closes_it(self) -> None:
        async def begins(peer: Peer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\nid: 1\n\n")
            await peer.over.wait()

        for behave in (Peer.hangs, begins, support.answers(503, b"")):
            async with Peer(behave) as peer, AsyncUmbra(peer.url, timeout=3 * support.PATIENT) as umbra:
                stream = umbra.findings.stream()

                async def follow(stream: AsyncFindingStream = stream) -> list[models.Finding]:
                    return [finding async for finding in stream]

                task = asyncio.ensure_future(follow())
                while not peer.accepted or (behave is begins and stream.resume_cursor is None):
                    await asyncio.sleep(0)
                await stream.aclose()
                self.assertEqual(await asyncio.wait_for(task, support.PATIENT), [])
                self.assertEqual(await follow(), [])


class Forks(unittest.TestCase):
    def test_forked_child_has_connections_of_its_own(self) -> None:
        with Umbra(support.URL) as umbra:
            parents = umbra.status().version
            child = os.fork()
            if child == 0:
                os._exit(0 if umbra.status().version == parents else 1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            self.assertEqual(umbra.status().version, parents)
            kept: Any = umbra._http._transport_of
            [pooled] = kept[1]._pool.connections
            self.assertTrue(pooled.is_idle())


if __name__ == "__main__":
    unittest.main()

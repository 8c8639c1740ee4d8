"""Tests of what goes out of a call, of callables of all kinds, and of tools and calls in the forms of other APIs."""

import asyncio
import dataclasses
import functools
import inspect
import json
import os
import threading
import unittest
import unittest.mock
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Generic, TypeVar

import support
from support import DROP, PATIENT, Case, setUpModule

from umbra_shadow import AsyncFakeSidecar, AsyncSidecar, AsyncUmbra, Blocked, FakeSidecar, Sidecar, Umbra, _tools

if TYPE_CHECKING:
    from nowhere import ToolRuntime  # type: ignore[import-not-found]

__all__ = ["setUpModule"]

SECRET = "postgres://app:pw@db/prod"
D = TypeVar("D")


class RunContext(Generic[D]):
    """Stand-in for the class of this name in an agent framework; the next ones likewise."""

    deps = SECRET


class RunContextWrapper(RunContext[D]):
    pass


class Context:
    secret = SECRET


class InjectedState:
    pass


class Depends:
    def __init__(self, make: Callable[[], object]) -> None:
        self.make = make


class OwnState(InjectedState):
    """A marker of the program's own."""


class Security(Depends):
    pass


class _CurrentContext:
    """The default of a parameter that a framework fills in."""


class Contexts(unittest.TestCase):
    """Only what the model gave is sent."""

    def sent(self, function: Callable[..., object], *args: object, **kwargs: object) -> dict[str, object]:
        """Returns the arguments that go out."""
        return _tools.Call.of_function(_tools.Tool(function), args, kwargs).arguments

    def test_contexts_of_frameworks_are_left_out(self) -> None:
        def generic(ctx: RunContext[str], q: str) -> None: ...
        def derived(wrapper: RunContextWrapper[str], q: str) -> None: ...
        def optional(q: str, ctx: Context | None = None) -> None: ...
        def unresolved(q: str, runtime: "ToolRuntime") -> None: ...
        def annotated(q: str, state: Annotated[dict[str, str], InjectedState]) -> None: ...
        def instance(q: str, state: Annotated[dict[str, str], InjectedState()]) -> None: ...
        def default(q: str, db: Any = Depends(lambda: SECRET)) -> None: ...  # noqa: B008
        def marked(q: str, state: Annotated[dict[str, str], OwnState()]) -> None: ...
        def security(q: str, db: Any = Security(lambda: SECRET)) -> None: ...  # noqa: B008
        def current(q: str, state: Any = _CurrentContext()) -> None: ...  # noqa: B008
        def unannotated(context, q):  # type: ignore[no-untyped-def]
            ...

        context: RunContext[str] = RunContext()
        contexts: list[tuple[Callable[..., object], tuple[object, ...]]] = [
            (generic, (context, "x")),
            (derived, (context, "x")),
            (optional, ("x", Context())),
            (unresolved, ("x", SECRET)),
            (annotated, ("x", {"dsn": SECRET})),
            (instance, ("x", {"dsn": SECRET})),
            (default, ("x",)),
            (marked, ("x", {"dsn": SECRET})),
            (security, ("x",)),
            (current, ("x",)),
            (unannotated, (context, "x")),
        ]
        for function, args in contexts:
            self.assertEqual(self.sent(function, *args), {"q": "x"}, function.__name__)

    def test_classes_of_the_program_are_no_contexts(self) -> None:
        class CurrentWeather(str):
            """An argument that the model gives."""

        def report(weather: CurrentWeather, injection: str) -> None: ...

        self.assertEqual(self.sent(report, CurrentWeather("sun"), "x"), {"weather": "sun", "injection": "x"})

    def test_contexts_within_arguments_are_left_out(self) -> None:
        @dataclasses.dataclass
        class Options:
            page: int
            context: RunContext[str]

        def hidden(*args: object, **kwargs: object) -> None:
            """A function under a decorator without ``functools.wraps``."""

        context: RunContext[str] = RunContext()
        options = {"ctx": context, "list": [context, {context}, {"ctx": context}], "own": Options(2, context)}
        sent = self.sent(hidden, context, "x", options=options, context=context)
        self.assertEqual(sent, {"args": ["x"], "options": {"list": [[], {}], "own": {"page": 2}}})

    def test_ignored_parameters_are_left_out(self) -> None:
        def search(q: str, session: object, **more: object) -> None: ...

        tool = _tools.Tool(search, ignore=["session"])
        call = _tools.Call.of_function(tool, ("x",), {"session": SECRET, "page": 2, "ctx": Context()})
        self.assertEqual(call.arguments, {"q": "x", "page": 2})
        with self.assertRaisesRegex(ValueError, "has no parameter sesion"):
            _tools.Tool(search, ignore=["sesion"])
        with self.assertRaisesRegex(TypeError, "a list of names"):
            _tools.Tool(search, ignore="session")

    def test_arguments_of_the_model_are_all_sent(self) -> None:
        class ContextLength:
            """A class that only resembles a context by its name."""

            def __str__(self) -> str:
                return "long"

        def plain(q: str, context: str, length: ContextLength, *rest: int, text: str = "Context: none") -> None: ...

        sent = self.sent(plain, "x", "of the model", ContextLength(), 1, 2)
        wanted = {"q": "x", "context": "of the model", "length": "<ContextLength>", "rest": [1, 2], "text": "Context: none"}
        self.assertEqual(sent, wanted)


class Callables(Case):
    async def test_callables_of_all_kinds_are_guarded(self) -> None:
        class Fetch:
            async def __call__(self, url: str) -> str:
                await asyncio.sleep(0)
                return f"page of {url}"

        class Search:
            def __call__(self, url: str) -> str:
                return f"hits of {url}"

            def method(self, url: str) -> str:
                return f"method of {url}"

        async def fetch(site: str, url: str) -> str:
            return f"{site}/{url}"

        def later(url: str) -> Any:
            return Fetch()(url)

        kinds: list[tuple[Callable[..., Any], str, str]] = [
            (Fetch(), "Fetch", "page of a"),
            (Search(), "Search", "hits of a"),
            (Search().method, "method", "method of a"),
            (functools.partial(fetch, "b"), "fetch", "b/a"),
            (functools.partial(fetch, site="b"), "fetch", "b/a"),
            (functools.partial(Search()), "Search", "hits of a"),
            (later, "later", "page of a"),
        ]
        for function, name, result in kinds:
            umbra = AsyncUmbra(support.URL, agent=self.agent, run=uuid.uuid4().hex, decision_timeout=PATIENT)
            tool = umbra.tool(effect="read", server="web")(function)
            async with AsyncFakeSidecar() as s:
                for guarded in (tool, s.guardrails(server="web")(function), s.guardrails()(tool)):
                    answer = guarded(url="a")
                    self.assertEqual(await answer if inspect.isawaitable(answer) else answer, result, name)
                told = [(one["tool_calls"][0], one["results"][0]["content"]) for one in s.asked("message")]
            arguments = {"url": "a", **({"site": "b"} if "site" in getattr(function, "keywords", {}) else {})}
            call = {"tool": {"server": "web", "name": name}, "arguments": arguments}
            self.assertEqual(told, [(call, result)] * 2)
            self.assertTrue(await umbra.flush(PATIENT))
            await umbra.aclose()

    async def test_decorator_keeps_name_and_signature(self) -> None:
        @self.client.tool(effect="read")
        async def search(q: str, limit: int = 3) -> list[str]:
            """Searches."""
            return [q] * limit

        self.assertEqual((search.__name__, search.__doc__), ("search", "Searches."))
        self.assertEqual(list(inspect.signature(search).parameters), ["q", "limit"])
        self.assertTrue(inspect.iscoroutinefunction(search))
        with self.assertRaisesRegex(TypeError, "^search: too many positional arguments$"):
            await search("x", "y", "z")  # type: ignore[call-arg, arg-type]
        with self.assertRaisesRegex(TypeError, "^search: missing a required argument: 'q'$"):
            await search()  # type: ignore[call-arg]

    async def test_both_kinds_of_functions_work_with_both_clients(self) -> None:
        with Umbra(support.URL, agent=self.agent, decision_timeout=PATIENT) as umbra:
            for client in (umbra, self.client):

                @client.tool(effect="read", server="web")
                def now(url: str) -> str:
                    return url

                @client.tool(effect="read", server="web")
                async def later(url: str) -> str:
                    return url

                self.assertEqual((await asyncio.to_thread(now, "a"), await later("b")), ("a", "b"))
                self.assertTrue(await client._core.async_client().flush(PATIENT))
            await umbra._core.async_client().aclose()

            @umbra.tool(effect="read", server="db")
            async def drop_table(table: str) -> str:
                return "dropped"

            def in_thread() -> None:
                with umbra.sidecar() as s, s.guardrails():
                    with self.assertRaises(Blocked) as blocked:
                        asyncio.run(drop_table("users"))
                    self.assertEqual(blocked.exception.rule, "no-drop")

            await asyncio.to_thread(in_thread)

    def test_client_survives_its_event_loop(self) -> None:
        @self.client_of_the_process().tool(effect="read", server="web")
        async def fetch(url: str) -> str:
            return url

        for n in range(3):
            self.assertEqual(asyncio.run(fetch(str(n))), str(n))

    def client_of_the_process(self) -> AsyncUmbra:
        return AsyncUmbra(support.URL, agent="loops", decision_timeout=PATIENT)


class OwnClients(Case):
    async def test_sidecar_without_a_client_has_one_of_its_own(self) -> None:
        with unittest.mock.patch.dict(os.environ, {"UMBRA_URL": support.URL, "UMBRA_AGENT": self.agent}):
            async with AsyncSidecar(task="look", deadline=PATIENT) as s:
                self.assertEqual((s.agent, (await s.guard(DROP)).rule), (self.agent, "no-drop"))
                self.assertTrue(s._core.async_client()._http._transports)
            self.assertFalse(s._core.async_client()._http._transports)

            def now() -> None:
                with Sidecar(task="look", deadline=PATIENT) as s:
                    self.assertEqual((s.agent, s.guard(DROP).rule), (self.agent, "no-drop"))
                self.assertIsNone(s._core.sync_client()._http._transport_of)

            await asyncio.to_thread(now)


class OtherForms(Case):
    """Tools and calls in the forms of the APIs of OpenAI and Anthropic, and of LangChain."""

    async def test_tools_and_calls_are_converted(self) -> None:
        schema = {"type": "object", "properties": {"table": {"type": "string"}}}
        described = {"name": "drop_table", "description": "Drop a table"}
        tools: list[dict[str, object]] = [
            {"type": "function", "function": {**described, "parameters": schema, "strict": True}},
            {"type": "function", **described, "parameters": schema},
            {**described, "input_schema": schema},
            {**described, "inputSchema": schema, "server": "db"},
        ]
        text = json.dumps({"table": "users"})
        calls: list[dict[str, object]] = [
            {"id": "c1", "type": "function", "function": {"name": "db__drop_table", "arguments": text}},
            {"call_id": "c1", "type": "function_call", "name": "db__drop_table", "arguments": text},
            {"id": "c1", "type": "tool_use", "name": "db__drop_table", "input": {"table": "users"}},
            {"id": "c1", "name": "db__drop_table", "args": {"table": "users"}, "type": "tool_call"},
            {"tool": "db.drop_table", "arguments": {"table": "users"}},
        ]
        results: list[dict[str, object]] = [
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
            {"type": "tool_result", "tool_use_id": "c1", "content": "done", "is_error": False},
            {"type": "tool", "tool_call_id": "c1", "content": "done", "status": "success"},
        ]
        for tool in tools:
            async with self.sidecar(tools=[tool]) as s:
                self.assertEqual((await s.select("drop the table")).degraded, False)
            async with AsyncFakeSidecar(tools=[tool]) as fake:
                shown = {name: one for name, one in fake.requests[0].body["tools"][0].items() if name != "server"}
                self.assertEqual(shown, {**described, "inputSchema": schema})
        async with self.sidecar() as s:
            for call in calls:
                self.assertEqual((await s.guard(call)).rule, "no-drop", call)
                turn = await s.turn(planned_calls=[call])
                self.assertTrue(turn.decisions[0].blocked, call)
            for call, result in zip(calls, results, strict=False):
                told = await s.message(tool_calls=[call], results=[result])
                self.assertEqual((told.calls[0].rule, len(told.results), told.degraded), ("no-drop", 1, False), call)
            for arguments in ("{", "[1]"):
                with self.assertRaisesRegex(ValueError, "the arguments of db.drop_table are no JSON object"):
                    await s.guard({"name": "db.drop_table", "arguments": arguments})
            with self.assertRaisesRegex(ValueError, "a tool needs its name"):
                self.sidecar(tools=[{"type": "function", "function": {}}])


class Fakes(unittest.TestCase):
    def test_synchronous_fake_judges_and_streams(self) -> None:
        def no_mail(at: Any) -> Any:
            return ("block", "mail is off") if at.calls("send_*") else None

        with FakeSidecar("a", task="write", rules=[no_mail], documents={"todo": "# Todo\n"}) as s:
            assert isinstance(s, Sidecar)

            def send(to: str) -> str:
                return "sent"

            held = s.guardrails(server="mail")(send)
            with self.assertLogs("umbra_shadow"), self.assertRaises(Blocked):
                s.guardrails(server="mail", name="send_email")(send)("a")
            self.assertEqual(held("a"), "sent")
            todo = s.document("todo")
            todo.put("# Todo\n\n- [ ] x\n")
            self.assertEqual(s.ensure_updated("todo").open_items, 1)
            events: list[str] = []
            follower = threading.Thread(target=lambda: events.extend(step.event for step in s.stream(after=0)))
            follower.start()
            s.turn("go")
            s.is_away = True
            self.assertTrue(s.guard(DROP).degraded)
            s.is_away = False
        follower.join(PATIENT)
        self.assertFalse(follower.is_alive())
        self.assertEqual(events[-2:], ["turn", "close"])


if __name__ == "__main__":
    unittest.main()

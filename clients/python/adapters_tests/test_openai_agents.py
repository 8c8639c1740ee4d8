"""Stories of the adapter for the OpenAI Agents SDK."""

import asyncio
import itertools
import json
import sys
import threading
import time
import unittest
import urllib.request
import uuid
from typing import Any

import stories
from agents import (
    Agent,
    LocalShellTool,
    MaxTurnsExceeded,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    RunContextWrapper,
    Runner,
    ShellTool,
    WebSearchTool,
    function_tool,
    set_trace_processors,
    trace,
)
from agents.testing import ScriptedModel, assistant_message, function_call
from openai import APIConnectionError, AsyncOpenAI
from stories import EFFECTS, HERE, PATIENT, SECRETS, SERVERS, Calls, Context, Server, Stories, Told, recorded

from umbra_shadow import Umbra, models
from umbra_shadow.adapters.openai_agents import UmbraTracing, approval_of, guarded

sys.path.insert(0, str(HERE.parents[2] / "scripts" / "otel"))

from model_server import ModelServer  # noqa: E402
from support import Peer  # noqa: E402


class OpenAIAgents(Stories, unittest.IsolatedAsyncioTestCase):
    is_knowing_tools = True

    def functions(self) -> list[Any]:
        ran = self.tools.run

        @function_tool
        def refund(context: RunContextWrapper[Context], payment: str, amount: float, note: str = "none") -> Any:
            """Refund a payment."""
            return ran("refund", context.context, payment=payment, amount=amount)

        @function_tool
        async def lookup(city: str) -> Any:
            """Look up the weather."""
            return ran("lookup", city=city)

        @function_tool
        def list_refunds() -> Any:
            """List the refunds."""
            return json.dumps(ran("list_refunds"))

        @function_tool
        def search_code(query: str) -> Any:
            """Search the code."""
            return ran("search_code", query=query)

        @function_tool
        def edit_file(context: RunContextWrapper[Context], path: str, text: str) -> Any:
            """Edit a file."""
            return ran("edit_file", context.context, path=path, text=text)

        @function_tool
        def break_down() -> Any:
            """Break down."""
            return ran("break_down")

        return [refund, lookup, list_refunds, search_code, edit_file, break_down]

    async def play(self, umbra: Umbra, calls: Calls, **settings: Any) -> Told:
        steps: list[Any] = [[function_call(*call, call_id=f"call_{at}")] for at, call in enumerate(calls)]
        agent = Agent[Context](
            name="desk",
            model=ScriptedModel([*steps, [assistant_message("done")]]),
            tools=guarded(self.functions(), umbra, **{"effects": EFFECTS, "server": SERVERS, **settings}),
        )

        async def go(given: Any) -> Told:
            context = None if not isinstance(given, str) else Context()
            config = RunConfig(tracing_disabled=True)
            result = await Runner.run(agent, given, context=context, run_config=config)
            results = [str(one.output) for one in result.new_items if one.type == "tool_call_output_item"]
            if result.interruptions:
                state = result.to_state()
                for item in result.interruptions:
                    state.approve(item)
                pending = [{"tool": SERVERS.get(str(one.name), "") + f".{one.name}"} for one in result.interruptions]
                return Told(results, None, pending, lambda: go(state))
            return Told(results, result.final_output)

        return await go(f"go {uuid.uuid4()}")

    async def test_decided_once(self) -> None:
        """The question whether a call needs approval is that of the call itself."""
        await self.play(self.umbra, [("refund", {"payment": "p1", "amount": 50.0})])
        self.assertEqual(len(self.decisions()), 1)

    async def test_three_guards(self) -> None:
        """A second ``guarded`` around the tools, and a decorator beneath them, ask nothing more."""

        @function_tool
        @self.umbra.tool(server="shop")
        def refund(payment: str, amount: float) -> Any:
            """Refund a payment."""
            return self.tools.run("refund", payment=payment, amount=amount)

        tools = guarded(guarded([refund], self.umbra, server="shop"), self.umbra, server="shop")
        for amount in (50.0, 500.0):
            step = [function_call("refund", {"payment": "p1", "amount": amount}, call_id=f"call_{amount}")]
            model = ScriptedModel([step, [assistant_message("done")]])
            agent = Agent[Context](name="desk", model=model, tools=tools)
            config = RunConfig(tracing_disabled=True)
            result = await Runner.run(agent, "go", run_config=config)
            if result.interruptions:
                asked = approval_of(result.interruptions[0])
                assert asked is not None
                self.umbra.approvals.approve(asked["approval_id"], "ok")
                state = result.to_state()
                state.approve(result.interruptions[0])
                result = await Runner.run(agent, state, run_config=config)
            self.assertEqual((result.final_output, self.tools.ran[-1][1]["amount"]), ("done", amount))
        self.assertEqual(len(list(self.umbra.approvals.list(agent=self.agent))), 1)
        self.assertEqual([one["decision"] for one in self.decisions()], ["execute", "ask", "execute"])
        self.assertEqual(len(self.outcomes()), 2)

    async def test_hosted_tool(self) -> None:
        for tool, words in [
            (WebSearchTool(), "WebSearchTool is no function tool and is run by OpenAI"),
            (ShellTool(environment={"type": "container_auto"}), "ShellTool is no function tool and is run by OpenAI"),
            (ShellTool(executor=lambda request: ""), "ShellTool .* runs in this program: .* umbra.call_tool"),
            (LocalShellTool(executor=lambda request: ""), "LocalShellTool .* runs in this program"),
            (next_step, "next_step is a plain function: decorate it with @function_tool"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                guarded([tool], self.umbra)  # type: ignore[list-item]
        for alone in (self.functions()[0], next_step):
            with self.assertRaisesRegex(TypeError, r"guarded takes a list of tools: guarded\(\[(refund|next_step)\]"):
                guarded(alone, self.umbra)

    async def test_approvals_of_interruptions(self) -> None:
        calls = [("refund", {"payment": name, "amount": 500.0}) for name in ("p1", "p2")]
        step = [function_call(*call, call_id=f"call_{at}") for at, call in enumerate(calls)]
        tools = guarded(self.functions(), self.umbra, server=SERVERS)
        agent = Agent[Context](name="desk", model=ScriptedModel([step, [assistant_message("done")]]), tools=tools)
        result = await Runner.run(agent, "go", context=Context(), run_config=RunConfig(tracing_disabled=True))
        state = result.to_state()
        for item in result.interruptions:
            asked = approval_of(item)
            assert asked is not None
            self.assertEqual((asked["tool"], asked["arguments"]), ("shop.refund", json.loads(item.arguments or "")))
            if asked["arguments"]["payment"] == "p2":
                self.umbra.approvals.approve(asked["approval_id"], "ok")
            else:
                self.umbra.approvals.deny(asked["approval_id"], "no")
            state.approve(item)
        await Runner.run(agent, state, run_config=RunConfig(tracing_disabled=True))
        self.assertEqual(self.tools.ran, [("refund", {"payment": "p2", "amount": 500.0})])

    async def test_arguments_that_are_no_object(self) -> None:
        """The SDK pauses the run by itself, and asks nobody; an approved item is decided like any call."""
        tools = guarded(self.functions(), self.umbra, server=SERVERS)
        for decided, (name, arguments, words) in enumerate(
            [
                ("refund", "[1, 2]", "shop.refund was not run (invalid_arguments)"),
                ("lookup", "{bad", "An error occurred while running the tool"),
                ("list_refunds", "", "re-0"),
            ]
        ):
            with self.subTest(arguments):
                step = [function_call(name, arguments, call_id=f"call_{name}")]
                model = ScriptedModel([step, [assistant_message("done")]])
                agent = Agent[Context](name="desk", model=model, tools=tools)
                result = await Runner.run(agent, "go", context=Context(), run_config=RunConfig(tracing_disabled=True))
                [item] = result.interruptions
                self.assertIsNone(approval_of(item))
                self.assertEqual(len(self.decisions()), decided)
                state = result.to_state()
                state.approve(item)
                result = await Runner.run(agent, state, run_config=RunConfig(tracing_disabled=True))
                [told] = [one.output for one in result.new_items if one.type == "tool_call_output_item"]
                self.assertIn(words, told)
                self.assertEqual((result.final_output, len(self.decisions())), ("done", decided + 1))
        self.assertEqual(self.tools.ran, [("list_refunds", {})])


REFUND: dict[str, Any] = {"name": "refund", "arguments": {"payment": "p1", "amount": 50.0}}
STEPS: list[Any] = [
    {"name": "transfer_to_desk", "arguments": {}},
    REFUND,
    {"name": "refund", "arguments": {"payment": "p1", "amount": 5000.0}},
    {"name": "break_down", "arguments": {}},
    {"name": "ask_clerk", "arguments": {"input": "is it paid?"}},
    None,
]


def next_step(messages: list[Any]) -> Any:
    """Returns the call or the answer of the model, and its tokens."""
    if any(one.get("content") == "is it paid?" for one in messages):
        return None, "it is paid", (5, 2)
    done = sum(one.get("role") == "tool" for one in messages)
    return STEPS[done], "" if STEPS[done] else "refunded", (100 + done, 10 + done)


def kinds(event: models.EventView) -> list[str]:
    return [mark.name for mark in event.triggers]


class Tracing(unittest.IsolatedAsyncioTestCase):
    """Traces as events, with models over HTTP: only such models tell of their outputs."""

    def setUp(self) -> None:
        self.model_server = ModelServer(next_step)
        threading.Thread(target=self.model_server.serve_forever, daemon=True).start()
        self.addCleanup(self.model_server.server_close)
        self.addCleanup(self.model_server.shutdown)
        self.addCleanup(set_trace_processors, [])
        self.tools = stories.Tools()
        self.boundary = Umbra(stories.SERVER.url, agent="desk", timeout=PATIENT)
        self.addCleanup(self.boundary.close)

    def traced(self, url: str, **settings: Any) -> UmbraTracing:
        """Returns a processor, which all later traces go to."""
        self.umbra = Umbra(url, agent="client", timeout=PATIENT)
        self.addCleanup(self.umbra.close)
        tracing = UmbraTracing(self.umbra, **settings)
        set_trace_processors([tracing])
        return tracing

    async def play(self, kind: Any = OpenAIChatCompletionsModel, is_streamed: bool = False, **settings: Any) -> str:
        """Runs two agents with a handoff, and a third as a tool, and returns the id of their trace."""
        client = AsyncOpenAI(base_url=f"{self.model_server.url}/v1", api_key="test", max_retries=0)
        self.addAsyncCleanup(client.close)
        model = kind("m", client)

        @function_tool
        def refund(context: RunContextWrapper[Context], payment: str, amount: float) -> Any:
            """Refund a payment."""
            return self.tools.run("refund", context.context, payment=payment, amount=amount)

        @function_tool
        def break_down() -> Any:
            """Break down."""
            return self.tools.run("break_down")

        clerk = Agent[Context](name="clerk", model=model).as_tool("ask_clerk", "Ask the clerk.")
        tools = [*guarded([refund, break_down], self.boundary, server=SERVERS), clerk]
        desk = Agent[Context](name="desk", model=model, tools=tools)
        triage = Agent[Context](name="triage", model=model, handoffs=[desk])
        with trace("refunds", group_id="chat-7", metadata={"team": "support"}) as whole:
            self.trace_id = whole.trace_id
            if is_streamed:
                async for _ in Runner.run_streamed(triage, "refund p1", context=Context(), **settings).stream_events():
                    pass
            else:
                await Runner.run(triage, "refund p1", context=Context(), **settings)
        return self.trace_id

    def events(self, trace_id: str) -> list[models.EventView]:
        return list(self.umbra.events.list(task_id=trace_id))

    async def test_traces_are_events(self) -> None:
        for kind, is_streamed in itertools.product((OpenAIChatCompletionsModel, OpenAIResponsesModel), (False, True)):
            with self.subTest(kind.__name__, is_streamed=is_streamed), recorded() as sent:
                tracing = self.traced(stories.SERVER.url)
                trace_id = await self.play(kind, is_streamed)
                tracing.force_flush()
                self.check(trace_id, self.events(trace_id))
                self.assertEqual(tracing.dropped, 0)
                for secret in SECRETS:
                    self.assertNotIn(secret, "".join(sent))

    def check(self, trace_id: str, events: list[models.EventView]) -> None:
        told = [(one.agent, one.tool.name if one.tool else one.output) for one in events]
        self.assertCountEqual(
            told,
            [
                ("triage", None),
                ("triage", "transfer_to_desk"),
                ("desk", None),
                ("desk", "refund"),
                ("desk", None),
                ("desk", "refund"),
                ("desk", None),
                ("desk", "break_down"),
                ("desk", None),
                ("clerk", "it is paid"),
                ("desk", "ask_clerk"),
                ("desk", "refunded"),
            ],
        )
        for event in events:
            assert event.metadata is not None
            self.assertEqual((event.session_id, event.metadata["team"]), ("chat-7", "support"))
            self.assertEqual(event.metadata["openai_agents"]["trace_id"], trace_id)
            self.assertIsNotNone(event.occurred_at)
            self.assertIsNotNone(event.duration_ms)
        done, blocked = (one.tool for one in events if one.tool and one.tool.name == "refund")
        assert done is not None and blocked is not None
        self.assertEqual((done.args, json.loads(done.result or "")["id"]), (REFUND["arguments"], "re-1"))
        self.assertIn("A refund above 1,000 is made by a person.", blocked.error or "")
        (failed,) = (one for one in events if one.tool and one.tool.name == "break_down")
        assert failed.tool is not None
        self.assertIn("the drum is stuck", failed.tool.error or "")
        self.assertEqual(failed.status, "error")
        (answer,) = (one for one in events if one.output == "refunded")
        self.assertEqual(answer.task, "refund p1")
        assert answer.tokens is not None
        self.assertEqual((answer.tokens.input, answer.tokens.output), (105, 15))
        ends = [one.output for one in events if "task_complete" in kinds(one)]
        self.assertEqual(ends, ["refunded"], "the answer of an agent that is a tool ends nothing")
        (nested,) = (one for one in events if one.agent == "clerk")
        assert nested.metadata is not None
        self.assertEqual((nested.task, nested.metadata["openai_agents"]["caller"]), ("is it paid?", "desk"))

    def unguarded(self, server: Server) -> set[str]:
        """Returns the tools that were called without a decision."""
        with urllib.request.urlopen(f"{server.url}/v1/drift", timeout=PATIENT) as answer:
            return {one["tool"] for one in json.loads(answer.read())["unguarded"]}

    async def test_guarded_calls_are_not_unguarded(self) -> None:
        """The server finds the decision about each call, whatever name the SDK's agent has."""
        server = Server(BOUNDARY__REQUIRE_DECISIONS__AGENTS='["*"]')
        self.addCleanup(server.end)
        tracing = self.traced(server.url)
        self.boundary = Umbra(server.url, agent="counter", timeout=PATIENT)
        self.addCleanup(self.boundary.close)
        await self.play()
        tracing.force_flush()
        guarded_calls = [one for one in self.events(self.trace_id) if one.tool and one.agent == "counter"]
        self.assertEqual([one.tool.name for one in guarded_calls if one.tool], ["refund", "refund", "break_down"])
        marks = [one.metadata or {} for one in guarded_calls]
        self.assertEqual([one["decision"] for one in marks], ["execute", "block", "execute"])
        self.assertEqual({one["openai_agents"]["agent"] for one in marks}, {"desk"})
        with urllib.request.urlopen(f"{server.url}/v1/audit?agent=counter", timeout=PATIENT) as answer:
            decided = [json.loads(line)["call_id"] for line in answer.read().splitlines()]
        self.assertEqual([one["call_id"] for one in marks], decided)
        # The search looks at events in their order: this one is seen after all others.
        self.umbra.events.post({"agent": "last", "tool": {"name": "delete_all", "args": {}}})
        deadline = time.monotonic() + PATIENT
        while "delete_all" not in (found := self.unguarded(server)):
            self.assertLess(time.monotonic(), deadline)
            await asyncio.sleep(0.2)
        self.assertEqual(found & {"refund", "break_down"}, set())

    async def test_end_of_the_program(self) -> None:
        async with Peer(Peer.hangs) as peer:
            tracing = self.traced(peer.url)
            await self.play()
            began = time.monotonic()
            # The SDK calls it so when the program ends.
            await asyncio.to_thread(tracing.shutdown)
            self.assertLess(time.monotonic() - began, 8.0)

    async def test_traces_of_failures(self) -> None:
        tracing = self.traced(stories.SERVER.url)
        with self.assertRaises(MaxTurnsExceeded):
            await self.play(max_turns=2)
        tracing.force_flush()
        (ended,) = (one for one in self.events(self.trace_id) if one.status == "error")
        self.assertEqual((ended.agent, ended.input), ("desk", "refund p1"))
        assert ended.metadata is not None
        self.assertIn("Max turns exceeded", ended.metadata["openai_agents"]["error"])
        self.assertIn("error", kinds(ended))
        # The model answers no more: the connection is closed.
        self.model_server.next_step = lambda messages: sys.exit()
        for kind in (OpenAIChatCompletionsModel, OpenAIResponsesModel):
            with self.subTest(kind.__name__):
                with self.assertRaises(APIConnectionError):
                    await self.play(kind)
                tracing.force_flush()
                failed = self.events(self.trace_id)[0]
                assert failed.metadata is not None
                self.assertEqual((failed.agent, failed.status), ("triage", "error"))
                self.assertIn("Connection error", failed.metadata["openai_agents"]["error"])

    async def test_traces_without_texts(self) -> None:
        tracing = self.traced(stories.SERVER.url)
        with self.assertLogs("umbra_shadow", "WARNING") as logs:
            trace_id = await self.play(run_config=RunConfig(trace_include_sensitive_data=False))
        self.assertEqual(["traces have no texts" in line for line in logs.output], [True])
        tracing.force_flush()
        events = self.events(trace_id)
        self.assertEqual([one.tool.name for one in events if one.tool][:2], ["transfer_to_desk", "refund"])
        for event in events:
            assert event.tool is not None
            self.assertEqual((event.tool.args, event.task), (None, None))

    async def test_traces_outlast_an_outage(self) -> None:
        server = Server()
        self.addCleanup(server.end)
        server.stop()
        tracing = self.traced(server.url)
        with self.assertLogs("umbra_shadow", "WARNING"):
            trace_id = await self.play()
            self.assertFalse(tracing._queue.flush(0.0), "the run has waited for the server")
            server.start(server.url)
            self.assertTrue(tracing._queue.flush(PATIENT))
        self.assertEqual((len(self.events(trace_id)), tracing.dropped), (12, 0))

    async def test_traces_beyond_the_queue(self) -> None:
        """A server that never answers does not hold the agent up: its events wait, or are dropped and counted."""
        async with Peer(Peer.hangs) as peer:
            tracing = self.traced(peer.url, most=2)
            began = time.monotonic()
            await self.play()
            # One attempt at a request is given up after 10 seconds.
            self.assertLess(time.monotonic() - began, PATIENT)
            await asyncio.to_thread(tracing.shutdown, 0.5)
        self.assertEqual(tracing.dropped, 12)

    async def test_traces_of_long_texts(self) -> None:
        tracing = self.traced(stories.SERVER.url)
        self.model_server.next_step = lambda messages: (None, "begin " + "x" * 500_000 + " end", (1, 1))
        trace_id = await self.play()
        tracing.force_flush()
        (event,) = self.events(trace_id)
        output = event.output or ""
        self.assertTrue(output.startswith("begin ") and output.endswith(" end"), output[:99])
        self.assertEqual(tracing.dropped, 0)

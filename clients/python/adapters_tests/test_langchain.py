"""Stories of the adapter for LangChain and LangGraph."""

import asyncio
import os
import threading
import unittest
import unittest.mock
import uuid
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ToolRetryMiddleware
from langchain.tools import ToolRuntime
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command, interrupt
from stories import EFFECTS, HERE, PATIENT, SERVERS, Calls, Context, Stories, Told

from umbra_shadow import Umbra
from umbra_shadow.adapters.langchain import UmbraMiddleware


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


class LangChain(Stories, unittest.IsolatedAsyncioTestCase):
    is_failing_told = False
    is_told_tools = True
    is_async = True

    def functions(self) -> list[Any]:
        ran = self.tools.run

        def refund(payment: str, amount: float, runtime: ToolRuntime) -> Any:
            """Refund a payment."""
            return ran("refund", runtime.context, payment=payment, amount=amount)

        def lookup(city: str) -> Any:
            """Look up the weather."""
            return ran("lookup", city=city)

        def list_refunds() -> Any:
            """List the refunds."""
            return ran("list_refunds")

        def search_code(query: str) -> Any:
            """Search the code."""
            return ran("search_code", query=query)

        async def edit_later(path: str, text: str, runtime: ToolRuntime) -> Any:
            return ran("edit_file", runtime.context, path=path, text=text)

        def edit_now(path: str, text: str, runtime: ToolRuntime) -> Any:
            return ran("edit_file", runtime.context, path=path, text=text)

        edit_file = edit_later if self.is_async else edit_now
        edit_file.__name__, edit_file.__doc__ = "edit_file", "Edit a file."

        def break_down() -> Any:
            """Break down."""
            return ran("break_down")

        return [refund, lookup, list_refunds, search_code, edit_file, break_down]

    async def play(
        self,
        umbra: Umbra,
        calls: Calls,
        functions: Any = None,
        outside: Any = (),
        checkpointer: bool = True,
        resume_with: Any = True,
        **settings: Any,
    ) -> Told:
        messages = [
            AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call_{at}"}])
            for at, (name, arguments) in enumerate(calls)
        ]
        agent = create_agent(
            Scripted(messages=iter([*messages, AIMessage("done")])),
            functions or self.functions(),
            middleware=[*outside, UmbraMiddleware(umbra, **{"effects": EFFECTS, "server": SERVERS, **settings})],
            checkpointer=InMemorySaver() if checkpointer else None,
            context_schema=Context,
        )
        config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}

        async def go(given: Any) -> Told:
            if self.is_async:
                state = await agent.ainvoke(given, config, context=Context())
            else:
                state = agent.invoke(given, config, context=Context())
            results = [str(one.content) for one in state["messages"] if isinstance(one, ToolMessage)]
            paused = state.get("__interrupt__")
            if paused:
                return Told(results, None, [one.value for one in paused], lambda: go(Command(resume=resume_with)))
            return Told(results, state["messages"][-1].content)

        return await go({"messages": [{"role": "user", "content": "go"}]})

    async def test_interrupt_of_the_tool(self) -> None:
        """The value that resumes an approved call is no answer to a question of the tool itself."""

        def refund(payment: str, amount: float) -> Any:
            """Refund a payment."""
            answer = interrupt("which account?")
            return self.tools.run("refund", payment=payment, amount=amount) | {"account": str(answer)}

        told = await self.play(self.umbra, [("refund", {"payment": "p1", "amount": 500.0})], functions=[refund])
        (approval,) = self.umbra.approvals.list(state="pending", agent=self.agent)
        self.umbra.approvals.approve(approval.id, "ok")
        assert told.resume is not None
        told = await told.resume()
        self.assertEqual((told.pending, self.tools.ran), (["which account?"], []))
        assert told.resume is not None
        told = await told.resume()
        # One approval is enough, though LangGraph has executed the step three times.
        self.assertEqual((told.final, len(self.tools.ran)), ("done", 1))
        self.assertEqual([one["outcome"]["status"] for one in self.outcomes()], ["ok"])

    async def test_declined(self) -> None:
        """A no by the graph counts more than the approval, which it uses up."""
        reject = {"type": "reject", "message": "the till is shut"}
        for payment, given, reason, is_approved in [
            ("p1", False, "", True),
            ("p2", {"approved": False, "reason": "the till is shut"}, ": the till is shut", True),
            ("p3", {"decisions": [reject]}, ": the till is shut", True),
            ("p4", {"decisions": [{"type": "edit", "edited_action": {"name": "refund", "args": {}}}]}, "", True),
            # Nothing but a yes is a yes.
            ("p6", "no", "", True),
            ("p7", {"decisions": []}, "", True),
            ("p8", {"decisions": [{"type": "approve"}, reject]}, ": the till is shut", True),
            ("p5", {"decisions": [reject]}, ": the till is shut", False),
        ]:
            with self.subTest(payment):
                calls: Calls = [("refund", {"payment": payment, "amount": 500.0})]
                told = await self.play(self.umbra, calls, resume_with=given)
                (approval,) = self.umbra.approvals.list(state="pending", agent=self.agent)
                if is_approved:
                    self.umbra.approvals.approve(approval.id, "ok")
                assert told.resume is not None
                told = await told.resume()
                self.assertEqual((told.final, self.tools.ran), ("done", []))
                words = f"shop.refund was not run (declined): it was declined{reason}; do not call it again"
                self.assertEqual(told.results, [words])
                if is_approved:
                    again = await self.play(self.umbra, calls)
                    self.assertEqual((len(again.pending), self.tools.ran), (1, []))
                    (approval,) = self.umbra.approvals.list(state="pending", agent=self.agent)
                    self.umbra.approvals.deny(approval.id, "no")

    async def test_yes_in_other_forms(self) -> None:
        for payment, given in [("p1", {"approved": True}), ("p2", {"decisions": [{"type": "approve"}]})]:
            told = await self.play(self.umbra, [("refund", {"payment": payment, "amount": 500.0})], resume_with=given)
            (approval,) = self.umbra.approvals.list(state="pending", agent=self.agent)
            self.umbra.approvals.approve(approval.id, "ok")
            assert told.resume is not None
            told = await told.resume()
            self.assertEqual((told.final, self.tools.ran.pop()[1]["payment"]), ("done", payment))

    async def test_calls_at_once_in_one_node(self) -> None:
        """LangGraph could give the answer to one of the calls to another: only a call that is alone pauses."""
        guard = UmbraMiddleware(self.umbra, server=SERVERS)
        node = ToolNode(
            self.plain_functions(), wrap_tool_call=guard.wrap_tool_call, awrap_tool_call=guard.awrap_tool_call
        )
        graph = StateGraph(MessagesState)
        graph.add_node("tools", node)
        graph.add_edge(START, "tools")
        app = graph.compile(checkpointer=InMemorySaver())
        for payments in (["p1"], ["p2", "p3"]):
            calls = [{"name": "refund", "args": {"payment": p, "amount": 500.0}, "id": p} for p in payments]
            given = {"messages": [AIMessage("", tool_calls=calls)]}
            config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
            state = await app.ainvoke(given, config) if self.is_async else app.invoke(given, config)
            told = [one for one in state["messages"] if isinstance(one, ToolMessage)]
            if payments == ["p1"]:
                self.assertTrue(state["__interrupt__"][0].value["approval_id"])
            else:
                self.assertEqual(["a person must approve it first" in one.text for one in told], [True, True])
        self.assertEqual(self.tools.ran, [])

    async def test_repeated_by_another_middleware(self) -> None:
        def refund(payment: str, amount: float) -> Any:
            """Refund a payment."""
            if len(self.tools.ran) == 0:
                self.tools.ran.append(("failed", {}))
                raise RuntimeError("once")
            return self.tools.run("refund", payment=payment, amount=amount)

        calls: Calls = [("refund", {"payment": "p1", "amount": 50.0})]
        retry = ToolRetryMiddleware(max_retries=2, initial_delay=0.0, jitter=False)
        told = await self.play(self.umbra, calls, functions=[refund], outside=[retry])
        self.assertIn("re-1", told.results[0])
        self.assertEqual([one["decision"] for one in self.decisions()], ["execute", "execute"])

    def test_class_in_place_of_an_instance(self) -> None:
        with self.assertRaisesRegex(TypeError, r"a middleware is an instance: middleware=\[UmbraMiddleware\(umbra\)\]"):
            create_agent(Scripted(messages=iter([])), [], middleware=[UmbraMiddleware])  # type: ignore[list-item]
        with self.assertRaisesRegex(TypeError, "an adapter needs a client, .*, not the class Umbra$"):
            UmbraMiddleware(Umbra)  # type: ignore[arg-type]

    async def test_without_checkpointer(self) -> None:
        calls: Calls = [("refund", {"payment": "p1", "amount": 500.0})]
        told = await self.play(self.umbra, calls, checkpointer=False)
        self.assertIn("a person must approve it first", told.results[0])
        self.assertEqual(told.final, "done")

    async def test_documented_approvals(self) -> None:
        """The program of docs/clients.md answers two asks at once, and one after them."""
        text = (HERE.parents[2] / "docs" / "clients.md").read_text()
        program = text.split("## Agent frameworks")[1].split("```python\n")[1].split("```")[0]
        calls = [{"name": "refund", "args": {"payment": p, "amount": 500.0}, "id": p} for p in ("p1", "p2", "p3")]
        steps = [AIMessage("", tool_calls=calls[:2]), AIMessage("", tool_calls=calls[2:]), AIMessage("done")]
        given = {"model": Scripted(messages=iter(steps)), "tools": self.plain_functions()}
        is_over = threading.Event()

        def approve() -> None:
            while not is_over.wait(0.05):
                for one in self.umbra.approvals.list(state="pending", agent=self.agent):
                    self.umbra.approvals.approve(one.id, "ok")

        with unittest.mock.patch.dict(os.environ, {"UMBRA_URL": self.umbra.url}):
            person = asyncio.create_task(asyncio.to_thread(approve))
            try:
                await asyncio.to_thread(exec, program.replace('agent="desk"', f"agent={self.agent!r}"), given)
            finally:
                is_over.set()
                await person
        self.assertEqual(given["state"]["messages"][-1].content, "done")  # type: ignore[index]
        self.assertEqual(sorted(one["payment"] for _, one in self.tools.ran), ["p1", "p2", "p3"])

    def plain_functions(self) -> list[Any]:
        def refund(payment: str, amount: float) -> Any:
            """Refund a payment."""
            return self.tools.run("refund", payment=payment, amount=amount)

        return [refund]

    async def resumed(self, fail_once: bool) -> Told:
        """Resumes a run that broke off behind its call in another process."""
        saver, calls = InMemorySaver(), [{"name": "refund", "args": {"payment": "p1", "amount": 50.0}, "id": "call_0"}]
        config: Any = {"configurable": {"thread_id": uuid.uuid4().hex}}
        attempts: list[str] = []

        def refund(payment: str, amount: float) -> Any:
            """Refund a payment."""
            attempts.append(payment)
            if fail_once and len(attempts) == 1:
                raise RuntimeError("the till is shut")
            return self.tools.run("refund", payment=payment, amount=amount)

        class Breaking(AgentMiddleware[Any, Any, Any]):
            def wrap_tool_call(self, request: Any, handler: Any) -> Any:
                handler(request)
                raise RuntimeError("the process ends")

            async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
                await handler(request)
                raise RuntimeError("the process ends")

        for outside in ([Breaking()], []):
            agent = create_agent(
                Scripted(messages=iter([AIMessage("", tool_calls=calls)] if outside else [AIMessage("done")])),
                [refund],
                middleware=[*outside, UmbraMiddleware(self.umbra, server=SERVERS)],
                checkpointer=saver,
            )
            given: Any = {"messages": [{"role": "user", "content": "go"}]} if outside else None
            try:
                state = await agent.ainvoke(given, config) if self.is_async else agent.invoke(given, config)
            except RuntimeError:
                self.umbra.flush(PATIENT)
        results = [str(one.content) for one in state["messages"] if isinstance(one, ToolMessage)]
        return Told(results, state["messages"][-1].content)

    async def test_resumed_after_a_failure(self) -> None:
        told = await self.resumed(fail_once=True)
        self.assertIn("re-1", told.results[0])
        self.assertEqual((told.final, len(self.tools.ran)), ("done", 1))
        self.assertEqual([one["outcome"]["status"] for one in self.outcomes()], ["error", "ok"])

    async def test_resumed_after_a_lost_result(self) -> None:
        told = await self.resumed(fail_once=False)
        self.assertIn("has run before this run was resumed, and its result is lost", told.results[0])
        self.assertEqual((told.final, len(self.tools.ran)), ("done", 1))

    async def test_graph_of_its_own(self) -> None:
        guard = UmbraMiddleware(self.umbra, server=SERVERS)
        node = ToolNode(
            self.plain_functions(), wrap_tool_call=guard.wrap_tool_call, awrap_tool_call=guard.awrap_tool_call
        )
        graph = StateGraph(MessagesState).add_node("tools", node).add_edge(START, "tools").compile()
        calls = [
            {"name": "refund", "args": {"payment": "p1", "amount": amount}, "id": f"of {amount}"}
            for amount in (50.0, 5000.0)
        ]
        given: Any = {"messages": [AIMessage("", tool_calls=calls)]}
        state = await graph.ainvoke(given) if self.is_async else graph.invoke(given)
        self.assertEqual(self.tools.ran, [("refund", {"payment": "p1", "amount": 50.0})])
        self.assertIn("A refund above 1,000 is made by a person.", state["messages"][-1].content)


class LangChainSync(LangChain):
    """The same stories by ``invoke``."""

    is_async = False

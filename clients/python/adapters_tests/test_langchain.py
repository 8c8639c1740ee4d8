"""Stories of the adapter for LangChain and LangGraph."""

import unittest
import uuid
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain.tools import ToolRuntime
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from stories import EFFECTS, SERVERS, Calls, Context, Stories, Told

from umbra_shadow import Umbra
from umbra_shadow.adapters.langchain import UmbraMiddleware


class Scripted(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self


class LangChain(Stories, unittest.IsolatedAsyncioTestCase):
    is_failing_told = False
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
        **settings: Any,
    ) -> Told:
        messages = [
            AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"call_{at}"}])
            for at, (name, arguments) in enumerate(calls)
        ]
        agent = create_agent(
            Scripted(messages=iter([*messages, AIMessage("done")])),
            functions or self.functions(),
            middleware=[*outside, UmbraMiddleware(umbra, effects=EFFECTS, server=SERVERS, **settings)],
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
                return Told(results, None, [one.value for one in paused], lambda: go(Command(resume=True)))
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

    async def test_without_checkpointer(self) -> None:
        calls: Calls = [("refund", {"payment": "p1", "amount": 500.0})]
        told = await self.play(self.umbra, calls, checkpointer=False)
        self.assertIn("a person must approve it first", told.results[0])
        self.assertEqual(told.final, "done")


class LangChainSync(LangChain):
    """The same stories by ``invoke``."""

    is_async = False

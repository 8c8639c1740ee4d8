"""Stories of the adapter for the OpenAI Agents SDK."""

import json
import unittest
import uuid
from typing import Any

from agents import Agent, RunConfig, RunContextWrapper, Runner, WebSearchTool, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call
from stories import EFFECTS, SERVERS, Calls, Context, Stories, Told

from umbra_shadow import Umbra
from umbra_shadow.adapters.openai_agents import guarded


class OpenAIAgents(Stories, unittest.IsolatedAsyncioTestCase):
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
            tools=guarded(self.functions(), umbra, effects=EFFECTS, server=SERVERS, **settings),
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

    async def test_hosted_tool(self) -> None:
        with self.assertRaisesRegex(TypeError, "WebSearchTool is no function tool"):
            guarded([WebSearchTool()], self.umbra)

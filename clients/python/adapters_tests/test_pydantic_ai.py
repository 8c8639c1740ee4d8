"""Stories of the adapter for Pydantic AI."""

import unittest
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from stories import EFFECTS, SERVERS, Calls, Context, Stories, Told

from umbra_shadow import Umbra
from umbra_shadow.adapters.pydantic_ai import UmbraCapability


def results_of(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return [part.model_response_str() for part in parts]


class PydanticAI(Stories, unittest.IsolatedAsyncioTestCase):
    is_failing_told = False

    def add_functions(self, agent: Agent[Context, Any]) -> None:
        ran = self.tools.run

        @agent.tool
        def refund(ctx: RunContext[Context], payment: str, amount: float) -> Any:
            return ran("refund", ctx.deps, payment=payment, amount=amount)

        @agent.tool_plain
        async def lookup(city: str) -> Any:
            return ran("lookup", city=city)

        @agent.tool_plain
        def list_refunds() -> Any:
            return ran("list_refunds")

        @agent.tool_plain
        def search_code(query: str) -> Any:
            return ran("search_code", query=query)

        @agent.tool
        def edit_file(ctx: RunContext[Context], path: str, text: str) -> Any:
            return ran("edit_file", ctx.deps, path=path, text=text)

        @agent.tool_plain
        def break_down() -> Any:
            return ran("break_down")

    async def play(self, umbra: Umbra, calls: Calls, **settings: Any) -> Told:
        seen: list[str] = []
        left = [ToolCallPart(name, arguments, f"call_{at}") for at, (name, arguments) in enumerate(calls)]

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            seen[:] = results_of(messages)
            return ModelResponse(parts=[left.pop(0) if left else TextPart("done")])

        agent = Agent(
            FunctionModel(model),
            deps_type=Context,
            output_type=[str, DeferredToolRequests],
            capabilities=[UmbraCapability(umbra, effects=EFFECTS, server=SERVERS, **settings)],
        )
        self.add_functions(agent)

        async def go(**given: Any) -> Told:
            result = await agent.run(deps=Context(), **given)
            if isinstance(result.output, DeferredToolRequests):
                asked = result.output
                answers = DeferredToolResults(approvals={one.tool_call_id: True for one in asked.approvals})
                history = result.all_messages()
                pending = list(asked.metadata.values())
                return Told(seen, None, pending, lambda: go(message_history=history, deferred_tool_results=answers))
            return Told(list(seen), result.output)

        return await go(user_prompt="go")

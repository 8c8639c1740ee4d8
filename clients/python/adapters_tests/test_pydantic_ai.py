"""Stories of the adapter for Pydantic AI."""

import unittest
from typing import Any

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from stories import EFFECTS, SERVERS, Calls, Context, Stories, Told

from umbra_shadow import Umbra
from umbra_shadow.adapters.pydantic_ai import UmbraCapability

PAUSING: Any = [str, DeferredToolRequests]


def results_of(messages: list[ModelMessage]) -> list[str]:
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return [part.model_response_str() for part in parts]


class PydanticAI(Stories, unittest.IsolatedAsyncioTestCase):
    is_failing_told = False
    is_told_tools = True

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

    async def play(
        self, umbra: Umbra, calls: Calls, output_type: Any = PAUSING, more: Any = (), **settings: Any
    ) -> Told:
        seen: list[str] = []
        left: list[Any] = [ToolCallPart(name, arguments, f"call_{at}") for at, (name, arguments) in enumerate(calls)]

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            seen[:] = results_of(messages)
            return ModelResponse(parts=[left.pop(0) if left else TextPart("done")])

        agent = Agent(
            FunctionModel(model),
            deps_type=Context,
            output_type=output_type,
            capabilities=[UmbraCapability(umbra, **{"effects": EFFECTS, "server": SERVERS, **settings}), *more],
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

    async def test_without_requests_among_the_output_types(self) -> None:
        """The model is told of the approval, and the run goes on: no request could pause it."""
        calls: Calls = [("lookup", {"city": "Bern"}), ("refund", {"payment": "p1", "amount": 500.0})]
        told = await self.play(self.umbra, calls, output_type=str)
        self.assertEqual((told.final, self.tools.ran), ("done", [("lookup", {"city": "Bern"})]))
        (approval,) = self.umbra.approvals.list(state="pending", agent=self.agent)
        self.assertEqual(told.results[0], "sunny")
        self.assertIn(
            "a person must approve it first (A refund above 100 is approved by a person.). The approval "
            f"{approval.id} is requested",
            told.results[1],
        )

    async def test_handler_of_deferred_calls(self) -> None:
        """A handler of the program comes first, wherever it is in the list."""

        async def handle(ctx: RunContext[Any], requests: DeferredToolRequests) -> DeferredToolResults:
            for told in requests.metadata.values():
                self.umbra.approvals.approve(told["approval_id"], "ok")
            return DeferredToolResults(approvals=dict.fromkeys(requests.metadata, True))

        calls: Calls = [("refund", {"payment": "p1", "amount": 500.0})]
        told = await self.play(self.umbra, calls, output_type=str, more=[HandleDeferredToolCalls(handle)])
        self.assertEqual((told.final, self.tools.ran), ("done", calls))

    async def test_class_in_place_of_an_instance(self) -> None:
        agent = Agent(FunctionModel(lambda messages, info: ModelResponse(parts=[])), capabilities=[UmbraCapability])
        with self.assertRaisesRegex(TypeError, r"a capability is an instance: capabilities=\[UmbraCapability\(umbra\)"):
            await agent.run("go")

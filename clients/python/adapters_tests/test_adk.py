"""Stories of the adapter for Google's Agent Development Kit."""

import unittest
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.tools import ToolContext
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.google_search_tool import google_search
from google.genai import types
from pydantic import PrivateAttr
from stories import EFFECTS, SERVERS, Calls, Context, Stories, Told

from umbra_shadow import Umbra
from umbra_shadow.adapters.adk import guarded


class Scripted(BaseLlm):
    _left: list[Any] = PrivateAttr(default_factory=list)
    _seen: list[Any] = PrivateAttr(default_factory=list)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        self._seen[:] = [part.function_response.response for part in parts if part.function_response]
        if self._left:
            name, arguments = self._left.pop(0)
            part = types.Part.from_function_call(name=name, args=arguments)
        else:
            part = types.Part.from_text(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class Files(BaseToolset):
    """Toolset with one tool."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    async def get_tools(self, readonly_context: Any = None) -> Any:
        return [FunctionTool(self.function)]

    async def close(self) -> None:
        pass


class ADK(Stories, unittest.IsolatedAsyncioTestCase):
    is_failing_told = False

    def functions(self) -> list[Any]:
        ran = self.tools.run

        def refund(payment: str, amount: float, tool_context: ToolContext) -> Any:
            """Refund a payment."""
            return ran("refund", context_of(tool_context), payment=payment, amount=amount)

        async def lookup(city: str) -> Any:
            """Look up the weather."""
            return ran("lookup", city=city)

        def list_refunds() -> Any:
            """List the refunds."""
            return ran("list_refunds")

        def search_code(query: str) -> Any:
            """Search the code."""
            return ran("search_code", query=query)

        def edit_file(path: str, text: str, tool_context: ToolContext) -> Any:
            """Edit a file."""
            return ran("edit_file", context_of(tool_context), path=path, text=text)

        def break_down() -> Any:
            """Break down."""
            return ran("break_down")

        return [refund, FunctionTool(lookup), list_refunds, search_code, Files(edit_file), break_down]

    async def test_misspelt_name_without_toolsets(self) -> None:
        tools = [one for one in self.functions() if not isinstance(one, Files)]
        with self.assertRaisesRegex(ValueError, "server names 'refunds', which is no tool here: is it 'refund'"):
            guarded(tools, self.umbra, server={"refunds": "shop"})

    async def play(self, umbra: Umbra, calls: Calls, **settings: Any) -> Told:
        model = Scripted(model="scripted")
        model._left = list(calls)
        tools = guarded(self.functions(), umbra, effects=EFFECTS, server=SERVERS, **settings)
        runner = InMemoryRunner(LlmAgent(name="desk", model=model, tools=tools), app_name="desk")
        state = {"key": Context().key, "word": Context().word}
        session = await runner.session_service.create_session(app_name="desk", user_id="u", state=state)

        async def go(part: types.Part) -> Told:
            final, pending, asked = None, [], []
            message = types.Content(role="user", parts=[part])
            async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
                for call in event.get_function_calls():
                    if call.name == "adk_request_confirmation":
                        asked.append(call)
                        pending.append(call.args["toolConfirmation"]["payload"])
                if event.content and event.content.parts and event.content.parts[0].text:
                    final = event.content.parts[0].text
            if asked:
                response = types.FunctionResponse(id=asked[0].id, name=asked[0].name, response={"confirmed": True})
                return Told([], final, pending, lambda: go(types.Part(function_response=response)))
            return Told([text_of(one) for one in model._seen], final)

        return await go(types.Part.from_text(text="go"))

    async def test_hosted_tool(self) -> None:
        with self.assertRaisesRegex(TypeError, "google_search is run by the model's provider"):
            guarded([google_search], self.umbra)


def context_of(tool_context: ToolContext) -> Context:
    assert tool_context.state["word"] == Context().word
    return Context()


def text_of(response: Any) -> str:
    """Returns a response as its text: the kit puts a result that is no object under ``result``."""
    return str(response["result"]) if list(response) == ["result"] else str(response)

"""Stories of the adapter for CrewAI."""

import json
import os
import unittest
from typing import Any

os.environ |= {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "CREWAI_TRACING_ENABLED": "false"}

from crewai import Agent, Crew, Task
from crewai.llms.base_llm import BaseLLM
from crewai.tools import BaseTool, tool
from pydantic import PrivateAttr
from stories import EFFECTS, SERVERS, Calls, Context, Stories, Told

from umbra_shadow import Umbra
from umbra_shadow.adapters.crewai import guarded


class Scripted(BaseLLM):
    """Model that asks for calls one at a time, by the API for tools or in text."""

    _left: list[Any] = PrivateAttr(default_factory=list)
    _seen: list[str] = PrivateAttr(default_factory=list)
    _is_native: bool = PrivateAttr(default=True)

    def supports_function_calling(self) -> bool:
        return self._is_native

    def call(self, messages: Any, tools: Any = None, *args: Any, **settings: Any) -> Any:
        if self._is_native:
            self._seen[:] = [str(one["content"]) for one in messages if one.get("role") == "tool"]
        else:
            said = [str(one["content"]) for one in messages if one["role"] == "assistant"]
            self._seen[:] = [text.partition("\nObservation: ")[2] for text in said]
        if not self._left:
            return "done" if self._is_native else "Thought: I know.\nFinal Answer: done"
        name, arguments = self._left.pop(0)
        if self._is_native:
            call = {"name": name, "arguments": json.dumps(arguments)}
            return [{"id": f"call_{len(self._left)}", "type": "function", "function": call}]
        return f"Thought: I call it.\nAction: {name}\nAction Input: {json.dumps(arguments)}"


class CrewAI(Stories, unittest.IsolatedAsyncioTestCase):
    is_pausing = False
    is_native = True
    is_knowing_tools = True

    def functions(self) -> list[BaseTool]:
        ran = self.tools.run

        @tool
        def refund(payment: str, amount: float) -> Any:
            """Refund a payment."""
            return ran("refund", payment=payment, amount=amount)

        @tool
        async def lookup(city: str) -> Any:
            """Look up the weather."""
            return ran("lookup", city=city)

        @tool
        def list_refunds() -> Any:
            """List the refunds."""
            return ran("list_refunds")

        @tool
        def search_code(query: str) -> Any:
            """Search the code."""
            return ran("search_code", query=query)

        class EditFile(BaseTool):
            name: str = "edit_file"
            description: str = "Edit a file."
            context: Any = None

            def _run(self, path: str, text: str) -> Any:
                return ran("edit_file", self.context, path=path, text=text)

        @tool
        def break_down() -> Any:
            """Break down."""
            return ran("break_down")

        return [refund, lookup, list_refunds, search_code, EditFile(context=Context()), break_down]

    async def play(self, umbra: Umbra, calls: Calls, **settings: Any) -> Told:
        model = Scripted(model="scripted")
        model._left, model._is_native = list(calls), self.is_native
        agent = Agent(
            role="desk",
            goal=f"serve {Context().word}",
            backstory=f"the key is {Context().key}",
            llm=model,
            tools=guarded(self.functions(), umbra, **{"effects": EFFECTS, "server": SERVERS, **settings}),
        )
        task = Task(description="go", expected_output="done", agent=agent)
        result = await Crew(agents=[agent], tasks=[task]).kickoff_async()
        return Told(list(model._seen), str(result))


    def test_unguardable(self) -> None:
        """A tool of another kind is refused at once."""
        with self.assertRaisesRegex(TypeError, "a tool is a BaseTool, as @tool makes one, not function"):
            guarded([lambda: 1], self.umbra)  # type: ignore[list-item]


class CrewAIText(CrewAI):
    """The same stories with a model that has no API for tools."""

    is_native = False

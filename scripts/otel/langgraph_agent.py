"""Agent of LangGraph; its telemetry comes from `opentelemetry-instrument` and OpenInference alone.

Usage: langgraph_agent.py THREAD AGENT. OPENAI_BASE_URL names the model server.
"""

import sys

import tools
from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

thread, name = sys.argv[1:]


@wrap_tool_call
def report_failure(request, handler):
    """Gives the model the error of a failed tool, so that the agent goes on."""
    try:
        return handler(request)
    except PermissionError as error:
        return ToolMessage(content=f"Error: {error}", tool_call_id=request.tool_call["id"], status="error")


agent = create_agent(
    ChatOpenAI(model="gpt-4.1-mini", streaming=True, stream_usage=True),
    [tool(tools.run_shell), tool(tools.read_file)],
    system_prompt=tools.scenario["system"],
    middleware=[report_failure],
    name=name,
)
asked = {"messages": [{"role": "user", "content": tools.scenario["prompt"]}]}
agent.invoke(asked, {"configurable": {"thread_id": thread}})
tools.report("answer")

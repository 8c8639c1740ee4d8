"""A support agent of the OpenAI Agents SDK whose large refunds are approved by a person.

The run pauses at a refund above 100 (tools.yaml) until a person answers, by a command or on the page of the server.
Then it goes on: an approved refund is made, once, and the model is told of a denied one. Traces are posted as events.

    pip install './clients/python[openai-agents]'
    umbra serve --tools examples/openai_agents_approvals/tools.yaml &
    export OPENAI_API_KEY=...              # and OPENAI_BASE_URL, OPENAI_MODEL for models of another server
    python examples/openai_agents_approvals/agent.py 'I paid p-7 twice. Refund one, please.'
    umbra approvals approve ID --reason 'paid twice, indeed'    # in another terminal; or deny
"""

import asyncio
import os
import sys
import uuid

from agents import Agent, Runner, function_tool, set_default_openai_api, set_trace_processors

from umbra_shadow import AsyncUmbra
from umbra_shadow.adapters.openai_agents import UmbraTracing, guarded

REQUEST = " ".join(sys.argv[1:]) or "I paid p-7 twice. Refund one, please."
PAYMENTS = {"p-7": {"amount": 250.0, "count": 2}, "p-8": {"amount": 40.0, "count": 1}}


@function_tool
def find_payment(payment: str) -> dict[str, float] | str:
    """Find a payment by its id: the amount in dollars, and how often it was made."""
    return PAYMENTS.get(payment, "there is no such payment")


@function_tool
def refund(payment: str, amount: float) -> str:
    """Refund an amount in dollars of a payment."""
    return f"refunded {amount:.2f} of {payment}"


async def answers(umbra: AsyncUmbra, run: str) -> None:
    """Waits until a person has answered each approval that this run waits for."""
    async for asked in umbra.approvals.list(state="pending", agent=umbra.agent):
        if asked.run == run:
            print(f"{asked.tool} {asked.arguments}: {asked.reason}\n  umbra approvals approve {asked.id}", flush=True)
            answered = await umbra.approvals.wait(asked.id, timeout=600)
            print(f"  {answered.state} {answered.note or ''}")


async def main() -> None:
    run = f"support-{uuid.uuid4().hex}"
    # Models of most servers speak Chat Completions; traces go to Umbra alone, and not to OpenAI.
    set_default_openai_api("chat_completions")
    async with AsyncUmbra(agent="support", run=run) as umbra:
        set_trace_processors([UmbraTracing(umbra)])
        agent = Agent(
            name="support",
            instructions="You help customers of a shop. Look a payment up before you refund it.",
            model=os.environ.get("OPENAI_MODEL", "gpt-5-mini"),
            tools=guarded([find_payment, refund], umbra, server="shop", effects={"find_payment": "read"}),
        )
        result = await Runner.run(agent, REQUEST)
        while result.interruptions:
            await answers(umbra, run)
            state = result.to_state()
            for item in result.interruptions:
                state.approve(item)  # lets the SDK go on: the boundary asks again, and the person's answer decides
            result = await Runner.run(agent, state)
        print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())

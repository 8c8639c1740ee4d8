"""Adapters, which put the boundary, and a sidecar's guardrails, around the tools of agent frameworks, or post events.

Each module needs its framework, which the extra of the same name installs (``umbra-shadow[langchain]``):
``langchain``, ``openai_agents``, ``pydantic_ai``, ``crewai``, ``adk``, ``mcp`` and ``litellm``.
"""

"""Base classes of the generated models."""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A request, or an answer of the server.

    Members that a newer server adds are kept in ``model_extra``. An enumeration accepts values that are not known yet.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        extra="allow", frozen=True, defer_build=True, protected_namespaces=()
    )


class Judgement(Model):
    """An answer with a verdict of the rules."""

    decision: str
    """``allow``, ``warn`` or ``block``."""

    @property
    def blocked(self) -> bool:
        """True if the rules forbid the subject: the agent must not go on with it."""
        return self.decision == "block"

    @property
    def unjudged(self) -> bool:
        """True if the call or text was so long that the server did not judge it: no rule was asked."""
        return bool((self.model_extra or {}).get("unjudged"))


class NamedTool(Model):
    """Name of a tool, shown as ``server.name`` or as the name alone."""

    name: str
    server: str | None = None

    def __str__(self) -> str:
        return f"{self.server}.{self.name}" if self.server else self.name


class SidecarAnswer(Model):
    """An answer that may lack parts."""

    degraded: bool = False
    """True if something is missing because the server, or a part that it depends on, was away or late."""
    warnings: list[str] = []
    """Missing parts, and other notes."""

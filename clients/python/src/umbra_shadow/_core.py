"""State of a client that its synchronous and its asynchronous form share."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ._config import Config
from ._requests import Health, Request

if TYPE_CHECKING:
    from ._async.client import AsyncUmbra
    from ._sync.client import Umbra

log = logging.getLogger("umbra_shadow")

# Longest time that an ending program waits for its outcomes to be reported, in seconds.
LAST_WORDS = 2.0
# Most tools that are remembered as no reads; beyond them, no tool runs while the server is away.
_MOST_TOOLS = 10_000
# Kinds of the warnings about calls that are refused, and changes that are lost, while the server is away.
AWAY, UNSTORED = "away", "unstored"
# Most ends of sessions that wait to be reported.
_MOST_ENDS = 100


class Core:
    """Settings, memory and background reports of a client. Safe for threads and event loops."""

    def __init__(self, config: Config, transport: Any = None, health: Health | None = None) -> None:
        from ._posting import OutcomeQueue

        self.config = config
        self.transport = transport
        """Transport of httpx for both forms, in place of the network."""
        self.health = health or Health()
        self.ends: deque[Request] = deque(maxlen=_MOST_ENDS)
        """Ends of sessions that could not be reported, the oldest first; they are reported with the next attachment."""
        self._lock = threading.Lock()
        self._no_reads: set[str] = set()
        self._warned: set[str] = set()
        self.outcomes = OutcomeQueue(self)
        """Outcomes of calls that are not reported yet."""
        self._sync: Umbra | None = None
        self._async: AsyncUmbra | None = None

    def sync_client(self) -> Umbra:
        """Returns the synchronous form of the client."""
        from ._sync.client import Umbra

        with self._lock:
            if self._sync is None:
                self._sync = Umbra._of(self)
            return self._sync

    def async_client(self) -> AsyncUmbra:
        """Returns the asynchronous form of the client."""
        from ._async.client import AsyncUmbra

        with self._lock:
            if self._async is None:
                self._async = AsyncUmbra._of(self)
            return self._async

    def close(self) -> None:
        """Closes the connections that belong to no event loop."""
        if self._sync is not None:
            self._sync._http.close()

    def warn_once(self, kind: str, words: str, *values: Any) -> None:
        """Logs a warning, once for each kind."""
        with self._lock:
            is_new = kind not in self._warned
            self._warned.add(kind)
        if is_new:
            log.warning(words, *values)

    def answered(self) -> None:
        """Notes an answer of the server: it ends the pause of sidecars, and is told again once it is away again."""
        self.health.answered()
        self._warned -= {AWAY, UNSTORED}

    def learn(self, tool: str, answer: Mapping[str, Any], declared: Any = None) -> None:
        """Remembers a tool that the server calls a write, or destructive; the server has answered."""
        self.answered()
        if answer.get("effect") == "read" or len(self._no_reads) >= _MOST_TOOLS:
            return
        self._no_reads.add(tool)
        if declared == "read":
            why = next(iter(answer.get("explain") or ()), "")
            words = "umbra: %s is declared a read, and counts as none: it will not run while the server is away (%s)"
            self.warn_once(f"effect of {tool}", words, tool, why)

    def may_read(self, tool: str) -> bool:
        """Returns True if the server has never called this tool no read: a declared read may run without it."""
        return tool not in self._no_reads and len(self._no_reads) < _MOST_TOOLS

    def report(self, call_id: str, outcome: Mapping[str, Any]) -> None:
        """Reports the outcome of a call in the background."""
        self.outcomes.put(call_id, dict(outcome))

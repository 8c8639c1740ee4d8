"""State of a client that its synchronous and its asynchronous form share."""

from __future__ import annotations

import atexit
import datetime
import hashlib
import logging
import queue
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from . import _requests
from ._config import Config
from ._json import encoded, object_in, typed
from ._requests import Health, NoAnswer, Request
from .errors import problem_text

if TYPE_CHECKING:
    from ._async.client import AsyncUmbra
    from ._sync.client import Umbra

log = logging.getLogger("umbra_shadow")

# Outcomes that wait for a slow server; more are dropped, and the log says so.
_MOST_OUTCOMES = 1_000
# Longest time that an ending program waits for its outcomes to be reported, in seconds.
LAST_WORDS = 2.0
# Most tools that are remembered as no reads; beyond them, no tool runs while the server is away.
_MOST_TOOLS = 10_000
# Kind of the warning about calls that are refused while the server is away; an answer ends it.
AWAY = "away"
# Most approvals that are remembered.
_MOST_APPROVALS = 1_000
# Most ends of sessions that wait to be reported.
_MOST_ENDS = 100


class Core:
    """Settings, memory and background reports of a client. Safe for threads and event loops."""

    def __init__(self, config: Config, transport: Any = None, health: Health | None = None) -> None:
        self.config = config
        self.transport = transport
        """Transport of httpx for both forms, in place of the network."""
        self.health = health or Health()
        self.ends: deque[Request] = deque(maxlen=_MOST_ENDS)
        """Ends of sessions that could not be reported, the oldest first; they are reported with the next attachment."""
        self._lock = threading.Lock()
        self._no_reads: set[str] = set()
        self._warned: set[str] = set()
        self._approvals: OrderedDict[bytes, tuple[str, str]] = OrderedDict()
        self._outcomes: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue(_MOST_OUTCOMES)
        self._reporter: threading.Thread | None = None
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

    def approval(
        self, agent: str | None, tool: str, arguments: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> str | None:
        """Notes the approval that a call waits for. Returns the id of the one before it, if that has expired."""
        is_asked = answer["decision"] == "ask"
        if not is_asked and not self._approvals:
            return None
        asked, key = object_in(answer, "approval"), hashlib.sha256(encoded([agent, tool, arguments])).digest()
        with self._lock:
            id, expires_at = self._approvals.pop(key, ("", ""))
            if is_asked:
                self._approvals[key] = asked.get("id", ""), asked.get("expires_at", "")
                if len(self._approvals) > _MOST_APPROVALS:
                    self._approvals.popitem(last=False)
        if not expires_at or asked.get("id") == id:
            return None
        return id if typed(expires_at, datetime.datetime) < datetime.datetime.now(datetime.timezone.utc) else None

    def learn(self, tool: str, effect: Any) -> None:
        """Remembers a tool that the server calls a write, or destructive; the server has answered."""
        self._warned.discard(AWAY)
        if effect != "read" and len(self._no_reads) < _MOST_TOOLS:
            self._no_reads.add(tool)

    def may_read(self, tool: str) -> bool:
        """Returns True if the server has never called this tool no read: a declared read may run without it."""
        return tool not in self._no_reads and len(self._no_reads) < _MOST_TOOLS

    def report(self, call_id: str, outcome: Mapping[str, Any]) -> None:
        """Reports the outcome of a call in the background."""
        with self._lock:
            if self._reporter is None or not self._reporter.is_alive():
                self._reporter = threading.Thread(target=self._report_all, name="umbra-outcomes", daemon=True)
                self._reporter.start()
                atexit.register(lambda: self.sync_client().flush())
        try:
            self._outcomes.put_nowait((call_id, dict(outcome)))
        except queue.Full:
            log.warning(
                "umbra: %d outcomes wait for %s; that of call %s is dropped", _MOST_OUTCOMES, self.config.url, call_id
            )

    @property
    def pending(self) -> int:
        """Number of outcomes that are not reported yet."""
        return self._outcomes.unfinished_tasks

    def _report_all(self) -> None:
        while True:
            call_id, outcome = self._outcomes.get()
            request = Request("POST", _requests.path("calls", call_id, "outcome"), outcome, repeatable=True)
            try:
                response = self.sync_client()._http.request(request, max(self.config.decision_timeout, 5.0))
                if response.status >= 400:
                    words = problem_text(response.body)
                    log.warning("umbra: the outcome of call %s was refused (%s): %s", call_id, response.status, words)
            except NoAnswer as gone:
                log.warning("umbra: the outcome of call %s is not reported: %s", call_id, gone)
            finally:
                self._outcomes.task_done()

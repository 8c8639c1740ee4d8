"""Requests and responses, and their handling that both kinds of clients share."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import random
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping
from typing import Any, TypeVar

import httpx
import pydantic

from ._json import encoded, is_object
from .errors import APIError, Unavailable, WrongAddress, problem_text

VERSION = "0.1.0"

# Longest attempt at a request that is retried, in seconds.
ATTEMPT = 10.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
# Seconds of silence after which a stream is dead; the server sends a keep-alive message every 15 s.
SILENCE = 60.0
# Reasons of OpenSSL, by its version, for an answer that is no TLS.
_NO_TLS = ("HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE", "UNKNOWN_PROTOCOL", "WRONG_VERSION_NUMBER")

M = TypeVar("M", bound=pydantic.BaseModel)


class NoAnswer(Exception):
    """The server did not answer, or not in time.

    ``sent`` is False if the request did not reach it, and ``is_final`` True if to ask again does not help.
    """

    def __init__(self, detail: str, sent: bool = True, is_final: bool = False) -> None:
        super().__init__(detail)
        self.sent, self.is_final = sent, is_final

    @classmethod
    def of(cls, error: Exception) -> NoAnswer:
        """Returns the fault of the network, in words."""
        if told := _tls_fault(error):
            return cls(told, sent=False, is_final=True)
        sent = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
        words = "no answer in time" if isinstance(error, httpx.TimeoutException) else str(error)
        return cls(words or type(error).__name__, sent)


@dataclasses.dataclass(frozen=True)
class Request:
    """A request to the server. ``repeatable``: it may be sent again when the first answer may be lost.

    ``exact``: its body has calls to be judged, which are sent as they are.
    """

    method: str
    path: str
    body: Any = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict[str, Any])
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])
    repeatable: bool = False
    exact: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @functools.cached_property
    def data(self) -> bytes:
        """Body as it is sent: JSON in UTF-8, or nothing."""
        return b"" if self.body is None else encoded(self.body, self.exact)

    @property
    def target(self) -> str:
        """Path with its query. Members without a value are left out; a truth value is ``true`` or ``false``."""
        given = {
            name: str(value).lower()
            if isinstance(value, bool)
            else value.isoformat()
            if isinstance(value, datetime.datetime)
            else value
            for name, value in self.params.items()
            if value is not None
        }
        return f"{self.path}?{urllib.parse.urlencode(given)}" if given else self.path


@dataclasses.dataclass(frozen=True)
class Response:
    """A response. ``body`` is its JSON object; a refusal counts in any form, since a proxy may have written it."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str])

    @classmethod
    def of(cls, status: int, data: bytes, headers: Mapping[str, str]) -> Response:
        """Reads a response. Raises :class:`NoAnswer` if a success is no JSON object."""
        try:
            body = json.loads(data or b"{}")
            if not is_object(body):
                raise ValueError("the answer is no JSON object")
        except (ValueError, RecursionError) as wrong:
            if status < 300:
                raise NoAnswer(f"what answers is no server of Umbra: {wrong}", is_final=True) from None
            body = {"detail": data[:200].decode("utf-8", "replace")}
        return cls(status, body, headers)

    @property
    def is_temporary(self) -> bool:
        """True if the same request may succeed later."""
        return self.status in (408, 425, 429) or self.status >= 500

    @property
    def is_foreign(self) -> bool:
        """True for the answer of another server: no success, and no refusal in the form of Umbra."""
        is_missing = self.status in (404, 405) and not isinstance(self.body.get("code"), str)
        return is_missing or not (200 <= self.status < 300 or self.status >= 400)

    @property
    def fault(self) -> str:
        """Refusal in words."""
        whose = "what answers is no server of Umbra: " if self.is_foreign else ""
        return f"{whose}it answered {self.status}: {problem_text(self.body)}"


def _tls_fault(error: BaseException | None) -> str | None:
    """Returns a fault of TLS that does not heal by itself, in words."""
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}; SSL_CERT_FILE may name an authority of your own"
    is_plain = error is not None and error.reason in _NO_TLS
    return "this port speaks no TLS: use http:// in its address" if is_plain else None


def path(*parts: str) -> str:
    """Returns a path of the API; the parts are percent-encoded.

    Raises :class:`TypeError` for an id or a name that is no text, and :class:`ValueError` for an empty one.
    """
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"an id or a name in {parts[0]} is a text, not {part!r}")
        if not part:
            raise ValueError(f"an id or a name in {parts[0]} is empty")
    return "/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in parts)


def wire(request: Request, url: str, api_key: str | None, **timeouts: float) -> httpx.Request:
    """Returns a request in the form of httpx; ``timeouts`` in seconds are those of its transport."""
    headers = {"User-Agent": f"umbra-shadow-python/{VERSION}", **request.headers}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"
    if request.data:
        headers["Content-Type"] = "application/json"
    extensions = {"timeout": timeouts}
    return httpx.Request(
        request.method, url + request.target, headers=headers, content=request.data, extensions=extensions
    )


def parsed(kind: type[M], response: Response) -> M:
    """Returns the answer as a model. Raises :class:`NoAnswer` if it is none."""
    try:
        return kind.model_validate(response.body)
    except pydantic.ValidationError as wrong:
        first = wrong.errors()[0]
        place = ".".join(str(one) for one in first["loc"])
        raise NoAnswer(f"what answers is no server of Umbra of this version: {place}: {first['msg']}") from None


class Retry:
    """Attempts at one request, until it is answered or its time is over."""

    def __init__(self, request: Request, url: str, seconds: float, attempt: float = ATTEMPT) -> None:
        self._request, self._url, self._attempt = request, url, attempt
        self._until = time.monotonic() + seconds
        self._pause = _FIRST_PAUSE

    def seconds(self) -> float:
        """Returns the length of the next attempt."""
        return max(0.05, min(self._attempt, self._until - time.monotonic()))

    def answered(self, response: Response) -> float | None:
        """Returns None if the response is final, or the pause before the next attempt. Raises what a refusal means."""
        if response.is_temporary:
            # A server that is too busy, or starts, has not taken the request.
            is_refused = response.status in (429, 503)
            return self._again(response.fault, is_refused, response)
        if response.is_foreign:
            raise WrongAddress(f"{self._url} gave no answer: {response.fault}", response.status)
        if response.status >= 400:
            raise APIError(str(self._request), response.status, response.body)
        return None

    def unanswered(self, fault: NoAnswer) -> float:
        """Returns the pause before the next attempt. Raises :class:`Unavailable` if there is none."""
        if fault.is_final:
            raise WrongAddress(f"{self._url} gave no answer: {fault}") from None
        return self._again(str(fault), not fault.sent)

    def _again(self, what: str, was_not_taken: bool, response: Response | None = None) -> float:
        pause = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        wanted = (response.headers.get("retry-after") if response else None) or ""
        if wanted.isdigit():
            pause = max(pause, float(wanted))
        if not (self._request.repeatable or was_not_taken) or time.monotonic() + pause >= self._until:
            raise Unavailable(f"{self._url} gave no answer: {what}", response.status if response else None) from None
        return pause


class Health:
    """Circuit breaker of a server: after faults in a row no request is sent for a while, then one request tries it."""

    FAULTS = 3
    PASSIVE = 15.0
    """Length of the pause, in seconds."""

    def __init__(self, faults: int | None = None) -> None:
        self.most = faults or self.FAULTS
        self._lock = threading.Lock()
        self._faults = 0
        self._until = 0.0

    def may_ask(self, seconds: float, alone: bool = True) -> bool:
        """Returns True if a request may be sent. After a pause an ``alone`` one holds others back for ``seconds``."""
        with self._lock:
            if self._faults < self.most:
                return True
            now = time.monotonic()
            if now < self._until:
                return False
            if alone:
                self._until = now + seconds
            return True

    def answered(self) -> None:
        """Notes an answer."""
        with self._lock:
            self._faults = 0

    def failed(self) -> int:
        """Notes a fault, and returns the number of faults in a row."""
        with self._lock:
            self._faults += 1
            if self._faults >= self.most:
                self._until = time.monotonic() + self.PASSIVE
            return self._faults


@dataclasses.dataclass(frozen=True)
class ServerEvent:
    """A server-sent event. ``event`` and ``data`` are empty if it only moves the position."""

    id: str
    event: str
    data: str


class EventDecoder:
    """Decoder of a stream of server-sent events, line by line."""

    def __init__(self) -> None:
        self._members: dict[str, str] = {}

    def feed(self, line: str) -> ServerEvent | None:
        """Takes a line, and returns the event that ends with it."""
        name, _, value = line.partition(":")
        if name in ("id", "event", "data"):
            value = value.removeprefix(" ")
            before = self._members.get(name)
            self._members[name] = f"{before}\n{value}" if name == "data" and before is not None else value
        if line or not self._members:
            return None
        said, self._members = self._members, {}
        return ServerEvent(said.get("id", ""), said.get("event", ""), said.get("data", ""))

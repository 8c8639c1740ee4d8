"""Address, key and identity of a client, by its arguments or the environment."""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import os
import urllib.parse
from collections.abc import Generator, Iterable, Sequence
from typing import Any

DEFAULT_URL = "http://127.0.0.1:7817"


@dataclasses.dataclass(frozen=True)
class Place:
    """Context of calls: agent, session, run, route and modes."""

    agent: str | None = None
    session: str | None = None
    run: str | None = None
    parent_run: str | None = None
    seed: str | None = None
    route: str | None = None
    modes: tuple[str, ...] = ()

    def over(self, below: Place) -> Place:
        """Returns this context, with the members of ``below`` where this has none."""
        return Place(
            **{one.name: getattr(self, one.name) or getattr(below, one.name) for one in dataclasses.fields(self)}
        )


_place: contextvars.ContextVar[Place] = contextvars.ContextVar("umbra_place", default=Place())  # noqa: B039


@dataclasses.dataclass(frozen=True)
class Config:
    """Settings of a client. ``timeout`` and ``decision_timeout`` are in seconds."""

    url: str
    timeout: float
    decision_timeout: float
    place: Place
    api_key: str | None = dataclasses.field(default=None, repr=False)

    @classmethod
    def of(
        cls,
        url: str | None,
        api_key: str | None,
        agent: str | None,
        session: str | None,
        run: str | None,
        seed: str | None,
        timeout: float,
        decision_timeout: float,
    ) -> Config:
        """Returns the settings by arguments, and by the environment where an argument is missing."""
        check_texts(url=url, api_key=api_key, agent=agent, session=session, run=run, seed=seed)
        if url == "":
            raise ValueError("url is empty: write http://HOST:PORT, or leave it out for UMBRA_URL or this machine")
        env = os.environ.get
        url = (url or env("UMBRA_URL") or DEFAULT_URL).rstrip("/")
        parts = urllib.parse.urlsplit(url)
        # An address may carry a password: it is not repeated in the error.
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            shown = url.rpartition("@")[2].partition("?")[0]
            raise ValueError(f"{shown!r} is not an address of a server: write http://HOST:PORT or https://HOST")
        if parts.path.endswith("/v1"):
            raise ValueError("the address of the server ends in /v1: leave that out")
        for name, seconds in [("timeout", timeout), ("decision_timeout", decision_timeout)]:
            check_seconds(name, seconds)
        api_key = api_key or env("UMBRA_API_KEY") or _first_line(env("UMBRA_API_KEY_FILE"))
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and api_key.strip() == api_key):
            raise ValueError("the API key has characters that no key has: remove blanks and line ends")
        place = Place(
            agent=agent or env("UMBRA_AGENT") or "python",
            session=session or env("UMBRA_SESSION"),
            run=run or env("UMBRA_RUN"),
            seed=seed or env("UMBRA_SEED"),
        )
        return cls(url, timeout, decision_timeout, place, api_key)

    def here(self) -> Place:
        """Returns the context of a call that is made now."""
        return _place.get().over(self.place)


@contextlib.contextmanager
def entered(config: Config, place: Place, modes: Sequence[str]) -> Generator[None]:
    """Sets the context of the calls made within the block."""
    check_names(modes=modes)
    check_texts(**{one.name: getattr(place, one.name) for one in dataclasses.fields(place) if one.name != "modes"})
    outer = _place.get()
    if place.run and not place.parent_run:
        above = outer.run or config.place.run
        place = dataclasses.replace(place, parent_run=above if above != place.run else None)
    inner = place.over(dataclasses.replace(outer, modes=()))
    token = _place.set(dataclasses.replace(inner, modes=(*outer.modes, *modes)))
    try:
        yield
    finally:
        _place.reset(token)


def check_texts(**given: Any) -> None:
    """Raises :class:`TypeError` for a value that is neither a text nor None. The value is not repeated: keys are."""
    for name, value in given.items():
        if value is not None and not isinstance(value, str):
            raise TypeError(f"{name} is a text, not {type(value).__name__}")


def check_names(**given: Any) -> None:
    """Raises :class:`TypeError` for a value that is neither a list nor None."""
    for name, value in given.items():
        if value is not None and (isinstance(value, str) or not isinstance(value, Iterable)):
            raise TypeError(f"{name} is a list of names, not {type(value).__name__}")


def check_seconds(name: str, seconds: Any) -> None:
    """Raises :class:`ValueError` unless a time is a number of seconds above 0."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not seconds > 0:
        raise ValueError(f"{name} is in seconds and above 0, not {seconds!r}")


def _first_line(path: str | None) -> str | None:
    if not path:
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip() or None
    except (OSError, ValueError) as error:
        raise ValueError(f"the file that UMBRA_API_KEY_FILE names cannot be read: {error}") from None

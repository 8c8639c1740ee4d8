"""Hint in the error of an adapter whose framework is not installed."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def suggest_extra(extra: str) -> Iterator[None]:
    """Adds the command that installs the extra to an :class:`ImportError` of the block."""
    try:
        yield
    except ImportError as error:
        error.msg = f"{error.msg}: install what this adapter needs with pip install 'umbra-shadow[{extra}]'"
        raise

"""The asynchronous client. ``_sync`` is generated from this package, but for ``io.py``."""

"""Client of Umbra's API for the tests with OpenTelemetry."""

import json
import urllib.parse
import urllib.request


class Umbra:
    """Server at an address."""

    def __init__(self, url):
        self.url = url

    def raw(self, path, **query):
        """Returns the text of an answer."""
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(query)}", timeout=30) as answer:
            return answer.read().decode()

    def get(self, path, **query):
        return json.loads(self.raw(path, **query))

    def items(self, path, **query):
        """Returns the items of all pages of a list."""
        items, cursor = [], {}
        while cursor is not None:
            page = self.get(path, limit=500, **query, **cursor)
            items += page["items"]
            cursor = {"cursor": page["next_cursor"]} if page.get("next_cursor") else None
        return items

    def events(self, service):
        """Returns the events of a service's calls of models and tools."""

        def is_call(event):
            told = (event.get("metadata") or {}).get("otel") or {}
            return told.get("service") == service and told.get("kind") != "end"

        return [event for event in self.items("/v1/events") if is_call(event)]

"""Reduces `openapi/umbra.json` to the schemas of the requests that the client sends and the answers that it reads.

    python tools/prune_openapi.py openapi/umbra.json >pruned.json

Constraints are dropped, since the server checks requests and explains faults.
Enumerations in which a newer server may have more values admit every text; those that tell the members of a union
apart stay closed.
"""

import json
import sys
from typing import Any

# Operations whose named schemas are kept.
OPERATIONS = [
    "post_events_batch",
    "get_event",
    "get_verdict",
    "get_finding",
    "patch_finding",
    "get_approval",
    "post_approval",
    "get_effective",
    "list_runs",
    "end_run",
    "get_session",
    "post_note",
    "post_close",
    "get_document",
    "put_document",
    "patch_document",
    "post_pattern",
    "search_patterns",
    "get_trajectory",
    "get_breaker",
    "acknowledge_breaker",
    "get_status",
    "post_event",
    "post_decide",
    "post_outcome",
    "post_guard",
    "post_session",
    "post_select",
    "post_message",
    "post_turn",
]
# Schemas that only lists have.
LISTED = ["EventView", "Problem", "Reflexion"]
# The page of versions of a document is an answer of its own; all other lists are read page by page.
HISTORY = "Listing_Version"
CONSTRAINTS = {
    "maxLength",
    "minLength",
    "maximum",
    "minimum",
    "maxItems",
    "minItems",
    "pattern",
    "format",
    "propertyNames",
    "example",
}
REF = "#/components/schemas/"


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        document = json.load(file)
    schemas = document["components"]["schemas"]
    operations = {of["operationId"]: of for path in document["paths"].values() for of in path.values()}
    schemas["History"] = schemas[HISTORY]
    schemas["History"]["description"] = "Page of the versions of a document."
    _name_edits(schemas)
    wanted = ["History", *LISTED]
    for operation in OPERATIONS:
        of = operations[operation]
        bodies = [of.get("requestBody", {}), *(one for code, one in of["responses"].items() if code.startswith("2"))]
        wanted += [name for body in bodies for name in _references(_body(body))]
    kept: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name not in kept:
            kept[name] = _reduced(schemas[name])
            wanted += _references(kept[name])
    pruned = {"openapi": document["openapi"], "info": document["info"], "paths": {}}
    json.dump({**pruned, "components": {"schemas": dict(sorted(kept.items()))}}, sys.stdout)


def _body(holder: dict[str, Any]) -> dict[str, Any]:
    schema: dict[str, Any] = holder.get("content", {}).get("application/json", {}).get("schema", {})
    return schema


def _name_edits(schemas: dict[str, Any]) -> None:
    """Names the members of the union of edits by their operations: `AppendItem` is the edit `append_item`."""
    members = []
    for member in schemas["Edit"]["oneOf"]:
        [operation] = member["properties"]["op"]["enum"]
        name = "".join(word.capitalize() for word in operation.split("_"))
        member["properties"]["op"] = {"const": operation, "type": "string", "default": operation}
        member["required"].remove("op")
        schemas[name] = member
        members.append({"$ref": REF + name})
    schemas["Edit"]["oneOf"] = members


def _references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for one in schema for name in _references(one)]
    if not isinstance(schema, dict):
        return []
    found = [name for one in schema.values() for name in _references(one)]
    return [schema["$ref"].removeprefix(REF), *found] if isinstance(schema.get("$ref"), str) else found


def _reduced(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_reduced(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if set(schema) >= {"oneOf"} and {"type": "null"} in schema["oneOf"] and len(schema["oneOf"]) == 2:
        # An optional member: its description is beside the reference.
        [of] = [one for one in schema["oneOf"] if one != {"type": "null"}]
        reduced = {
            "anyOf": [_reduced({name: one for name, one in of.items() if name != "description"}), {"type": "null"}]
        }
        return reduced | {"description": of["description"]} if "description" in of else reduced
    if schema.get("type") == "string" and "enum" in schema:
        values = {"type": "string", "enum": schema["enum"]}
        described = {"description": schema["description"]} if "description" in schema else {}
        return {"anyOf": [values, {"type": "string"}], **described}
    is_time = schema.get("format") in ("date-time", "date") and {"format": schema["format"]}
    properties = {name: _reduced(one) for name, one in schema.get("properties", {}).items()}
    for name, member in properties.items():
        if member.get("type") == "array" and name not in schema.get("required", []):
            member["default"] = []
    kept = {name: _reduced(one) for name, one in schema.items() if name not in CONSTRAINTS and name != "properties"}
    return kept | ({"properties": properties} if properties else {}) | (is_time or {})


if __name__ == "__main__":
    main()

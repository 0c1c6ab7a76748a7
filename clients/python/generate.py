#!/usr/bin/env python3
"""Writes src/asat/api.py: reads the OpenAPI document of asat, and prints a class for each object and a method for each call."""

import json
import keyword
import sys
import textwrap

HEAD = '''"""What the API of asat takes and answers. Made by generate.py of the OpenAPI document: change nothing here."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal

from .transport import Transport

'''
SIMPLE = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None", "object": "dict[str, Any]"}
FORMATS = {"date-time": "datetime.datetime", "date": "datetime.date"}
# A line of the answer is a value of its own.
LINES = "application/x-ndjson"


def reference(schema):
    return schema["$ref"].rsplit("/", 1)[-1]


def kind(schema):
    """A schema as a type of Python."""
    if "$ref" in schema:
        return reference(schema)
    if "oneOf" in schema:
        return either(kind(one) for one in schema["oneOf"])
    if "enum" in schema:
        return f"Literal[{', '.join(repr(value) for value in schema['enum'])}]"
    types = schema.get("type")
    if isinstance(types, list):
        return either(kind({**schema, "type": one}) for one in types)
    if types == "array":
        return f"list[{kind(schema['items'])}]"
    if types == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {kind(schema['additionalProperties'])}]"
    if types == "string":
        return FORMATS.get(schema.get("format"), "str")
    return SIMPLE.get(types, "Any")


def either(kinds):
    """The kinds without repetition, and what is None last."""
    kinds = list(dict.fromkeys(kinds))
    return " | ".join([one for one in kinds if one != "None"] + [one for one in kinds if one == "None"])


def optional(name):
    return name if name.endswith("| None") or name == "Any" else f"{name} | None"


def identifier(name):
    name = name.lower().replace("-", "_")
    return f"{name}_" if keyword.iskeyword(name) else name


def document(text, indent):
    """A text as a docstring."""
    lines = textwrap.wrap(" ".join(text.split()), 116 - indent)
    space = " " * indent
    if len(lines) < 2:
        return f'{space}"""{text.strip()}"""\n'
    return f'{space}"""' + f"\n{space}".join(lines) + f'\n{space}"""\n'


def comment(text):
    return "".join(f"    # {line}\n" for line in textwrap.wrap(" ".join(text.split()), 114))


def model(name, schema):
    """An object as a class; another kind as a name for it."""
    if schema.get("type") != "object" or not schema.get("properties"):
        said = kind(schema)
        return f"{name} = {said}\n"
    required = set(schema.get("required", []))
    fields = sorted(schema["properties"].items(), key=lambda field: field[0] not in required)
    text = f"@dataclass(frozen=True)\nclass {name}:\n{document(schema.get('description', name), 4)}"
    for field, of in fields:
        said = kind(of)
        text += f"\n{comment(of.get('description', ''))}    {identifier(field)}: "
        text += f"{said}\n" if field in required else f"{optional(said)} = None\n"
    return text


def content(operation):
    """The media type and the schema of what a call answers if all is well."""
    for status, response in operation["responses"].items():
        if status < "300":
            kinds = response.get("content", {})
            media = "application/json" if "application/json" in kinds else next(iter(kinds), None)
            return media, kinds.get(media, {}).get("schema", {})
    return None, {}


def answer(operation):
    """The type that a call answers, how the transport is asked for it, and its type for that."""
    media, schema = content(operation)
    if media is None:
        return "None", "nothing", None
    if media == LINES:
        said = "Any" if "oneOf" in schema else kind(schema)
        return f"Iterator[{said}]", "lines", said
    if media == "application/json":
        return kind(schema) if schema else "Any", "value", kind(schema) if schema else "Any"
    return "BinaryIO", "stream", None


def body(operation, schemas):
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return schemas[reference(schema)] if schema and "$ref" in schema else None


def method(http, path, operation, schemas):
    """A call as a method: what stands in the path by position, all else by name."""
    parameters = operation.get("parameters", [])
    of_path = [parameter for parameter in parameters if parameter["in"] == "path"]
    # A call reads its answer in one form, so none is asked for.
    named = [parameter for parameter in parameters if parameter["in"] != "path" and parameter["name"] != "format"]
    sent = body(operation, schemas)
    fields = sent.get("properties", {}) if sent else {}
    required = set(sent.get("required", [])) if sent else set()
    arguments = [(identifier(name), kind(of), name in required) for name, of in fields.items()]
    arguments += [(identifier(p["name"]), kind(p["schema"]), bool(p.get("required"))) for p in named]
    assert len({name for name, _, _ in arguments}) == len(arguments), path
    arguments.sort(key=lambda argument: not argument[2])
    said, how, of = answer(operation)
    signature = ["self"] + [f"{identifier(p['name'])}: str" for p in of_path] + (["*"] if arguments else [])
    signature += [f"{name}: {of}" if must else f"{name}: {optional(of)} = None" for name, of, must in arguments]
    head = f"    def {operation['operationId']}({', '.join(signature)}) -> {said}:\n"
    if len(head) > 121:
        head = f"    def {operation['operationId']}(\n" + "".join(f"        {part},\n" for part in signature)
        head += f"    ) -> {said}:\n"
    summary = " ".join(filter(None, [operation.get("summary"), operation.get("description")]))
    text = head + document(summary, 8) + f'        return self._transport.{how}(\n            "{http.upper()}",\n'
    segments = [part for part in path.split("/") if part]
    names = {p["name"]: identifier(p["name"]) for p in of_path}
    parts = [names[part[1:-1]] if part.startswith("{") else repr(part).replace("'", '"') for part in segments]
    text += f"            [{', '.join(parts)}],\n"
    if of is not None:
        text += f"            answers={of},\n"
    for where, pairs in (
        ("query", [p["name"] for p in named if p["in"] == "query"]),
        ("headers", [p["name"] for p in named if p["in"] == "header"]),
        ("body", list(fields)),
    ):
        if pairs or (where == "body" and sent):
            text += f"            {where}={{{', '.join(f'{json.dumps(name)}: {identifier(name)}' for name in pairs)}}},\n"
    return text + "        )\n"


def met(api):
    """The schemas that a caller meets: those of answers, and those within the bodies of requests."""
    operations = [operation for item in api["paths"].values() for operation in item.values()]
    left = [content(operation)[1] for operation in operations]
    left += [sent.get("properties", {}) for operation in operations if (sent := body(operation, api["components"]["schemas"]))]
    names = set()
    while left:
        value = left.pop()
        if isinstance(value, dict):
            if "$ref" in value and reference(value) not in names:
                names.add(reference(value))
                left.append(api["components"]["schemas"][reference(value)])
            left += value.values()
        elif isinstance(value, list):
            left += value
    return names


def main():
    api = json.load(sys.stdin)
    schemas = api["components"]["schemas"]
    print(HEAD)
    models = [model(name, schemas[name]) for name in sorted(met(api))]
    # The names for other kinds come last: they are read at once, and name the classes.
    print("\n\n".join(sorted(models, key=lambda text: not text.startswith("@"))))
    print('\nclass Calls:\n    """Every call of the API, but for the stream of events, which has no end."""\n')
    print("    def __init__(self, transport: Transport) -> None:\n        self._transport = transport")
    for path, item in api["paths"].items():
        for http, operation in item.items():
            if content(operation)[0] != "text/event-stream":
                print("\n" + method(http, path, operation, schemas), end="")


if __name__ == "__main__":
    main()

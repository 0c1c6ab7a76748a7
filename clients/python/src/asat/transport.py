"""Requests and answers: over the Unix socket, or over TCP with a token."""

from __future__ import annotations

import http.client
import json
import os
import socket
import urllib.parse
from collections.abc import Iterator
from typing import Any, BinaryIO

from . import values
from .problem import Problem

# As the command asat has it.
DEFAULT_SERVER = "unix:/run/asat/asat.sock"


class _UnixConnection(http.client.HTTPConnection):
    """A connection to a socket of the file system."""

    def __init__(self, path: str, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class Transport:
    """Sends requests, each over a connection of its own."""

    def __init__(self, server: str | None, token: str | None, token_file: str | None, timeout: float | None) -> None:
        self.server = server or os.environ.get("ASAT_SERVER") or DEFAULT_SERVER
        self._token = token or _token(token_file or os.environ.get("ASAT_TOKEN_FILE")) or os.environ.get("ASAT_TOKEN")
        self._timeout = timeout
        if not self.server.startswith(("unix:", "http://")):
            hint = "write it as unix:/run/asat/asat.sock or http://localhost:7878"
            raise Problem("invalid", f"the server {self.server!r} cannot be understood", hint)

    def value(self, method: str, path: list[str], *, answers: Any, **parts: Any) -> Any:
        """Has an answer in one piece."""
        with self.stream(method, path, **parts) as answer:
            return values.read(answers, json.load(answer))

    def nothing(self, method: str, path: list[str], **parts: Any) -> None:
        """Has something done that is answered by nothing."""
        self.stream(method, path, **parts).close()

    def lines(self, method: str, path: list[str], *, answers: Any, **parts: Any) -> Iterator[Any]:
        """Has an answer of many lines. The request is sent when the first one is asked for."""
        with self.stream(method, path, **parts) as answer:
            for line in answer:
                value = json.loads(line)
                # Something went wrong after the first lines.
                if isinstance(value, dict) and value.get("op") == "problem":
                    raise Problem(value["code"], value["detail"], value["hint"])
                yield values.read(answers, value)

    def stream(
        self,
        method: str,
        path: list[str],
        *,
        query: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
        body: dict[str, Any] | None = None,
    ) -> BinaryIO:
        """Has an answer as it comes, to be read and closed."""
        told = {name: values.text(value) for name, value in (query or {}).items() if value is not None}
        target = _path(path) + ("?" + urllib.parse.urlencode(told) if told else "")
        head = {name: values.text(value) for name, value in (headers or {}).items() if value is not None}
        if self._token:
            head["Authorization"] = f"Bearer {self._token}"
        sent = None
        if body is not None:
            head["Content-Type"] = "application/json"
            sent = json.dumps(values.write(body)).encode()
        try:
            connection = self._connect()
            connection.request(method, target, sent, {**head, "Connection": "close"})
            answer = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            hint = "see that asat runs, and that server or ASAT_SERVER names where it listens"
            raise Problem("unreachable", f"{self.server} does not answer: {error}", hint) from error
        if answer.status >= 300 and answer.status != http.client.NOT_MODIFIED:
            with answer:
                raise _problem(answer)
        return answer

    def _connect(self) -> http.client.HTTPConnection:
        if self.server.startswith("unix:"):
            return _UnixConnection(self.server.removeprefix("unix:"), self._timeout)
        return http.client.HTTPConnection(self.server.removeprefix("http://").rstrip("/"), timeout=self._timeout)


def _path(segments: list[str]) -> str:
    return "".join("/" + urllib.parse.quote(segment, safe="@:") for segment in segments)


def _token(file: str | None) -> str | None:
    if file is None:
        return None
    with open(file, encoding="ascii") as text:
        return text.read().strip()


def _problem(answer: http.client.HTTPResponse) -> Problem:
    """What an answer that is an error says, also if something between here and asat wrote it."""
    try:
        said = json.load(answer)
        code, detail, hint = said["code"], said["detail"], said["hint"]
    except (ValueError, KeyError, TypeError):
        hint = "see that ASAT_SERVER names asat itself"
        return Problem("internal", f"the answer {answer.status} is no problem of asat", hint, status=answer.status)
    after = answer.headers.get("Retry-After")
    return Problem(
        code,
        detail,
        hint,
        status=answer.status,
        request=said.get("request"),
        # A proxy may write a date.
        retry_after=int(after) if after and after.isdecimal() else None,
    )

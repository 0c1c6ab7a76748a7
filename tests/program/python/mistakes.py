"""A program that makes a mistake in each way, and prints the problems that it gets as JSON."""

import datetime
import json

import asat


def problem(call):
    try:
        call()
    except asat.Problem as problem:
        return {name: getattr(problem, name) for name in ("code", "detail", "hint", "status", "retry_after")}
    except ValueError as error:
        return {"code": "ValueError", "detail": str(error)}


def opened(*arguments, **found):
    with asat.open(*arguments, **found):
        pass


print(
    json.dumps(
        {
            "wrong token": problem(lambda: asat.Client(token="wrong").version("report@1")),
            "forbidden": problem(lambda: asat.Client().retire("report@1")),
            "unknown store": problem(lambda: opened("nothing", as_of="now")),
            "no moment": problem(lambda: opened("report")),
            "a version and a moment": problem(lambda: opened("report@1", as_of="now")),
            "bad time": problem(lambda: opened("report", as_of="last week")),
            "no time zone": problem(lambda: opened("report", as_of=datetime.datetime(2026, 11, 19))),
            "bad query": problem(lambda: asat.Client().query("select * from nothing.at_all")),
            "nobody there": problem(lambda: asat.Client("unix:/nothing/asat.sock").version("report@1")),
            "no address": problem(lambda: asat.Client("/run/asat/asat.sock")),
        }
    )
)

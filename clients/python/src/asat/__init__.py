"""Opens a SQLite store as it was at a certified moment, and publishes one."""

from .api import Diff, Mount, Published, PublishedSet, Version
from .client import Client, Moment, Rows, open
from .problem import Problem

__all__ = [
    "Client",
    "Diff",
    "Moment",
    "Mount",
    "Problem",
    "Published",
    "PublishedSet",
    "Rows",
    "Version",
    "open",
]

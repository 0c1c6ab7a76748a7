"""What went wrong, as an exception."""

from __future__ import annotations


class Problem(Exception):
    """A request that was refused, or failed: what happened, and what to do next."""

    def __init__(
        self,
        code: str,
        detail: str,
        hint: str,
        *,
        status: int | None = None,
        request: str | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(code, detail, hint)
        # The stable name of the kind, for programs.
        self.code = code
        # What happened, and to which object.
        self.detail = detail
        # What to do next.
        self.hint = hint
        # The status of the HTTP answer; None if there was none.
        self.status = status
        # What the request is called in the log and the audit trail of asat.
        self.request = request
        # After how many seconds the same may be asked again; None if that does not help.
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"{self.detail} ({self.code}); {self.hint}"

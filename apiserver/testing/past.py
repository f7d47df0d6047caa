"""The objects of a server as they were at an earlier moment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def moment_text(moment: int | str | datetime) -> str:
    """Returns a moment as the server reads it in a path. Raises ValueError for a time without a time zone."""
    if not isinstance(moment, datetime):
        return str(moment)
    if moment.tzinfo is None:
        raise ValueError(f"at: {moment.isoformat()} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class PastServer:
    """The objects on a server as they were at an earlier moment. `ApiServer.at()` returns an instance.

    url: the server URL for clients that read these objects. Clients can send only `get` and `list` requests.
    kubeconfig: the path of a kubeconfig file with this URL and the administrator's credentials.
    """

    def __init__(self, url: str, kubeconfig: Path, request: Callable[..., tuple[int, Any]]) -> None:
        self.url = url
        self.kubeconfig = kubeconfig
        self._request = request

    def get(
        self, path: str, *, query: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Sends a GET request as the administrator. The arguments and the result are those of
        `ApiServer.request()`.

        path: the URL path of current objects, for example `/api/v1/pods`.
        """
        return self._request("GET", path, query=query, headers=headers)

    def __repr__(self) -> str:
        return f"<PastServer at {self.url}>"

"""An extension whose function returns when as many as possible wait at the same time."""

from __future__ import annotations

import threading
from typing import Any

from apiserver.extensions import Api, Extension
from apiserver.extensions.hooks import THREADS_MAX

app = Extension("waiting", timeout_s=30)
_all = threading.Barrier(THREADS_MAX)


@app.validate("pods")
def waits_for_all(pod: Any, api: Api) -> None:
    _all.wait()

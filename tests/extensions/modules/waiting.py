"""An extension whose functions wait, in threads, until another one lets them go."""

from __future__ import annotations

import threading
from typing import Any

from apiserver.extensions import Api, Extension

app = Extension("waiting", timeout_s=30)
_released = threading.Event()


@app.validate("pods")
def waits(pod: Any, api: Api) -> None:
    _released.wait()


@app.validate("pods")
async def releases(pod: Any) -> None:
    _released.set()

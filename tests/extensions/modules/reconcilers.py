"""An extension that reconciles and counts ConfigMaps and Secrets of the namespace `default`."""

from __future__ import annotations

import os
from typing import Any

from apiserver.extensions import Api, AsyncApi, Denied, Extension

app = Extension("marks")


@app.reconcile("configmaps", timeout_s=2.0)
async def mark(found: dict[str, Any], api: AsyncApi) -> None:
    """Notes the process ID of the server in an annotation, perhaps at the second attempt."""
    if found["metadata"]["namespace"] != "default" or _marks(found).get("server"):
        return
    does, name = (found.get("data") or {}).get("does"), found["metadata"]["name"]
    if does == "loops":
        while True:
            pass
    if does == "leaves" and not _marks(found).get("tried"):
        await api.patch("configmaps", name, {"metadata": {"annotations": {"tried": "yes"}}}, "default")
        os._exit(1)
    await api.patch("configmaps", name, _mark(), "default")


@app.reconcile("secrets", workers=2)
def mark_secret(found: dict[str, Any], api: Api) -> None:
    if found["metadata"]["namespace"] == "default" and not _marks(found).get("server"):
        api.patch("secrets", found["metadata"]["name"], _mark(), "default")


@app.validate(
    "configmaps", on="create", where="'budget' in object.metadata.?labels.orValue({})", timeout_s=10.0
)
async def budget(found: dict[str, Any], api: AsyncApi) -> None:
    if len(await api.list("configmaps", found["metadata"]["namespace"], labels="budget")) >= 2:
        raise Denied("over budget")


@app.validate("secrets", on="create", where="'budget' in object.metadata.?labels.orValue({})", timeout_s=10.0)
def budget_of_secrets(found: dict[str, Any], api: Api) -> None:
    if len(api.list("secrets", found["metadata"]["namespace"], labels="budget")) >= 2:
        raise Denied("over budget")


def _marks(found: dict[str, Any]) -> dict[str, str]:
    return found["metadata"].get("annotations") or {}


def _mark() -> dict[str, Any]:
    return {"metadata": {"annotations": {"server": str(os.getppid())}}}

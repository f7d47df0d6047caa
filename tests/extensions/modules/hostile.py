"""An extension whose functions do what they must not, for tests of workers."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import sys
import threading
import time
from typing import Any

from apiserver.extensions import Denied, Extension

app = Extension("hostile", timeout_s=0.5)


@app.mutate("pods")
def changes(pod: Any) -> Any:
    pod["spec"]["changed"] = True


@app.mutate("pods")
def changes_nothing(pod: Any) -> Any:
    return None


@app.mutate("pods")
def replaces(pod: Any) -> Any:
    return {**pod, "kind": "Other"}


@app.validate("pods")
def denies(pod: Any, warn: Any, annotate: Any) -> Any:
    warn("careful")
    annotate("reason", "budget")
    raise Denied("over budget", field="spec")


@app.validate("pods")
def tells_who(pod: Any, user: Any, request: Any, old: Any, dry_run: Any, namespace_labels: Any) -> Any:
    raise Denied(f"{user.name} {request.operation} {old} {dry_run} {namespace_labels}")


@app.validate("pods")
def loops(pod: Any) -> Any:
    while True:
        pass


@app.validate("pods")
def sleeps(pod: Any) -> Any:
    time.sleep(60)


@app.validate("pods")
def explodes(pod: Any) -> Any:
    re.match("(a+)+$", "a" * 64 + "b")


@app.validate("pods")
def catches_all(pod: Any) -> Any:
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(60)


@app.validate("pods")
async def waits(pod: Any) -> Any:
    await asyncio.sleep(60)


@app.validate("pods")
async def waits_shortly(pod: Any) -> Any:
    await asyncio.sleep(0.01)


@app.validate("pods")
def leaves(pod: Any) -> Any:
    os._exit(3)


@app.validate("pods")
def exits(pod: Any) -> Any:
    sys.exit("bye")


@app.validate("pods")
def has_a_fault(pod: Any) -> Any:
    return pod["spec"]["missing"]


@app.validate("pods")
def accesses_no_memory(pod: Any) -> Any:
    ctypes.string_at(0)


@app.validate("pods")
def wants_much_memory(pod: Any) -> Any:
    bytearray(2 << 30)


@app.validate("pods")
def starts_threads(pod: Any) -> Any:
    while True:
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()


@app.mutate("pods")
def makes_a_cycle(pod: Any) -> Any:
    pod["pod"] = pod


@app.mutate("pods")
def makes_a_set(pod: Any) -> Any:
    pod["spec"] = {1, 2}


@app.mutate("pods")
def returns_a_list(pod: Any) -> Any:
    return [pod]


@app.validate("pods")
def returns_a_bool(pod: Any) -> Any:
    return False


@app.mutate("pods")
def returns_too_much(pod: Any) -> Any:
    pod["data"] = "x" * (17 << 20)


@app.validate("pods")
def writes_to_the_socket(pod: Any) -> Any:
    for descriptor in range(3, 1024):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"\x00\x00\x00\x05hello")


@app.validate("pods")
def takes_a_while(pod: Any) -> Any:
    time.sleep(0.3)


@app.validate("pods", timeout_s=3)
def takes_long(pod: Any) -> Any:
    time.sleep(20)


@app.validate("pods")
def leaves_a_child(pod: Any) -> Any:
    if os.fork() == 0:
        os.setsid()
        time.sleep(10)
        os._exit(0)
    os._exit(3)


@app.reconcile("pods")
async def reconciles(pod: Any) -> Any:
    await asyncio.sleep(30)


@app.validate("pods")
def prints(pod: Any) -> Any:
    print("ready https://127.0.0.1:1")

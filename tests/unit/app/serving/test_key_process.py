"""Which process makes the keys of a server, and what happens if the child process cannot."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

# Prints whether this process had to import the library, and how many children it has then.
_PROGRAM: Final = """
import sys, threading, psutil
from apiserver.app.serving.key_process import key_process
from apiserver.app.serving.listening import CannotStart
from apiserver.cli.command_line import parse

config = parse(["--data-dir=" + sys.argv[1]])
is_over = threading.Event()
{before}
with key_process(config) as make:
    {meanwhile}
    try:
        print(make(config, None).certificates.ca_cert)
    except CannotStart as error:
        print(error)
    print("cryptography" in sys.modules, len(psutil.Process().children()))
is_over.set()
"""
_KILL: Final = "(child,) = psutil.Process().children(); child.kill(); child.wait()"
_SIGNAL: Final = (
    "import signal; (child,) = psutil.Process().children(); "
    "child.send_signal(signal.SIGINT); child.send_signal(signal.SIGTERM)"
)
# Called by the system before `os.fork` returns, so that Python sees the signal behind it.
_INTERRUPT: Final = """
import ctypes, functools, os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
interrupt = functools.partial(getattr(ctypes.CDLL(None), "raise"), signal.SIGINT)
os.register_at_fork(after_in_child=interrupt)
"""
_THREAD: Final = "threading.Thread(target=is_over.wait).start()"

CASES: Final = {
    "the child": ("", "pass", False),
    "this process, if the child has ended": ("", _KILL, True),
    "the child, though it was interrupted at once": (_INTERRUPT, "pass", False),
    "the child, though Ctrl-C or systemd signal it, too": ("", _SIGNAL, False),
    "this process, if it has threads": (_THREAD, "pass", True),
    "this process, if it has the library": ("import apiserver.app.serving.pki", "pass", True),
}


def printed(directory: Path, before: str = "", meanwhile: str = "pass") -> list[str]:
    program = _PROGRAM.format(before=before, meanwhile=meanwhile)
    command = [sys.executable, "-c", program, str(directory)]
    done = subprocess.run(command, check=True, timeout=60, capture_output=True, text=True)
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux supports a fork")
@pytest.mark.parametrize(("before", "meanwhile", "is_imported"), CASES.values(), ids=CASES)
def test_who_makes_the_keys(tmp_path: Path, before: str, meanwhile: str, is_imported: bool) -> None:
    path, state = printed(tmp_path, before, meanwhile)
    assert path == str(tmp_path / "pki" / "ca.crt")
    assert Path(path).is_file()
    assert state == f"{is_imported} 0"


def test_errors_are_those_of_the_child(tmp_path: Path) -> None:
    printed(tmp_path)
    ca = tmp_path / "pki" / "ca.crt"
    ca.write_text("no certificate")
    reason, state = printed(tmp_path)
    assert reason == f"cannot make certificates in {tmp_path}: {ca} is not a certificate"
    assert state == f"{sys.platform != 'linux'} 0"

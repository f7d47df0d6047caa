"""Runs one server as one of several workers, which a supervisor starts and stops."""

from __future__ import annotations

import asyncio
import signal

from apiserver.app.host_process import HostProcess
from apiserver.app.server import App
from apiserver.app.serving import exit_codes
from apiserver.app.serving.listening import CannotStart
from apiserver.app.workers.messages import MessageKind
from apiserver.app.workers.worker import SupervisorClient
from apiserver.cli.config import Config


async def serve_as_worker(config: Config, client: SupervisorClient, host: HostProcess) -> int:
    """Serve until the supervisor says to stop. Returns the exit code."""
    app = App(config, client, host=host)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, app.stop)
    receiving = asyncio.create_task(client.receive(await client.connect(), app.stop), name="supervisor")
    try:
        await app.run(lambda *_: client.send(MessageKind.READY))
    except CannotStart as error:
        client.send(MessageKind.CANNOT_START, str(error).encode())
        return exit_codes.FAILURE
    finally:
        receiving.cancel()
        await client.close()
    return 0

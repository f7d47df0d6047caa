"""The port of one server: its sockets, and the listener that accepts connections on them."""

from __future__ import annotations

from collections.abc import Callable

from apiserver.app.serving.listener import ConnectionLimits, Listener
from apiserver.app.serving.listening import Sockets, bind, listen_error
from apiserver.app.serving.serving_tls import ServingTls
from apiserver.app.serving.tls_record_flood import RecordRead
from apiserver.app.workers.worker import SupervisorClient
from apiserver.cli.config import Config
from apiserver.endpoints.connection import Server


class SecureServing:
    """Binds the port of a server, listens when the server is ready, and closes it.

    worker: the client of the supervisor, if the server is one of several processes on one port.
    given: sockets to use instead, which are bound already and stay open.
    refuses_handshake: asked of each TLS handshake; None: none is refused.
    sockets, port: those bound; none, and 0, before `bind`.
    """

    def __init__(
        self,
        config: Config,
        worker: SupervisorClient | None,
        given: Sockets = (),
        refuses_handshake: Callable[[], bool] | None = None,
    ) -> None:
        self._config = config
        self.worker = worker
        self._given = given
        self.taking = RecordRead()
        self.sockets: Sockets = ()
        self.port = 0
        self._refuses_handshake = refuses_handshake
        self._listener: Listener | None = None

    def bind(self) -> None:
        """Bind the sockets, or take those that are given. Raises CannotStart."""
        if self._given:
            self.sockets = [each.dup() for each in self._given]
        elif self.worker is None:
            self.sockets = bind(self._config, self._config.serving.secure_port, reuse_port=False)
        else:
            self.sockets = self.worker.sockets
        self.port = self.sockets[0].getsockname()[1]

    @property
    def listens_when_ready(self) -> bool:
        """Whether the server listens only once it is ready, as other workers accept connections meanwhile."""
        return self.worker is not None and self.worker.listens_when_ready

    def listen(self, server: Server, tls: ServingTls) -> None:
        """Accept connections from now on. Raises CannotStart."""
        limits = ConnectionLimits(
            self._config.serving.max_connections, self._config.serving.max_connections_per_client
        )
        self._listener = Listener(tls.context, server, limits.within_open_files(), self.taking)
        self._listener.refuses_handshake = self._refuses_handshake
        try:
            self._listener.listen(self.sockets)
        except OSError as error:
            raise listen_error(self._config, error) from None

    def use(self, tls: ServingTls) -> None:
        """Use new TLS settings for handshakes that begin later."""
        if self._listener is not None:
            self._listener.context = tls.context

    def close(self) -> None:
        """Stop accepting connections; open ones stay open."""
        if self._listener is not None:
            self._listener.close()
        for bound in self.sockets:
            bound.close()

    def end(self) -> None:
        """Forget the connections, all of which are closed, without waiting for their clients to close
        them.
        """
        if self._listener is not None:
            self._listener.forget_connections()

    @property
    def open_connections(self) -> int:
        """The number of open connections, including those whose handshake is not finished."""
        return 0 if self._listener is None else self._listener.open_count

    @property
    def connections_max(self) -> int:
        """The limit on open connections, lowered to the number of files that the process may open; 0 for
        none.
        """
        return 0 if self._listener is None else self._listener.limits.total

    @property
    def refused_connections(self) -> int:
        """The number of connections that were refused for lack of room."""
        return 0 if self._listener is None else self._listener.refused_total

    @property
    def failed_handshakes(self) -> int:
        """The number of handshakes that failed or took too long."""
        return 0 if self._listener is None else self._listener.failed_total

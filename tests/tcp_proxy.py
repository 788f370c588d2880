"""A TCP proxy between a program and its database, which a test has cut or hold connections."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

_CHUNK = 65536


class TcpProxy:
    """Forwards to a port of this machine; made by `open_proxy`."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._flowing = threading.Event()
        self._flowing.set()
        self._turn = threading.Lock()
        self._is_refusing = False
        self._answers_left = 0
        self._then: Callable[[], None] | None = None
        self.port = int(self._listener.getsockname()[1])
        self.accepted = 0
        """Connections so far."""
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break all connections in the middle of whatever they carry."""
        with self._turn:
            gone, self._open = self._open, set()
        for one in gone:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def hold(self) -> None:
        """Swallow nothing and deliver nothing: both ends see a connection that is silent."""
        self._flowing.clear()

    def refuse(self) -> None:
        """Break all connections, and each new one at once, until `release`."""
        self._is_refusing = True
        self.cut()

    def after(self, answers: int, action: Callable[[], None]) -> None:
        """Do something once, instead of forwarding the answer that follows so many."""
        with self._turn:
            self._answers_left, self._then = answers, action

    @property
    def is_holding(self) -> bool:
        return not self._flowing.is_set()

    def release(self) -> None:
        with self._turn:
            self._then = None
        self._is_refusing = False
        self._flowing.set()

    def close(self) -> None:
        # To close it alone would leave the thread to accept one more.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.release()
        self.cut()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self.accepted += 1
                if self._is_refusing:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                with self._turn:
                    self._open |= {near, far}
                for work in (
                    partial(self._forward, near, far),
                    partial(self._forward, far, near, are_answers=True),
                ):
                    threading.Thread(target=work, daemon=True).start()

    def _forward(
        self, source: socket.socket, target: socket.socket, *, are_answers: bool = False
    ) -> None:
        with suppress(OSError):
            while data := source.recv(_CHUNK):
                if are_answers and (action := self._due_action()):
                    action()
                self._flowing.wait()
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def _due_action(self) -> Callable[[], None] | None:
        with self._turn:
            if self._then is None:
                return None
            self._answers_left -= 1
            if self._answers_left >= 0:
                return None
            action, self._then = self._then, None
            return action


@contextmanager
def open_proxy(target: int) -> Iterator[TcpProxy]:
    proxy = TcpProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()

"""Log lines for a thread that writes them, so that logging never waits for a reader.

A pipe that is not read is full after 64 KiB, and the next write to it blocks forever. Many clients
start a gateway and never read its stderr.
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable
from contextlib import suppress
from logging.handlers import QueueHandler, QueueListener
from queue import Empty, Full, Queue

_BATCH = 64 * 1024  # characters


class LogQueue(QueueHandler):
    """Passes formatted records to a thread, in which `write` is called with their text.

    When `most` records wait, further ones are dropped until these are written; then a line reports
    how many lines that were. `write` may block; when it raises an OSError, the text is dropped.
    """

    queue: Queue[logging.LogRecord]

    def __init__(self, write: Callable[[str], object], most: int) -> None:
        super().__init__(Queue(most))
        self._dropped = 0  # lines
        self._listener = _BatchListener(self.queue, write)
        self._listener.start()

    def put(self, text: str) -> None:
        """Pass on a text as it is; no-op for an empty one."""
        if text:
            self.acquire()
            try:
                self.enqueue(_record(text))
            finally:
                self.release()

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return _record(f"{self.format(record)}\n")

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a record, with the lock of this handler."""
        with suppress(Full):
            if self._dropped and self.queue.empty():
                self.queue.put_nowait(_record(f"… {self._dropped} log lines were dropped\n"))
                self._dropped = 0
            if not self._dropped:
                self.queue.put_nowait(record)
                return
        self._dropped += record.msg.count("\n")

    def close_within(self, seconds: float) -> bool:
        """Wait at most so long until all is written; True if it is."""
        written = self.queue.all_tasks_done
        with written:
            if not written.wait_for(lambda: not self.queue.unfinished_tasks, seconds):
                return False  # the thread is a daemon, and ends with the process
        self.enqueue(_record(""))  # with the number of those that were dropped last
        self._listener.stop()
        return True


class _BatchListener(QueueListener):
    """Handles all that waits together.

    Beside a busy event loop its thread runs every 5 ms only. Line by line it fell behind 1,200
    calls that were logged in 0.2 s.
    """

    queue: Queue[logging.LogRecord | None]

    def __init__(self, queue: Queue[logging.LogRecord], write: Callable[[str], object]) -> None:
        super().__init__(queue)
        self._write = write

    def handle(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # the reader is gone, or the disk full
            self._write(record.msg)

    def enqueue_sentinel(self) -> None:
        self.queue.put(None)

    def dequeue(self, block: bool) -> logging.LogRecord:  # noqa: FBT001 - the library's signature
        batch = super().dequeue(block)
        with suppress(Empty):
            while batch is not None and len(batch.msg) < _BATCH:  # type: ignore[redundant-expr] # None is the end
                record = self.queue.get_nowait()
                self.queue.task_done()
                if record is None:  # the end, after this batch
                    self.queue.put_nowait(None)
                    break
                batch.msg += record.msg
        return batch


def _record(text: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text})


def write_all(descriptor: int, data: bytes) -> None:
    """Write everything, also to a descriptor that was set non-blocking elsewhere."""
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(descriptor, left) :]
        except BlockingIOError:
            poll = select.poll()
            poll.register(descriptor, select.POLLOUT)
            poll.poll()

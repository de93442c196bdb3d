"""Connections that say nothing, or do not take their answers, are closed: uvicorn would wait for ever for both.

Without this, somebody with a few hundred silent connections would keep everybody else out. How many an address may have
is seen to where they are accepted (`equipoise.service.web.listener`). A connection is aborted and not closed: closing
waits until everything was taken.
"""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
UNREAD_SECONDS = 30.0
SLOWEST_READING = 4 * 2**10  # bytes a second: slower than any line, faster than is cheap to keep up by the hundred


class PromptHeads(H11Protocol):
    """HTTP/1.1 whose requests must begin with a whole head, and whose answers must be taken, within a time."""

    _head_due: asyncio.TimerHandle | None = None
    _look_due: asyncio.TimerHandle | None = None
    _unread = 0  # bytes at the last look

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._head_came()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_came()
        self._answer_taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():  # otherwise it has to take the rest as well
            self._answer_taken()

    # Whatever closes the connection: closing is not over before the peer has taken all that was written.

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._wait_for_reader()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(msg)
        self._wait_for_reader()

    def _wait_for_head(self) -> None:
        if self._head_due is None:
            self._head_due = self.loop.call_later(HEAD_SECONDS, self._too_late)

    def _head_came(self) -> None:
        if self._head_due is not None:
            self._head_due.cancel()
            self._head_due = None

    def _too_late(self) -> Any:
        self._head_due = None
        if self.conn.their_state is h11.IDLE:
            self.transport.abort()

    def _wait_for_reader(self) -> None:
        if self._look_due is None:
            self._unread = self.transport.get_write_buffer_size()
            self._look_due = self.loop.call_later(UNREAD_SECONDS, self._look)

    def _answer_taken(self) -> None:
        if self._look_due is not None:
            self._look_due.cancel()
            self._look_due = None

    def _look(self) -> Any:
        """Who takes a long answer steadily may go on; who takes nothing, or next to nothing, may not."""
        self._look_due = None
        taken = self._unread - self.transport.get_write_buffer_size()
        if taken < SLOWEST_READING * UNREAD_SECONDS:
            self.transport.abort()
        else:
            self._wait_for_reader()

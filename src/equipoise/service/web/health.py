"""Whether the service works: its database can be written, which is tried now and then and not for everyone who asks.

A disk may be full, or another process may not give the lock back, while everything can still be read. Who asks is
answered soon in any case, and by a thread that no other request can take.
"""

import asyncio
import shutil
import time
from collections.abc import Callable

from sqlalchemy import delete

from equipoise.service.context import LEAST_ROOM, Context
from equipoise.service.db.database import FULL
from equipoise.service.db.tables import Nonce
from equipoise.service.errors import Unavailable

EVERY = 5.0  # seconds that an answer is good for
PATIENCE = 2.0  # seconds to wait for a new one
_NOBODY = "health"  # whose nonce is written


class Health:
    """What is known of one database; to be asked within one event loop."""

    def __init__(self, context: Context, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._context, self._clock = context, clock
        self._problem: Unavailable | None = None
        self._good_until = float("-inf")
        self._trying: asyncio.Task[None] | None = None

    async def check(self) -> None:
        """Refuse if the database cannot be written, or does not say so in time."""
        if self._trying is None or self._trying.done():
            if self._clock() < self._good_until:
                return self._say()
            self._trying = asyncio.create_task(self._try())
        done, _ = await asyncio.wait({self._trying}, timeout=PATIENCE)
        if not done:
            raise Unavailable(f"the database has not taken anything for {PATIENCE:g} s; another process may lock it")
        self._trying.result()
        return self._say()

    def _say(self) -> None:
        if self._problem is not None:
            raise Unavailable(str(self._problem), code=self._problem.code)

    async def _try(self) -> None:
        try:
            await asyncio.to_thread(self._write)
            self._problem = None
        except Unavailable as error:
            self._problem = error
        self._good_until = self._clock() + EVERY

    def _write(self) -> None:
        database, folder = self._context.database, self._context.folder
        if database.is_sqlite and (left := shutil.disk_usage(folder).free) < LEAST_ROOM:
            raise Unavailable(f"the disk is full: {left:,} bytes are left; free some room", code=FULL)
        with database.writing() as session:
            session.execute(delete(Nonce).where(Nonce.public_key == _NOBODY))
            session.add(Nonce(public_key=_NOBODY, nonce="", expires=0))

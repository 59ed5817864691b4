"""A KV store whose files are hashed, written and read by threads of its own, while the GPU goes on.

A GPU reads a segment's text in a tenth of the time that hashing and writing its KV takes, and answers under way should
not wait for either. Writing is in order, and no more waits than a stated size: past it, saving waits for the disk. A
failure is raised by the next save.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from torch import Tensor

from unabridged.engine.kv.blocks import Pool, Run
from unabridged.engine.kv.store import KvStore

# Files that are read and hashed at a time.
_READERS = 4
_MOMENT = 0.0005


class LateStore:
    """See the module. One thread uses it."""

    def __init__(self, store: KvStore, most: int) -> None:
        """`most`: bytes that may wait; a single segment of more waits alone."""
        self._store, self._most = store, most
        self._waiting: deque[tuple[str, Tensor]] = deque()
        self._bytes = 0
        self._failed: Exception | None = None
        self._expected: dict[str, Future[Tensor]] = {}
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="kv store")
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="kv store", daemon=True)
        self._thread.start()

    def has(self, key: str) -> bool:
        """See KvStore. What still waits is not there."""
        return self._store.has(key)

    def expect(self, key: str, pool: Pool, tokens: int) -> None:
        """Begin to read and check a file."""
        if key not in self._expected:
            self._expected[key] = self._readers.submit(self._store.get, key, pool, tokens)

    def ready(self, key: str) -> bool:
        """Whether a file that is expected has been read. Waits a moment for it, too short to be seen in an answer."""
        reading = self._expected.get(key)
        return reading is None or bool(wait([reading], _MOMENT).done)

    def forget(self, keys: Iterable[str]) -> None:
        """See KvStore."""
        for key in keys:
            if (reading := self._expected.pop(key, None)) is not None:
                reading.cancel()

    def load(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """See KvStore. Waits for the file where it is still read."""
        reading = self._expected.pop(key, None)
        data = self._store.get(key, pool, sum(run.length for run in runs)) if reading is None else reading.result()
        pool.write(runs, data)

    def save(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Copy the KV in `runs`, to be written under `key`. Raises the error of an earlier one, a StoreError but for a
        defect of ours, and then it and what waited is not written."""
        with self._changed:
            self._raise()
            data = pool.read(runs)
            self._changed.wait_for(lambda: not self._bytes or self._bytes + data.nbytes <= self._most)
            self._raise()
            self._waiting.append((key, data))
            self._bytes += data.nbytes
            self._changed.notify_all()

    def close(self) -> None:
        """Wait until all is written, or failed."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._readers.shutdown(cancel_futures=True)
        self._thread.join()

    def _raise(self) -> None:
        if self._failed is not None:
            failed, self._failed = self._failed, None
            raise failed

    def _write(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closing)
                if not self._waiting:
                    return
                key, data = self._waiting[0]
            failed = self._put(key, data)
            with self._changed:
                if failed is None:
                    self._waiting.popleft()
                    self._bytes -= data.nbytes
                else:
                    self._waiting.clear()
                    self._bytes, self._failed = 0, failed
                self._changed.notify_all()

    def _put(self, key: str, data: Tensor) -> Exception | None:
        try:
            self._store.put(key, data)
        except Exception as error:
            # Whatever it is: who saves next would wait for a thread that has ended.
            return error
        return None

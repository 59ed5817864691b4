"""A KV store whose files are read, checked and written by threads of its own, while the engine goes on.

A GPU reads a segment's text in a tenth of the time that writing its KV takes, and answers under way should not wait for
either. Several files are read at a time, so that the disk, checking and use overlap. Of what is to be written no more
waits than a stated size: past it, saving waits for the disk. A failure to write is raised by the next save, or by
`settled`.
"""

import threading
from collections import deque
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from unabridged.engine.kv.blocks import Pool, Run, packed_bytes
from unabridged.engine.kv.folder import Folder
from unabridged.engine.kv.format import aligned
from unabridged.engine.kv.store import Incoming, KvStore, Outgoing

# Files that are read and checked at a time.
_READERS = 8
_MOMENT = 0.0005


class _Expected:
    """A file that is read ahead."""

    def __init__(self, incoming: Incoming, store: KvStore, readers: ThreadPoolExecutor) -> None:
        self.incoming = incoming
        self._unwanted = threading.Event()
        self._reading: Future[None] = readers.submit(store.read, incoming, self._unwanted.is_set)

    def done(self, patience: float) -> bool:
        return bool(wait([self._reading], patience).done)

    def finish(self) -> None:
        self._reading.result()
        self.incoming.finish()

    def stop(self) -> None:
        """After this nobody writes to the runs any more."""
        self._unwanted.set()
        if not self._reading.cancel():
            wait([self._reading])


class _Buffers:
    """Memory for copies. What the machine has once given is used again: the first use of a page takes as long as
    several copies."""

    def __init__(self) -> None:
        self._spare: list[memoryview] = []
        self._lock = threading.Lock()

    def get(self, size: int) -> memoryview:
        """At least `size` bytes."""
        with self._lock:
            buffer = self._spare.pop() if self._spare else None
        return aligned(size) if buffer is None or len(buffer) < size else buffer

    def free(self, image: memoryview) -> None:
        """What was made of one is not needed any more."""
        with self._lock:
            self._spare.append(memoryview(image.obj))

    def clear(self) -> None:
        """Give back what is spare."""
        with self._lock:
            self._spare.clear()


class LateStore:
    """See the module. One thread uses it, the pool's."""

    def __init__(self, store: KvStore, most: int) -> None:
        """`most`: bytes that may wait; a single segment of more waits alone."""
        self._store, self._most = store, most
        self._waiting: deque[tuple[str, Outgoing]] = deque()
        self._buffers = _Buffers()
        self._bytes = 0
        self._failed: Exception | None = None
        self._expected: dict[str, _Expected] = {}
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="kv store")
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="kv store", daemon=True)
        self._thread.start()

    @property
    def folder(self) -> Folder:
        """Where the files are."""
        return self._store.folder

    def has(self, key: str) -> bool:
        """See KvStore. What still waits is not there."""
        return self._store.has(key)

    def knows(self, key: str) -> bool:
        """Whether it is on the disk or waits to be written."""
        with self._changed:
            return any(key == waits for waits, _ in self._waiting) or self.has(key)

    def expect(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Begin to read and check the KV of `key`. The runs are not to be used for anything else until `load` or
        `forget`."""
        if key not in self._expected:
            self._expected[key] = _Expected(Incoming(key, pool, runs), self._store, self._readers)

    def ready(self, key: str) -> bool:
        """Whether a file that is expected has been read. Waits a moment for it, too short to be seen in an answer."""
        expected = self._expected.get(key)
        return expected is None or expected.done(_MOMENT)

    def expects(self, keys: Iterable[str]) -> bool:
        """Whether one of these is being read, for whomever."""
        return bool(self._expected) and any(key in self._expected for key in keys)

    def forget(self, keys: Iterable[str]) -> None:
        """What was expected is not wanted any more. Waits until their runs are written to no more: for some MB at
        most."""
        for key in keys:
            if (expected := self._expected.pop(key, None)) is not None:
                expected.stop()

    def load(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """See KvStore. Waits for the file where it is still read."""
        if (expected := self._expected.pop(key, None)) is not None:
            expected.finish()
        else:
            self._store.load(key, pool, runs)

    def save(self, key: str, pool: Pool, runs: Sequence[Run]) -> None:
        """Copy the KV in `runs`, to be written under `key`. Raises the error of an earlier one, a StoreError but for a
        defect of ours, and then it and what waited is not written."""
        size = packed_bytes(pool, runs)
        with self._changed:
            self._raise()
            self._changed.wait_for(lambda: not self._bytes or self._bytes + size <= self._most)
            self._raise()
        outgoing = Outgoing.of(pool, runs, self._buffers.get)
        with self._changed:
            self._waiting.append((key, outgoing))
            self._bytes += size
            self._changed.notify_all()

    def settled(self) -> bool:
        """Whether all that was saved is on the disk. Waits a moment. Raises the error of what could not be written."""
        with self._changed:
            self._changed.wait_for(lambda: not self._bytes, _MOMENT)
            self._raise()
            if self._bytes:
                return False
        self._buffers.clear()
        return True

    def close(self) -> None:
        """Wait until all is written, or failed."""
        self.forget(list(self._expected))
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
                key, outgoing = self._waiting[0]
            failed = self._put(key, outgoing)
            with self._changed:
                gone = [self._waiting.popleft() for _ in range(1 if failed is None else len(self._waiting))]
                self._bytes -= sum(one.size for _, one in gone)
                self._failed = failed or self._failed
                self._changed.notify_all()
            for _, one in gone:
                self._buffers.free(one.image)

    def _put(self, key: str, outgoing: Outgoing) -> Exception | None:
        try:
            self._store.put(key, outgoing)
        except Exception as error:
            # Whatever it is: who saves next would wait for a thread that has ended.
            return error
        return None

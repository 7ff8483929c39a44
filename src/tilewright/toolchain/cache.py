"""The compile cache: artifacts in memory, and on disk behind that.

An entry is one file: a line with a checksum, then JSON. It is written beside its place and
renamed onto it, so that a reader sees a whole entry or none, however many processes write it;
the last one wins and all are equal. A damaged entry is a miss. Where the folder cannot be
written the cache lives in memory alone, and says so once in the log.

The disk part has no size limit: an entry is some 50 kB. Deleting the folder is always safe.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import json
import logging
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from tilewright.settings import read_settings
from tilewright.toolchain.artifact import Artifact

_log = logging.getLogger(__name__)

# Raised whenever the entries or the key change their form; old entries are then never asked for.
SCHEMA = 1
_MAGIC = "tilewright-artifact"


def cache_key(parts: Mapping[str, object]) -> str:
    """Return the key of `parts`: sha256 of its canonical JSON, the schema's version included."""
    text = json.dumps({"schema": SCHEMA, **parts}, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class CompileCache:
    """Artifacts by key. Safe with many threads and many processes.

    `folder` is None for a cache in memory only. `entries` bounds the part in memory.
    """

    def __init__(self, folder: Path | None, *, entries: int = 256) -> None:
        self.folder = folder
        self._entries = entries
        self._memory: OrderedDict[str, Artifact] = OrderedDict()
        self._lock = threading.Lock()
        self._disk_fails = False

    def get(self, key: str) -> Artifact | None:
        """Return the artifact of `key`, or None."""
        with self._lock:
            found = self._memory.get(key)
            if found is not None:
                self._memory.move_to_end(key)
                return found
        found = self._read(key)
        if found is not None:
            self._remember(key, found)
        return found

    def put(self, key: str, artifact: Artifact) -> None:
        """Keep `artifact` under `key`. Never fails: what cannot be written stays in memory."""
        self._remember(key, artifact)
        if self.folder is None or self._disk_fails:
            return
        try:
            _write_whole(self._path(key), _encode(key, artifact))
        except OSError as error:
            self._report_disk(error)

    def _remember(self, key: str, artifact: Artifact) -> None:
        with self._lock:
            self._memory[key] = artifact
            self._memory.move_to_end(key)
            while len(self._memory) > self._entries:
                self._memory.popitem(last=False)

    def _read(self, key: str) -> Artifact | None:
        if self.folder is None:
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._report_disk(error)
            return None
        try:
            return _decode(key, data)
        except ValueError as error:
            _log.warning("damaged compile cache entry %s (%s): compiling anew", path, error)
            return None

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"artifacts-{SCHEMA}" / key[:2] / f"{key}.json"

    def _report_disk(self, error: OSError) -> None:
        with self._lock:
            first, self._disk_fails = not self._disk_fails, True
        if first:
            _log.warning(
                "the compile cache folder %s cannot be used (%s): compiles are kept in memory "
                "only; set TILEWRIGHT_CACHE_DIR to a folder that can be written, or to 0",
                self.folder,
                error.strerror or error,
            )


def default_cache() -> CompileCache:
    """Return this process's cache in the folder that the settings name."""
    return _cache_in(read_settings().cache_dir)


@functools.cache
def _cache_in(folder: Path | None) -> CompileCache:
    return CompileCache(folder)


def _encode(key: str, artifact: Artifact) -> bytes:
    fields = asdict(artifact) | {"cubin": base64.b64encode(artifact.cubin).decode()}
    payload = json.dumps({"key": key, "artifact": fields}, sort_keys=True).encode()
    return f"{_MAGIC} {hashlib.sha256(payload).hexdigest()}\n".encode() + payload


def _decode(key: str, data: bytes) -> Artifact:
    """Return the artifact that `_encode` wrote, or raise ValueError saying what is wrong."""
    head, _, payload = data.partition(b"\n")
    if head != f"{_MAGIC} {hashlib.sha256(payload).hexdigest()}".encode():
        raise ValueError("its checksum does not match")
    entry = json.loads(payload)
    if entry.get("key") != key:
        raise ValueError("it belongs to another key")
    fields = entry["artifact"]
    try:
        return Artifact(**(fields | {"cubin": base64.b64decode(fields["cubin"])}))
    except (TypeError, KeyError) as error:
        raise ValueError(f"its fields are not an artifact's: {error}") from error


def _write_whole(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that nobody ever sees a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".part-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise

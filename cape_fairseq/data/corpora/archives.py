"""Downloading archives, and reading what is in them."""

from __future__ import annotations

import gzip
import http.client
import io
import os
import shutil
import sys
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO

from tqdm import tqdm

from cape_fairseq import locks
from cape_fairseq.data.parallel import write_lines
from cape_fairseq.errors import UserError
from cape_fairseq.files import sha256

BLOCK = 1 << 20


def fetch(url: str, folder: Path) -> Path:
    """The archive of ``url`` in ``folder``, downloaded if it is not there yet.

    A download that was cut off goes on where it was. The publishers name no checksums, so the
    digest of the first complete download is kept in SHA256SUMS, and the file is compared with it
    ever after.

    Raises:
        UserError: it cannot be fetched, or has changed.
    """
    path = folder / file_name(url)
    if path.is_file():
        check_sum(path, path.name)
        return path
    with locks.held(folder / "lock", wait=True, waiting=partial(tell_of, path)):
        if not path.is_file():  # nobody else has fetched it meanwhile
            download(url, path)
    return path


def file_name(url: str) -> str:
    """What an archive is called on the disk."""
    return url.rsplit("/", 1)[1]


def tell_of(path: Path, who: str) -> None:
    words = f"{path.name}: {who} fetches archives into {path.parent}; this one waits"
    print(words, file=sys.stderr, flush=True)


def download(url: str, path: Path) -> None:
    part = path.with_name(f"{path.name}.part")
    try:
        whole = receive(url, part)
    except urllib.error.HTTPError as error:
        if error.code != 416:
            raise UserError(
                f"{url} cannot be fetched ({error}); put {path.name} into {path.parent} by hand"
            ) from None
        # Nothing is left to fetch; but if there is more here than there, it was another file.
        there, whole = error.headers.get("Content-Range", "").rpartition("/")[2], size(part)
        if there not in ("", "*", str(whole)):
            part.unlink()
            download(url, path)
            return
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise UserError(
            f"{url} cannot be fetched ({reason}); start again to go on, or put {path.name} into "
            f"{path.parent} by hand"
        ) from None
    if whole not in (None, size(part)):
        raise UserError(
            f"{url}: the connection ended early; start again to go on from {size(part):,} bytes"
        )
    check_sum(part, path.name, record=True)  # before anybody takes it for complete
    os.replace(part, path)


def receive(url: str, part: Path) -> int | None:
    """Append to ``part`` what it lacks -> bytes of the whole file, if the server tells."""
    done = size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        if done and answer.status != 206:  # the server starts again
            done = 0
        length = int(answer.headers.get("Content-Length") or 0)
        with (
            open(part, "ab" if done else "wb") as stream,
            tqdm.wrapattr(
                stream, "write", total=done + length, initial=done, desc=part.stem, mininterval=2
            ) as output,
        ):
            shutil.copyfileobj(answer, output, BLOCK)
    return done + length if length else None


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def check_sum(path: Path, name: str, record: bool = False) -> None:
    """Compare a file with the line of ``name`` in SHA256SUMS beside it; ``record`` adds the line.
    What was put there has none."""
    sums = path.with_name("SHA256SUMS")
    lines = sums.read_text().splitlines() if sums.exists() else []
    known = {name.lstrip(" *"): value for value, _, name in (line.partition(" ") for line in lines)}
    if not record and name not in known:
        return
    found = sha256([path])
    if known.setdefault(name, found) != found:
        raise UserError(
            f"{path} is not what {sums} says; remove the file to fetch it again, or its line to "
            "trust it"
        )
    if record:
        write_lines(sums, [f"{value}  {name}" for name, value in sorted(known.items())])


def extract(archive: Path, members: list[str], folder: Path) -> list[Path]:
    """Files of an archive (tar of any compression, or one .gz file) as files in ``folder``,
    compressed ones unpacked.

    Raises:
        UserError: the archive is damaged, or lacks a member; nothing is left in ``folder`` of it
            then.
    """
    folder.mkdir(parents=True, exist_ok=True)
    targets = {member: folder / member.replace("/", "_").removesuffix(".gz") for member in members}
    missing = {member for member, path in targets.items() if not path.exists()}
    written: list[Path] = []
    try:
        for name, stream in contents(archive, missing) if missing else ():
            temporary = targets[name].with_suffix(f"{targets[name].suffix}.tmp")
            written.append(temporary)
            with open(temporary, "wb") as output:
                shutil.copyfileobj(stream, output, BLOCK)
            missing.discard(name)
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        discard(written)
        if getattr(error, "errno", None):  # a full disk, for instance
            raise UserError(f"{archive} cannot be unpacked into {folder}: {error}") from None
        raise UserError(
            f"{archive} is damaged ({error}); remove it and start again to fetch it anew"
        ) from None
    if missing:
        discard(written)
        raise UserError(
            f"{archive} has no {sorted(missing)[0]}; is it the archive that the recipe names?"
        )
    for temporary in written:
        os.replace(temporary, temporary.with_suffix(""))
    return [targets[member] for member in members]


def discard(paths: list[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def contents(archive: Path, names: set[str]) -> Iterator[tuple[str, IO[bytes]]]:
    """The named members of an archive, in its order, unpacked."""
    if not tarfile.is_tarfile(archive):
        if archive.name not in names:
            raise tarfile.ReadError("neither a tar archive nor the file itself")
        with gzip.open(archive, "rb") as stream:
            yield archive.name, stream
        return
    with open(archive, "rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
    # tarfile would not look at gzip's checksum; gzip does, if it is read to the end.
    with (gzip.open if compressed else open)(archive, "rb") as stream:
        with tarfile.open(
            fileobj=stream, mode="r|*"
        ) as tar:  # one pass: going back unpacks all again
            for entry in tar:
                name = entry.name.removeprefix("./")
                if name in names and entry.isfile():
                    member = tar.extractfile(entry) or io.BytesIO()
                    with gzip.open(member, "rb") if name.endswith(".gz") else member as unpacked:
                        yield name, unpacked
        while stream.read(BLOCK):
            pass

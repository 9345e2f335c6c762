"""Archives of inputs: mutants, and the fuzzer's corpus, which is read as a folder of files."""

import io
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

ARCHIVE = Path(__file__).with_name("corpus.tar.xz")
#: What fuzz_files.py found once, for the tests to replay.
MUTANTS = Path(__file__).with_name("mutants.tar.xz")
FOLDER = Path(__file__).resolve().parents[2] / "build/fuzz/corpus"


def unpack() -> Path:
    """FOLDER with what the archive holds; as it is when it is newer than the archive."""
    if not FOLDER.is_dir() or FOLDER.stat().st_mtime < ARCHIVE.stat().st_mtime:
        shutil.rmtree(FOLDER, ignore_errors=True)
        with tarfile.open(ARCHIVE) as archive:
            # Pythons before 3.11.4, Debian 12's among them, have no filters.
            filtered = hasattr(tarfile, "data_filter")
            archive.extractall(FOLDER, **({"filter": "data"} if filtered else {}))
        FOLDER.touch()
    return FOLDER


def pack(folder: Path) -> None:
    """Make the archive of a folder's files; the same files give the same bytes."""
    write(ARCHIVE, {path.name: path.read_bytes() for path in folder.iterdir()})


def write(archive: Path, files: dict[str, bytes]) -> None:
    """Make an archive; the same files give the same bytes."""
    with tarfile.open(archive, "w:xz") as out:
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            out.addfile(entry, io.BytesIO(data))


def members(archive: Path) -> dict[str, bytes]:
    """The files of an archive; none when there is no such archive."""
    if not archive.exists():
        return {}
    with tarfile.open(archive) as opened:
        files = {m.name: opened.extractfile(m) for m in opened.getmembers()}
        return {name: file.read() for name, file in files.items() if file is not None}


def add(archive: Path, files: Iterable[Path]) -> None:
    """Put files into an archive, beside what is there."""
    write(archive, members(archive) | {path.name: path.read_bytes() for path in files})

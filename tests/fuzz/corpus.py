"""The fuzzer's corpus, one archive, as the folder of files that libFuzzer and the replay read."""

import io
import shutil
import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("corpus.tar.xz")
FOLDER = Path(__file__).resolve().parents[2] / "build/fuzz/corpus"


def unpack() -> Path:
    """FOLDER with what the archive holds; as it is when it is newer than the archive."""
    if not FOLDER.is_dir() or FOLDER.stat().st_mtime < ARCHIVE.stat().st_mtime:
        shutil.rmtree(FOLDER, ignore_errors=True)
        with tarfile.open(ARCHIVE) as archive:
            archive.extractall(FOLDER, filter="data")
        FOLDER.touch()
    return FOLDER


def pack(folder: Path) -> None:
    """Make the archive of a folder's files; the same files give the same bytes."""
    with tarfile.open(ARCHIVE, "w:xz") as archive:
        for path in sorted(folder.iterdir()):
            data = path.read_bytes()
            entry = tarfile.TarInfo(path.name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))

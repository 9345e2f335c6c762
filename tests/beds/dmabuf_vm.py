"""Runs a command on a kernel that has /dev/dma_heap/system and /dev/udmabuf.

    python tests/beds/dmabuf_vm.py [--install] [-v] COMMAND [ARGUMENT...]

QEMU boots Debian's cloud kernel (bookworm-backports) with this machine's own root file system,
read only, under an overlay in memory: the host's Python, libraries and build tree are used as they
are, and nothing that the command writes outlives it. Its output and exit status are passed on; 125
means that the bed itself broke. Needs root, x86-64, a C compiler, zstd and QEMU with virtiofsd;
--install gets the missing ones with apt-get. The kernel is fetched once into QNNRT_BED_CACHE
(default ~/.cache/qnnrt-bed) with apt's own client and its signature checks.

Switches in the environment: QNNRT_BED_MEMORY=2G, QNNRT_BED_CPUS=2, QNNRT_BED_TIMEOUT=900 seconds.
The guest gets PATH, PYTHONPATH, VIRTUAL_ENV and every variable that starts with QNNRT_.
"""

import argparse
import contextlib
import hashlib
import lzma
import os
import shlex
import shutil
import stat
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("QNNRT_BED_CACHE") or Path.home() / ".cache" / "qnnrt-bed")
META_PACKAGE = "linux-image-cloud-amd64"
BUILT_IN = ("DMABUF_HEAPS", "DMABUF_HEAPS_SYSTEM", "UDMABUF", "VIRTIO_PCI", "VIRTIO_FS", "PVH")
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86",
    "virtiofsd": "qemu-system-common",
    "zstd": "zstd",
    "cc": "gcc",
}
# cx16: the emulator of QEMU 7.2 loses flags after cmpxchg16b, and the guest dies of it at random.
KERNEL_OPTIONS = (
    "console=ttyS0 quiet panic=-1 clearcpuid=cx16 nokaslr mitigations=off no_timer_check "
    "tsc=reliable random.trust_cpu=on cryptomgr.notests audit=0"
)


class BedError(Exception):
    """The bed, not the command in it, has failed."""


def tool(name: str) -> str | None:
    where = os.pathsep.join([os.environ.get("PATH", ""), "/usr/lib/qemu", "/usr/libexec"])
    return shutil.which(name, path=where)


def quiet(
    *command: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env)
    if done.returncode:
        raise BedError(f"{shlex.join(command)}: {done.stderr.strip()[-500:]}")
    return done


def provide_tools(install: bool) -> None:
    missing = sorted({package for name, package in TOOLS.items() if not tool(name)})
    if not missing:
        return
    if not install:
        raise BedError(f"missing {' '.join(missing)}: apt-get install them, or pass --install")
    apt = ["apt-get", "install", "-y", "--no-install-recommends", *missing]
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    try:
        quiet(*apt, env=environment)
    except BedError:  # package lists older than the mirror
        quiet("apt-get", "update")
        quiet(*apt, env=environment)


def fetch_kernel(folder: Path) -> None:
    """Downloads and unpacks the newest cloud kernel, leaving the machine's apt setup alone."""
    apt = folder / "apt"
    (apt / "lists" / "partial").mkdir(parents=True)
    (apt / "archives" / "partial").mkdir(parents=True)
    mirrors = quiet("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages")
    mirror = next((m for m in mirrors.stdout.split() if "security" not in m), None)
    if not mirror:
        raise BedError("apt has no package source to take the kernel from")
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    source = f"deb [signed-by={keyring}] {mirror} bookworm-backports main\n"
    (apt / "sources.list").write_text(source)
    settings = {
        "Dir::Etc::sourcelist": apt / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt,
        "APT::Sandbox::User": "root",
        "Acquire::Languages": "none",
    }
    (apt / "apt.conf").write_text("".join(f'{k} "{v}";\n' for k, v in settings.items()))
    environment = os.environ | {"APT_CONFIG": str(apt / "apt.conf")}
    quiet("apt-get", "update", env=environment)
    depends = quiet("apt-cache", "depends", META_PACKAGE, env=environment).stdout.split()
    image = next((d for d in depends if d.startswith("linux-image-6")), None)
    if not image:
        raise BedError(f"{META_PACKAGE} names no kernel image")
    quiet("apt-get", "download", image, env=environment, cwd=apt)
    quiet("dpkg-deb", "-x", str(next(apt.glob("linux-image-*.deb"))), str(folder / "tree"))
    config = next((folder / "tree" / "boot").glob("config-*")).read_text().splitlines()
    absent = [o for o in BUILT_IN if f"CONFIG_{o}=y" not in config]
    if absent:
        raise BedError(f"{image} is built without {', '.join(absent)}")
    shutil.rmtree(apt)


def unpacked_kernel(image: bytes) -> bytes:
    """The ELF kernel inside a bzImage (Linux boot protocol 2.08): emulators unpack slowly."""
    setup_sectors = image[0x1F1] or 4
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length]
    if payload.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor().decompress(payload)
    # The last four bytes are the unpacked size, which zstd would take for garbage.
    unpacked = subprocess.run(
        [tool("zstd") or "zstd", "-dc"], input=payload[:-4], stdout=subprocess.PIPE, check=False
    ).stdout
    if not unpacked.startswith(b"\x7fELF"):
        raise BedError("the kernel image is packed in a way that is not known here")
    return unpacked


def cpio(files: dict[str, tuple[int, bytes]]) -> bytes:
    """A "newc" archive of {name: (mode, content)}."""
    out = bytearray()
    entries = [*files.items(), ("TRAILER!!!", (0, b""))]
    for inode, (name, (mode, content)) in enumerate(entries, 1):
        path = name.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
        out += b"070701" + b"".join(b"%08X" % f for f in fields) + path
        out += bytes(-len(out) % 4) + content
        out += bytes(-len(out) % 4)
    return bytes(out)


def make_initramfs(tree: Path, target: Path) -> None:
    module = next(tree.rglob("overlay.ko*"))
    overlay = (
        lzma.decompress(module.read_bytes()) if module.suffix == ".xz" else module.read_bytes()
    )
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        program = Path(folder, "init")
        quiet("cc", "-static", "-O2", str(HERE / "init.c"), "-o", str(program))
        init = program.read_bytes()
    folder_entry = (stat.S_IFDIR | 0o755, b"")
    files = {
        "dev": folder_entry,
        "new": folder_entry,
        "init": (stat.S_IFREG | 0o755, init),
        "overlay.ko": (stat.S_IFREG | 0o644, overlay),
    }
    target.with_suffix(".new").write_bytes(cpio(files))
    target.with_suffix(".new").rename(target)


def prepare(install: bool) -> tuple[Path, Path]:
    """The kernel and the initramfs, made at the first call and kept."""
    provide_tools(install)
    CACHE.mkdir(parents=True, exist_ok=True)
    kernel, tree = CACHE / "vmlinux", CACHE / "kernel" / "tree"
    if not kernel.exists():
        shutil.rmtree(CACHE / "kernel", ignore_errors=True)
        fetch_kernel(CACHE / "kernel")
        packed = next((tree / "boot").glob("vmlinuz-*")).read_bytes()
        (CACHE / "vmlinux.new").write_bytes(unpacked_kernel(packed))
        (CACHE / "vmlinux.new").rename(kernel)
    version = hashlib.sha256((HERE / "init.c").read_bytes()).hexdigest()[:12]
    initramfs = CACHE / f"initramfs-{version}"
    if not initramfs.exists():
        make_initramfs(tree, initramfs)
    return kernel, initramfs


def job_script(command: list[str]) -> str:
    passed = {"HOME": "/root", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "QNNRT_BED": "1"}
    passed |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
    for name, value in os.environ.items():
        if name in ("PATH", "PYTHONPATH", "VIRTUAL_ENV") or name.startswith("QNNRT_"):
            passed[name] = value
    lines = [f"export {name}={shlex.quote(value)}" for name, value in passed.items()]
    return "\n".join([*lines, f"cd {shlex.quote(os.getcwd())}", "exec " + shlex.join(command), ""])


def share(folder: Path, socket: Path, stack: contextlib.ExitStack) -> None:
    daemon = tool("virtiofsd") or "virtiofsd"
    options = [f"--socket-path={socket}", "-o", f"source={folder}", "-o", "sandbox=chroot"]
    options += ["-o", "cache=auto", "-o", "log_level=err", "--thread-pool-size=2"]
    log = stack.enter_context(socket.with_suffix(".log").open("w"))
    process = subprocess.Popen([daemon, *options], stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.terminate)
    deadline = time.monotonic() + 300  # where it does not end: on a busy machine it takes a while
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise BedError(f"virtiofsd did not start: {socket.with_suffix('.log').read_text()}")
        time.sleep(0.02)


def qemu_command(kernel: Path, initramfs: Path, folder: Path, first_try: bool) -> list[str]:
    memory, cpus = (
        os.environ.get("QNNRT_BED_MEMORY") or "2G",
        os.environ.get("QNNRT_BED_CPUS") or "2",
    )
    flags = Path("/proc/cpuinfo").read_text().split()
    # /dev/kvm alone is not enough: some hosts offer it without the processor's support behind it.
    kvm = first_try and os.access("/dev/kvm", os.W_OK) and ("vmx" in flags or "svm" in flags)
    command = ["qemu-system-x86_64", "-machine", "q35", "-m", memory, "-smp", cpus]
    command += ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg", "-cpu", "max"]
    command += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
    command += ["-object", f"memory-backend-memfd,id=ram,size={memory},share=on"]
    command += ["-numa", "node,memdev=ram", "-serial", f"file:{folder / 'console'}"]
    command += ["-kernel", str(kernel), "-initrd", str(initramfs), "-append", KERNEL_OPTIONS]
    for tag in ("host", "bed"):
        command += ["-chardev", f"socket,id={tag},path={folder / tag}.socket"]
        command += ["-device", f"vhost-user-fs-pci,chardev={tag},tag={tag}"]
    return command


class Follower:
    """Passes on what a file in the shared folder gains."""

    def __init__(self, path: Path, out: TextIO) -> None:
        self.path, self.out, self.at = path, out, 0

    def pump(self) -> None:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self.at)
            data = file.read()
        self.at += len(data)
        self.out.buffer.write(data)
        self.out.flush()


def boot(kernel: Path, initramfs: Path, command: list[str], first_try: bool) -> int | None:
    """The command's exit status; None when the guest died before it began."""
    limit = float(os.environ.get("QNNRT_BED_TIMEOUT") or 900)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="run-", dir=CACHE)))
        shared = folder / "shared"
        shared.mkdir()
        (shared / "job").write_text(job_script(command))
        share(Path("/"), folder / "host.socket", stack)
        share(shared, folder / "bed.socket", stack)
        started = time.monotonic()
        log = stack.enter_context((folder / "qemu.log").open("w"))
        guest = subprocess.Popen(
            qemu_command(kernel, initramfs, folder, first_try), stdout=log, stderr=log
        )
        stack.callback(guest.wait)
        stack.callback(guest.kill)
        followers = [
            Follower(shared / "stdout", sys.stdout),
            Follower(shared / "stderr", sys.stderr),
        ]
        began = None
        while guest.poll() is None:
            if began is None and (shared / "stdout").exists():
                began = time.monotonic() - started
                say(f"booted in {began:.1f} s")
            if time.monotonic() - started > limit:
                raise BedError(f"no end after {limit:.0f} s")
            for follower in followers:
                follower.pump()
            time.sleep(0.05)
        for follower in followers:
            follower.pump()
        say(f"ended after {time.monotonic() - started:.1f} s")
        if (shared / "status").exists():
            return int((shared / "status").read_text())
        console = (folder / "console").read_text(errors="replace")[-2000:]
        say(f"console: {console}\nqemu: {(folder / 'qemu.log').read_text()[-1000:]}")
        if began is not None:
            raise BedError("the guest died while the command was running\n" + console)
        return None


VERBOSE = False


def say(text: str) -> None:
    if VERBOSE:
        print(f"dmabuf_vm: {text}", file=sys.stderr, flush=True)


def main() -> int:
    global VERBOSE
    parser = argparse.ArgumentParser(description="Runs a command on a kernel with real dma-bufs.")
    parser.add_argument("--install", action="store_true", help="apt-get install missing tools")
    parser.add_argument("-v", "--verbose", action="store_true", help="say how long boot took")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="program and its arguments")
    options = parser.parse_args()
    VERBOSE = options.verbose
    if not options.command:
        parser.error("expected a command to run in the guest")
    try:
        kernel, initramfs = prepare(options.install)
        for attempt in range(3):
            status = boot(kernel, initramfs, options.command, first_try=attempt == 0)
            if status is not None:
                return status
        raise BedError("the guest did not get as far as the command, three times; -v shows more")
    except (BedError, OSError, StopIteration) as error:
        print(f"dmabuf_vm: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main())

"""A product of a few rows with a large weight that takes little longer than reading the weight.

A pass over a draft tree multiplies some ten rows with weights that no cache holds. The kernels in torch read the
weight, then multiply: at nine rows they take nearly twice the time of one row (docs/log.md). The kernel beside this
file, `streamed.c`, overlaps the two. It is compiled once on the user's machine, for its processor, with the C compiler
that is there, and kept in the cache folder; where there is none, `streamed_kernel` says so and torch's kernels stay.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from phrasedraft.target.embedded import cache_folder

SOURCE = Path(__file__).with_suffix(".c")
COMPILERS = ("cc", "gcc", "clang")
COMPILE_SECONDS = 60
TRIED_ROWS = (1, 2, 5, 9, 13, 30)


class StreamedKernel:
    """The compiled kernel. Threads are torch's own, as many as torch uses; float32 on the CPU only."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._multiply, self._pack, self._rms_norm = library.multiply, library.pack, library.rms_norm
        pointer, number = ctypes.c_void_p, ctypes.c_long
        self._multiply.argtypes = [pointer, number, number, pointer, pointer, number, pointer, ctypes.c_int]
        self._pack.argtypes = [pointer, number, number, pointer]
        self._rms_norm.argtypes = [pointer, number, number, pointer, ctypes.c_float, pointer]
        self._multiply.restype = self._pack.restype = self._rms_norm.restype = None
        library.panel_width.restype = ctypes.c_long
        self._panel = int(library.panel_width())

    def pack(self, weight: Float[Tensor, "output input"]) -> Float[Tensor, " packed"]:
        """The weight as `multiply` reads it, copied."""
        outputs, inputs = weight.shape
        weight = weight.detach().to("cpu", torch.float32).contiguous()
        packed = torch.empty(-(-outputs // self._panel) * self._panel * inputs, dtype=torch.float32)
        self._pack(weight.data_ptr(), outputs, inputs, packed.data_ptr())
        return packed

    def multiply(
        self, rows: Float[Tensor, "*batch input"], packed: Float[Tensor, " packed"], bias: Tensor | None, outputs: int
    ) -> Float[Tensor, "*batch output"]:
        """The rows times the packed weight of `outputs` outputs, plus the bias."""
        rows = rows.contiguous()
        inputs = rows.shape[-1]
        result = rows.new_empty((*rows.shape[:-1], outputs))
        self._multiply(
            rows.data_ptr(),
            rows.numel() // inputs,
            inputs,
            packed.data_ptr(),
            None if bias is None else bias.data_ptr(),
            outputs,
            result.data_ptr(),
            torch.get_num_threads(),
        )
        return result

    def rms_norm(
        self, rows: Float[Tensor, "*batch hidden"], weight: Float[Tensor, " hidden"], epsilon: float
    ) -> Float[Tensor, "*batch hidden"]:
        """Contiguous rows, each over its root mean square, times the weight."""
        result = torch.empty_like(rows)
        width = rows.shape[-1]
        self._rms_norm(rows.data_ptr(), rows.numel() // width, width, weight.data_ptr(), epsilon, result.data_ptr())
        return result


@dataclass(frozen=True)
class Build:
    """The kernel, or why there is none."""

    kernel: StreamedKernel | None
    why_not: str = ""


@cache
def streamed_kernel() -> Build:
    """The kernel for this machine, compiled the first time (about a second) and tried out in every process."""
    if os.environ.get("PHRASEDRAFT_KERNEL", "on") == "off":
        return Build(None, "PHRASEDRAFT_KERNEL is off")
    compiler = _compiler()
    if compiler is None:
        return Build(None, f"there is no C compiler ({', '.join(COMPILERS)}, or $CC)")
    try:
        kernel = StreamedKernel(_loaded(compiler))
        return Build(kernel) if _is_right(kernel) else Build(None, "the compiled kernel gives wrong products")
    except subprocess.CalledProcessError as error:
        complaint = (error.stderr or "").strip().splitlines() or ["no message"]
        return Build(None, f"`{compiler}` does not compile the kernel: {complaint[0]}")
    except (OSError, subprocess.TimeoutExpired, AttributeError) as error:
        return Build(None, f"the kernel cannot be compiled and loaded: {error}")


def _loaded(compiler: str) -> ctypes.CDLL:
    """The library; one in the cache folder that cannot be loaded is compiled anew."""
    library = _compiled(compiler)
    try:
        return ctypes.CDLL(str(library))
    except OSError:
        library.unlink(missing_ok=True)
        return ctypes.CDLL(str(_compiled(compiler)))


def _compiler() -> str | None:
    names = (os.environ["CC"],) if os.environ.get("CC") else COMPILERS
    return next((path for path in map(shutil.which, names) if path), None)


def _compiled(compiler: str) -> Path:
    """The library in the cache folder, one for each processor, compiler and version of the source."""
    native = "-mcpu=native" if platform.machine() in ("arm64", "aarch64") else "-march=native"
    flags = ("-std=gnu11", "-O3", native, "-ffp-contract=fast", "-fno-math-errno", "-fPIC")
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True, timeout=10).stdout
    key = hashlib.sha256("\0".join((SOURCE.read_text(), *flags, version, processor())).encode()).hexdigest()[:16]
    library = cache_folder() / "kernels" / f"streamed-{key}.so"
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            program, result = str(Path(scratch) / "streamed.o"), str(Path(scratch) / "streamed.so")
            # OpenMP is not linked: its functions are those torch has loaded, or two pools of threads would compete.
            _run([compiler, *flags, "-fopenmp", "-c", str(SOURCE), "-o", program])
            _run([compiler, "-shared", program, "-o", result])
            os.replace(result, library)
    return library


def _run(command: list[str]) -> None:
    subprocess.run(command, capture_output=True, text=True, check=True, timeout=COMPILE_SECONDS)


def processor() -> str:
    """What distinguishes processors that the same binary may not run on."""
    known = Path("/proc/cpuinfo")
    lines = known.read_text().splitlines() if known.is_file() else []
    features = sorted({line for line in lines if line.startswith(("flags", "Features", "model name"))})
    return "\n".join([platform.machine(), platform.processor(), *features])


@torch.inference_mode()
def _is_right(kernel: StreamedKernel) -> bool:
    """Whether products are those of torch, up to rounding, for shapes that do and do not fill a panel."""
    generator = torch.Generator().manual_seed(0)
    for outputs, inputs in ((100, 48), (64, 33)):
        weight, bias = (
            torch.randn(shape, generator=generator, dtype=torch.float32) for shape in ((outputs, inputs), (outputs,))
        )
        packed = kernel.pack(weight)
        for count in TRIED_ROWS:
            rows = torch.randn(count, inputs, generator=generator, dtype=torch.float32)
            if not torch.allclose(
                kernel.multiply(rows, packed, bias, outputs), F.linear(rows, weight, bias), atol=1e-4
            ):
                return False
    return True

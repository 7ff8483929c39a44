"""The GPUs that tilewright knows, and how to find one by name.

One row is one product: an A100 with 40 GB or on PCIe is another product than the A100 80GB here,
with another memory, so its name is not an alias and `by_device_name` does not match it.

Vendor figures were taken from NVIDIA's datasheets and whitepapers as collected by kernelmeter 0.9
(its tests hold clock, SMs, bus and rates to the datasheets) and hotkernel 0.1 (which cites pages).
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.errors import UnknownNameError
from tilewright.gpus.gpu import GIB, KIB, MIB, Gpu, Grade, Source
from tilewright.gpus.limits import LIMITS


def _from(text: str, grade: Grade, **others: Source) -> Mapping[str, Source]:
    """Cite one source for every figure of a row, except for `others`."""
    names = (
        "sm_count",
        "boost_clock_hz",
        "l2_bytes",
        "dram_bytes",
        "dram_bytes_per_s",
        "fp16_tensor_flops_per_s",
    )
    return dict.fromkeys(names, Source(text=text, grade=grade)) | others


def _read(text: str) -> Source:
    return Source(text=text, grade="reading")


_NO_L2 = Source(text="compute capability 1: global memory is not cached", grade="vendor")
_NO_TENSOR = Source(text="tensor cores begin with compute capability 7.0", grade="vendor")
_DERIVED_128 = Source(text="128 stream processors (channelpartner.de), 8 an SM", grade="derived")
_DERIVED_240 = Source(text="240 stream processors (channelpartner.de), 8 an SM", grade="derived")
_HALVED = Source(text="half of the datasheet's figure, which counts sparsity", grade="vendor")
_GA102 = Source(
    text="NVIDIA Ampere GA102 whitepaper: 512 KB of L2 for each of 12 32-bit memory controllers",
    grade="vendor",
)

GPUS: tuple[Gpu, ...] = (
    Gpu(
        name="V100",
        aliases=("V100 SXM2", "Tesla V100", "V100 16GB"),
        device_names=("Tesla V100-SXM2-16GB",),
        limits=LIMITS[7, 0],
        sm_count=80,
        boost_clock_hz=1530e6,
        l2_bytes=6 * MIB,
        dram_bytes=16 * GIB,
        dram_bytes_per_s=900e9,
        fp16_tensor_flops_per_s=125e12,
        sources=_from("NVIDIA Tesla V100 (GV100) whitepaper, table 1", "vendor"),
    ),
    Gpu(
        name="T4",
        aliases=("Tesla T4",),
        device_names=("Tesla T4", "NVIDIA T4"),
        limits=LIMITS[7, 5],
        sm_count=40,
        boost_clock_hz=1590e6,
        l2_bytes=4 * MIB,
        dram_bytes=16 * GIB,
        dram_bytes_per_s=320e9,
        fp16_tensor_flops_per_s=65e12,
        sources=_from(
            "NVIDIA T4 datasheet",
            "vendor",
            l2_bytes=_read("deviceQuery of a Tesla T4: 4194304 bytes (chiemon.github.io, 2024-12)"),
            sm_count=_read("deviceQuery of a Tesla T4: 40 (chiemon.github.io, 2024-12)"),
            boost_clock_hz=_read("deviceQuery of a Tesla T4: 1590 MHz (chiemon.github.io)"),
        ),
    ),
    Gpu(
        name="A100 80GB",
        aliases=("A100", "A100 SXM", "A100 SXM4", "A100 SXM4 80GB"),
        device_names=("NVIDIA A100-SXM4-80GB", "A100-SXM4-80GB"),
        limits=LIMITS[8, 0],
        sm_count=108,
        boost_clock_hz=1410e6,
        l2_bytes=40 * MIB,
        dram_bytes=80 * GIB,
        dram_bytes_per_s=2039e9,
        fp16_tensor_flops_per_s=312e12,
        sources=_from(
            "NVIDIA A100 datasheet (80GB SXM) and A100 whitepaper",
            "vendor",
            l2_bytes=_read("deviceQuery of an A100: 41943040 bytes (samridh-dev/votess issue 10)"),
        ),
    ),
    Gpu(
        name="RTX 3090",
        aliases=("3090",),
        device_names=("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"),
        limits=LIMITS[8, 6],
        sm_count=82,
        boost_clock_hz=1695e6,
        l2_bytes=6 * MIB,
        dram_bytes=24 * GIB,
        dram_bytes_per_s=936e9,
        fp16_tensor_flops_per_s=71e12,
        sources=_from(
            "NVIDIA Ampere GA102 whitepaper, appendix A, table 9", "vendor", l2_bytes=_GA102
        ),
    ),
    Gpu(
        name="RTX A6000",
        aliases=("A6000",),
        device_names=("NVIDIA RTX A6000", "RTX A6000"),
        limits=LIMITS[8, 6],
        sm_count=84,
        boost_clock_hz=1800e6,
        l2_bytes=6 * MIB,
        dram_bytes=48 * GIB,
        dram_bytes_per_s=768e9,
        fp16_tensor_flops_per_s=154.8e12,
        sources=_from(
            "NVIDIA Ampere GA102 whitepaper v2, table of RTX A6000 specifications",
            "vendor",
            l2_bytes=_GA102,
        ),
    ),
    Gpu(
        name="RTX 4090",
        aliases=("4090",),
        device_names=("NVIDIA GeForce RTX 4090",),
        limits=LIMITS[8, 9],
        sm_count=128,
        boost_clock_hz=2520e6,
        l2_bytes=72 * MIB,
        dram_bytes=24 * GIB,
        dram_bytes_per_s=1008e9,
        fp16_tensor_flops_per_s=165.2e12,
        sources=_from(
            "NVIDIA Ada GPU architecture whitepaper, appendix A, table 2",
            "vendor",
            l2_bytes=Source(text="cputronic.com, GeForce RTX 4090: 72 MB", grade="reported"),
        ),
    ),
    Gpu(
        name="L4",
        device_names=("NVIDIA L4",),
        limits=LIMITS[8, 9],
        sm_count=58,
        boost_clock_hz=2040e6,
        l2_bytes=48 * MIB,
        dram_bytes=24 * GIB,
        dram_bytes_per_s=300e9,
        fp16_tensor_flops_per_s=121e12,
        sources=_from(
            "NVIDIA L4 datasheet",
            "vendor",
            fp16_tensor_flops_per_s=_HALVED,
            l2_bytes=Source(text="cputronic.com, NVIDIA L4: 48 MB", grade="reported"),
            sm_count=Source(
                text="7424 CUDA cores of 128 an SM; some pages count the 60 SMs of the full chip",
                grade="reported",
            ),
            boost_clock_hz=Source(text="cputronic.com, NVIDIA L4: 2040 MHz", grade="reported"),
        ),
    ),
    Gpu(
        name="H100",
        aliases=("H100 SXM", "H100 SXM5", "H100 80GB"),
        device_names=("NVIDIA H100 80GB HBM3",),
        limits=LIMITS[9, 0],
        sm_count=132,
        boost_clock_hz=1980e6,
        l2_bytes=50 * MIB,
        dram_bytes=80 * GIB,
        dram_bytes_per_s=3350e9,
        fp16_tensor_flops_per_s=989e12,
        sources=_from(
            "NVIDIA H100 datasheet (SXM5)",
            "vendor",
            fp16_tensor_flops_per_s=_HALVED,
            sm_count=Source(text="NVIDIA H100 whitepaper, H100 SXM5", grade="vendor"),
            l2_bytes=Source(text="NVIDIA H100 whitepaper, H100 SXM5", grade="vendor"),
            boost_clock_hz=Source(
                text="glennklockwood.com, H100: 1.98 GHz (1.83 GHz for the tensor rate)",
                grade="reported",
            ),
        ),
    ),
    Gpu(
        name="H200",
        aliases=("H200 SXM", "H200 141GB"),
        device_names=("NVIDIA H200",),
        limits=LIMITS[9, 0],
        sm_count=132,
        boost_clock_hz=1980e6,
        l2_bytes=60 * MIB,
        dram_bytes=141 * GIB,
        dram_bytes_per_s=4800e9,
        fp16_tensor_flops_per_s=989e12,
        sources=_from(
            "NVIDIA H200 datasheet (SXM)",
            "vendor",
            fp16_tensor_flops_per_s=_HALVED,
            sm_count=_read("device properties of one H200, driver 580.159.04, 2026-11-30"),
            l2_bytes=_read("device properties of one H200, driver 580.159.04, 2026-11-30"),
            boost_clock_hz=Source(text="hmc-tech.com, H200 SXM: 1980 MHz", grade="reported"),
        ),
    ),
    Gpu(
        name="B200",
        aliases=("B200 SXM",),
        device_names=("NVIDIA B200",),
        limits=LIMITS[10, 0],
        sm_count=148,
        boost_clock_hz=1965e6,
        l2_bytes=129536 * KIB,
        dram_bytes=180 * GIB,
        dram_bytes_per_s=7672e9,
        fp16_tensor_flops_per_s=2250e12,
        sources=_from(
            "NVIDIA HGX B200 datasheet",
            "vendor",
            sm_count=_read("device properties of a B200: 148 (pytorch/ao pull request 4002)"),
            l2_bytes=_read("device properties of a B200: 126.50 MB (pytorch/ao pull request 4002)"),
            dram_bytes_per_s=_read(
                "7680-bit bus at 3996 MHz, two transfers a clock, read from a B200 (pytorch/ao "
                "pull request 4002); the datasheet rounds to 8 TB/s"
            ),
            boost_clock_hz=Source(
                text="from memory, 1965 MHz; hmc-tech.com says 1980", grade="recalled"
            ),
        ),
    ),
    Gpu(
        name="RTX 5090",
        aliases=("5090",),
        device_names=("NVIDIA GeForce RTX 5090",),
        limits=LIMITS[12, 0],
        sm_count=170,
        boost_clock_hz=2407e6,
        l2_bytes=96 * MIB,
        dram_bytes=32 * GIB,
        dram_bytes_per_s=1792e9,
        fp16_tensor_flops_per_s=209.5e12,
        sources=_from(
            "NVIDIA RTX Blackwell GPU architecture whitepaper, appendix A, table 3",
            "vendor",
            l2_bytes=_read("deviceQuery of an RTX 5090: 100663296 bytes (NVIDIA/nccl issue 1637)"),
        ),
    ),
    Gpu(
        name="8800 GTX",
        device_names=("GeForce 8800 GTX",),
        limits=LIMITS[1, 0],
        sm_count=16,
        boost_clock_hz=1350e6,
        l2_bytes=None,
        dram_bytes=768 * MIB,
        dram_bytes_per_s=86.4e9,
        fp16_tensor_flops_per_s=None,
        sources=_from(
            "tomshardware.com, GeForce 8800 GTX; the clock is the shader clock",
            "reported",
            sm_count=Source(text="128 stream processors (from memory), 8 an SM", grade="recalled"),
            l2_bytes=_NO_L2,
            fp16_tensor_flops_per_s=_NO_TENSOR,
        ),
    ),
    Gpu(
        name="9800 GTX",
        device_names=("GeForce 9800 GTX",),
        limits=LIMITS[1, 1],
        sm_count=16,
        boost_clock_hz=1688e6,
        l2_bytes=None,
        dram_bytes=512 * MIB,
        dram_bytes_per_s=70.4e9,
        fp16_tensor_flops_per_s=None,
        sources=_from(
            "channelpartner.de, 2008-06-16: shader clock, 256 bits at 2.2 GHz",
            "reported",
            sm_count=Source(
                text="channelpartner.de: 128 stream processors; 8 an SM", grade="derived"
            ),
            l2_bytes=_NO_L2,
            fp16_tensor_flops_per_s=_NO_TENSOR,
        ),
    ),
    Gpu(
        name="GTX 280",
        device_names=("GeForce GTX 280",),
        limits=LIMITS[1, 3],
        sm_count=30,
        boost_clock_hz=1296e6,
        l2_bytes=None,
        dram_bytes=1 * GIB,
        dram_bytes_per_s=141.7e9,
        fp16_tensor_flops_per_s=None,
        sources=_from(
            "tomshardware.com, GeForce GTX 280; the clock is the shader clock",
            "reported",
            sm_count=Source(
                text="channelpartner.de: 240 stream processors; 8 an SM", grade="derived"
            ),
            l2_bytes=_NO_L2,
            fp16_tensor_flops_per_s=_NO_TENSOR,
        ),
    ),
)


def _key(name: str) -> str:
    """Spelling does not matter: case, spaces, dashes, and the maker's and the series' names."""
    words = name.casefold().replace("-", " ").replace("_", " ").split()
    return "".join(w for w in words if w not in ("nvidia", "geforce", "tesla"))


_BY_KEY: Mapping[str, Gpu] = {
    _key(spelling): g for g in GPUS for spelling in (g.name, *g.aliases, *g.device_names)
}
_BY_DEVICE_NAME: Mapping[str, Gpu] = {d.casefold(): g for g in GPUS for d in g.device_names}


def gpu(name: str) -> Gpu:
    """Return the GPU called `name`: its name, an alias, or what CUDA calls it.

    Case, spaces and dashes do not matter: "RTX A6000", "a6000" and "NVIDIA RTX A6000" are one.

    Raises:
        UnknownNameError: no such GPU in the table; names the nearest.

    """
    found = _BY_KEY.get(_key(name)) if isinstance(name, str) else None
    if found is None:
        raise UnknownNameError("GPU", str(name), (g.name for g in GPUS))
    return found


def by_device_name(cuda_device_name: str) -> Gpu | None:
    """Return the GPU that CUDA calls `cuda_device_name`, or None when the table lacks it.

    Only exact products match: "NVIDIA A100-SXM4-40GB" or "NVIDIA H100 PCIe" have other memory
    and clocks than the rows here, so they give None rather than wrong figures.
    """
    return _BY_DEVICE_NAME.get(cuda_device_name.strip().casefold())

"""Launch descriptions: from TOML and from flags to one value, and what each mistake is told."""

import doctest
import json
from pathlib import Path

import numpy as np
import pytest

import tilewright.launchargs
from tilewright.emulator.prepare import prepare_launch
from tilewright.errors import CompileError, LaunchError, UnknownNameError
from tilewright.launch import Launch
from tilewright.launchargs import ArraySpec, ScalarSpec, parse_argument
from tilewright.launchfile import (
    LaunchSpec,
    launch_from_flags,
    read_launch_file,
    with_overrides,
)

KERNELS = """__global__ void scale(float* x, float by, int n)
{
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= by;
}
template <int N> __global__ void fill(float* x) { x[threadIdx.x] = N; }
"""
TOML = """# a launch
source = "scale.cu"
kernel = "scale"
grid = [4, 1]
block = 32
args = [
  "f32[128]:normal",   # x: "a text in a comment"
  "f32=2",
  "i32=128",
]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "scale.cu").write_text(KERNELS)
    (tmp_path / "scale.toml").write_text(TOML)
    return tmp_path


# --- arguments ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("f32[2,3]", np.zeros((2, 3), np.float32)),
        ("float64[3]:ones", np.ones(3)),
        ("u8[4]:full(255)", np.full(4, 255, np.uint8)),
        ("i64[2,2]:arange", np.array([[0, 1], [2, 3]], np.int64)),
        ("f16[3]:arange(1, -0.5)", np.array([1, 0.5, 0], np.float16)),
        ("i32[3]:arange(step=12)", np.array([0, 12, 24], np.int32)),
        ("bool[2]:ones", np.array([True, True])),
        ("f32[0]", np.zeros(0, np.float32)),
    ],
)
def test_an_array_has_its_dtype_shape_and_values(text: str, values: np.ndarray) -> None:
    made = parse_argument(text).make(0)
    assert made.dtype == values.dtype
    assert np.array_equal(made, values)
    assert made.flags.c_contiguous
    assert made.flags.writeable


def test_random_arrays_are_what_their_seed_says() -> None:
    def make(text: str, place: int) -> np.ndarray:
        return np.asarray(parse_argument(text).make(place))

    normal = np.random.default_rng(5).normal(2, 3, (8, 9)).astype(np.float32)
    assert np.array_equal(make("f32[8,9]:normal(2, 3, seed=5)", 0), normal)
    assert np.array_equal(make("f32[8,9]:normal(2, 3)", 5), normal)
    assert not np.array_equal(make("f32[8,9]:normal", 0), make("f32[8,9]:normal", 1))
    uniform = make("f64[10000]:uniform(-2, 4)", 0)
    assert -2 <= uniform.min() < -1.9
    assert 3.9 < uniform.max() < 4
    whole = make("i8[10000]:integers(-128, 128)", 0)
    assert sorted(set(whole.tolist())) == list(range(-128, 128))
    assert make("u64[100]:integers(0, 18446744073709551616)", 0).max() > 2**63


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("i32=-7", np.int32(-7)),
        ("u64 = 0xffffffffffffffff", np.uint64(2**64 - 1)),
        ("f32=1e-5", np.float32(1e-5)),
        ("f16=inf", np.float16(np.inf)),
        ("float64=3", np.float64(3)),
        ("bool=true", np.bool_(True)),
    ],
)
def test_a_scalar_has_its_dtype_and_value(text: str, value: np.generic) -> None:
    made = parse_argument(text).make(3)
    assert type(made) is type(value)
    assert made == value


@pytest.mark.parametrize(
    "text", ["f32[8,4]:normal(0,1,seed=2)", "i32[4]:integers(-3,9)", "u8[2]:zeros", "f32=0.1"]
)
def test_an_argument_is_its_text(text: str) -> None:
    assert str(parse_argument(text)) == text
    assert parse_argument(str(parse_argument(text))) == parse_argument(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("f32", r"expected an array, such as 'f32\[1024,64\]'"),
        ("", "expected an array"),
        ("floaty32[4]", "unknown dtype floaty32: did you mean float32"),
        ("f33=1", "unknown dtype f33: did you mean f32"),
        ("f32[4,]", r"\[4,\] is no shape"),
        ("f32[-4]", r"\[-4\] is no shape"),
        ("f32[4.5]", r"\[4.5\] is no shape"),
        ("f32[4]:nromal", "unknown fill nromal: did you mean normal"),
        ("f32[4]:normal(1,2,3)", r"normal does not take '3': .*normal\(mean=0, deviation=1, seed"),
        ("f32[4]:zeros(seed=1)", "zeros does not take 'seed=1': it is written zeros"),
        ("f32[4]:normal(mean=1, mean=2)", "does not take 'mean=2'"),
        ("f32[4]:normal(seed=-1)", "seed -1: expected a whole number"),
        ("f32[4]:normal(x)", "'x' is no number"),
        ("i32[4]:integers", r"integers needs low and high: .*integers\(low, high, seed"),
        ("i32[4]:integers(4, 4)", "low below high"),
        ("i32[4]:integers(0, 1.5)", "expected whole numbers"),
        ("u8[4]:integers(0, 257)", "u8 holds whole numbers from 0 to 255, not 256"),
        ("i8[200]:arange", "i8 holds whole numbers from -128 to 127, not 199"),
        ("i32[4]:normal", r"normal fills floating arrays.*integers\(low, high\)"),
        ("i32=3000000000", "i32 holds whole numbers from -2147483648 to 2147483647"),
        ("i32=1.5", "i32 holds whole numbers"),
        ("bool=2", "bool holds whole numbers from 0 to 1"),
        ("f16=70000", "70000 is beyond f16, which ends at 65504"),
        ("f32[4]:full(1e39)", "beyond f32"),
        ("i32=", "expected an array"),
        ("i32=x", "'x' is no number"),
    ],
)
def test_a_bad_argument_is_told_what_is_expected(text: str, says: str) -> None:
    with pytest.raises(LaunchError, match=says):
        parse_argument(text)


def test_an_array_larger_than_memory() -> None:
    with pytest.raises(
        LaunchError, match=r"argument 1: .* takes 4000000000000000 bytes, more than"
    ):
        parse_argument("f32[1000000000000000]:normal").make(1)


def test_the_examples_of_the_docstrings() -> None:
    assert doctest.testmod(tilewright.launchargs).failed == 0


# --- launches -----------------------------------------------------------------------------------


def test_a_file_and_flags_give_the_same_launch(folder: Path) -> None:
    read = read_launch_file(folder / "scale.toml")
    assert read == LaunchSpec(
        source=str(folder / "scale.cu"),
        kernel="scale",
        grid=(4, 1, 1),
        block=(32, 1, 1),
        args=(
            ArraySpec(dtype="f32", shape=(128,), fill="normal", numbers=(0, 1)),
            ScalarSpec(dtype="f32", value=2),
            ScalarSpec(dtype="i32", value=128),
        ),
    )
    flags = launch_from_flags(
        folder / "scale.cu",
        grid="4,1",
        block="32",
        args=["f32[128]:normal", "f32=2", "i32=128"],
        rest={"kernel": "scale", "gpu": None, "shared_bytes": None},
    )
    assert flags == read
    assert read.launch == Launch(grid=4, block=32)
    x, by, n = read.make_arguments()
    assert x.shape == (128,)
    assert (by, n) == (np.float32(2), np.int32(128))


def test_a_launch_survives_json(folder: Path) -> None:
    text = TOML + 'shared_bytes = 64\noptions = ["-DX"]\ninclude_dirs = ["."]\ngpu = "T4"\n'
    (folder / "full.toml").write_text(text)
    spec = read_launch_file(folder / "full.toml")
    assert spec.shared_bytes == 64
    assert (spec.options, spec.include_dirs, spec.gpu) == (("-DX",), (str(folder),), "T4")
    assert LaunchSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    with pytest.raises(LaunchError, match=r"args\[1\]: 'f32=x': 'x' is no number"):
        LaunchSpec.from_json(spec.to_json() | {"args": ["f32=1", "f32=x"]})


def test_overrides_leave_the_rest(folder: Path) -> None:
    spec = read_launch_file(folder / "scale.toml")
    changed = with_overrides(spec, {"gpu": "T4", "kernel": None})
    assert (changed.gpu, changed.kernel, changed.args) == ("T4", "scale", spec.args)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("grid =", "gird =", "bad.toml:4: gird: unknown key gird: did you mean grid?"),
        ("grid = [4, 1]\n", "", "bad.toml: the key grid is missing"),
        ("[4, 1]", "[4, 0]", r"bad.toml:4: grid: grid \[4, 0\]: expected 1 to 3 integers"),
        ("[4, 1]", '"4"', "bad.toml:4: grid: grid '4': expected 1 to 3 integers"),
        ("block = 32", "block = 32 33", "bad.toml:5: Expected newline.*\n  > 5 | block = 32 33"),
        ("]\n", "", "bad.toml:9: "),
        ('"scale"', "7", "bad.toml:3: kernel: 7: expected a text in quotes"),
        ("f32=2", "f32=two", r"bad.toml:8: args\[1\]: 'f32=two': 'two' is no number"),
        ("i32=128", "i33=128", r"bad.toml:9: args\[2\]: 'i33=128': unknown dtype"),
        ('"f32=2"', "2", r"bad.toml:6: args: .*expected a list of texts"),
        ("block =", "shared_bytes = -1\nblock =", "bad.toml:5: shared_bytes: -1: expected"),
        (
            "block =",
            'include_dirs = [".", "h"]\nblock =',
            r"bad.toml:5: include_dirs.1.: no such",
        ),
        ("scale.cu", "scael.cu", "bad.toml:2: source: no such file .*; did you mean scale.cu?"),
    ],
)
def test_a_bad_file_is_told_its_line_and_key(folder: Path, old: str, new: str, says: str) -> None:
    (folder / "bad.toml").write_text(TOML.replace(old, new, 1) if old != "]\n" else TOML[:-2])
    with pytest.raises(LaunchError, match=says):
        read_launch_file(folder / "bad.toml")


def test_a_missing_file(folder: Path) -> None:
    with pytest.raises(LaunchError, match=r"no such launch file: .*scael.toml; did you mean scale"):
        read_launch_file(folder / "scael.toml")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"grid": None}, "--grid missing: say how to launch k.cu, such as --grid 64,1"),
        ({"grid": None, "block": None}, "--grid and --block missing"),
        ({"grid": "4,x"}, "--grid: grid '4,x': expected 1 to 3 integers"),
        ({"block": "32,32,2,1"}, "--block: block .*expected 1 to 3 integers"),
        ({"args": ["f32[4]", "f32[4]:noraml"]}, "--arg: 'f32.4.:noraml': unknown fill noraml"),
        ({"rest": {"shared_bytes": -1}}, "--shared-bytes: -1: expected a whole number"),
        ({"rest": {"include_dirs": ["no/where"]}}, "--include-dir: no such folder: no/where"),
    ],
)
def test_a_bad_flag_is_named(given: dict, says: str) -> None:
    with pytest.raises(LaunchError, match=says):
        launch_from_flags("k.cu", **({"grid": "4", "block": "32"} | given))


# --- what is refused before a launch ------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind", "says"),
    [
        ({"kernel": "scael"}, UnknownNameError, "did you mean 'scale'.*known: fill, scale"),
        ({"kernel": None}, CompileError, "scale.cu has 2 kernels: name the one.*scale, fill"),
        ({"block": (2048, 1, 1)}, LaunchError, "a block is at most"),
        ({"shared_bytes": 300000}, LaunchError, "H200 has 232448 bytes of shared memory a block"),
        ({"gpu": "H20O"}, UnknownNameError, "did you mean 'H200'"),
        ({"source": "missing.cu"}, CompileError, "no such source file: missing.cu"),
    ],
)
def test_a_launch_that_cannot_be(folder: Path, changes: dict, kind: type, says: str) -> None:
    spec = read_launch_file(folder / "scale.toml")
    values = {name: getattr(spec, name) for name in LaunchSpec.__slots__} | changes
    with pytest.raises(kind, match=says):
        prepare_launch(LaunchSpec(**values))


def test_the_only_kernel_needs_no_name(folder: Path) -> None:
    (folder / "one.cu").write_text("__global__ void only(float* x) { x[0] = 1; }")
    spec = launch_from_flags(folder / "one.cu", grid="1", block="1", args=["f32[1]"])
    assert prepare_launch(spec).artifact.name == "only"

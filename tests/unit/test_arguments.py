import numpy as np
import pytest

from tilewright.arguments import check_arguments
from tilewright.errors import LaunchError
from tilewright.launch import Struct

ARRAY = np.zeros((4, 6), np.float32)


def test_good_arguments_come_back_unchanged():
    args = (ARRAY, ARRAY[1:], np.int32(3), np.float32(0.5), np.int64(7), np.bool_(True))
    checked = check_arguments(args, (8, 8, 4, 4, 8, 1), "k")
    assert all(a is b for a, b in zip(checked, args, strict=True))


def test_sizes_may_be_unknown():
    assert check_arguments((ARRAY, np.int32(3)), None, "k") == (ARRAY, np.int32(3))


def test_empty_arrays_are_arguments():
    empty = np.zeros((3, 0), np.float32)
    assert check_arguments((empty,), (8,), "k")[0] is empty


READ_ONLY = np.zeros(4, np.float32)
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("arg", "size", "says"),
    [
        (3, 4, "3 has no fixed width: write np.int32 or np.int64"),
        (0.5, 4, "write np.float32 or np.float64"),
        (True, 1, "write np.bool_"),
        ([1.0], 8, "list is neither a numpy array"),
        (None, 8, "NoneType is neither"),
        (ARRAY, 4, "takes a value of 4 bytes here, not a pointer"),
        (ARRAY[:, :3], 8, "not contiguous .*leading dimension"),
        (ARRAY.T, 8, "not contiguous"),
        (READ_ONLY, 8, "read-only.*pass a copy"),
        (np.array([object()]), 8, "Python objects have no device memory"),
        (np.zeros(2, ">f4"), 8, "bytes are in the other order"),
        (np.float64(1), 4, r"float64\(1.0\) of 8 bytes.*takes 4 bytes.*np.float32"),
        (np.int32(1), 8, "pass an array where it takes a pointer"),
        (np.int64(1), 2, "np.int16"),
        (np.str_("x"), 4, "is no number"),
        (np.datetime64(1, "s"), 8, "is no number"),
    ],
)
def test_bad_argument_is_named_with_its_remedy(arg, size, says):
    with pytest.raises(LaunchError, match=f"kernel gemm, argument 1: .*{says}"):
        check_arguments((np.int32(0), arg), (4, size), "gemm")


@pytest.mark.parametrize(
    ("arg", "ptx_type", "says"),
    [
        (np.int32(2), "f32", r"np.int32\(2\): the kernel takes a float here.*np.float32"),
        (np.bool_(True), "f32", "takes a float"),
        (np.float32(2), "u32", "takes a whole number here.*np.int32"),
        (np.float64(2), "s64", "takes a whole number here.*np.int64"),
    ],
)
def test_bits_of_another_kind_are_no_value(arg, ptx_type, says):
    with pytest.raises(LaunchError, match=f"kernel k, argument 0: .*{says}"):
        check_arguments((arg,), (arg.dtype.itemsize,), "k", (ptx_type,))


@pytest.mark.parametrize(
    ("arg", "ptx_type"),
    [
        *[(np.uint32(2), "u32"), (np.int32(-2), "u32"), (np.float32(2), "f32")],
        *[(np.float32(2), "b32"), (np.int32(2), "b32"), (np.float16(2), "b8")],
        *[(np.bool_(True), "u8"), (ARRAY, "u64"), (np.uint64(64), "u64")],
    ],
)
def test_bits_of_its_kind_or_of_any(arg, ptx_type):
    size = 8 if arg is ARRAY else arg.dtype.itemsize
    assert check_arguments((arg,), (size,), "k", (ptx_type,)) == (arg,)


def test_wrong_count_is_refused():
    with pytest.raises(LaunchError, match="kernel gemm takes 2 arguments, got 1"):
        check_arguments((ARRAY,), (8, 4), "gemm")


PAIR = np.dtype([("x", np.uint64), ("n", np.int32)], align=True)


def test_a_struct_is_passed_with_its_arrays_addresses():
    memory = np.zeros(4, np.float32)
    struct = Struct(PAIR, {"x": (memory, 8), "n": 3})
    assert check_arguments((struct,), (16,), "k") == (struct,)
    assert struct.packed(lambda array: 1000 if array is memory else 0).tolist() == (1008, 3)


@pytest.mark.parametrize(
    ("field", "size", "says"),
    [
        (ARRAY, 24, "a struct of 16 bytes; the kernel takes 24 bytes"),
        (ARRAY.T, 16, "argument 0, field x: .* not contiguous"),
        (READ_ONLY, 16, "field x: .* read-only"),
    ],
)
def test_a_struct_that_does_not_fit_is_refused(field, size, says):
    with pytest.raises(LaunchError, match=says):
        check_arguments((Struct(PAIR, {"x": field, "n": 3}),), (size,), "k")

"""torch tensors: on CUDA to tilewright's kernels, on the CPU to torch's own product."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tilewright.errors import DeviceError, ProblemError, UnsupportedError
from tilewright.frameworks import host
from tilewright.frameworks.face import Operand, not_float32
from tilewright.frameworks.shapes import Shape
from tilewright.frameworks.views import VECTOR_BYTES, View
from tilewright.kernels.tiles import FLOAT_BYTES

Tensor = Any  # a torch.Tensor: torch is not there when types are checked


class TorchFace:
    """The adapter of torch."""

    name = "torch"

    def __init__(self) -> None:
        import torch

        self._torch = torch
        self._grad_enabled = torch.is_grad_enabled
        self._plain = (torch.Tensor, torch.nn.Parameter)
        # What torch.cuda.current_stream(i).cuda_stream says, without making an object of it.
        self.stream = getattr(torch._C, "_cuda_getCurrentRawStream", None) or self._stream
        # What torch.empty_strided does on the current GPU, without the dispatcher: torch's own
        # compiler calls it in the code that it writes. Without it, no GPU counts as current.
        guards = getattr(getattr(torch._C, "_dynamo", None), "guards", None)
        self._empty_here: Any = getattr(guards, "_empty_strided_cuda", None)
        here = getattr(torch._C, "_cuda_getDevice", None) if self._empty_here else None
        self._here = here or (lambda: None)
        self._float32 = torch.float32
        # torch's own functions, as they are: a method around each would cost as much again.
        self.address = torch.Tensor.data_ptr
        # Lets autograd know that a tensor changed, as torch's own in-place operations do.
        self.written = torch.autograd.graph.increment_version

    def _stream(self, gpu: int) -> int:
        return int(self._torch.cuda.current_stream(gpu).cuda_stream)

    def signature(self, tensor: Tensor) -> Hashable:
        """Return all but the address that decides how a tensor takes part."""
        try:
            return (
                tensor.shape,
                tensor.stride(),
                tensor.dtype,
                tensor.device,
                tensor.data_ptr() % VECTOR_BYTES,
                tensor.is_neg(),
                tensor.requires_grad and self._grad_enabled(),
            )
        except RuntimeError:  # no strides or no memory: `describe` says so
            return type(tensor), tensor.layout

    def describe(self, tensor: Tensor, name: str) -> Operand:
        """Return what a tensor is.

        Raises:
            UnsupportedError: another dtype than float32, another device than CUDA or the CPU, a
                sparse tensor or one of a class of its own.
            ProblemError: a tensor that gradients are wanted of, or that is negated lazily.
        """
        torch = self._torch
        if type(tensor) not in self._plain:
            raise UnsupportedError(
                f"{name} is a {type(tensor).__qualname__}, a subclass of torch.Tensor: pass "
                f"{name}.as_subclass(torch.Tensor)"
            )
        if tensor.layout is not torch.strided:
            raise UnsupportedError(f"{name} has the layout {tensor.layout}: pass {name}.to_dense()")
        if tensor.dtype is not torch.float32:
            dtype = str(tensor.dtype).removeprefix("torch.")
            raise not_float32(name, dtype, f"{name}.float()")
        device = tensor.device
        if device.type not in ("cuda", "cpu"):
            raise UnsupportedError(f"{name} is on {device}: pass a tensor on cuda or cpu")
        if tensor.requires_grad and self._grad_enabled():
            raise ProblemError(
                f"{name} requires gradients, which tilewright does not compute: call inside "
                f"torch.no_grad(), or pass {name}.detach()"
            )
        if tensor.is_neg():
            raise ProblemError(f"{name} is negated lazily: pass {name}.resolve_neg()")
        return Operand(
            view=View(
                shape=tuple(tensor.shape),
                strides=tuple(tensor.stride()),
                aligned=tensor.data_ptr() % VECTOR_BYTES == 0,
            ),
            gpu=device.index if device.type == "cuda" else None,
            device=str(device),
        )

    def empty(self, like: Tensor, shape: Shape) -> Tensor:
        """Return a tensor without elements on the device of `like`."""
        return like.new_empty(shape)

    def allocate(self, like: Tensor, packed: View) -> Tensor:
        """Return new memory on the GPU of `like`, ordered by its current stream.

        Raises:
            DeviceError: there is none left.
        """
        try:
            if self._here() == like.get_device():
                return self._empty_here(packed.shape, packed.strides, self._float32)
            return like.new_empty(packed.shape)
        except self._torch.OutOfMemoryError as error:
            raise self._no_memory(like, packed.shape) from error

    def zeros(self, like: Tensor, shape: Shape) -> Tensor:
        """Return such memory filled with zeros."""
        try:
            return like.new_zeros(shape)
        except self._torch.OutOfMemoryError as error:
            raise self._no_memory(like, shape) from error

    def _no_memory(self, like: Tensor, shape: Shape) -> DeviceError:
        size = FLOAT_BYTES
        for each in shape:
            size *= each
        return DeviceError(
            f"{like.device} has no {size / 1e6:.4g} MB left for an array of shape {shape}: free "
            "some, or split the product; nothing was launched, and no array changed"
        )

    def keep(self, tensor: Tensor) -> None:
        """Do nothing: memory allocated while torch captures a graph stays the graph's own."""

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Copy elements, on the current stream."""
        with self._torch.no_grad():
            target.copy_(source)

    def on_host(
        self,
        a: Tensor,
        b: Tensor,
        c: Tensor | None,
        alpha: float,
        beta: float,
        out: Tensor | None,
    ) -> Tensor:
        """Return the product of tensors of the CPU."""
        result = host.product(self._torch.matmul, (a, b, c), alpha, beta)
        if out is None:
            return result
        return out.copy_(result)

"""Kernels that begin while the one before them ends (programmatic dependent launch, compute capability 9.0 and newer).

A launch with `overlap` may begin as soon as every program of the kernel before it has called `let_next_begin` or is
done. Until its own `wait` it may read nothing that an earlier kernel writes, and write nothing at all: weights may be
fetched. As every such kernel waits in each of its programs, a kernel whose wait is over has all earlier ones behind it.
"""

import functools

import torch
import triton
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait


@functools.cache
def overlaps(device: torch.device) -> bool:
    """Whether kernels on `device` can begin early."""
    return device.type == "cuda" and torch.cuda.get_device_capability(device) >= (9, 0)


@triton.jit
def let_next_begin():
    """The next kernel may begin: what it needs of this one it waits for."""
    gdc_launch_dependents()


@triton.jit
def wait():
    """Until all that earlier kernels wrote is there."""
    gdc_wait()

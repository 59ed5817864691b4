"""Number types of the kernels. Triton's interpreter cannot multiply bfloat16, so a dot's type is a parameter."""

import os

import torch
import triton.language as tl

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def dot_type(queries: torch.dtype) -> tl.dtype:
    """The type that a kernel's dot products take their operands in; they accumulate in float32."""
    if INTERPRETED:
        return tl.float32
    return {torch.float16: tl.float16, torch.float32: tl.float32}.get(queries, tl.bfloat16)

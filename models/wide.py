"""A floating matrix of very many rows, such as an LM head, on a GPU: our kernel multiplies few rows of x, a library's
product more.

On an H200 a float16 head of 128256 x 4096 takes 238-241 us for 1-8 rows, with cuBLAS 250-252.
"""

from torch import Tensor

from unabridged.models.linear import Dense


class Wide(Dense):
    """See models.linear.Linear. A row's result does not depend on how many other rows there are, up to eight."""

    def __init__(self, weight: Tensor) -> None:
        """`weight` `[out, in]`, contiguous."""
        super().__init__(weight)

    def __call__(self, x: Tensor) -> Tensor:
        if x.is_cuda:
            # Triton is there with a CUDA device only.
            from unabridged.models.kernels import int8 as kernels

            if len(x) <= kernels.FEW:
                out = x.new_empty(len(x), len(self.weight))
                kernels.multiply(x.contiguous(), self.weight, None, out)
                return out
        return super().__call__(x)

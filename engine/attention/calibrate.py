"""From keys and queries of a model to the bases of its index (`index_basis`), a layer and a head at a time.

    Moments   sums over keys and over queries of one layer: all that calibrating needs of them
    basis     Moments to Basis
    observe   a model reads documents, dense and each alone; every layer's Moments

What is kept of a key must serve the queries that the model asks. With Ck the covariance of keys and Cq the second
moment of queries, their geometric mean M = Ck^-1 # Cq is the metric in which both look the same: M^1/2 Ck M^1/2 equals
M^-1/2 Cq M^-1/2. Its eigenvectors with the largest eigenvalues are what scores are made of. A Hadamard rotation inside
each block of codes of one size spreads what single dimensions hold, so that one step fits the whole block.

G key/value heads, D head dimension, W bytes of codes a key, N = 4W numbers.
"""

from collections.abc import Iterable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from unabridged.engine.attention.index_basis import Basis
from unabridged.engine.attention.rope import Rotary
from unabridged.models.llama import Llama
from unabridged.models.rope import inv_freq

# Steps of uniform quantisers with 4, 2 and 1 bit that lose least of a normal distribution, in standard deviations.
STEPS = {4: 0.335, 2: 0.996, 1: 1.596}
# Blocks of codes: bits, and how many W of numbers.
BLOCKS = ((4, 1), (2, 1), (1, 2))
# Added to covariances, as a share of their mean variance: directions that no key takes stay finite.
_RIDGE = 1e-4


class Moments:
    """One layer's sums, in float64. `distance`: where queries stand while un-rotated keys stand at 0."""

    def __init__(self, kv_heads: int, head_dim: int, rotary: Rotary, distance: int) -> None:
        self._turn = rotary.matrix(distance).double()
        self._scale = head_dim**-0.5
        self.tokens = 0
        self._sum = torch.zeros(kv_heads, head_dim, dtype=torch.float64)
        self._keys, self._queries = torch.zeros(2, kv_heads, head_dim, head_dim, dtype=torch.float64).unbind(0)
        self._asked = 0

    def add(self, q: Tensor, k: Tensor) -> None:
        """q `[T, H, D]` and k `[T, G, D]`, un-rotated."""
        keys = k.double().transpose(0, 1)
        asked = q.double().unflatten(1, (k.shape[1], -1)).transpose(0, 1).flatten(1, 2) @ self._turn * self._scale
        self._sum += keys.sum(1)
        self._keys += keys.mT @ keys
        self._queries += asked.mT @ asked
        self.tokens += k.shape[0]
        self._asked += asked.shape[1]

    @property
    def mean(self) -> Tensor:
        """Of the keys, `[G, D]`."""
        return self._sum / self.tokens

    @property
    def keys(self) -> Tensor:
        """Covariance of the keys, `[G, D, D]`."""
        mean = self.mean
        return _ridged(self._keys / self.tokens - mean[:, :, None] * mean[:, None])

    @property
    def queries(self) -> Tensor:
        """Second moment of the rotated, scaled queries of the heads that share a key, `[G, D, D]`."""
        return _ridged(self._queries / self._asked)


def basis(moments: Moments, width: int) -> Basis:
    """The basis of one layer for codes of `width` bytes a key."""
    keys, queries = moments.keys, moments.queries
    root, inverse = power(keys, 0.5), power(keys, -0.5)
    metric = inverse @ power(root @ queries @ root, 0.5) @ inverse
    root, inverse = power(metric, 0.5), power(metric, -0.5)
    variances, axes = torch.linalg.eigh(root @ keys @ root)
    kept = 4 * width
    variances, axes = variances.flip(-1)[..., :kept], axes.flip(-1)[..., :kept]
    rotation, steps = _blocks(variances, width)
    key, query = root @ axes @ rotation, inverse @ axes @ rotation
    # The length of a key is measured where keys and queries look the same, an average key's being 1.
    weights = steps**2 / variances.sum(-1, keepdim=True)
    parts = moments.mean, key / steps[:, None], query * steps[:, None], weights
    return Basis(*(part.float().contiguous() for part in parts))


def observe(model: Llama, documents: Iterable[Sequence[int]], prefix: Sequence[int], stream: int) -> list[Moments]:
    """Every layer's sums over the tokens of `documents`, each read alone behind `prefix`, whose own keys do not count.
    A document with its prefix should fit the model's window."""
    config, rotary = model.config, Rotary(inv_freq(model.config))
    layers = [Moments(config.kv_heads, config.head_dim, rotary, stream + 1) for _ in range(config.layers)]
    for document in documents:
        ids = torch.tensor([*prefix, *document], device=model.device)
        model.forward(ids, _Reader(rotary, layers, len(prefix)))
    return layers


class _Reader:
    """Dense causal attention that notes what it sees."""

    def __init__(self, rotary: Rotary, layers: Sequence[Moments], skip: int) -> None:
        self._rotary, self._layers, self._skip = rotary, layers, skip

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """See models.attention.Attend."""
        self._layers[layer].add(q[self._skip :], k[self._skip :])
        dtype = q.dtype
        q, k = (self._rotary.rotate_range(x.transpose(0, 1).float(), 0) for x in (q, k))
        v = v.transpose(0, 1).float()
        grouped = q.shape[0] != k.shape[0]
        out = F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True, enable_gqa=grouped)
        attended: Tensor = out[0].transpose(0, 1)
        return attended.to(dtype)


def power(matrix: Tensor, exponent: float) -> Tensor:
    """Of symmetric positive matrices `[..., D, D]`."""
    values, vectors = torch.linalg.eigh(matrix)
    values = values.clamp(min=1e-12).pow(exponent)
    out: Tensor = (vectors * values[..., None, :]) @ vectors.mT
    return out


def hadamard(size: int) -> Tensor:
    """Sylvester's matrix of a power of two, orthonormal, float64."""
    out = torch.ones(1, 1, dtype=torch.float64)
    while len(out) < size:
        out = torch.cat((torch.cat((out, out), 1), torch.cat((out, -out), 1)))
    normal: Tensor = out * size**-0.5
    return normal


def _blocks(variances: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The rotation inside blocks `[N, N]` and each number's step `[G, N]`."""
    turns: list[Tensor] = []
    steps: list[Tensor] = []
    at = 0
    for bits, count in BLOCKS:
        size = count * width
        deviation = variances[:, at : at + size].mean(-1, keepdim=True).sqrt()
        turns.append(hadamard(size))
        steps.append((STEPS[bits] * deviation).expand(-1, size))
        at += size
    return torch.block_diag(*turns), torch.cat(steps, -1)


def _ridged(matrix: Tensor) -> Tensor:
    spread = matrix.diagonal(dim1=-2, dim2=-1).mean(-1)[:, None, None]
    return matrix + _RIDGE * spread.clamp(min=1e-12) * torch.eye(matrix.shape[-1], dtype=matrix.dtype)

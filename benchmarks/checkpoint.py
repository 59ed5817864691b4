"""A 4-bit checkpoint with random weights, since no real one may be at hand: the true geometry, files and sizes.

    python -m benchmarks.checkpoint OUT [--geometry 8b|tiny] [--format gemm|compressed] [--seed 0]

OUT becomes a folder that the engine loads like any other: config.json, safetensors in shards with an index, a
byte-level tokenizer. `8b` is Llama 3.1 8B: 5.7 GB. `gemm` is AutoAWQ's layout, `compressed` compressed-tensors'
pack-quantized with zero points. Weights are scaled so that activations keep their size from layer to layer and logits
vary by about 1. Drawn on the GPU where there is one.
"""

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import torch
from benchmarks.byte_tokenizer import SPECIALS, save_tokenizer
from safetensors.torch import save_file
from torch import Tensor

from unabridged.models.config import ModelConfig
from unabridged.models.folder import SHARD_INDEX
from unabridged.models.tensors import Matrix, matrices, vectors

Format = Literal["gemm", "compressed"]

_FILE = "model-{:05d}.safetensors"
GROUP = 128
SHARD = 4_700_000_000
# Of (value - zero) with values uniform in 0..15 and zeros in 4..11.
_SPREAD = 5.15

_LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "hidden_act": "silu",
    "mlp_bias": False,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}
_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
GEOMETRIES: dict[str, dict[str, Any]] = {
    "8b": {
        **_LLAMA,
        "vocab_size": 128256,
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 131072,
        "rope_theta": 500000.0,
        "rope_scaling": _ROPE,
        "bos_token_id": 128000,
        "eos_token_id": [128001, 128008, 128009],
    },
    "tiny": {
        **_LLAMA,
        "vocab_size": 512,
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 1024,
        "rope_theta": 10000.0,
        "bos_token_id": 510,
        "eos_token_id": 511,
    },
}
_CONFIGURATIONS: dict[Format, dict[str, Any]] = {
    "gemm": {
        "quant_method": "awq",
        "version": "gemm",
        "bits": 4,
        "group_size": GROUP,
        "zero_point": True,
        "modules_to_not_convert": None,
    },
    "compressed": {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "quantization_status": "compressed",
        "ignore": ["lm_head"],
        "kv_cache_scheme": None,
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "input_activations": None,
                "output_activations": None,
                "weights": {
                    "num_bits": 4,
                    "type": "int",
                    "strategy": "group",
                    "group_size": GROUP,
                    "symmetric": False,
                    "actorder": None,
                    "dynamic": False,
                },
            }
        },
    },
}
# Llama 3's 256, in its order where it has names.
_LLAMA3_SPECIALS = {
    0: "begin_of_text",
    1: "end_of_text",
    6: "start_header_id",
    7: "end_header_id",
    8: "eom_id",
    9: "eot_id",
    10: "python_tag",
}


def main() -> None:
    """Write one, and say how long it took."""
    arguments = _arguments()
    began = time.perf_counter()
    size = write(arguments.out, arguments.geometry, arguments.format, arguments.seed)
    print(f"{arguments.out}: {size / 1e9:.3f} GB in {time.perf_counter() - began:.1f} s")


def write(folder: Path, geometry: str = "tiny", form: Format = "gemm", seed: int = 0, shard: int = SHARD) -> int:
    """Make `folder`, which must not exist; bytes of weights. `shard`: the most bytes of a file."""
    folder.mkdir(parents=True)
    raw = GEOMETRIES[geometry]
    config = ModelConfig.from_hf(raw)
    (folder / "config.json").write_text(json.dumps({**raw, "quantization_config": _CONFIGURATIONS[form]}, indent=2))
    save_tokenizer(folder, _specials(geometry), config.vocab_size)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return _save(folder, _Random(device, seed, form).tensors(config), shard)


class _Random:
    """Draws the tensors of a checkpoint."""

    def __init__(self, device: str, seed: int, form: Format) -> None:
        self._generator = torch.Generator(device).manual_seed(seed)
        self._device, self._form = device, form

    def tensors(self, config: ModelConfig) -> Iterator[tuple[str, Tensor]]:
        """Names and tensors, in the host's memory: the embedding, layer by layer, the head."""
        whole = list(matrices(config))
        ends = [matrix for matrix in whole if "." not in matrix.place]
        yield from self._floating(ends[0], 1.0)
        for matrix in whole:
            if matrix not in ends:
                yield from self._projections(matrix)
        for vector in vectors(config):
            yield f"{vector.name}.weight", torch.ones(vector.length, dtype=torch.float16)
        for matrix in ends[1:]:
            yield from self._floating(matrix, matrix.columns**-0.5)

    def _floating(self, matrix: Matrix, spread: float) -> Iterator[tuple[str, Tensor]]:
        drawn = torch.empty(matrix.rows, matrix.columns, dtype=torch.float16, device=self._device)
        yield f"{matrix.pieces[0].name}.weight", drawn.normal_(0, spread, generator=self._generator).cpu()

    def _projections(self, matrix: Matrix) -> Iterator[tuple[str, Tensor]]:
        columns, groups = matrix.columns, matrix.columns // GROUP
        for piece in matrix.pieces:
            name, rows = piece.name, piece.rows
            if self._form == "gemm":
                yield f"{name}.qweight", self._words(columns, rows // 8)
                yield f"{name}.qzeros", self._zeros(groups, rows // 8)
                yield f"{name}.scales", self._scales(columns, groups, rows)
            else:
                yield f"{name}.weight_packed", self._words(rows, columns // 8)
                yield f"{name}.weight_scale", self._scales(columns, rows, groups)
                yield f"{name}.weight_zero_point", self._zeros(rows // 8, groups)
                yield f"{name}.weight_shape", torch.tensor([rows, columns])

    def _words(self, *shape: int) -> Tensor:
        octets = torch.empty(*shape, 4, dtype=torch.uint8, device=self._device)
        octets.random_(generator=self._generator)
        return octets.cpu().view(torch.int32).squeeze(-1)

    def _zeros(self, *shape: int) -> Tensor:
        """Words of 4..11: three random bits, and the fourth the opposite of the third."""
        words = self._words(*shape)
        return words & 0x77777777 | (~words & 0x44444444) << 1

    def _scales(self, columns: int, *shape: int) -> Tensor:
        drawn = torch.empty(*shape, device=self._device)
        drawn.uniform_(0.75, 1.25, generator=self._generator)
        scales: Tensor = drawn / (_SPREAD * columns**0.5)
        return scales.half().cpu()


def _save(folder: Path, tensors: Iterator[tuple[str, Tensor]], most: int) -> int:
    """Write the tensors into files of at most `most` bytes, and their index; bytes of all tensors."""
    where: dict[str, str] = {}
    size, files = 0, 0
    held: dict[str, Tensor] = {}
    for name, tensor in tensors:
        if held and _bytes(held) + tensor.nbytes > most:
            files += 1
            _save_file(folder, files, held)
            held = {}
        held[name] = tensor
        where[name] = _FILE.format(files + 1)
        size += tensor.nbytes
    _save_file(folder, files + 1, held)
    (folder / SHARD_INDEX).write_text(json.dumps({"metadata": {"total_size": size}, "weight_map": where}, indent=1))
    return size


def _save_file(folder: Path, number: int, tensors: dict[str, Tensor]) -> None:
    save_file(tensors, folder / _FILE.format(number), metadata={"format": "pt"})


def _bytes(tensors: dict[str, Tensor]) -> int:
    return sum(tensor.nbytes for tensor in tensors.values())


def _specials(geometry: str) -> list[str]:
    if geometry == "tiny":
        return list(SPECIALS)
    return [f"<|{_LLAMA3_SPECIALS.get(index, f'reserved_special_token_{index}')}|>" for index in range(256)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.checkpoint", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--geometry", choices=sorted(GEOMETRIES), default="8b")
    parser.add_argument("--format", choices=("gemm", "compressed"), default="gemm")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()

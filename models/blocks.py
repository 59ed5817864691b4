"""Block formats of GGUF tensors: how many bytes they take, and whether a file holds them all. Torch-free."""

from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from unabridged.models.container import GgufHeader, TensorInfo
from unabridged.models.errors import ModelDamaged, ModelUnsupported


def check_complete(header: GgufHeader) -> None:
    """Whether the file reaches to the end of its last tensor. Raises ModelDamaged when it does not."""
    end = max((tensor.offset + bytes_of(header, tensor) for tensor in header.tensors), default=0)
    if end > header.size:
        raise ModelDamaged(
            f"{header.path.name}: {header.size} bytes where its tensors need {end}",
            "it is truncated: download or copy it again",
        )


def kind_of(header: GgufHeader, tensor: TensorInfo) -> GGMLQuantizationType:
    """The block format of a tensor. Raises ModelUnsupported for a number that GGUF does not have."""
    try:
        return GGMLQuantizationType(tensor.kind)
    except ValueError as error:
        raise ModelUnsupported(f"{header.path.name}: tensor {tensor.name} has block format {tensor.kind}") from error


def bytes_of(header: GgufHeader, tensor: TensorInfo) -> int:
    """Size of a tensor in the file. Raises ModelDamaged when its rows are not whole blocks."""
    kind = kind_of(header, tensor)
    block, size = GGML_QUANT_SIZES[kind]
    if tensor.shape[-1] % block:
        raise ModelDamaged(f"{header.path.name}: tensor {tensor.name} has rows of {tensor.shape[-1]}, not of {block}s")
    return int(tensor.elements // block * size)

"""4-bit checkpoints give the weights that their makers' own code gives, bit for bit, in whatever order they come."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from benchmarks.checkpoint import write
from safetensors.torch import load_file, save_file
from tests.models.dense import DenseAttend
from tests.models.test_llama import ours
from torch import Tensor

from unabridged.models.awq import Projection
from unabridged.models.errors import ModelDamaged, ModelUnsupported
from unabridged.models.kernels.w4 import W4, dequantise_plain
from unabridged.models.linear import Dense
from unabridged.models.llama import Llama
from unabridged.models.load import load_model
from unabridged.models.places import MatrixPlace, Storage
from unabridged.models.quantisation import Quantisation
from unabridged.models.registry import Registry
from unabridged.models.tensors import Matrix, Piece

# Bits at which a "gemm" word holds output 8c + j, by j: the format's definition, as published.
BITS = (0, 16, 4, 20, 8, 24, 12, 28)
GEMM = Quantisation("awq", 128, True)
QKV = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
Tensors = dict[str, Tensor]


def gemm(qweight: Tensor, qzeros: Tensor, scales: Tensor) -> Tensor:
    """float16 `[N, K]`, group 128, as AutoAWQ's dequantize_gemm computes them."""
    values, zeros = (
        torch.stack([words >> bits & 15 for bits in BITS], -1).flatten(1).to(torch.int8) for words in (qweight, qzeros)
    )
    zeros, scales = zeros.repeat_interleave(128, 0), scales.repeat_interleave(128, 0)
    return ((values - zeros) * scales).t()


def dequantised(tensors: Mapping[str, Tensor]) -> Tensors:
    """A checkpoint with floating weights instead of 4-bit ones."""
    out = {name: tensor for name, tensor in tensors.items() if name.endswith((".weight", ".bias"))}
    for name in (key.removesuffix(".qweight") for key in tensors if key.endswith(".qweight")):
        out[name + ".weight"] = gemm(*(tensors[f"{name}.{kind}"] for kind in ("qweight", "qzeros", "scales")))
    return {name: tensor.contiguous() for name, tensor in out.items()}


def plain(folder: Path, target: Path) -> Path:
    """The dequantised float16 model of a checkpoint in one file."""
    target.mkdir()
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (target / "config.json").write_text(json.dumps(config))
    save_file(dequantised(load_file(next(folder.glob("*.safetensors")))), target / "model.safetensors")
    return target


def greedy(model: Llama, prompt: Tensor, tokens: int) -> list[int]:
    attend, ids, out = DenseAttend(model.config), prompt, []
    for _ in range(tokens):
        ids = model.step(ids, attend)[-1:].argmax(-1)
        out.append(int(ids))
    return out


@pytest.fixture
def fixture(shared_data: Path) -> Path:
    """A tiny Llama that AutoAWQ 0.2.9 quantised."""
    return shared_data / "awq-tiny"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A tiny checkpoint of random weights in one file."""
    write(tmp_path / "made")
    return tmp_path / "made"


Change = Callable[[Tensors], None]


def changed(folder: Path, change: Change) -> Path:
    """`folder`, whose only file then holds what `change` makes of its tensors."""
    file = next(folder.glob("*.safetensors"))
    tensors = load_file(file)
    change(tensors)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file)
    (folder / "model.safetensors.index.json").unlink(missing_ok=True)
    return folder


def test_a_word_is_read_bit_by_bit(fixture: Path) -> None:
    """Every weight of one projection, each found by arithmetic on its own."""
    tensors = load_file(fixture / "model.safetensors")
    name = "model.layers.1.self_attn.k_proj"
    qweight, qzeros, scales = (tensors[f"{name}.{kind}"] for kind in ("qweight", "qzeros", "scales"))
    whole = gemm(qweight, qzeros, scales)
    words, zeros = qweight.tolist(), qzeros.tolist()
    for k in range(0, 256, 3):
        for n in range(128):
            q, z = (rows[n // 8] >> BITS[n % 8] & 15 for rows in (words[k], zeros[k // 128]))
            assert whole[n, k] == torch.tensor(q - z).half() * scales[k // 128, n]


def test_the_fixture_is_bit_exact_and_near_its_source(fixture: Path) -> None:
    expected = dequantised(load_file(fixture / "model.safetensors"))
    source = load_file(fixture / "fp16_source" / "model.safetensors")
    model = load_model(fixture, torch.float16)
    for index, layer in enumerate(model.layers):
        for name, linear in (("self_attn.o_proj", layer.output), ("mlp.down_proj", layer.down)):
            assert isinstance(linear, Dense)
            key = f"model.layers.{index}.{name}.weight"
            assert torch.equal(linear.weight, expected[key])
            assert (linear.weight - source[key]).norm() < 0.16 * source[key].norm()
    ids = torch.arange(100)
    near = torch.cosine_similarity(
        ours(load_model(fixture), ids, 100), ours(load_model(fixture / "fp16_source"), ids, 100)
    )
    assert near.min() > 0.97


def test_greedy_output_is_that_of_the_dequantised_model(fixture: Path, tmp_path: Path) -> None:
    prompt = torch.randint(0, 512, (30,), generator=torch.Generator().manual_seed(3))
    expected = greedy(load_model(plain(fixture, tmp_path / "plain")), prompt, 200)
    assert greedy(load_model(fixture), prompt, 200) == expected


def packed(values: Tensor) -> Tensor:
    """0..15 as compressed-tensors packs them along the last dimension: value i at bits 4 (i mod 8) of word i // 8."""
    words = (values.unflatten(-1, (-1, 8)).long() << torch.arange(0, 32, 4)).sum(-1)
    return torch.where(words < 1 << 31, words, words - (1 << 32)).int()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("group", "stored"), [(32, True), (64, False), (128, True)])
def test_pack_quantized_weights(group: int, stored: bool, dtype: torch.dtype) -> None:
    rows, columns = 40, 256
    drawn = torch.Generator().manual_seed(5)
    values = torch.randint(0, 16, (rows, columns), generator=drawn)
    zeros = torch.randint(0, 16, (rows, columns // group), generator=drawn)
    zeros = zeros if stored else torch.full_like(zeros, 8)
    scales = torch.rand(rows, columns // group, generator=drawn).mul(0.02).to(dtype)
    tensors = {"weight_packed": packed(values), "weight_scale": scales, "weight_shape": torch.tensor([rows, columns])}
    if stored:
        tensors["weight_zero_point"] = packed(zeros.t()).t()
    projection = Projection("x", rows, columns, Quantisation("compressed-tensors", group, stored))
    *before, found = [projection.put(kind, tensor) for kind, tensor in tensors.items()]
    assert before == [None] * (len(tensors) - 1)
    assert found is not None
    steps = values - zeros.repeat_interleave(group, 1)
    assert torch.equal(found.dequantised(torch.float16), steps.half() * scales.half().repeat_interleave(group, 1))


def filled(tensors: Tensors, true: Tensors, names: tuple[str, ...]) -> MatrixPlace:
    """A matrix of pieces of the first layer, from what `tensors` has of them, the last tensor first."""
    prefixed = [f"model.layers.0.{name}" for name in names]
    pieces = tuple(Piece(name, len(true[f"{name}.weight"])) for name in prefixed)
    matrix = Matrix("0.x", pieces, true[f"{prefixed[0]}.weight"].shape[1])
    place = MatrixPlace(matrix, GEMM, Storage(torch.float16, torch.device("cpu"), keep=True))
    for key in sorted(tensors, reverse=True):
        if key.rpartition(".")[0] in prefixed:
            assert place.missing()
            place.put(key, tensors[key])
    assert not place.missing()
    return place


@pytest.mark.parametrize("names", [QKV, ("mlp.gate_proj", "mlp.up_proj"), ("mlp.down_proj",)])
def test_pieces_become_one_matrix_of_4_bits(made: Path, names: tuple[str, ...]) -> None:
    tensors = load_file(made / "model-00001.safetensors")
    true = dequantised(tensors)
    matrix = filled(tensors, true, names).weights().matrix
    assert isinstance(matrix, W4)
    assert torch.equal(dequantise_plain(matrix), torch.cat([true[f"model.layers.0.{name}.weight"] for name in names]))


@pytest.mark.parametrize("left", QKV)
def test_a_piece_that_was_left_alone_makes_the_matrix_floating(made: Path, left: str) -> None:
    tensors = load_file(made / "model-00001.safetensors")
    true = dequantised(tensors)
    leave(tensors, f"model.layers.0.{left}")
    matrix = filled(tensors, true, QKV).weights().matrix
    assert isinstance(matrix, Tensor)
    assert torch.equal(matrix, torch.cat([true[f"model.layers.0.{name}.weight"] for name in QKV]))


def leave(tensors: Tensors, name: str) -> None:
    """Have a projection in floating point, as with modules_to_not_convert."""
    parts = [tensors.pop(f"{name}.{kind}") for kind in ("qweight", "qzeros", "scales")]
    tensors[f"{name}.weight"] = gemm(*parts)


def test_projections_that_were_left_alone_change_nothing(made: Path) -> None:
    ids = torch.arange(40)
    expected = ours(load_model(made), ids, 40)

    def change(tensors: Tensors) -> None:
        for name in ("0.self_attn.k_proj", "1.mlp.down_proj", "1.mlp.gate_proj", "1.mlp.up_proj"):
            leave(tensors, f"model.layers.{name}")

    assert torch.equal(ours(load_model(changed(made, change)), ids, 40), expected)


def test_projections_with_a_bias(made: Path, tmp_path: Path) -> None:
    def change(tensors: Tensors) -> None:
        for name in (f"model.layers.{layer}.{projection}" for layer in (0, 1) for projection in QKV):
            tensors[f"{name}.bias"] = torch.randn_like(tensors[f"{name}.scales"][0])

    config = json.loads((made / "config.json").read_text()) | {"architectures": ["Qwen2ForCausalLM"]}
    (made / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelDamaged, match=r"6 weights are missing .*k_proj\.bias"):
        load_model(made)
    ids = torch.arange(40)
    expected = ours(load_model(plain(changed(made, change), tmp_path / "plain")), ids, 40)
    assert torch.equal(ours(load_model(made), ids, 40), expected)


def test_tensors_of_a_projection_may_lie_in_different_shards(made: Path) -> None:
    ids = torch.arange(40)
    expected = ours(load_model(made), ids, 40)
    tensors = load_file(made / "model-00001.safetensors")
    shutil.copy(made / "config.json", made.parent)
    shards = [name.endswith(("scales", "norm.weight")) + 2 * ("up_proj" in name) for name in tensors]
    for shard in range(4):
        part = {name: tensor for (name, tensor), at in zip(tensors.items(), shards, strict=True) if at == shard}
        save_file(part, made.parent / f"part-{shard}.safetensors")
    assert torch.equal(ours(load_model(made.parent), ids, 40), expected)


def test_both_formats_load_and_count_their_weights(tmp_path: Path) -> None:
    registry = Registry(tmp_path / "models")
    counts = set()
    for form in ("gemm", "compressed"):
        write(tmp_path / form, form=form, shard=400_000)
        installed = registry.add(tmp_path / form)
        counts.add(installed.parameters)
        assert registry.verify(form) == []
        scores = ours(load_model(installed.path), torch.arange(40), 40)
        assert scores.isfinite().all()
        assert 0.5 < scores.std() < 2
    assert counts == {2 * 512 * 256 + 5 * 256 + 2 * (256 * 512 + 256 * 256 + 3 * 512 * 256)}


def test_an_old_configuration_beside_config_json_is_installed(made: Path, tmp_path: Path) -> None:
    config = json.loads((made / "config.json").read_text())
    del config["quantization_config"]
    (made / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnsupported, match="has no quantization_config"):
        load_model(made)
    old = {"zero_point": True, "q_group_size": 128, "w_bit": 4, "version": "GEMM"}
    (made / "quant_config.json").write_text(json.dumps(old))
    installed = Registry(tmp_path / "models").add(made, "old")
    assert load_model(installed.path).config.quantisation == GEMM


NAME = "model.layers.1.self_attn.v_proj"


@pytest.mark.parametrize(
    ("key", "tensor", "kind", "message"),
    [
        (f"{NAME}.qzeros", None, ModelDamaged, rf"1 weights are missing \({NAME}.qzeros"),
        (f"{NAME}.qzeros", torch.zeros(1, 16, dtype=torch.int32), ModelDamaged, r"qzeros has shape \[1, 16\].*\[2, 16"),
        (f"{NAME}.qweight", torch.zeros(256, 16, dtype=torch.int64), ModelDamaged, "qweight is torch.int64"),
        (f"{NAME}.scales", torch.full((2, 128), torch.inf), ModelDamaged, "v_proj.scales holds numbers that are not"),
        (f"{NAME}.scales", torch.full((2, 128), 1e5), ModelDamaged, "not finite in float16"),
        (f"{NAME}.scales", torch.zeros(2, 128, dtype=torch.int8), ModelDamaged, "scales is torch.int8"),
        (f"{NAME}.weight", torch.zeros(128, 256), ModelDamaged, "v_proj.weight is stored twice"),
        (f"{NAME}.g_idx", torch.zeros(256, dtype=torch.int32), ModelUnsupported, "g_idx has no place"),
    ],
    ids=["missing", "shape", "long", "infinite", "large", "integers", "twice", "order"],
)
def test_tensors_that_do_not_fit_are_named(
    made: Path, key: str, tensor: Tensor | None, kind: type[Exception], message: str
) -> None:
    def change(tensors: Tensors) -> None:
        tensors.pop(key, None)
        if tensor is not None:
            tensors[key] = tensor

    with pytest.raises(kind, match=message):
        load_model(changed(made, change))


def test_columns_that_groups_do_not_divide_are_refused() -> None:
    projection = Projection("x", 8, 160, GEMM)
    with pytest.raises(ModelUnsupported, match="160 columns do not divide into groups of 128"):
        projection.put("scales", torch.zeros(1, 8))

"""This process's part of the memory plan: what the device has, and holding the engine to it."""

import logging

import torch

from unabridged.engine.options import EngineOptions
from unabridged.engine.plan.machine import DRIVER, Machine
from unabridged.engine.plan.plan import Plan

log = logging.getLogger("unabridged.engine")

# Of a device without a limit of its own: Triton's interpreter.
_UNLIMITED = 1 << 60


def machine(options: EngineOptions, device: torch.device) -> Machine:
    """What the engine may take now: no more than is free, and than the options say. Of a GPU, CUDA's own is counted,
    which the process has by then."""
    vram, card = _UNLIMITED, ""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        vram, card = free + DRIVER, torch.cuda.get_device_name(device)
    vram = min(vram, options.vram_bytes or vram)
    return Machine.of(vram, options.store_dir, options.store_bytes, card)


def hold(options: EngineOptions, device: torch.device) -> None:
    """Have torch refuse what is past the limit that the options set."""
    if device.type == "cuda" and options.vram_bytes:
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, max(0, options.vram_bytes - DRIVER) / total), device)


def reserve(plan: Plan, device: torch.device) -> None:
    """Have torch's allocator hold what passes need, in one piece: passes of many lengths would each leave it pieces
    that the next, longer one has no use for. Where it is not to be had in one piece, passes take it as they can."""
    if device.type != "cuda":
        return
    try:
        torch.empty(plan.passing, dtype=torch.uint8, device=device)
    except torch.OutOfMemoryError as error:
        log.warning("%s bytes for passes are not free in one piece: %s", f"{plan.passing:,}", error)


def limit_bytes(plan: Plan) -> int:
    """What the pool is made for: codes of the index count where keys and values lie beside them."""
    return plan.tokens * (plan.kv.token + (plan.kv.codes if plan.place == "gpu" else 0))


def most_taken(device: torch.device) -> int:
    """GPU memory that this process had at most, CUDA's own as the plan counts it; 0 without a GPU."""
    return torch.cuda.max_memory_reserved(device) + DRIVER if device.type == "cuda" else 0

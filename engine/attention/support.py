"""Whether a model's attention runs on the GPU. Torch-free."""

from unabridged.models.config import ModelConfig


def gpu_refusal(config: ModelConfig) -> str | None:
    """Why the GPU attention cannot run this model, as one clear line; None when it can."""
    if config.attention_cap is not None:
        return f"soft-capped attention ({config.architecture}) runs on the CPU only"
    if config.sliding:
        return f"layers with a sliding window ({config.architecture}) run on the CPU only"
    return None

"""The attention that requests ask for, as far as kernels, recorded steps and the memory plan go. Torch-free."""

from dataclasses import replace

from unabridged.engine.attention.config import AttentionConfig, choose, for_window
from unabridged.engine.attention.limits import PAGE
from unabridged.engine.errors import BadRequest
from unabridged.engine.events import AttentionChoice
from unabridged.engine.gpu.bank_pages import BankPages
from unabridged.engine.plan.plan import Plan

# Steps until a schedule repeats. A recorded one takes a moment and some megabytes, in each kind of batch.
_PERIOD = 128


def own(choice: AttentionChoice, window: int, indexed: bool) -> AttentionConfig:
    """What the engine keeps workspace and recorded steps for: what the settings ask for, if it can be had."""
    try:
        return checked(choose(choice, window, indexed))
    except BadRequest:
        # Requests with it are refused by name.
        return for_window(window, indexed)


def reads_index(config: AttentionConfig) -> bool:
    """Whether stages of it score by an index."""
    return any(stage.scorer == "index" for layer in config.layers for stage in layer.stages)


def chosen(choice: AttentionChoice, plan: Plan, window: int, indexed: bool) -> AttentionConfig:
    """What a request asks for. Raises BadRequest for what the kernels do not do."""
    config = checked(choose(choice, window, indexed))
    if plan.place == "host":
        try:
            BankPages.of(config, plan.kv.layers)
        except ValueError as error:
            raise BadRequest(f"attention {error}", "or keys and values in GPU memory: engine.place gpu") from error
    # Steps take memory by it.
    return replace(config, dense_below=min(config.dense_below, plan.whole))


def checked(config: AttentionConfig) -> AttentionConfig:
    """The same. Raises BadRequest for what no pool makes possible."""
    blocks = {stage.block_q for layer in config.layers for stage in layer.stages}
    if config.stream % PAGE or len(blocks) > 1:
        raise BadRequest(f"attention stream = {config.stream}", f"a multiple of {PAGE} on a GPU")
    if max(config.refresh) > _PERIOD:
        refresh = "/".join(map(str, config.refresh))
        raise BadRequest(f"attention refresh = {refresh}", f"a GPU records each step of a period: {_PERIOD} at most")
    return config

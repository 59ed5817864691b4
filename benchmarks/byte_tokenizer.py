"""A tokenizer for checkpoints that are made up: bytes, one merge, words that only decoding gives, special tokens."""

import json
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer as Encoder
from tokenizers import decoders, models, pre_tokenizers

from unabridged.models.tokenizer_files import byte_alphabet

SPECIALS = ("<|begin_of_text|>", "<|eot_id|>")
TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}"
    "{{ message['role'] + ': ' + message['content'] | trim + '<|eot_id|>' }}"
    "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
_BYTES = 257  # with the one merge


def save_tokenizer(folder: Path, specials: Sequence[str] = SPECIALS, vocabulary: int = 0) -> None:
    """tokenizer.json and tokenizer_config.json of 256 bytes, one merge and the special tokens, which come last.

    `specials`: the first begins a text, "<|eot_id|>" ends an answer. `vocabulary`: tokens in all; words fill it up.
    """
    vocab = {char: index for index, char in enumerate(byte_alphabet())} | {"th": 256}
    vocab |= {f"Ġword{index}": index for index in range(_BYTES, vocabulary - len(specials))}
    encoder = Encoder(models.BPE(vocab=vocab, merges=[("t", "h")]))
    encoder.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    encoder.decoder = decoders.ByteLevel()
    encoder.add_special_tokens(list(specials))
    encoder.save(str(folder / "tokenizer.json"))
    options = {"bos_token": specials[0], "eos_token": {"content": "<|eot_id|>"}, "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))

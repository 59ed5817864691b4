"""Prompts under templates that have no system role, or put it elsewhere: the prefix stays the same for every question,
and nothing that was said is lost."""

from pathlib import Path

import pytest
from benchmarks.byte_tokenizer import save_tokenizer

from unabridged.app.events import Turn
from unabridged.app.prompt import SYSTEM, Prompt
from unabridged.models.errors import ModelUnsupported
from unabridged.models.tokenizer import Tokenizer

# As Gemma 2's: no system role, strictly alternating turns, "model" for the assistant, trimmed contents.
GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}{{ raise_exception('no system role here') }}{%- endif -%}
{%- for turn in messages -%}
{%- if (turn['role'] == 'user') != (loop.index0 % 2 == 0) -%}
{{ raise_exception('turns do not alternate') }}
{%- endif -%}
{%- set who = 'model' if turn['role'] == 'assistant' else turn['role'] -%}
{{ '<start_of_turn>' + who + '\\n' + (turn['content'] | trim) + '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<start_of_turn>model\\n' }}{%- endif -%}"""

# As Mistral v0.3's: what the system says goes into the last question.
MISTRAL = """{%- if messages[0]['role'] == 'system' -%}
{%- set said = messages[0]['content'] -%}{%- set rest = messages[1:] -%}
{%- else -%}{%- set rest = messages -%}{%- endif -%}
{{- bos_token -}}
{%- for turn in rest -%}
{%- if turn['role'] == 'user' -%}
{{- '[INST] ' + (said + '\\n\\n' if said is defined and loop.last else '') + turn['content'] + ' [/INST]' -}}
{%- else -%}{{- turn['content'] + '<|eot_id|>' -}}{%- endif -%}
{%- endfor -%}"""

TALK = [Turn("user", "Who came?"), Turn("assistant", "Ada."), Turn("user", "When?")]


@pytest.fixture(params=[GEMMA, MISTRAL], ids=["gemma", "mistral"])
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> Tokenizer:
    save_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    (tmp_path / "chat_template.jinja").write_text(request.param)
    return Tokenizer.load(tmp_path)


def test_the_prefix_serves_every_conversation(tokenizer: Tokenizer) -> None:
    prompt = Prompt(tokenizer)
    said = tokenizer.decode(prompt.prefix)
    assert said.endswith(SYSTEM)
    for turns in (TALK[:1], TALK, [Turn("system", "Be brief."), *TALK]):
        before, after = prompt._around(turns)
        assert before == prompt.prefix
        text = tokenizer.decode(after)
        assert all(turn.content in text for turn in turns)
        assert text.index("Who came?") < len(text)


def test_the_whole_is_what_the_template_writes(tokenizer: Tokenizer) -> None:
    prompt = Prompt(tokenizer)
    ids = prompt.prefix + prompt.conversation(TALK, 1000).ids
    turns = [("user", f"{SYSTEM}Who came?"), ("assistant", "Ada."), ("user", "When?")]
    assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.chat(turns))


def test_a_plain_conversation_keeps_what_the_system_says(tokenizer: Tokenizer) -> None:
    text = tokenizer.decode(Prompt(tokenizer).without_documents([Turn("system", "Be brief."), *TALK]))
    assert "Be brief." in text
    assert "Who came?" in text
    assert "When?" in text


def test_other_refusals_of_a_template_still_show(tmp_path: Path, tokenizer: Tokenizer) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ raise_exception('never') }}")
    prompt = Prompt(Tokenizer.load(tmp_path))
    with pytest.raises(ModelUnsupported, match="never"):
        prompt.without_documents(TALK)
    with pytest.raises(ModelUnsupported, match="never"):
        prompt.conversation(TALK, 1000)

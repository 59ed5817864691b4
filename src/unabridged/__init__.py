"""Unabridged: questions over private documents, with all of their text in the model's context.

`app` joins the parts (CLI, server, assistant), `ui` is the terminal front end, `engine` the inference process,
`ingest` turns files into documents, `models` turns checkpoints into a forward pass. See docs/structure.md.
"""

__version__ = "0.1.0"

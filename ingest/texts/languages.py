"""Which text files are source code, data or tables: by name, since all of them are text, or by a first line "#!"."""

import re

_LANGUAGES = """
abap ada adb ads applescript asm awk bas bat bash bib c cbl cc cfg clj cls cmake cmd cob coffee cpp cs css cu cxx d
dart diff dockerfile el erl ex exs f f03 f77 f90 f95 for fs fsx go gradle groovy h hcl hh hpp hrl hs hxx inc ini ino
ipf java jl js jsp jsx kt kts latex lean less lisp lua m make mjs mk ml mli mm nim nix pas patch php pl plsql pm proto
properties ps1 pxd py pyi pyx r rb rexx rkt rs s sass scala scm scss sh sol sql st sty sv svelte swift tcl tex tf
thrift toml ts tsx v vb vba vbs vhd vhdl vue xsl xslt zig zsh
"""
_FORMATS = "json jsonl ndjson geojson json5 xml yaml yml log conf csl svg rdf ttl nt plist har opml kml gpx"
_SPECIAL = "makefile gnumakefile dockerfile jenkinsfile vagrantfile rakefile gemfile cmakelists.txt"
_CODE = frozenset(_LANGUAGES.split())
_DATA = frozenset(_FORMATS.split())
_NAMES = frozenset(_SPECIAL.split())
_TABLES = frozenset({"csv", "tsv", "tab", "psv"})
_SHEBANG = re.compile(rb"#![ \t]*/[!-~]+")


def is_code(name: str, ext: str, head: bytes) -> bool:
    """Whether a text file is source code."""
    return ext in _CODE or name.lower() in _NAMES or (not ext and _SHEBANG.match(head) is not None)


def is_data(ext: str) -> bool:
    """Whether a text file is data or a log that people cite by its lines."""
    return ext in _DATA


def is_table(ext: str) -> bool:
    """Whether a text file is a table of values between separators."""
    return ext in _TABLES

"""Builds a bundle for machines without a network: one archive that holds all that is installed there.

Runs from a checkout, since the locks and our own sources go into it. `building.build` is the way in; the modules of
`unabridged.app.installer` say what becomes of the archive. Nothing here runs on the machine that it is for.
"""

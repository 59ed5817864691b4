"""The installer of a bundle: the standard library only, since it runs on a machine's bare Python.

The bundle carries these modules as they are (app/bundle/tree.py); `unabridged verify` uses them too. What calls them
there is packaging/install.sh, after it has checked the signature and every hash.
"""

"""Proves that nothing leaves the machine: the whole program runs with the network cut, and every attempt is listed.

`proving.prove` starts `inside` (cuts the network, has its system calls watched), which becomes `steps` (what a user
does); `watching` answers for each call that would reach another machine.
"""

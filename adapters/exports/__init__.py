"""What other training stacks need to use a served environment, written as a folder: `gymwire export`.

One module a target (`verifiers`, `prime_rl`, `nemo_gym`, `nemo_rl`, `openenv`), each a function from `Facts` to files.
What is written imports no gymwire: those stacks pin other versions of what it needs.
"""

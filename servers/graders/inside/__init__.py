"""What the code grader puts into its sandbox jobs: standard library only, and no word of what is expected.

`stdio` runs a program on inputs, `calls` calls a program's functions, `asserts` runs a row's own tests in a job
without the program. `plain` is how values cross.
"""

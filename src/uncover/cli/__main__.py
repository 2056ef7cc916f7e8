"""`python -m uncover.cli`: the same as `uncover`."""

from uncover.cli import main

main(prog_name="uncover")

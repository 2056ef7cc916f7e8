"""`python -m uncover.engines.kernels`: compile the kernels in place."""

from uncover.engines.kernels.build import main

main()

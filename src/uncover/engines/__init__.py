"""The predictions of `bayes`, fast or on a device: machine code by numba, CUDA, arrays of torch and CuPy.

``Fast…`` has the methods of its reference in `bayes` and gives the same answers; without numba it is the
reference.
:func:`uncover.engines.machine.machine_code` is the only door to the compiled kernels.
"""

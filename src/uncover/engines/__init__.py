"""The predictions of `bayes`, fast or on a device: compiled kernels in C, CUDA, arrays of torch and CuPy.

``Fast…`` has the methods of its reference in `bayes` and gives the same answers; without compiled kernels it
is the reference.
:func:`uncover.engines.machine.machine_code` is the only door to the compiled kernels.
"""

"""Workarounds that JAX and XLA make necessary, with the versions that need them.

=============  ===============================  ==================================================
file           versions that need it            what notices when one does not
=============  ===============================  ==================================================
`linalg`       jaxlib 0.10 and 0.11.0, on CPUs  ``tests/test_linalg.py`` counts LAPACK calls that
                                                are shared out to threads
`threads`      the same                         ``tests/test_linalg.py`` would wait forever
`precision`    jax before 0.8, for one name     ``hasattr``; drop it with the floor of 0.8
`compile`      every XLA for CPUs so far        options that an XLA does not know are left out
`per_example`  the same                         ``benchmarks/roofline.py`` times it
=============  ===============================  ==================================================

No thread upstream is about the waiting itself. Two are about the same change, by which batches of
LAPACK calls are shared out: https://github.com/jax-ml/jax/issues/36927 (slower small solves) and
https://github.com/jax-ml/jax/issues/39292 (heap corruption on many cores).
"""

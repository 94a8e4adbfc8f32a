"""Hostile input: files and command lines made to do harm, and judges of what becomes of them.

A format of `fuzzing.formats` makes cases, pure functions of a generator of random numbers, and
judges one: it is accepted (and is then what was saved, or what another reader finds in it), refused
by one sentence, or a failure. `benchmarks/fuzz.py` judges thousands, in processes with limits of
time and memory; the tests judge some hundreds.
"""

"""From settings to per-dataset values: datasets, samplers and quantities in one compiled program.

Nothing here knows a quantity by name; :mod:`gibbs_dp.engine.quantity` is what they agree on.
"""

"""Finished blocks of a sweep on disk: checkpoints, resuming, and many processes."""

from gibbs_dp.engine.store.place import AuditIncomplete as AuditIncomplete
from gibbs_dp.engine.store.place import Store as Store
from gibbs_dp.engine.store.place import StoreError as StoreError

"""Finished blocks of a sweep on disk: checkpoints, resuming, and many processes."""

from gibbs_dp.engine.store.archive import AuditIncomplete as AuditIncomplete
from gibbs_dp.engine.store.archive import Store as Store
from gibbs_dp.engine.store.archive import StoreError as StoreError

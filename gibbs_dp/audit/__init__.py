"""The main job: sweep gamma over thousands of datasets and report."""

from gibbs_dp.audit.load import load_report as load_report
from gibbs_dp.audit.report import Report as Report
from gibbs_dp.audit.run import AuditInterrupted as AuditInterrupted
from gibbs_dp.audit.run import audit as audit
from gibbs_dp.audit.store import AuditIncomplete as AuditIncomplete
from gibbs_dp.audit.store import Store as Store
from gibbs_dp.audit.store import StoreError as StoreError

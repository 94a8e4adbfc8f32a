"""Audits: from arguments to a report, and what is done with reports."""

from gibbs_dp.auditing.api import AuditInterrupted as AuditInterrupted
from gibbs_dp.auditing.api import audit as audit
from gibbs_dp.auditing.report import Report as Report
from gibbs_dp.auditing.report import load_report as load_report
from gibbs_dp.engine.remote import ExecutorError as ExecutorError
from gibbs_dp.engine.store import AuditIncomplete as AuditIncomplete
from gibbs_dp.engine.store import Store as Store
from gibbs_dp.engine.store import StoreError as StoreError

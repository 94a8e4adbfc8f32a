"""Jobs as tasks of any ``concurrent.futures.Executor``: other processes, other machines.

The process that called keeps everything that decides (tuning, stopping rule, reruns, the store) and
sends blocks of datasets out; a worker turns bytes into arrays and keeps nothing but what it was
sent.
"""

from gibbs_dp.engine.remote.client import ExecutorError as ExecutorError
from gibbs_dp.engine.remote.client import Remote as Remote
from gibbs_dp.engine.remote.client import check_executor as check_executor

"""The audit of one posterior, from the log-likelihoods of its draws."""

from gibbs_dp.one_dataset.api import audit_log_likelihood as audit_log_likelihood
from gibbs_dp.one_dataset.inference_data import audit_inference_data as audit_inference_data
from gibbs_dp.one_dataset.report import OneDatasetReport as OneDatasetReport
from gibbs_dp.one_dataset.report import load_one_dataset_report as load_one_dataset_report

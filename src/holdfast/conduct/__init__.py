"""The conduct of runs: train, check, ask, judge, forget what is stale, resume. A generator of plain records.

The caller draws the records or ignores them; the work is done as the caller iterates.
"""

from holdfast.conduct.asking import Asking, ask_about
from holdfast.conduct.checking import Checking, check_all, check_network
from holdfast.conduct.fitting import Fitted, fit
from holdfast.conduct.jobs import Job, claim_jobs, prepared_images, subjects_of
from holdfast.conduct.judging import first_images
from holdfast.conduct.ranks import is_first
from holdfast.conduct.ready import Ready, default_device, device_named, to_device
from holdfast.conduct.runs import Failed, Finished, Prepared, Record, Reported, run, run_jobs, train_jobs
from holdfast.conduct.stored import StoredRun, load_run
from holdfast.conduct.training import Trained, Training, train, validate_before_training

__all__ = [
    "Asking",
    "Checking",
    "Failed",
    "Finished",
    "Fitted",
    "Job",
    "Prepared",
    "Ready",
    "Record",
    "Reported",
    "StoredRun",
    "Trained",
    "Training",
    "ask_about",
    "check_all",
    "check_network",
    "claim_jobs",
    "default_device",
    "device_named",
    "first_images",
    "fit",
    "is_first",
    "load_run",
    "prepared_images",
    "run",
    "run_jobs",
    "subjects_of",
    "to_device",
    "train",
    "train_jobs",
    "validate_before_training",
]

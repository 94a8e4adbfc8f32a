"""Jobs sent to an executor, and what a worker does with them: from bytes to arrays."""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import pickle
import platform
import threading
import traceback
from collections import OrderedDict, deque
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cache, lru_cache
from queue import SimpleQueue
from types import CodeType
from typing import Any, Literal, NamedTuple, TypeVar

import jax
import jax.numpy as jnp
import jaxlib.version
import numpy as np
import numpyro

from gibbs_dp._extras import require
from gibbs_dp._jaxlib.compile import make_room
from gibbs_dp._jaxlib.devices import devices
from gibbs_dp._jaxlib.precision import Mode, current_mode, in_mode
from gibbs_dp._version import __version__
from gibbs_dp.engine.executor import Work, in_room
from gibbs_dp.engine.plan import Job, Sheet
from gibbs_dp.engine.quantity import Settings
from gibbs_dp.engine.runner import Runner

# What a worker does: one block of datasets, from bytes to arrays.

Answer = Literal["done", "failed", "wanted", "unreadable", "versions"]

# Audits that a process keeps its programs and tables for.
MAX_RUNNERS = 4

_runners: OrderedDict[str, tuple[Runner, Mode]] = OrderedDict()
_lock = threading.Lock()
_turns = itertools.count()


def run_block(
    wanted_versions: dict[str, str], name: str, content: bytes | None, job: bytes
) -> tuple[Answer, Any]:
    """Run one job."""
    own = versions()
    if own != wanted_versions:
        return "versions", own
    try:
        held = _runner(name, content)
    except Exception as error:  # unpickling runs anybody's code
        return "unreadable", f"{type(error).__name__}: {error}"
    if held is None:
        return "wanted", None
    runner, mode = held
    try:
        with applied(mode):
            found = in_room(lambda: _arrays(runner, unpack_job(job, mode)))
        return "done", dumps(found)
    except Exception as error:
        return "failed", pack_error(error)


def _arrays(runner: Runner, job: Any) -> Any:
    targets = devices()
    device = targets[next(_turns) % len(targets)]
    return jax.tree.map(np.asarray, runner.work(job, device))


def _runner(name: str, content: bytes | None) -> tuple[Runner, Mode] | None:
    with _lock:  # two threads that meet a new audit must share what they compile for it
        if name not in _runners:
            if content is None:
                return None
            make_room()
            settings, mode = unpack_settings(content)
            _runners[name] = Runner(settings), mode
        _runners.move_to_end(name)
        while len(_runners) > MAX_RUNNERS:
            _runners.popitem(last=False)
        return _runners[name]


# Jobs sent to an executor: how many at a time, and what is done about those that are lost.

AnyJob = TypeVar("AnyJob")

# Tasks at a time: two a worker for 512 workers, and few enough to be held in memory.
MOST_TASKS = 1024
# Sent before one result is looked at.
SOME_TASKS = 16
# Bytes of settings on their way at a time. Small ones go with every task; of large ones, tables,
# workers ask for a copy.
MOST_BYTES = 2**26
# How often a job is sent again after its worker was lost.
RETRIES = 3


class ExecutorError(OSError):
    """An executor that broke, or lost the same job again and again."""


def check_executor(executor: Any) -> None:
    """Refuse what is no executor, or one that cannot work."""
    if not isinstance(executor, Executor):
        hint = "; give client.get_executor()" if hasattr(executor, "get_executor") else ""
        raise ValueError(
            "executor: must be a concurrent.futures.Executor, got "
            f"{type(executor).__name__}{hint or ', which is none'}."
        )
    context = getattr(executor, "_mp_context", None)
    if isinstance(executor, ProcessPoolExecutor) and context is not None:
        method = context.get_start_method()
        if method == "fork":
            raise ValueError(
                "executor: a process that was forked from one where JAX runs waits forever; make "
                "it ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))."
            )
    require("cloudpickle")


@dataclass
class _Task:
    """A job that has no result yet."""

    job: Any
    packed: bytes
    num_losses: int = 0
    has_copy: bool = False  # of the settings


class _Settings:
    """Settings of an audit, and how many copies of them are worth sending.

    Small ones go with every task. Large ones go with the first tasks, and then with as many as
    workers have asked for.
    """

    def __init__(self, settings: Any) -> None:
        self.settings, self.parcel = settings, pack_settings(settings)
        self.most = max(1, MOST_BYTES // len(self.parcel.content))  # on their way at a time
        self.wanted = math.inf if self.most >= MOST_TASKS else self.most


@dataclass
class Remote:
    """Workers of an executor."""

    executor: Executor
    kept: str
    _settings: _Settings | None = None

    def run(
        self, jobs: Iterable[AnyJob], work: Work, num_beside: int = 0
    ) -> Generator[tuple[AnyJob, Any], None, None]:
        """See :meth:`gibbs_dp.engine.executor.Workers.run`; nothing runs on this machine."""
        del num_beside
        if self._settings is None or self._settings.settings is not work.settings:
            self._settings = _Settings(work.settings)
        return _Round(self.executor, self.kept, self._settings, jobs).run()


class _Round:
    """The tasks of some jobs.

    A worker that lacks the settings answers at once, so that each such answer makes one task less
    at a time; results make them more again.
    """

    def __init__(
        self, executor: Executor, kept: str, settings: _Settings, jobs: Iterable[Any]
    ) -> None:
        self.executor, self.kept, self.settings = executor, kept, settings
        self.versions = versions()
        self.jobs = (_Task(job, pack_job(job)) for job in jobs)
        self.again: deque[_Task] = deque()
        self.running: dict[Future[Any], _Task] = {}
        self.finished: SimpleQueue[Future[Any]] = SimpleQueue()
        self.most_running = MOST_TASKS
        self.num_copies = 0  # on their way

    def run(self) -> Generator[tuple[Any, Any], None, None]:
        """Yield jobs and results; cancel what has not begun when left early."""
        try:
            while self._send():
                task, answer, content = self._receive()
                if answer == "done":
                    self.most_running = min(MOST_TASKS, self.most_running + 2)
                    yield task.job, pickle.loads(content)
                elif answer == "wanted":
                    self.most_running = max(1, self.most_running - 1)
                    self.settings.wanted += 1
                    self.again.append(task)
                elif answer == "failed":
                    raise unpack_error(content)
                else:
                    raise ValueError(self._refusal(answer, content))
        finally:
            for future in list(self.running):
                future.cancel()

    def _send(self) -> bool:
        """Have as many tasks running as may be; False once there is none.

        What has come back meanwhile is taken in first, after some tasks.
        """
        begin = len(self.running)
        while len(self.running) < self.most_running:
            if len(self.running) - begin >= SOME_TASKS and not self.finished.empty():
                break
            task = self.again.popleft() if self.again else next(self.jobs, None)
            if task is None:
                break
            self._submit(task)
        return bool(self.running)

    def _submit(self, task: _Task) -> None:
        sent = self.settings
        task.has_copy = sent.wanted > 0 and self.num_copies < sent.most
        sent.wanted -= task.has_copy
        self.num_copies += task.has_copy
        name, content = sent.parcel
        settings = content if task.has_copy else None
        try:
            future = self.executor.submit(run_block, self.versions, name, settings, task.packed)
        except Exception as error:
            raise ExecutorError(
                f"executor: it takes no more tasks ({_told(error)}); {self.kept}."
            ) from error
        self.running[future] = task
        future.add_done_callback(self.finished.put)

    def _receive(self) -> tuple[_Task, str, Any]:
        """Wait for an answer; what is lost on the way is sent again."""
        while True:
            future = self.finished.get()
            task = self.running.pop(future)
            self.num_copies -= task.has_copy
            try:
                answer, content = future.result()
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # exceptions of the user's code are answers
                self._lose(task, error)
            else:
                return task, answer, content

    def _lose(self, task: _Task, error: BaseException) -> None:
        task.num_losses += 1
        self.settings.wanted += 1  # whoever takes its place has none
        if isinstance(error, ImportError):
            raise ExecutorError(
                f"executor: a worker cannot import the library ({_told(error)}); install there "
                "what is installed here."
            ) from error
        if task.num_losses > RETRIES:
            raise ExecutorError(
                f"executor: the same block was lost {task.num_losses} times, the last time by "
                f"{_told(error)}; {self.kept}."
            ) from error
        self.again.append(task)
        self._send()

    def _refusal(self, answer: str, content: Any) -> str:
        if answer == "versions":
            names = [name for name, here in self.versions.items() if content.get(name) != here]
            there = ", ".join(f"{name} {content.get(name)}" for name in names)
            here = ", ".join(f"{name} {self.versions[name]}" for name in names)
            return (
                f"executor: a worker has {there} where this process has {here}; install the same "
                "versions on both."
            )
        return (
            f"executor: a worker cannot load what was sent ({content}); make your own modules "
            "importable there."
        )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ").removesuffix(".")


# What crosses from one process to another, as bytes.


# Parts that a process keeps: those of some audits, and of the gammas of their jobs.
MAX_PARTS = 256


@contextmanager
def applied(mode: Mode) -> Iterator[None]:
    """Compute as the caller does in this thread, on this process's own devices."""
    with in_mode(mode._replace(device=current_mode().device)):
        yield


def versions() -> dict[str, str]:
    """Of everything that numbers, or the form of what is sent, depend on."""
    return {
        "gibbs_dp": __version__,
        "jax": jax.__version__,
        "jaxlib": jaxlib.version.__version__,
        "numpyro": numpyro.__version__,
        "python": ".".join(platform.python_version_tuple()[:2]),
    }


class Parcel(NamedTuple):
    """Settings of an audit as bytes, and their name: equal settings have equal names."""

    name: str
    content: bytes


def pack_settings(settings: Settings) -> Parcel:
    """Pack what all jobs of an audit share, with the mode to run them in.

    Every field by itself: a process that has the posterior of an earlier audit keeps it, and what
    was compiled for it.
    """
    parts = {}
    for field in fields(settings):
        try:
            parts[field.name] = dumps(getattr(settings, field.name))
        except Exception as error:  # pickling runs anybody's code
            raise ValueError(
                f"executor: the audit's {field.name} cannot be sent to workers ({error}); make "
                "what cannot be pickled, such as an open file, inside the function that uses it."
            ) from error
    mode = current_mode()._replace(device=None)  # workers have devices of their own
    content = pickle.dumps((tuple(mode), parts))
    return Parcel(hashlib.sha256(content).hexdigest(), content)


def unpack_settings(content: bytes) -> tuple[Settings, Mode]:
    """Undo :func:`pack_settings`."""
    packed_mode, parts = pickle.loads(content)
    mode = Mode(*packed_mode)
    return Settings(**{name: _part(blob, mode) for name, blob in parts.items()}), mode


def pack_job(job: Any) -> bytes:
    """Pack a named tuple, and those in it, field by field: jobs have most of these in common."""
    return pickle.dumps(_in_parts(job))


def unpack_job(content: bytes, mode: Mode) -> Any:
    """Undo :func:`pack_job`. Equal fields of two jobs are one object: devices have it once."""
    return _together(pickle.loads(content), mode)


def _in_parts(value: Any) -> Any:
    if type(value) is tuple:
        return tuple, [_in_parts(item) for item in value]
    if isinstance(value, (Sheet, Job)):
        return type(value), [_in_parts(item) for item in value]
    return dumps(value)


def _together(parts: Any, mode: Mode) -> Any:
    if isinstance(parts, bytes):
        return _part(parts, mode)
    kind, items = parts
    found = [_together(item, mode) for item in items]
    return tuple(found) if kind is tuple else kind(*found)


@lru_cache(maxsize=MAX_PARTS)
def _part(blob: bytes, mode: Mode) -> Any:
    with applied(mode):  # a float64 stays one
        return pickle.loads(blob)


def pack_error(error: Exception) -> bytes:
    """Pack an exception with where it happened, in as much as can be pickled."""
    where = "".join(traceback.format_exception(error))
    kind, arguments, state = type(error), error.args, error.__dict__
    forms: list[tuple[Any, ...]] = [
        (_itself, error),
        (_rebuilt, kind, arguments, state),
        (_rebuilt, kind, arguments, {}),
    ]
    for make, *parts in forms:
        try:
            blob = dumps((make, parts, where))
            if str(make(*pickle.loads(blob)[1])) == str(error):
                return blob
        except Exception:  # pickling runs anybody's code
            continue
    return dumps((RuntimeError, (f"{kind.__name__}: {error}",), where))


def unpack_error(content: bytes) -> Exception:
    """Return the exception, with a note that says where in a worker it was raised."""
    make, parts, where = pickle.loads(content)
    error: Exception = make(*parts)
    error.add_note(f"\nIn a worker of the executor:\n{where}")
    return error


def _itself(error: Exception) -> Exception:
    return error


def _rebuilt(kind: type[Exception], arguments: Any, state: dict[str, Any]) -> Exception:
    # Without __init__, whose arguments are not those of the message everywhere.
    error = kind.__new__(kind, *arguments)
    error.args = tuple(arguments)
    error.__dict__.update(state)
    return error


def dumps(value: Any) -> bytes:
    """Pickle anything, functions and classes of the user's too."""
    with io.BytesIO() as file:
        _pickler()(file).dump(value)
        return file.getvalue()


@cache
def _pickler() -> Any:
    cloudpickle = require("cloudpickle")

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        """Knows random keys: JAX would make a generator of its own of each.

        And the files that functions come from, for tracebacks: cloudpickle 3.1.3 drops them.
        """

        def reducer_override(self, value: Any) -> Any:
            if isinstance(value, CodeType):
                make, arguments = self.dispatch_table[CodeType](value)
                return _code, (make, arguments, value.co_filename)
            if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
                data = np.asarray(jax.random.key_data(value))
                return _key, (data, str(jax.random.key_impl(value)))
            return super().reducer_override(value)

    return Pickler


def _code(make: Any, arguments: tuple[Any, ...], file: str) -> CodeType:
    code: CodeType = make(*arguments)
    return code.replace(co_filename=file)


def _key(data: np.ndarray, generator: str) -> Any:
    return jax.random.wrap_key_data(jnp.asarray(data), impl=generator)

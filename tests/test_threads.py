"""Two programs with batched LAPACK calls at once must not wait for each other forever."""

import subprocess
import sys

PROGRAM = """
import threading
import gibbs_dp
import jax, jax.numpy as jnp, numpy as np

@jax.jit
def work(a):
    def step(_, a):
        return a + 1e-3 * jax.vmap(lambda m: jnp.linalg.cholesky(m @ m.T + 31 * jnp.eye(31)))(a)
    return jax.lax.fori_loop(0, 20, step, a)

x = jax.random.normal(jax.random.key(0), (512, 31, 31))
work(x).block_until_ready()
threads = [
    threading.Thread(target=lambda: [np.asarray(work(x)) for _ in range(5)])
    for _ in range(gibbs_dp._jaxlib.threads.num_cores())
]
for t in threads:
    t.start()
for t in threads:
    t.join()
print("done")
"""


def test_concurrent_lapack_calls_finish() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.stdout.strip() == "done", done.stderr

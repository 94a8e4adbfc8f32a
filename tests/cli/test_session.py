import stat

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

import gibbs_dp as gdp
from gibbs_dp._jaxlib import program_cache
from gibbs_dp.cli import session


@pytest.fixture
def cache_setting():
    """Restores JAX's own setting."""
    before = jax.config.jax_compilation_cache_dir
    yield
    jax.config.update("jax_compilation_cache_dir", before)


def test_the_users_own_cache_setting_wins(monkeypatch, cache_setting, tmp_path):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    session.enable_compilation_cache()
    assert not any(tmp_path.iterdir())


def test_a_cache_folder_that_cannot_be_made_is_harmless(monkeypatch, cache_setting, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    before = jax.config.jax_compilation_cache_dir
    session.enable_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == before


def test_the_cache_follows_xdg(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert session.cache_folder().is_relative_to(tmp_path / "gibbs_dp" / "jax")


@pytest.mark.parametrize("before", [None, 0o755, 0o777, 0o700])
def test_the_cache_is_open_to_its_owner_alone(monkeypatch, cache_setting, tmp_path, before):
    """Whatever rights it had."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = session.cache_folder()
    if before is not None:
        folder.mkdir(parents=True)
        for place in (folder, folder.parent, folder.parent.parent):
            place.chmod(before)
    session.enable_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == str(folder)
    for place in (folder, folder.parent, folder.parent.parent):
        assert stat.S_IMODE(place.stat().st_mode) == 0o700


def test_a_cache_that_is_a_link_is_not_used(monkeypatch, cache_setting, tmp_path):
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "gibbs_dp").symlink_to(tmp_path / "elsewhere")
    before = jax.config.jax_compilation_cache_dir
    session.enable_compilation_cache()
    assert jax.config.jax_compilation_cache_dir == before


@pytest.fixture
def full_cache(tmp_path):
    """JAX's cache in a folder, which keeps whatever is compiled."""
    names = "jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"
    before = [getattr(jax.config, name) for name in names]
    folder = tmp_path / "cache"
    folder.mkdir()
    for name, value in zip(names, (str(folder), 0.0), strict=True):
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield folder
    for name, value in zip(names, before, strict=True):
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_releases_leave_nothing_in_a_cache(full_cache, tmp_path):
    """Shapes of programs would tell the number of rows, which is secret under add/remove."""
    jax.jit(lambda x: x + 17.0)(jnp.zeros(3)).block_until_ready()
    jax.clear_caches()
    before = {path: path.stat() for path in full_cache.rglob("*")}
    assert before
    ledger = gdp.Ledger.create(tmp_path / "l", zcdp=9.0, adjacency="add-remove")
    loss, flat = gdp.losses.logistic, gdp.Flat(gdp.supports.l2_ball(2, 1.0))
    for rows in (30, 31):
        gdp.release(
            gdp.GibbsPosterior(loss, flat),
            (np.ones((rows, 2)), np.arange(rows) % 2),
            domain=gdp.Domain(x_bound=1.0),
            adjacency="add-remove",
            n=64,
            ledger=ledger,
            method=gdp.privacy.ChainDraw(gdp.ULA(0.05, 20), gamma=0.1),
            delta=1e-6,
            accept=["float-arithmetic"],
        )
    after = {path: path.stat() for path in full_cache.rglob("*")}
    changed = {path.name for path in after if after[path] != before.get(path)}
    assert not any("run" in name or "langevin" in name for name in changed), changed
    assert program_cache.folder() is not None  # for others it is as before

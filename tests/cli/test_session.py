import jax
import pytest

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

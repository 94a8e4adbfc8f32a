"""Every equation of a traced program, at any depth."""

from jax.extend.core import ClosedJaxpr, Jaxpr


def equations(program):
    """Yield the equations of a jaxpr and of all programs inside it."""
    if isinstance(program, ClosedJaxpr):
        yield from equations(program.jaxpr)
    elif isinstance(program, Jaxpr):
        for equation in program.eqns:
            yield equation
            for value in equation.params.values():
                yield from equations(value)
    elif isinstance(program, (tuple, list)):
        for part in program:
            yield from equations(part)

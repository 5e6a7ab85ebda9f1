"""Options of version 1.1 that were removed, as its checkpoints may still have them."""

from typing import Any

from cape_fairseq.options import format_flag

# By name, the values that today's models compute.
REMOVED = {
    "floater_rtol": (1e-5,),
    "floater_atol": (1e-6,),
    "floater_solver": ("rk4", "midpoint"),
    "relpos_layers": ("all",),
    "relpos_terms": ("keys+values", "shared"),
}


def check_removed(options: dict[str, Any]) -> None:
    """Check the options of a checkpoint.

    Raises:
        ValueError: one has a value that only version 1.1 has.
    """
    for name, values in REMOVED.items():
        value = options.get(name)
        if value is not None and value not in values:
            raise ValueError(
                f"the checkpoint has {format_flag(name)} {value}, which version 1.2 removed; use "
                "version 1.1 of this package"
            )

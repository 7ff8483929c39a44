"""A main loop of multiply-adds, in an order of our own instead of ptxas's.

What ptxas leaves on the table, what is done instead and what is proved of it: docs/schedule.md.
"""

from tilewright.toolchain.schedule.compiled import SCHEDULER_VERSION, Compiled, compile_scheduled
from tilewright.toolchain.schedule.main_loop import Report, Scheduled, schedule_main_loop
from tilewright.toolchain.schedule.proof import prove
from tilewright.toolchain.schedule.style import BEST, Style

__all__ = [
    "BEST",
    "SCHEDULER_VERSION",
    "Compiled",
    "Report",
    "Scheduled",
    "Style",
    "compile_scheduled",
    "prove",
    "schedule_main_loop",
]

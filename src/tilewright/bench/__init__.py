"""How kernels are measured: verification first, then timing beside a baseline."""

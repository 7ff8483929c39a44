"""Questions about kernels that take many runs of them to answer."""

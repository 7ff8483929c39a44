"""What a run costs on a GPU: counts bound to machine code, the time model, advice."""

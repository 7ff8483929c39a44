"""Which variant computes a product: measured where it was tuned, else chosen by a model."""

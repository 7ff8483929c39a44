"""Production kernels: D = alpha·A·B + beta·C by strides, for any shape."""

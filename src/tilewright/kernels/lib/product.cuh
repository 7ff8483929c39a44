// The argument of every production kernel: D = alpha * A * B + beta * C for each of a batch.
//
// The fields are those of tilewright.kernels.gemm.product.PRODUCT, in the same order (a test
// compares the two). Strides are distances in elements: row and col between neighbours along the
// matrix's first and second index, batch between one product and the next (0 repeats the operand).
#pragma once

#include "lib/types.cuh"

struct Product {
  const float* a;      // [batch][m][k]
  const float* b;      // [batch][k][n]
  const float* c;      // [batch][m][n]; never read where beta is 0
  float* d;            // [batch][m][n]
  float* partial;      // workspace: sums of the splits of k, before they are added
  unsigned* arrivals;  // workspace: a count for each tile of D; zero before a launch and after it
  int64 a_row, a_col, a_batch;
  int64 b_row, b_col, b_batch;
  int64 c_row, c_col, c_batch;
  int64 d_row, d_col, d_batch;
  int m, n, k, batch;
  int splits;   // parts of k that are summed by blocks of their own, then added in order
  int workers;  // blocks that share the last tiles of D evenly (lib/work.cuh)
  float alpha, beta;
};

// How a kernel may read A and B, known when it is compiled.
struct Access {
  bool a_along_k;  // neighbours along k are neighbours in memory (else: along m, or none are)
  bool b_along_n;  // neighbours along n are neighbours in memory, or none are (else: along k)
  int a_vector;    // floats that one instruction may read along that direction: 4 or 1
  int b_vector;
};

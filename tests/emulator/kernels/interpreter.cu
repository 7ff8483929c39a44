// A stack-less interpreter: each thread runs its own program of opcodes, a dense switch a step.
// NVRTC makes the switch a branch table (brx.idx) under --jump-table-density.

extern "C" __global__ void interpret(
    const unsigned char* code, const int* start, const float* x, float* y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float a = x[i], b = 1.0f;
  const unsigned char* at = code + start[i];
  while (true) {
    switch (*at++) {
      case 0: y[i] = a; return;
      case 1: a = a + b; break;
      case 2: a = a - b; break;
      case 3: a = a * b; break;
      case 4: b = a; break;
      case 5: b = 2.0f; break;
      case 6: b = -b; break;
      case 7: a = fminf(a, b); break;
      case 8: a = fmaxf(a, b); break;
      case 9: a = fabsf(a); break;
      case 10: { float t = a; a = b; b = t; break; }
      case 11: if (a < b) at += 2; break;
      default: y[i] = -1.0f; return;
    }
  }
}

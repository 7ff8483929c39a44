// The driver's types that kernels take. Its functions are the host's.
#ifndef TILEWRIGHT_CUDA
#define TILEWRIGHT_CUDA

typedef struct alignas(64) CUtensorMap_st {
  unsigned long long opaque[16];
} CUtensorMap;
typedef struct CUstream_st* CUstream;
typedef struct CUevent_st* CUevent;
typedef unsigned long long CUdeviceptr;
#endif

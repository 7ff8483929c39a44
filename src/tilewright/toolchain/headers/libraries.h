// Handles of the host's CUDA libraries, which structs may have members of, and the types that come
// in with their headers.
#ifndef TILEWRIGHT_LIBRARIES
#define TILEWRIGHT_LIBRARIES

#if __has_include(<cuda_fp16.h>)
#include <cuda_fp16.h>
#endif
#if __has_include(<cuda_bf16.h>)
#include <cuda_bf16.h>
#endif

typedef struct cublasContext* cublasHandle_t;
typedef struct cublasLtContext* cublasLtHandle_t;
typedef struct cudnnContext* cudnnHandle_t;
typedef struct curandGenerator_st* curandGenerator_t;
typedef struct cusolverDnContext* cusolverDnHandle_t;
typedef struct cusparseContext* cusparseHandle_t;
typedef struct ncclComm* ncclComm_t;
typedef int cufftHandle;
typedef struct {
  char internal[128];
} ncclUniqueId;
#endif

// Types of the host's API that a struct may have members of. NVRTC knows the others by itself.
#ifndef TILEWRIGHT_CUDA_RUNTIME
#define TILEWRIGHT_CUDA_RUNTIME

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;
#endif

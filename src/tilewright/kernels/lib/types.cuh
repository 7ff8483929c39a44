// Types of the kernels. NVRTC has no <cstdint>, and the kernels include no CUDA header.
#pragma once

// For offsets in elements: a matrix can have more than 2^31 of them.
using int64 = long long;
static_assert(sizeof(int64) == 8);

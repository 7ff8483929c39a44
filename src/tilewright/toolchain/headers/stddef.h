// size_t is NVRTC's own.
#ifndef TILEWRIGHT_STDDEF
#define TILEWRIGHT_STDDEF

typedef long ptrdiff_t;
#define NULL 0

namespace std {
using ::ptrdiff_t;
using ::size_t;
using nullptr_t = decltype(nullptr);
}
#endif

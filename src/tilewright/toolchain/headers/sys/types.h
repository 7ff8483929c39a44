// The short names that glibc gives its unsigned types.
#ifndef TILEWRIGHT_SYS_TYPES
#define TILEWRIGHT_SYS_TYPES

typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long ssize_t;
#endif

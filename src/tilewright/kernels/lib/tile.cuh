// The tile: all of a kernel's schedule, known when the kernel is compiled.
//
// The only template argument of every kernel, written `Tile{.bm=128, .bn=128, ...}`. The fields are
// those of the Python class tilewright.kernels.tiles.Tile, in the same order (a test compares the
// two); that module also states, once, which tiles a kernel can run with.
#pragma once

struct Tile {
  int bm = 0;          // rows of C a block
  int bn = 0;          // columns of C a block
  int bk = 0;          // depth of the tiles of A and B in shared memory; 0 without staging
  int tm = 1;          // rows of C a thread, next to each other
  int tn = 1;          // columns of C a thread, next to each other
  int pad = 0;         // unused floats after each row of A's transposed tile
  int wm = 0;          // rows of C a warp; 0 without warp tiles
  int wn = 0;          // columns of C a warp
  int wniter = 1;      // sub-tiles of a warp along n, each wn / wniter columns wide
  int unroll = 0;      // steps along k in one body of the main loop; 0 for all bk
  int min_blocks = 0;  // blocks that an SM must have registers for; 0 lets the compiler choose
  int stages = 0;      // tiles of A and B in shared memory at a time; 0 for one
  int kparts = 1;      // threads that share an output, each with a part of k
  int workers = 0;     // blocks that stay and share all tiles of C: the grid's, not for kernels

  __host__ __device__ constexpr int threads() const
  {
    return wm > 0 ? 32 * (bm / wm) * (bn / wn) : (bm / tm) * (bn / tn) * kparts;
  }

  // How a warp tile splits: worked for .bm=128, .bn=128, .tm=8, .tn=4, .wm=64, .wn=64, .wniter=4.
  __host__ __device__ constexpr int warps_n() const { return bn / wn; }            // 128/64 = 2
  __host__ __device__ constexpr int sub_n() const { return wn / wniter; }          // 64/4 = 16
  __host__ __device__ constexpr int lanes_n() const { return sub_n() / tn; }       // 16/4 = 4
  __host__ __device__ constexpr int sub_m() const { return 32 / lanes_n() * tm; }  // 32/4*8 = 64
  __host__ __device__ constexpr int wmiter() const { return wm / sub_m(); }        // 64/64 = 1
};

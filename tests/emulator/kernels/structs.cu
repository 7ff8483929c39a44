// Structs by value: with padding, an array that is indexed at run time, and nested.

struct Point {
  char tag;
  double x;
  short y[4];
};
struct Box {
  Point low;
  Point high;
  bool closed;
};

__device__ __noinline__ double corner(Point p, int i) { return p.x + p.y[i] + p.tag; }

__global__ void use_structs(const Box box, double* out)
{
  const int i = threadIdx.x;
  out[i] = corner(box.low, i % 4) - corner(box.high, 3 - i % 4) + (box.closed ? 100.0 : 0.0);
}

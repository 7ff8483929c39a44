// Sums in trees: few roundings follow one another. Over the lanes of a warp, many at a time, and of
// values that one thread can get at.
#pragma once

// The sum of value(first) and the next ones, `count` in all.
template <int count, class Value>
__device__ __forceinline__ auto tree_sum(const Value& value, int first = 0)
{
  if constexpr (count == 1) {
    return value(first);
  } else {
    constexpr int half = count / 2;
    return tree_sum<half>(value, first) + tree_sum<count - half>(value, first + half);
  }
}

// Which of the values a lane holds after a fold: `first` and the next ones, before `end`.
struct Folded {
  int first, end;
};

// The values that a lane holds after fold<bit> of `count`, at most.
__host__ __device__ constexpr int folded(int bit, int count)
{
  return bit >= 32 ? count : folded(2 * bit, (count + 1) / 2);
}

// The values are summed over the lanes whose numbers differ in `bit`, 2 * bit, .. 16. Each time a
// lane gives half of its values away and gets the other half of its partner's, so the sums end up
// spread over those lanes, and shuffles are count/2 + count/4 + .. instead of count each time. The
// order of the additions is fixed. Pairs are added as Pair, these as Sum: floats are widened late,
// when there are few of them.
template <int bit, class Pair, int count, class Value, class Sum>
__device__ Folded fold(const Value (&value)[count], Sum (&sums)[folded(bit, count)], int lane,
                       Folded held = {0, count})
{
  if constexpr (bit >= 32) {
#pragma unroll
    for (int i = 0; i < count; ++i) sums[i] = value[i];
    return held;
  } else {
    constexpr int half = (count + 1) / 2;
    const bool upper = lane & bit;
    Pair halves[half];
#pragma unroll
    for (int i = 0; i < half; ++i) {
      const Value low = value[i];
      const Value high = half + i < count ? value[half + i] : Value{};
      const Value theirs = __shfl_xor_sync(~0u, upper ? low : high, bit);
      halves[i] = static_cast<Pair>(upper ? high : low) + static_cast<Pair>(theirs);
    }
    if (upper) held.first += half;
    else held.end = min(held.end, held.first + half);
    return fold<2 * bit, Sum>(halves, sums, lane, held);
  }
}

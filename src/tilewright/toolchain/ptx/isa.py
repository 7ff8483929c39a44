"""The table of PTX instructions, as text: `instructions` reads it.

One row a section of the ISA, so `add` has a row for integers, one for floats, one for halves.

| column | says |
|---|---|
| section | where the ISA describes it; with + the opcodes number on from it |
| operands | those named d are written, those with ? may be left out |
| types | the choices for each type suffix, between slashes; * for any suffix and operands: |
| | what is so marked is read, and not executed |
| needs | it carries one of these at least |
| may | and may carry these |
| spaces | state spaces, and the widest vector |

Source: PTX ISA 9.0, section 9.7.
"""

from __future__ import annotations

MACROS = {
    "INT": "u16 u32 u64 s16 s32 s64",
    "SHORT": "u16 u32 s16 s32",
    "WIDE": "u32 u64 s32 s64",
    "HALF": "f16 f16x2 bf16 bf16x2",
    "SCALAR": "b16 b32 b64 INT f32 f64",
    "MEMORY": "b8 u8 s8 b128 SCALAR",
    "ATOMIC": "b16 b32 b64 b128 WIDE f32 f64 HALF",
    "FP8": "e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 ue8m0x2 s2f6x2 e4m3x4 e5m2x4 e2m1x4 e2m3x4 e3m2x4",
    "NUMBER": "u8 s8 INT f32 f64 HALF tf32 FP8",
    "SMALL": "u2 s2 u4 s4 u8 s8 u16 s16",
    "ROUND": "rn rz rm rp",
    "COMPARE": "FLOAT_COMPARE lo ls hi hs",
    "FLOAT_COMPARE": "eq ne lt le gt ge equ neu ltu leu gtu geu num nan",
    "CLASS": "finite infinite number notanumber normal subnormal",
    "RESTRICT": "sync_restrict::shared::cta sync_restrict::shared::cluster",
    "SCOPE": "cta cluster gpu sys",
    "JOIN": "and or xor ftz",
    "REDUCE": "and or xor add min max",
    "UPDATE": "REDUCE inc dec",
    "RED_ORDER": "relaxed release noftz SCOPE",
    "ORDER": "RED_ORDER acquire acq_rel",
    "LOAD": "weak relaxed acquire volatile mmio nc ca cg cs lu cv SCOPE",
    "STORE": "weak relaxed release volatile mmio wb cg cs wt SCOPE",
    "CONVERT": "ROUND rna rs rni rzi rmi rpi ftz sat relu satfinite",
    "ANY": "STORABLE const",
    "STORABLE": "GENERIC local param",
    "GENERIC": "global shared shared::cluster",
}

TABLE = """
opcodes   | section    | category | operands   | types       | needs    | may      | spaces
# 9.7.1 Integer arithmetic
add       | 9.7.1.1    | integer  | d a b      | INT u16x2 s16x2 |      | sat
sub       | 9.7.1.2    | integer  | d a b      | INT         |          | sat
mul       | 9.7.1.3    | integer  | d a b      | INT         | hi lo
mul       | 9.7.1.3    | integer  | d a b      | SHORT       | wide
mad       | 9.7.1.4    | integer  | d a b c    | INT         | hi lo    | sat
mad       | 9.7.1.4    | integer  | d a b c    | SHORT       | wide
mul24     | 9.7.1.5    | integer  | d a b      | u32 s32     | hi lo
mad24     | 9.7.1.6    | integer  | d a b c    | u32 s32     | hi lo    | sat
sad       | 9.7.1.7    | integer  | d a b c    | INT
div rem   | 9.7.1.8+   | integer  | d a b      | INT
abs neg   | 9.7.1.10+  | integer  | d a        | s16 s32 s64
min max   | 9.7.1.12+  | integer  | d a b      | INT u16x2 s16x2 |      | relu
popc clz  | 9.7.1.14+  | integer  | d a        | b32 b64
bfind     | 9.7.1.16   | integer  | d a        | WIDE        |          | shiftamt
fns       | 9.7.1.17   | integer  | d a b c    | b32
brev      | 9.7.1.18   | integer  | d a        | b32 b64
bfe       | 9.7.1.19   | integer  | d a b c    | WIDE
bfi       | 9.7.1.20   | integer  | d a b c e  | b32 b64
szext     | 9.7.1.21   | integer  | d a b      | u32 s32     | clamp wrap
bmsk      | 9.7.1.22   | integer  | d a b      | b32         | clamp wrap
dp4a      | 9.7.1.23   | integer  | d a b c    | u32 s32 / u32 s32
dp2a      | 9.7.1.24   | integer  | d a b c    | u32 s32 / u32 s32 | lo hi
# 9.7.2 Extended precision; these write or read the carry flag
add       | 9.7.2.1    | integer  | d a b      | WIDE        | cc
addc      | 9.7.2.2    | integer  | d a b      | WIDE        |          | cc
sub       | 9.7.2.3    | integer  | d a b      | WIDE        | cc
subc      | 9.7.2.4    | integer  | d a b      | WIDE        |          | cc
mad       | 9.7.2.5    | integer  | d a b c    | WIDE        | cc       | hi lo
madc      | 9.7.2.6    | integer  | d a b c    | WIDE        | hi lo    | cc
# 9.7.3 Floating point
testp     | 9.7.3.1    | float    | d a        | f32 f64     | CLASS
copysign  | 9.7.3.2    | float    | d a b      | f32 f64
add sub mul | 9.7.3.3+ | float    | d a b      | f32 f64 f32x2 |        | ROUND ftz sat
fma       | 9.7.3.6    | float    | d a b c    | f32 f64 f32x2 | ROUND  | ftz sat
mad       | 9.7.3.7    | float    | d a b c    | f32 f64     |          | ROUND ftz sat
div       | 9.7.3.8    | float    | d a b      | f32 f64     | ROUND approx full | ftz
abs neg   | 9.7.3.9+   | float    | d a        | f32 f64     |          | ftz
min max   | 9.7.3.11+  | float    | d a b c?   | f32 f64     |          | ftz NaN xorsign abs
rcp       | 9.7.3.13   | float    | d a        | f32 f64     | ROUND approx | ftz
sqrt      | 9.7.3.15   | float    | d a        | f32 f64     | ROUND approx | ftz
rsqrt     | 9.7.3.16   | float    | d a        | f32 f64     | approx   | ftz
sin cos lg2 ex2 | 9.7.3.18+ | float | d a      | f32         | approx   | ftz
tanh      | 9.7.3.22   | float    | d a        | f32         | approx
# 9.7.4 and 9.7.5 Half and mixed precision
add sub mul | 9.7.4.1+ | half     | d a b      | HALF        |          | rn ftz sat
fma       | 9.7.4.4    | half     | d a b c    | HALF        | rn       | ftz sat relu oob
neg abs   | 9.7.4.5+   | half     | d a        | HALF        |          | ftz
min max   | 9.7.4.7+   | half     | d a b c?   | HALF        |          | ftz NaN xorsign abs
tanh      | 9.7.4.9    | half     | d a        | HALF        | approx
ex2       | 9.7.4.10   | half     | d a        | HALF        | approx   | ftz
add sub   | 9.7.5.1+   | half     | d a c      | f32 / f16 bf16 |       | ROUND sat
fma       | 9.7.5.3    | half     | d a b c    | f32 / f16 bf16 | ROUND | sat
# 9.7.6 and 9.7.7 Comparison and selection
set       | 9.7.6.1    | compare  | d a b c?   | u32 s32 f32 / SCALAR | COMPARE | JOIN
setp      | 9.7.6.2    | compare  | d a b c?   | SCALAR      | COMPARE  | JOIN
selp      | 9.7.6.3    | compare  | d a b c    | SCALAR
slct      | 9.7.6.4    | compare  | d a b c    | SCALAR / s32 f32 |     | ftz
set       | 9.7.7.1    | compare  | d a b c?   | HALF SHORT / HALF | FLOAT_COMPARE | JOIN
setp      | 9.7.7.2    | compare  | d a b c?   | HALF        | FLOAT_COMPARE | JOIN
# 9.7.8 Logic and shift
and or xor | 9.7.8.1+  | logic    | d a b      | pred b16 b32 b64
not       | 9.7.8.4    | logic    | d a        | pred b16 b32 b64
cnot      | 9.7.8.5    | logic    | d a        | b16 b32 b64
lop3      | 9.7.8.6    | logic    | d a b c e q? | b32       |          | and or
shf       | 9.7.8.7    | logic    | d a b c    | b32         | l r      | clamp wrap
shl       | 9.7.8.8    | logic    | d a b      | b16 b32 b64
shr       | 9.7.8.9    | logic    | d a b      | b16 b32 b64 INT
# 9.7.9 Data movement and conversion
mov       | 9.7.9.3    | move     | d a        | pred b128 SCALAR
shfl      | 9.7.9.6    | warp     | d a b c m? | b32         | up down bfly idx | sync
prmt      | 9.7.9.7    | logic    | d a b c    | b32         |          | f4e b4e rc8 ecl ecr rc16
ld        | 9.7.9.8    | memory   | d a p?     | MEMORY      |          | LOAD     | ANY v8
ldu       | 9.7.9.10   | memory   | d a        | MEMORY      |          |          | global v4
st        | 9.7.9.11   | memory   | a b p?     | MEMORY      |          | STORE    | STORABLE v8
prefetch  | 9.7.9.15   | hint     | a          |             |          | L1 L2 tensormap | ANY
prefetchu | 9.7.9.15   | hint     | a          |             | L1
applypriority discard | 9.7.9.16+ | hint | a n |             |          | L2       | global
createpolicy | 9.7.9.18 | hint    | d a? b? c? | b64         | fractional range cvt | L2 | global
isspacep  | 9.7.9.19   | address  | d a        |             |          |          | ANY
cvta      | 9.7.9.20   | address  | d a        | u32 u64     |          | to       | ANY
cvt       | 9.7.9.21   | convert  | d a b? c?  | NUMBER / NUMBER |      | CONVERT
cvt       | 9.7.9.22   | convert  | d a b      | SMALL / s32 | pack     | sat
cvt       | 9.7.9.22   | convert  | d a b c    | SMALL / s32 / b32 | pack | sat
# 9.7.9.25.3 Asynchronous copies of a thread
cp        | 9.7.9.25.3.1 | memory | a b n s? p? |           | ca cg    | async global | shared
cp        | 9.7.9.25.3.2 | sync   |             |           | commit_group | async
cp        | 9.7.9.25.3.3 | sync   | n           |           | wait_group | async
cp        | 9.7.9.25.3.3 | sync   |             |           | wait_all | async
# 9.7.12 Control flow
bra       | 9.7.12.3   | control  | a          |             |          | uni
brx       | 9.7.12.4   | control  | a b        |             | idx      | uni
call      | 9.7.12.5   | control  | d f a t?   |             |          | uni
ret       | 9.7.12.6   | control  |            |             |          | uni
exit      | 9.7.12.7   | control
# 9.7.13 Synchronisation and communication
bar       | 9.7.13.1   | sync     | a b?       |             | sync arrive | cta
bar       | 9.7.13.1   | sync     | d a b? c   | u32 pred    | red      | popc and or cta
barrier   | 9.7.13.1   | sync     | a b?       |             | sync arrive | cta aligned
barrier   | 9.7.13.1   | sync     | d a b? c   | u32 pred    | red      | popc and or cta aligned
bar       | 9.7.13.2   | sync     | a          |             | warp     | sync
membar    | 9.7.13.4   | sync     |            |             | cta gl sys
fence     | 9.7.13.4   | sync     |            |             | SCOPE    | sc acq_rel acquire release
atom      | 9.7.13.5   | atomic   | d a b p?   | ATOMIC      | UPDATE exch | ORDER | GENERIC v8
atom      | 9.7.13.5   | atomic   | d a b c p? | ATOMIC      | cas      | ORDER    | GENERIC
red       | 9.7.13.6   | atomic   | a b p?     | ATOMIC      | UPDATE   | RED_ORDER | GENERIC v8
vote      | 9.7.13.9   | warp     | d a m?     | pred b32    | all any uni ballot | sync
match     | 9.7.13.10  | warp     | d a m      | b32 b64     | all any  | sync
activemask | 9.7.13.11 | warp     | d          | b32
redux     | 9.7.13.12  | warp     | d a m      | u32 s32 b32 f32 | REDUCE | sync abs NaN
elect     | 9.7.13.14  | warp     | d m        |             | sync
# 9.7.17 and 9.7.19 The stack and the rest
stacksave | 9.7.17.1   | stack    | d          | u32 u64
stackrestore | 9.7.17.2 | stack   | a          | u32 u64
alloca    | 9.7.17.3   | stack    | d a b?     | u32 u64
brkpt     | 9.7.19.1   | control
nanosleep | 9.7.19.2   | control  | a          | u32
pmevent   | 9.7.19.3   | hint     | a          |             |          | mask
trap      | 9.7.19.4   | control
# Read, not executed: textures and surfaces, asynchronous copies, clusters, tensor cores
tex tld4 txq istypep | 9.7.10.3+ | texture | d | *
suld sust sured suq | 9.7.11.1+ | texture | d  | *
st        | 9.7.9.12   | async    |            | *           | async bulk
multimem  | 9.7.9.14   | async    | d          | *
mapa getctarank | 9.7.9.23+ | async | d        | *
cp        | 9.7.9.25   | async    |            | *
tensormap | 9.7.9.26   | async    |            | *
barrier   | 9.7.13.3   | async    |            | *           | cluster
membar    | 9.7.13.4   | async    |            | *           | proxy
fence     | 9.7.13.4   | async    |            | *           | proxy mbarrier_init RESTRICT
red       | 9.7.13.7   | async    |            | *           | async
griddepcontrol | 9.7.13.13 | async |           | *
mbarrier  | 9.7.13.15  | async    | d          | *
clusterlaunchcontrol | 9.7.13.16 | async | d   | *
setmaxnreg | 9.7.19.5  | async    |            | *
wmma      | 9.7.14.4   | tensor   | d          | *
mma ldmatrix stmatrix movmatrix | 9.7.14.5.14+ | tensor | d | *
wgmma     | 9.7.15     | tensor   | d          | *
tcgen05   | 9.7.16     | tensor   | d          | *           | ld
tcgen05   | 9.7.16     | tensor   |            | *
"""

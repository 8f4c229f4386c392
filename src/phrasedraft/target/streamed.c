/* The product of a few rows with a weight that is larger than the caches: y[m][n] = bias[n] + sum over k of x[m][k] w[n][k].
 *
 * The weight is packed in panels of PANEL outputs, so that a step along k reads one stretch of memory, in order, once
 * for all rows; what comes AHEAD steps later is asked for meanwhile, so that reading and multiplying overlap. Sums run
 * along k in order, in stretches that are added up (a long sum loses more), so a row's result does not depend on how
 * many rows there are.
 */
#include <math.h>
#include <stddef.h>

#if defined(__AVX512F__)
#define LANES 16
#define MOST_ROWS 12 /* two accumulators a row, two registers of weight, one of input: 27 of 32 registers */
#elif defined(__aarch64__)
#define LANES 4
#define MOST_ROWS 12
#else
#define LANES 8
#define MOST_ROWS 6
#endif
#define PANEL (2 * LANES)
#define AHEAD 64
#define STRETCH 128

typedef float vector __attribute__((vector_size(4 * LANES), aligned(4)));

#define BLOCK(ROWS)                                                                                                   \
  static void block_##ROWS(const float *x, long inputs, const float *panel, const float *bias, float *y,              \
                           long outputs, long width) {                                                                \
    vector totals[ROWS][2] = {{{0}}};                                                                                 \
    for (long first = 0; first < inputs; first += STRETCH) {                                                          \
      vector sums[ROWS][2] = {{{0}}};                                                                                 \
      const long end = inputs - first < STRETCH ? inputs : first + STRETCH;                                           \
      for (long k = first; k < end; k++) {                                                                            \
        const float *weights = panel + k * PANEL;                                                                     \
        __builtin_prefetch(weights + AHEAD * PANEL, 0, 3);                                                            \
        __builtin_prefetch(weights + AHEAD * PANEL + LANES, 0, 3);                                                    \
        const vector low = *(const vector *)weights, high = *(const vector *)(weights + LANES);                       \
        _Pragma("GCC unroll 16") for (int m = 0; m < ROWS; m++) {                                                     \
          const float input = x[m * inputs + k];                                                                      \
          sums[m][0] += low * input;                                                                                  \
          sums[m][1] += high * input;                                                                                 \
        }                                                                                                             \
      }                                                                                                               \
      _Pragma("GCC unroll 16") for (int m = 0; m < ROWS; m++) {                                                       \
        totals[m][0] += sums[m][0];                                                                                   \
        totals[m][1] += sums[m][1];                                                                                   \
      }                                                                                                               \
    }                                                                                                                 \
    for (int m = 0; m < ROWS; m++)                                                                                    \
      for (long n = 0; n < width; n++)                                                                                \
        y[m * outputs + n] = totals[m][n / LANES][n % LANES] + (bias ? bias[n] : 0);                                  \
  }

BLOCK(1) BLOCK(2) BLOCK(3) BLOCK(4) BLOCK(5) BLOCK(6)
#if MOST_ROWS > 6
BLOCK(7) BLOCK(8) BLOCK(9) BLOCK(10) BLOCK(11) BLOCK(12)
#endif

typedef void (*block)(const float *, long, const float *, const float *, float *, long, long);
static const block blocks[] = {NULL, block_1, block_2, block_3, block_4, block_5, block_6,
#if MOST_ROWS > 6
                               block_7, block_8, block_9, block_10, block_11, block_12,
#endif
};

/* Each row over its root mean square, times the weight. */
void rms_norm(const float *x, long rows, long width, const float *weight, float epsilon, float *y) {
  for (long row = 0; row < rows; row++) {
    const float *in = x + row * width;
    float *out = y + row * width;
    vector sums[2] = {{0}};
    long k = 0;
    for (; k + PANEL <= width; k += PANEL) {
      const vector low = *(const vector *)(in + k), high = *(const vector *)(in + k + LANES);
      sums[0] += low * low;
      sums[1] += high * high;
    }
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++)
      sum += sums[0][lane] + sums[1][lane];
    for (; k < width; k++)
      sum += in[k] * in[k];
    const float scale = 1 / sqrtf(sum / (float)width + epsilon);
    for (k = 0; k < width; k++)
      out[k] = weight[k] * (in[k] * scale);
  }
}

long panel_width(void) { return PANEL; }

/* `packed` has room for the outputs, rounded up to whole panels, times the inputs. */
void pack(const float *weight, long outputs, long inputs, float *packed) {
  for (long n = 0; n < (outputs + PANEL - 1) / PANEL * PANEL; n++)
    for (long k = 0; k < inputs; k++)
      packed[n / PANEL * PANEL * inputs + k * PANEL + n % PANEL] = n < outputs ? weight[n * inputs + k] : 0;
}

void multiply(const float *x, long rows, long inputs, const float *packed, const float *bias, long outputs, float *y,
              int threads) {
  if (rows < 1)
    return;
  const long panels = (outputs + PANEL - 1) / PANEL;
  const long num_blocks = (rows + MOST_ROWS - 1) / MOST_ROWS, most = (rows + num_blocks - 1) / num_blocks;
#pragma omp parallel for schedule(static) num_threads(threads)
  for (long panel = 0; panel < panels; panel++) {
    const long first = panel * PANEL, width = outputs - first < PANEL ? outputs - first : PANEL;
    for (long row = 0; row < rows; row += most)
      blocks[rows - row < most ? rows - row : most](x + row * inputs, inputs, packed + first * inputs,
                                                    bias ? bias + first : NULL, y + row * outputs + first, outputs,
                                                    width);
  }
}

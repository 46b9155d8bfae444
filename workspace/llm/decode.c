/* One step of decoding in C: what inference.py computes for one new byte of every slot, in half the time or less.

   native.py compiles this for the machine it runs on (BLOCK is one of its flags), lays out the weights, and calls
   decode().

   Why it is fast: a step has to read every weight and the slots' part of the cache, and does hardly more than that.
   - A panel is PANEL columns of a matrix, in the order in which they are read: product() multiplies it with ROWS
     slots at a time, whose sums stay in registers, and has the next panel fetched meanwhile.
   - Keys lie transposed in their block, so that a query meets BLOCK of them without adding across a register.
   - All is one parallel region: threads meet at the end of each `omp for`, and nothing is allocated.

   A slot's result does not depend on the other slots, nor on the number of threads: all slots go through the same
   instructions, and each number is summed by one thread, in the order of its index. */

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
enum { LANES = 16, ROWS = 8 }; /* 32 registers: 16 sums */
#elif defined(__AVX__)
enum { LANES = 8, ROWS = 4 }; /* 16 registers: 8 sums */
#elif defined(__aarch64__)
enum { LANES = 4, ROWS = 8 };
#else
enum { LANES = 4, ROWS = 4 };
#endif
enum { VECTORS = 2, PANEL = VECTORS * LANES, LINE = 64 };

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

/* Matrices are panels [columns / PANEL][numbers of a row][PANEL]; those of gate and up take turns. */
typedef struct {
  const float *read, *output, *gate_up, *down;
  float *keys;   /* [blocks][slots][kv_heads][head][BLOCK] */
  float *values; /* [blocks][slots][kv_heads][BLOCK][head] */
} Layer;

/* `rows` is slots, and read_width, inner_width and so on the widths, rounded up to whole ROWS and PANELs. */
typedef struct {
  int64_t slots, rows, layers, width, heads, kv_heads, head, inner, read_width, inner_width, output_width;
  const float *embedding; /* [256][width] */
  const float *angles;    /* [places][head / 2] pairs of cosine and sine */
  const float *to_logits; /* panels */
  const Layer *layer;
  float *x, *normal, *seen; /* [rows][width] */
  float *read;              /* [rows][read_width]: queries, keys and values */
  float *hidden;            /* [rows][inner_width] */
  float *logits;            /* [rows][output_width] */
} Model;

int64_t lanes(void) { return LANES; }
int64_t panel(void) { return PANEL; }
int64_t rows_at_once(void) { return ROWS; }

/* to[rows][PANEL] = from[rows][length] times a panel [length][PANEL]; added to what is there if `add`. */
static void product(int64_t rows, int64_t length, const float *from, int64_t from_width, const float *panel,
                    float *to, int64_t to_width, int add) {
  const char *next = (const char *)(panel + length * PANEL);
  for (int64_t row = 0; row < rows; row += ROWS, from += ROWS * from_width, to += ROWS * to_width) {
    Vector sum[ROWS][VECTORS];
    for (int r = 0; r < ROWS; r++)
      for (int v = 0; v < VECTORS; v++)
        sum[r][v] = add ? *(const Vector *)(to + r * to_width + v * LANES) : (Vector){0};
    for (int64_t i = 0; i < length; i++) {
      const Vector *weights = (const Vector *)(panel + i * PANEL);
      __builtin_prefetch(next + (row / ROWS * length + i) * LINE, 0, 2);
#pragma GCC unroll 8
      for (int r = 0; r < ROWS; r++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++) sum[r][v] += from[r * from_width + i] * weights[v];
    }
    for (int r = 0; r < ROWS; r++)
      for (int v = 0; v < VECTORS; v++) *(Vector *)(to + r * to_width + v * LANES) = sum[r][v];
  }
}

/* e^x by the method of the Cephes library, good to the last bit or two; it is here for the compiler to vectorise. */
static inline float exponential(float x) {
  x = x < -87.0f ? -87.0f : x > 88.0f ? 88.0f : x;
  float n = nearbyintf(x * 1.44269504f), rest = x - n * 0.693359375f + n * 2.12194440e-4f;
  float sum = 1.9875691500e-4f * rest + 1.3981999507e-3f;
  sum = sum * rest + 8.3334519073e-3f;
  sum = sum * rest + 4.1665795894e-2f;
  sum = sum * rest + 1.6666665459e-1f;
  sum = sum * rest + 5.0000001201e-1f;
  int32_t bits = ((int32_t)n + 127) << 23; /* two to the power of n */
  float power;
  memcpy(&power, &bits, sizeof power);
  return (sum * rest * rest + rest + 1.0f) * power;
}

/* RMSNorm without weights: they are multiplied into the matrix behind it. */
static void normalise(const Model *m, int64_t slot) {
  const float *x = m->x + slot * m->width;
  float *to = m->normal + slot * m->width, sum = 0;
  for (int64_t i = 0; i < m->width; i++) sum += x[i] * x[i];
  float scale = 1.0f / sqrtf(sum / (float)m->width + 1e-5f);
  for (int64_t i = 0; i < m->width; i++) to[i] = x[i] * scale;
}

/* Turn a head by the angles of its place: each pair of neighbours is a complex number. */
static void turn(float *head, const float *angles, int64_t length) {
  for (int64_t i = 0; i < length; i += 2) {
    float left = head[i], right = head[i + 1];
    head[i] = left * angles[i] - right * angles[i + 1];
    head[i + 1] = left * angles[i + 1] + right * angles[i];
  }
}

/* Put the new key and value of a slot's head into the cache, and let the queries that share it see all until there. */
static void attend(const Model *m, const Layer *layer, int64_t slot, int64_t kv, int64_t place) {
  const int64_t d = m->head, shared = m->heads / m->kv_heads, until = place + 1;
  const int64_t blocks = (until + BLOCK - 1) / BLOCK, room = blocks * BLOCK;
  const int64_t step = m->slots * m->kv_heads * BLOCK * d; /* from one block of a slot to its next */
  float *keys = layer->keys + (slot * m->kv_heads + kv) * BLOCK * d;
  float *values = layer->values + (slot * m->kv_heads + kv) * BLOCK * d;
  float *read = m->read + slot * m->read_width, *queries = read + kv * shared * d;
  float *key = read + (m->heads + kv) * d, *value = key + m->kv_heads * d;
  float *seen = m->seen + slot * m->width + kv * shared * d, scores[shared * room];

  for (int64_t s = 0; s < shared; s++) turn(queries + s * d, m->angles + place * d, d);
  turn(key, m->angles + place * d, d);
  float *new_key = keys + place / BLOCK * step + place % BLOCK;
  for (int64_t i = 0; i < d; i++) new_key[i * BLOCK] = key[i];
  memcpy(values + place / BLOCK * step + place % BLOCK * d, value, sizeof(float) * d);

  for (int64_t b = 0; b < blocks; b++)
    for (int64_t s = 0; s < shared; s++) {
      const Vector *of_block = (const Vector *)(keys + b * step);
      Vector sum[BLOCK / LANES] = {0};
      for (int64_t i = 0; i < d; i++, of_block += BLOCK / LANES)
#pragma GCC unroll 16
        for (int v = 0; v < BLOCK / LANES; v++) sum[v] += queries[s * d + i] * of_block[v];
      memcpy(scores + s * room + b * BLOCK, sum, sizeof sum);
    }
  for (int64_t s = 0; s < shared; s++) { /* softmax; a place behind the newest weighs exactly nothing */
    float *weights = scores + s * room, most = weights[0], sum = 0;
    for (int64_t p = 1; p < until; p++) most = weights[p] > most ? weights[p] : most;
    for (int64_t p = 0; p < until; p++) sum += weights[p] = exponential(weights[p] - most);
    for (int64_t p = 0; p < until; p++) weights[p] /= sum;
    for (int64_t p = until; p < room; p++) weights[p] = 0;
  }
  for (int64_t s = 0; s < shared; s++)
    for (int64_t i = 0; i < d; i += LANES) {
      Vector sum[4] = {0}; /* four: one alone would wait for itself */
      for (int64_t b = 0; b < blocks; b++) {
        const float *weights = scores + s * room + b * BLOCK, *of_block = values + b * step + i;
        for (int64_t p = 0; p < BLOCK; p += 4)
#pragma GCC unroll 4
          for (int j = 0; j < 4; j++) sum[j] += weights[p + j] * *(const Vector *)(of_block + (p + j) * d);
      }
      *(Vector *)(seen + s * d + i) = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    }
}

/* hidden = silu(gate) * up, for the panel p of both. */
static void feed(const Model *m, const Layer *layer, int64_t p) {
  const float *gate_panel = layer->gate_up + 2 * p * m->width * PANEL, *up_panel = gate_panel + m->width * PANEL;
  float gate[m->rows * PANEL], *hidden = m->hidden + p * PANEL;
  product(m->rows, m->width, m->normal, m->width, gate_panel, gate, PANEL, 0);
  product(m->rows, m->width, m->normal, m->width, up_panel, hidden, m->inner_width, 0);
  for (int64_t slot = 0; slot < m->slots; slot++)
    for (int i = 0; i < PANEL; i++) {
      float g = gate[slot * PANEL + i];
      hidden[slot * m->inner_width + i] *= g / (1.0f + exponential(-g));
    }
}

/* Logits of the byte after each slot's new one. `tokens` and `places` [slots] say what that is and where it stands. */
void decode(const Model *m, const int64_t *tokens, const int64_t *places, int threads) {
  const int64_t width = m->width, heads = m->slots * m->kv_heads;
#pragma omp parallel num_threads(threads)
  {
#pragma omp for
    for (int64_t slot = 0; slot < m->slots; slot++) {
      memcpy(m->x + slot * width, m->embedding + tokens[slot] * width, sizeof(float) * width);
      normalise(m, slot);
    }
    for (const Layer *layer = m->layer; layer < m->layer + m->layers; layer++) {
#pragma omp for
      for (int64_t p = 0; p < m->read_width / PANEL; p++)
        product(m->rows, width, m->normal, width, layer->read + p * width * PANEL, m->read + p * PANEL,
                m->read_width, 0);
#pragma omp for
      for (int64_t i = 0; i < heads; i++)
        attend(m, layer, i / m->kv_heads, i % m->kv_heads, places[i / m->kv_heads]);
#pragma omp for
      for (int64_t p = 0; p < width / PANEL; p++)
        product(m->rows, width, m->seen, width, layer->output + p * width * PANEL, m->x + p * PANEL, width, 1);
#pragma omp for
      for (int64_t slot = 0; slot < m->slots; slot++) normalise(m, slot);
#pragma omp for
      for (int64_t p = 0; p < m->inner_width / PANEL; p++) feed(m, layer, p);
#pragma omp for
      for (int64_t p = 0; p < width / PANEL; p++)
        product(m->rows, m->inner, m->hidden, m->inner_width, layer->down + p * m->inner * PANEL,
                m->x + p * PANEL, width, 1);
#pragma omp for
      for (int64_t slot = 0; slot < m->slots; slot++) normalise(m, slot);
    }
#pragma omp for
    for (int64_t p = 0; p < m->output_width / PANEL; p++)
      product(m->rows, width, m->normal, width, m->to_logits + p * width * PANEL, m->logits + p * PANEL,
              m->output_width, 0);
  }
}
